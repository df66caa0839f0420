package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Authentication says by what clients are known (MH-2). Who is known by nothing is system:anonymous.
type Authentication struct {
	ClientCAFile string // authorities of client certificates
	FrontProxy   FrontProxy

	Tokens   authenticationclient.TokenReviewInterface // nil: tokens are not looked at (CLI-35)
	TokenTTL time.Duration                             // how long an answer about one is remembered (CLI-37)

	// Cluster has the ConfigMap in which a cluster keeps what is not given here: ClientCAFile, and FrontProxy as a whole
	// (CLI-36). Nil: nothing is looked up.
	Cluster coreclient.ConfigMapInterface
	// TolerateLookupFailure lets the server start without; it goes on trying.
	TolerateLookupFailure bool
}

// FrontProxy says which proxies may tell for whom they ask, and in which headers (CLI-39).
type FrontProxy struct {
	CAFile        string   // authorities of their client certificates; empty: none may
	Names         []string // common names of these certificates, as they are; without any, each may
	UserHeaders   []string
	UIDHeaders    []string
	GroupHeaders  []string
	ExtraPrefixes []string
}

// LookupName is the ConfigMap in which a cluster keeps how clients are known, and LookupNamespace is where.
const (
	LookupName      = "extension-apiserver-authentication"
	LookupNamespace = "kube-system"
)

// lookupEvery is between looks at the ConfigMap.
const lookupEvery = 30 * time.Second

// frontProxy is a FrontProxy with what is in its file.
type frontProxy struct {
	FrontProxy
	ca *authorities
}

// newMaterials returns where everything is to be loaded from.
func newMaterials(c Config) *materials {
	m := &materials{}
	every := c.Limits.Reload
	switch t := c.TLS; {
	case t.CertFile != "" || t.KeyFile != "":
		m.sources = append(m.sources, pairSource(pair{t.CertFile, t.KeyFile}, every, &m.serving))
	case t.CertDir != "":
		m.sources = append(m.sources, inDirectory(t.CertDir, t.CertName, selfSignedFor(c.Address), every, &m.serving))
	default:
		m.sources = append(m.sources, inMemory(selfSignedFor(c.Address), every, &m.serving))
	}
	for _, given := range c.TLS.Named {
		n := &named{names: given.Names}
		m.named = append(m.named, n)
		m.sources = append(m.sources, pairSource(pair{given.CertFile, given.KeyFile}, every, &n.cert))
	}
	a := c.Authentication
	if a.ClientCAFile != "" {
		m.sources = append(m.sources, authoritiesFile(a.ClientCAFile, every, &m.clientCA))
	}
	if a.FrontProxy.CAFile != "" {
		m.proxy = &frontProxy{FrontProxy: a.FrontProxy}
		m.sources = append(m.sources, authoritiesFile(a.FrontProxy.CAFile, every, &m.proxy.ca))
	}
	if a.Cluster != nil && (a.ClientCAFile == "" || a.FrontProxy.CAFile == "") {
		m.sources = append(m.sources, m.lookupSource(a, c.Limits.ReviewTimeout, max(every, lookupEvery)))
	}
	return m
}

// lookupSource returns a source of what the cluster keeps about clients. What has been found once stays when it is gone.
func (m *materials) lookupSource(a Authentication, timeout, every time.Duration) *source {
	s := &source{name: "ConfigMap " + LookupNamespace + "/" + LookupName, every: every, tolerated: a.TolerateLookupFailure}
	s.load = func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		found, err := a.Cluster.Get(ctx, LookupName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil // such a cluster does not know clients by certificates
		}
		if err != nil {
			s.tolerated = a.TolerateLookupFailure || away(err)
			return false, fmt.Errorf("look up authentication in ConfigMap %s/%s: %w", LookupNamespace, LookupName, err)
		}
		var clientCA *authorities
		var proxy *frontProxy
		if a.ClientCAFile == "" {
			clientCA, err = authoritiesIn(found, "client-ca-file")
		}
		if a.FrontProxy.CAFile == "" && err == nil {
			proxy, err = frontProxyIn(found)
		}
		if err != nil {
			return false, err
		}
		changed := false
		if clientCA != nil && !m.clientCA.isStill(clientCA.pem) {
			m.clientCA, changed = clientCA, true
		}
		if proxy != nil && !m.proxy.equal(proxy) {
			m.proxy, changed = proxy, true
		}
		return changed, nil
	}
	return s
}

