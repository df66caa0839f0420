package differential

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	pathauthorizer "k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/internal/serving"
	"github.com/standalone-kcm/controller-manager/internal/serving/access"
	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
)

// settings are how both servers are set up. Lists are JSON; an empty text is a list that is not given.
type settings struct {
	Asks        bool // there is an API server to ask about tokens and for the ConfigMap
	Reviews     bool // and one to ask about accesses
	SkipLookup  bool
	AlwaysAllow []string

	ClientCA, ProxyCA               string // see bundle; empty: looked up
	Names, User, UID, Group, Prefix string
	ConfigMap                       map[string]string // nil: there is none
}

func usualSettings() settings {
	return settings{
		Asks: true, Reviews: true, AlwaysAllow: []string{"/healthz", "/open/*"}, ClientCA: "clients", ProxyCA: "proxies",
		Names: `["proxy"]`,
		User:  `["X-Remote-User"]`, Group: `["X-Remote-Group"]`, Prefix: `["X-Remote-Extra-"]`,
	}
}

func listed(list string) (items []string) {
	if list != "" {
		if err := json.Unmarshal([]byte(list), &items); err != nil {
			panic(err)
		}
	}
	return items
}

// side is one of the two servers, with an API server of its own.
type side struct {
	api     *apiServer
	address string
	ends    []func()
}

func (s *side) close() {
	for i := len(s.ends); i > 0; i-- {
		s.ends[i-1]()
	}
}

// pairOf returns two servers that are set up alike.
func pairOf(t *testing.T, set settings) (ours, theirs *side) {
	t.Helper()
	ours, err := newOurs(set)
	t.Cleanup(ours.close)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = newTheirs(set)
	t.Cleanup(theirs.close)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

func newSide(set settings) *side {
	s := &side{api: newAPIServer(set.ConfigMap)}
	s.ends = append(s.ends, s.api.Close)
	return s
}

// newOurs runs our server. What it returns is to be closed, also when there is an error.
func newOurs(set settings) (*side, error) {
	s := newSide(set)
	dir, err := os.MkdirTemp("", "differential")
	if err != nil {
		return s, err
	}
	s.ends = append(s.ends, func() { _ = os.RemoveAll(dir) })
	file := func(name string, content []byte) string {
		if len(content) == 0 {
			return ""
		}
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(path, content, 0o600))
		return path
	}
	c := serving.Config{
		Address: net.IPv4(127, 0, 0, 1),
		TLS: serving.TLS{Server: certificates.Server{CertFile: file("crt", servingPair().cert),
			KeyFile: file("key", servingPair().key)}},
		Authentication: serving.Authentication{Clients: certificates.Clients{
			ClientCAFile: file("clients", bundle(set.ClientCA)),
			FrontProxy: certificates.FrontProxy{
				CAFile: file("proxies", bundle(set.ProxyCA)), Names: listed(set.Names), UserHeaders: listed(set.User),
				UIDHeaders:   listed(set.UID),
				GroupHeaders: listed(set.Group), ExtraPrefixes: listed(set.Prefix),
			},
		}},
		Authorization: access.Authorization{AlwaysAllow: set.AlwaysAllow},
	}
	if set.Asks {
		c.Authentication.Tokens = s.api.client.AuthenticationV1().TokenReviews()
		if !set.SkipLookup {
			c.Authentication.Cluster = s.api.client.CoreV1().ConfigMaps(certificates.LookupNamespace)
		}
	}
	if set.Reviews {
		c.Authorization.Reviews = s.api.client.AuthorizationV1().SubjectAccessReviews()
	}
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.ends = append(s.ends, cancel)
	server, err := serving.New(ctx, c)
	if err != nil {
		return s, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Run(ctx, map[string]http.Handler{"/": inside()})
	}()
	s.ends = append(s.ends, func() { cancel(); <-ended })
	s.address = server.Addr().String()
	return s, nil
}

// inside is the handler behind both.
func inside() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
}

