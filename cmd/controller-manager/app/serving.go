package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/cmd/controller-manager/app/options"
	"github.com/standalone-kcm/controller-manager/internal/health"
	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/internal/metrics"
	"github.com/standalone-kcm/controller-manager/internal/serving"
	"github.com/standalone-kcm/controller-manager/internal/serving/access"
	"github.com/standalone-kcm/controller-manager/internal/serving/certificates"
	"github.com/standalone-kcm/controller-manager/internal/serving/pages"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// Requests about clients that each of the two clients for them sends at most, in a second and at once: strangers can
// cause them.
const (
	reviewQPS   = 50
	reviewBurst = 100
)

// newServer returns the HTTPS server, which listens already, or nil if there is to be none (CLI-30).
func newServer(ctx context.Context, c options.Config) (*serving.Server, error) {
	if c.Serving.Port == 0 {
		return nil, nil
	}
	if err := readable(c); err != nil {
		return nil, err
	}
	config, err := servingConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	server, err := serving.New(ctx, config)
	if errors.Is(err, syscall.EADDRINUSE) { // on a control-plane node, the original may serve there
		err = fmt.Errorf("%w; choose another --secure-port, or 0 to serve nothing", err)
	}
	return server, err
}

// readable returns an error that names the flag of a file that the server needs and cannot read.
func readable(c options.Config) error {
	type named struct{ flag, file string }
	files := []named{
		{"tls-cert-file", c.Serving.CertFile}, {"tls-private-key-file", c.Serving.KeyFile},
		{"client-ca-file", c.Authentication.ClientCAFile},
		{"requestheader-client-ca-file", c.Authentication.FrontProxyCAFile},
	}
	for _, pair := range c.Serving.NamedCertKeys {
		files = append(files, named{"tls-sni-cert-key", pair.CertFile}, named{"tls-sni-cert-key", pair.KeyFile})
	}
	for _, f := range files {
		if f.file == "" {
			continue
		}
		if _, err := os.ReadFile(f.file); err != nil {
			return fmt.Errorf("--%s: %w", f.flag, err)
		}
	}
	return nil
}

// servingConfig hands over what the flags said.
func servingConfig(ctx context.Context, c options.Config) (s serving.Config, err error) {
	s = serving.Config{
		Address:      c.Serving.BindAddress,
		Port:         c.Serving.Port,
		ShareAddress: c.Serving.PermitAddressShare,
		SharePort:    c.Serving.PermitPortShare,
		Probes:       []string{"/healthz", "/livez", "/readyz"},
	}
	if s.TLS, err = tlsConfig(c.Serving); err != nil {
		return s, err
	}
	for _, name := range c.Serving.CipherSuites {
		if slices.Contains(cliflag.InsecureTLSCipherNames(), name) {
			klog.FromContext(ctx).Info("Warning: an insecure cipher suite is accepted", "name", name)
		}
	}
	if s.Authentication, err = authenticationConfig(ctx, c); err != nil {
		return s, err
	}
	s.Authorization, err = authorizationConfig(ctx, c)
	return s, err
}

// tlsConfig is how connections are secured, as the flags say.
func tlsConfig(c options.Serving) (t serving.TLS, err error) {
	t = serving.TLS{
		Server: certificates.Server{CertFile: c.CertFile, KeyFile: c.KeyFile, CertDir: c.CertDir,
			CertName: options.Component},
		DisableHTTP2: c.DisableHTTP2, HTTP2MaxStreams: c.HTTP2MaxStreams,
	}
	for _, n := range c.NamedCertKeys {
		t.Named = append(t.Named, certificates.Named{CertFile: n.CertFile, KeyFile: n.KeyFile, Names: n.Names})
	}
	if c.MinTLSVersion != "" {
		if t.MinVersion, err = cliflag.TLSVersion(c.MinTLSVersion); err != nil {
			return t, err
		}
	}
	if len(c.CipherSuites) > 0 {
		if t.CipherSuites, err = cliflag.TLSCipherSuites(c.CipherSuites); err != nil {
			return t, err
		}
	}
	var curves []tls.CurveID
	if len(c.CurvePreferences) > 0 {
		curves, err = cliflag.TLSCurvePreferences(c.CurvePreferences)
	}
	t.Curves = curves
	return t, err
}