// away reports whether nobody has answered, or only that there is no answer at the moment: an API server that is away at the
// start is waited for, which nobody could see if the server did not start without it.
func away(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

func (p *frontProxy) equal(other *frontProxy) bool {
	if p == nil || !p.ca.isStill(other.ca.pem) {
		return false
	}
	a, errA := json.Marshal(p.FrontProxy)
	b, errB := json.Marshal(other.FrontProxy)
	return errA == nil && errB == nil && string(a) == string(b)
}

// authoritiesIn returns those that the ConfigMap has under a key, nil if there are none.
func authoritiesIn(from *corev1.ConfigMap, key string) (*authorities, error) {
	text := from.Data[key]
	if text == "" {
		return nil, nil
	}
	return parseAuthorities("ConfigMap "+from.Namespace+"/"+from.Name, []byte(text))
}

// frontProxyIn returns what the ConfigMap says of front proxies, nil if it has no authorities of their certificates. A list that is
// none is an error in any case.
func frontProxyIn(from *corev1.ConfigMap) (*frontProxy, error) {
	proxy := &frontProxy{}
	for key, list := range map[string]*[]string{
		"requestheader-allowed-names":        &proxy.Names,
		"requestheader-username-headers":     &proxy.UserHeaders,
		"requestheader-uid-headers":          &proxy.UIDHeaders,
		"requestheader-group-headers":        &proxy.GroupHeaders,
		"requestheader-extra-headers-prefix": &proxy.ExtraPrefixes,
	} {
		if text := from.Data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), list); err != nil {
				return nil, fmt.Errorf("%s in ConfigMap %s/%s: %w", key, from.Namespace, from.Name, err)
			}
		}
	}
	var err error
	if proxy.ca, err = authoritiesIn(from, "requestheader-client-ca-file"); proxy.ca == nil {
		return nil, err
	}
	return proxy, nil
}

// newAuthenticator puts together by what clients are known at the moment: a proxy's headers before the proxy's own
// certificate, and that before a token. Who shows something that is not good is nobody, not even anonymous.
func (s *Server) newAuthenticator(m *materials) authenticator.Request {
	var known []authenticator.Request
	if p := m.proxy; p != nil && p.ca != nil {
		known = append(known, headerrequest.NewDynamicVerifyOptionsSecure(p.ca.verifyOptions, headerrequest.StaticStringSlice(p.Names),
			headerrequest.StaticStringSlice(p.UserHeaders), headerrequest.StaticStringSlice(p.UIDHeaders),
			headerrequest.StaticStringSlice(p.GroupHeaders), headerrequest.StaticStringSlice(p.ExtraPrefixes)))
	}
	if m.clientCA != nil {
		known = append(known, x509request.NewDynamic(m.clientCA.verifyOptions, x509request.CommonNameUserConversion))
	}
	if s.access.tokens != nil {
		known = append(known, bearertoken.New(s.access.tokens))
	}
	if len(known) == 0 {
		return anonymous.NewAuthenticator(nil)
	}
	return union.NewFailOnError(group.NewAuthenticatedGroupAdder(union.New(known...)), anonymous.NewAuthenticator(nil))
}

// tokens asks the API server whose a token is.
type tokens struct {
	client   authenticationclient.TokenReviewInterface
	ttl      time.Duration
	answers  *memory[authenticationv1.UserInfo]
	reviewer reviewer
}

// AuthenticateToken implements authenticator.Token. Only users are remembered: that a token is not good may have been too
// early, or an error of the API server.
func (t *tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	key := t.answers.key([]byte(token))
	who, ok := t.answers.get(key)
	if !ok {
		review, err := ask(ctx, t.reviewer, "TokenReview", func(ctx context.Context) (*authenticationv1.TokenReview, error) {
			return t.client.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}},
				metav1.CreateOptions{})
		})
		switch {
		case err != nil:
			return nil, false, err
		case !review.Status.Authenticated && review.Status.Error != "":
			return nil, false, errors.New(review.Status.Error)
		case !review.Status.Authenticated:
			return nil, false, nil
		}
		who = review.Status.User
		t.answers.put(key, who, t.ttl)
	}
	extra := map[string][]string{}
	for key, values := range who.Extra {
		extra[key] = values
	}
	return &authenticator.Response{
		User: &user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra},
	}, true, nil
}