// newTheirs runs the handlers of k8s.io/apiserver, put together as the flags of the original have it. What it returns is to be
// closed, also when there is an error.
func newTheirs(set settings) (*side, error) {
	s := newSide(set)
	who, headers, err := theirAuthentication(set, s.api.client)
	if err != nil {
		return s, err
	}
	chain := []union.NamedAuthorizer{{AuthorizerName: "kubernetes.io/always-allow-groups",
		Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}}
	open, err := pathauthorizer.NewAuthorizer(set.AlwaysAllow)
	if err != nil {
		return s, err
	}
	chain = append(chain, union.NamedAuthorizer{AuthorizerName: "kubernetes.io/always-allow-paths", Authorizer: open})
	if set.Reviews {
		reviews, err := authorizerfactory.DelegatingAuthorizerConfig{
			SubjectAccessReviewClient: s.api.client.AuthorizationV1(), WebhookRetryBackoff: backoff(),
		}.New()
		if err != nil {
			return s, err
		}
		chain = append(chain, union.NamedAuthorizer{AuthorizerName: "kubernetes.io/webhook", Authorizer: reviews})
	}
	may, err := union.New(chain...)
	if err != nil {
		return s, err
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	scheme.AddUnversionedTypes(corev1.SchemeGroupVersion, &metav1.Status{})
	codecs := serializer.NewCodecFactory(scheme)
	handler := filters.WithAuthorization(inside(), may, codecs)
	handler = filters.WithAuthentication(handler, who, filters.Unauthorized(codecs), nil, headers)
	handler = filters.WithRequestInfo(handler, &apirequest.RequestInfoFactory{})
	server := httptest.NewUnstartedServer(handler)
	server.TLS = servingPair().tlsConfig()
	server.Config.DisableGeneralOptionsHandler = true // "OPTIONS *" is for the handler to answer, as for any other request
	server.StartTLS()
	s.ends = append(s.ends, server.Close)
	s.address = server.Listener.Addr().String()
	return s, nil
}

func backoff() *wait.Backoff { return &wait.Backoff{Duration: time.Millisecond, Steps: 4} }

func theirAuthentication(set settings, client kubernetes.Interface) (who authenticator.Request,
	headers *authenticatorfactory.RequestHeaderConfig, err error) {
	c := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous: &apiserver.AnonymousAuthConfig{Enabled: true}, WebhookRetryBackoff: backoff(),
		TokenAccessReviewTimeout: 10 * time.Second,
	}
	if set.Asks {
		c.TokenAccessReviewClient = client.AuthenticationV1()
	}
	lookup := set.Asks && !set.SkipLookup
	switch {
	case set.ClientCA != "":
		c.ClientCertificateCAContentProvider, err = dynamiccertificates.NewStaticCAContent("clients", bundle(set.ClientCA))
	case lookup:
		c.ClientCertificateCAContentProvider, err = lookedUp("client-ca-file", set, client)
	}
	if err != nil {
		return nil, nil, err
	}
	switch {
	case set.ProxyCA != "":
		c.RequestHeaderConfig = &authenticatorfactory.RequestHeaderConfig{
			UsernameHeaders:     headerrequest.StaticStringSlice(listed(set.User)),
			UIDHeaders:          headerrequest.StaticStringSlice(listed(set.UID)),
			GroupHeaders:        headerrequest.StaticStringSlice(listed(set.Group)),
			ExtraHeaderPrefixes: headerrequest.StaticStringSlice(listed(set.Prefix)),
			AllowedClientNames:  headerrequest.StaticStringSlice(listed(set.Names)),
		}
		c.RequestHeaderConfig.CAContentProvider, err = dynamiccertificates.NewStaticCAContent("proxies", bundle(set.ProxyCA))
	case lookup:
		c.RequestHeaderConfig, err = theirLookup(set, client)
	}
	if err != nil {
		return nil, nil, err
	}
	request, _, err := c.New()
	return request, c.RequestHeaderConfig, err
}

// lookedUp returns the authorities of the ConfigMap. Theirs come by an informer; here they are as if that had found them. One that
// is broken is as if there were none, while ours does not start with it: clients must not be anonymous by mistake.
func lookedUp(key string, set settings, client kubernetes.Interface) (dynamiccertificates.CAContentProvider, error) {
	if content := set.ConfigMap[key]; content != "" {
		return dynamiccertificates.NewStaticCAContent(key, []byte(content))
	}
	return dynamiccertificates.NewDynamicCAFromConfigMapController("none", certificates.LookupNamespace, certificates.LookupName, key,
		client)
}

// theirLookup returns what the ConfigMap says of front proxies.
func theirLookup(set settings, client kubernetes.Interface) (*authenticatorfactory.RequestHeaderConfig, error) {
	ca, err := lookedUp("requestheader-client-ca-file", set, client)
	if err != nil {
		return nil, err
	}
	c := headerrequest.NewRequestHeaderAuthRequestController(certificates.LookupName, certificates.LookupNamespace, client,
		"requestheader-username-headers",
		"requestheader-uid-headers", "requestheader-group-headers", "requestheader-extra-headers-prefix", "requestheader-allowed-names")
	if err := c.RunOnce(context.Background()); err != nil {
		return nil, err
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider: ca, UsernameHeaders: headerrequest.StringSliceProviderFunc(c.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(c.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(c.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(c.ExtraHeaderPrefixes),
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(c.AllowedClientNames),
	}, nil
}