// authenticationConfig is how the server finds out who clients are. Without an API server to ask, only
// certificates count.
func authenticationConfig(ctx context.Context, c options.Config) (serving.Authentication, error) {
	o := c.Authentication
	a := serving.Authentication{
		Clients: certificates.Clients{
			ClientCAFile: o.ClientCAFile,
			FrontProxy: certificates.FrontProxy{
				CAFile: o.FrontProxyCAFile, Names: o.FrontProxyNames, UserHeaders: o.FrontProxyUserHeaders,
				UIDHeaders:   o.FrontProxyUIDHeaders,
				GroupHeaders: o.FrontProxyGroupHeaders, ExtraPrefixes: o.FrontProxyExtraHeaders,
			},
			TolerateLookupFailure: o.TolerateLookupFailure,
		},
		TokenTTL: o.TokenCacheTTL,
	}
	base, err := o.ClientConfig()
	if errors.Is(err, options.ErrNobodyToAsk) {
		klog.FromContext(ctx).Info("Warning: tokens of clients are not checked", "reason", err.Error())
		return a, nil
	}
	if err != nil {
		return a, err
	}
	client := reviewClient(c, base, "authentication")
	reviews, err := authenticationclient.NewForConfig(client)
	if err != nil {
		return a, err
	}
	a.Tokens = reviews.TokenReviews()
	if !o.SkipLookup {
		core, err := coreclient.NewForConfig(client)
		if err != nil {
			return a, err
		}
		a.Cluster = core.ConfigMaps(certificates.LookupNamespace)
	}
	return a, nil
}

// authorizationConfig is how the server finds out what clients may. Without an API server to ask, only the
// paths for everybody are allowed.
func authorizationConfig(ctx context.Context, c options.Config) (access.Authorization, error) {
	o := c.Authorization
	a := access.Authorization{AlwaysAllow: o.AlwaysAllowPaths, AllowedTTL: o.AllowedTTL, DeniedTTL: o.DeniedTTL}
	base, err := o.ClientConfig()
	if errors.Is(err, options.ErrNobodyToAsk) {
		klog.FromContext(ctx).Info("Warning: most paths are forbidden", "reason", err.Error(), "allowed",
			o.AlwaysAllowPaths)
		return a, nil
	}
	if err != nil {
		return a, err
	}
	reviews, err := authorizationclient.NewForConfig(reviewClient(c, base, "authorization"))
	if err != nil {
		return a, err
	}
	a.Reviews = reviews.SubjectAccessReviews()
	return a, nil
}

// reviewClient returns the configuration of a client for questions about clients.
func reviewClient(c options.Config, base *rest.Config, name string) *rest.Config {
	return identity.NewBuilder(base, identity.Options{
		Component: c.Manager.Component, ContentType: c.Manager.ContentType,
		RateLimited: true, QPS: reviewQPS, Burst: reviewBurst,
	}).Config(name)
}

// handlers returns what the server serves, by path.
func handlers(c options.Config, registry []manager.Controller, m *manager.Manager,
	start time.Time) map[string]http.Handler {
	livez, readyz := health.Handler("livez", m.Livez), health.Handler("readyz", m.Readyz)
	all := map[string]http.Handler{
		"/healthz":         health.Handler("healthz", m.Healthz), // and nothing below it (MH-6)
		"/livez":           livez,
		"/livez/":          livez,
		"/readyz":          readyz,
		"/readyz/":         readyz,
		"/metrics":         metrics.Handler(),
		"/metrics/slis":    metrics.SLIHandler(),
		"/configz":         pages.Configz(configzName, configz(c, registry)),
		"/debug/explain":   m.Explain(),
		"/debug/explain/":  m.Explain(),
		"/debug/snapshot/": m.Explain(),
	}
	maps.Copy(all, m.Handlers())
	if c.Features.Enabled("ComponentFlagz") {
		all["/flagz"] = pages.Flagz(options.Component, c.Flags)
	}
	if c.Serving.Profiling {
		maps.Copy(all, pages.Profiles())
		all["/debug/flags/v"] = pages.Verbosity(logs.GlogSetter)
	}
	if c.Features.Enabled("ComponentStatusz") { // the last, because it lists the others
		var paths []string
		for path := range all {
			if !strings.HasPrefix(path, "/debug/") && !strings.HasSuffix(path, "/") {
				paths = append(paths, path)
			}
		}
		slices.Sort(paths)
		all["/statusz"] = pages.Statusz(options.Component, pages.Status{
			Start: start, BinaryVersion: binaryVersion(), EmulationVersion: c.Emulated, Paths: paths,
		})
	}
	return all
}

// binaryVersion is the version of this build as statusz has it: without what distributions add.
func binaryVersion() string {
	plain, _, _ := strings.Cut(kubernetesVersion().GitVersion, "+")
	return strings.TrimPrefix(plain, "v")
}

// profileContention has Go record what goroutines wait for (CLI-41).
func profileContention(c options.Serving) {
	if c.Profiling && c.ContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
}

// serveWhile serves while work is done, and ends both when ctx ends or one of them does. The server listens no longer
// when the work is asked to end (CLI-63).
func serveWhile(ctx context.Context, server *serving.Server, handlers map[string]http.Handler,
	work func(context.Context) error) error {
	serve, endServing := context.WithCancel(ctx)
	defer endServing()
	working, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	served := make(chan error, 1)
	go func() { served <- server.Run(serve, handlers) }()
	worked := make(chan error, 1)
	go func() { worked <- work(working) }()
	var err error
	select {
	case <-server.Closed():
		endWork()
		err = <-worked
	case err = <-worked:
		endServing()
	}
	return utilerrors.NewAggregate([]error{<-served, err})
}
