// Package countproxy counts what a client asks of an API server. It is a reverse proxy that listens on the loopback interface,
// on plain HTTP or on HTTP/2 over TLS, and passes requests on with the credentials of a kubeconfig, or with the client's own
// token where a request carries one.
//
//	proxy, err := countproxy.Start(kubeconfigFile)
//	...
//	err = proxy.WriteKubeconfig(file) // for the client
//	...
//	fmt.Println(proxy.Writes())
package countproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// Options say how a proxy serves. The zero value will do.
type Options struct {
	TLS  bool                            // HTTP/2 over TLS, as API servers do, in place of plain HTTP
	Wrap func(http.Handler) http.Handler // if set, is put around the proxy
}

// Proxy is a running proxy. Close ends it.
type Proxy struct {
	url    string
	ca     []byte // in PEM; none for plain HTTP
	cancel context.CancelFunc
	server *http.Server
	own    *http.Transport // with the kubeconfig's credentials
	plain  *http.Transport // without, for requests that bring their own
	token  string
	served chan struct{}

	mu     sync.Mutex
	counts map[Request]*tally
	newest uint64 // the highest resourceVersion seen in a response
}

// Start starts a proxy to the API server of a kubeconfig, with the credentials given there.
func Start(kubeconfig string) (*Proxy, error) { return StartWith(kubeconfig, Options{}) }

// StartWith is Start with options.
func StartWith(kubeconfig string, o Options) (*Proxy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return start(config, o)
}

// StartFor starts a proxy to the API server of a client configuration. Of its credentials, a client certificate and a
// token are supported.
func StartFor(config *rest.Config) (*Proxy, error) { return start(config, Options{}) }

func start(config *rest.Config, o Options) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	if target.Scheme == "" || target.Host == "" {
		return nil, fmt.Errorf("the server's address must be a URL, not %q", config.Host)
	}
	own, err := newTransport(config)
	if err != nil {
		return nil, err
	}
	plain, err := newTransport(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		url:    "http://" + listener.Addr().String(),
		cancel: cancel,
		own:    own,
		plain:  plain,
		token:  config.BearerToken,
		served: make(chan struct{}),
		counts: map[Request]*tally{},
	}
	handler := p.handler(target)
	if o.Wrap != nil {
		handler = o.Wrap(handler)
	}
	p.server = &http.Server{
		Handler:     handler,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0),
	}
	serve := p.server.Serve
	if o.TLS {
		if err := p.certify(); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		serve = func(l net.Listener) error { return p.server.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(p.served)
		_ = serve(listener) // returns when Close shuts it down
	}()
	return p, nil
}

// certify makes a certificate for the server.
func (p *Proxy) certify() error {
	chain, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return err
	}
	p.url, p.ca = strings.Replace(p.url, "http:", "https:", 1), chain
	p.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
	return nil
}

func newTransport(config *rest.Config) (*http.Transport, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		TLSClientConfig:     tlsConfig,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // the client's wishes are passed on as they are
		MaxIdleConnsPerHost: 100,
	}, nil
}

// URL is the address for the client.
func (p *Proxy) URL() string { return p.url }

// Close ends the proxy, cutting off watches, and returns when all that belonged to it is gone.
func (p *Proxy) Close() error {
	p.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := p.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, p.server.Close())
	}
	<-p.served
	p.own.CloseIdleConnections()
	p.plain.CloseIdleConnections()
	return err
}

// WriteKubeconfig writes a kubeconfig without credentials that points at the proxy.
func (p *Proxy) WriteKubeconfig(file string) error {
	return os.WriteFile(file, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: proxy, cluster: {server: %q, certificate-authority-data: %q}}]
contexts: [{name: proxy, context: {cluster: proxy, user: proxy}}]
users: [{name: proxy, user: {}}]
current-context: proxy
`, p.url, base64.StdEncoding.EncodeToString(p.ca)), 0o600)
}

// exchange is what is remembered of a request until its response is there.
type exchange struct {
	request Request
	version uint64 // the object's resourceVersion in the body of an update
	removes bool   // the update takes the last finalizer off an object that is being deleted: the answer has the version of before
	newest  uint64 // the highest resourceVersion that had been seen before
}

type exchangeKey struct{}

func (p *Proxy) handler(target *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = target.Host
			if p.token != "" && r.In.Header.Get("Authorization") == "" {
				r.Out.Header.Set("Authorization", "Bearer "+p.token)
			}
		},
		Transport:      roundTripper(p.roundTrip),
		FlushInterval:  -1, // each event of a watch at once
		ModifyResponse: p.record,
		ErrorHandler:   p.fail,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{request: parseRequest(r)}
		if r.Method == http.MethodPut {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			about := metadataOf(r.Header, body)
			x.version, x.removes = versionOf(about), about.DeletionTimestamp != nil && len(about.Finalizers) == 0
		}
		p.mu.Lock()
		x.newest = p.newest
		p.mu.Unlock()
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// roundTrip keeps the kubeconfig's certificate away from a request with a token: the API server would prefer the
// certificate's user.
func (p *Proxy) roundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		return p.plain.RoundTrip(r)
	}
	return p.own.RoundTrip(r)
}

// record counts a request whose response has begun.
func (p *Proxy) record(resp *http.Response) error {
	x, ok := resp.Request.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return errors.New("response to an unknown request")
	}
	x.request.Code = resp.StatusCode
	version, err := p.responseVersion(x, resp)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = max(p.newest, version)
	p.tally(x.request).count++
	if x.changedNothing(version) {
		p.tally(x.request).noOps++
	}
	return nil
}

// responseVersion reads the resourceVersion of the object in the response, without taking it from the client. It is zero
// for a response that is no single object.
func (p *Proxy) responseVersion(x *exchange, resp *http.Response) (uint64, error) {
	switch x.request.Verb {
	case "get", "create", "update", "patch":
	default:
		return 0, nil
	}
	if resp.StatusCode >= 300 || x.request.Resource == "" || x.request.streams() || resp.Header.Get("Content-Encoding") != "" {
		return 0, nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if err := resp.Body.Close(); err != nil {
		return 0, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return versionOf(metadataOf(resp.Header, body)), nil
}

// changedNothing tells whether a write was accepted but left the object as it was. The server then answers with the
// version that the object already had: the one in the body of an update, or one not newer than another seen before the
// request was made. The latter needs all objects to be in one etcd, where each change gets a higher version than any
// before it. To take the last finalizer of a namespace is answered in this way as well, and removes it.
func (x *exchange) changedNothing(version uint64) bool {
	if version == 0 || x.request.Verb != "update" && x.request.Verb != "patch" || x.request.Subresource == "finalize" || x.removes {
		return false
	}
	return version == x.version || version <= x.newest
}

// fail answers a request that the API server did not.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok && r.Context().Err() == nil {
		x.request.Code = http.StatusBadGateway
		p.mu.Lock()
		p.tally(x.request).count++
		p.mu.Unlock()
	}
	http.Error(w, "proxy: "+err.Error(), http.StatusBadGateway)
}

// tally is called with the lock held.
func (p *Proxy) tally(r Request) *tally {
	if p.counts[r] == nil {
		p.counts[r] = &tally{}
	}
	return p.counts[r]
}
