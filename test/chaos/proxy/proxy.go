// Package proxy injects faults between a controller manager and an API server. It is a reverse proxy that speaks HTTPS,
// HTTP/2 included, as the API server does, with the credentials of a kubeconfig, or with the client's own token where a
// request carries one. What it does to which request is said by a [Script].
//
//	p, err := proxy.Start(proxy.Options{Kubeconfig: file})
//	err = p.WriteKubeconfig(clientFile)
//	p.Run(script)
//	...
//	for _, i := range p.Injections() { ... }
package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/standalone-kcm/controller-manager/test/oracle/outage"
)

// Options of a proxy.
type Options struct {
	Kubeconfig string // of the API server, with the identity to use there
	// Namespace, if not empty, is the only one that lists and watches show, whatever the client asks for. So several
	// managers, each with a proxy of its own, can work side by side on one API server.
	Namespace string
	// Kill ends the client, for rules that ask for it. It must be quick.
	Kill func()
	// Answered, if set, is told of each request but watches, once the API server has answered it and before the
	// client knows. It may be called in parallel.
	Answered func(Exchange)
}

// Injection is a fault that was injected.
type Injection struct {
	At      time.Time
	Request Request
	Version string // the resourceVersion of the object in the event or answer, if it is known
	Rule    string
}

// String is the injection in one line.
func (i Injection) String() string {
	text := i.At.Format("15:04:05.000 ") + i.Request.String()
	if i.Version != "" {
		text += " at version " + i.Version
	}
	return text + " <- " + i.Rule
}

// Proxy is a running proxy. Close ends it.
type Proxy struct {
	options Options
	url     string
	caPEM   []byte
	cancel  context.CancelFunc
	ctx     context.Context
	server  *http.Server
	served  chan struct{}
	conns   *connections
	outages *outage.Log

	mu         sync.Mutex
	script     *Script
	upstreams  map[string]*upstream
	injections []Injection
	writes     int
	total      int // requests
}

// upstream is an API server.
type upstream struct {
	target *url.URL
	own    *http.Transport // with the kubeconfig's credentials
	plain  *http.Transport // without, for requests that bring their own
	token  string
}

// Start starts a proxy.
func Start(o Options) (*Proxy, error) {
	first, err := newUpstream(o.Kubeconfig, "")
	if err != nil {
		return nil, err
	}
	conns, tlsConfig, caPEM, err := listen()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		options: o, url: "https://" + conns.Addr().String(), caPEM: caPEM, ctx: ctx, cancel: cancel,
		served: make(chan struct{}), conns: conns, script: &Script{}, upstreams: map[string]*upstream{"": first},
		outages: outage.New(aftermath),
	}
	p.server = &http.Server{
		Handler:     http.HandlerFunc(p.serve),
		TLSConfig:   tlsConfig,
		ConnContext: conns.context,
		ErrorLog:    log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(p.served)
		_ = p.server.ServeTLS(conns, "", "") // returns when Close shuts it down
	}()
	return p, nil
}

func newUpstream(kubeconfig, server string) (*upstream, error) {
	config, err := clientcmd.BuildConfigFromFlags(server, kubeconfig)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	if target.Scheme == "" || target.Host == "" {
		return nil, fmt.Errorf("the server's address must be a URL, not %q", config.Host)
	}
	u := &upstream{target: target, token: config.BearerToken}
	if u.own, err = newTransport(config); err != nil {
		return nil, err
	}
	u.plain, err = newTransport(rest.AnonymousClientConfig(config))
	return u, err
}

func newTransport(config *rest.Config) (*http.Transport, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		TLSClientConfig:     tlsConfig,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 100,
	}, nil
}

// AddUpstream makes another API server known, for [Proxy.Switch] and the action "upstream". Server is its address; the
// credentials are those of the first.
func (p *Proxy) AddUpstream(name, server string) error {
	u, err := newUpstream(p.options.Kubeconfig, server)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstreams[name] = u
	return nil
}

// Switch sends all requests from now on to the named API server ("" was the first at the start), and cuts all
// connections, as a load balancer does whose backend has failed.
func (p *Proxy) Switch(name string) error {
	p.mu.Lock()
	u := p.upstreams[name]
	if u != nil {
		p.upstreams["first"], p.upstreams[""] = p.upstreams[""], u
	}
	p.mu.Unlock()
	if u == nil {
		return fmt.Errorf("no API server %q", name)
	}
	p.CutAll()
	return nil
}

// Run begins a script, in place of the one before.
func (p *Proxy) Run(s *Script) {
	s.start(time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = s
}

// Calm ends the script: from now on nothing is injected. What was begun, a freeze for example, ends by itself.
func (p *Proxy) Calm() { p.Run(&Script{}) }

// CutAll closes all connections.
func (p *Proxy) CutAll() {
	p.disconnected(reconnecting)
	p.conns.cutAll()
}

// Injections are the faults that were injected so far.
func (p *Proxy) Injections() []Injection {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Injection(nil), p.injections...)
}

// Writes counts the writes that were passed on so far, without those that are noise ([Request.IsWrite]).
func (p *Proxy) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// Requests counts all requests so far.
func (p *Proxy) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() error {
	p.cancel()
	p.conns.cutAll()
	err := p.server.Close()
	<-p.served
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.upstreams {
		u.own.CloseIdleConnections()
		u.plain.CloseIdleConnections()
	}
	return err
}

// WriteKubeconfig writes a kubeconfig without credentials that points at the proxy, and beside it the certificate to
// verify the proxy with.
func (p *Proxy) WriteKubeconfig(file string) error {
	ca := filepath.Join(filepath.Dir(file), filepath.Base(file)+".ca.crt")
	if err := os.WriteFile(ca, p.caPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(file, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: proxy, cluster: {server: %q, certificate-authority: %q}}]
contexts: [{name: proxy, context: {cluster: proxy, user: proxy}}]
users: [{name: proxy, user: {}}]
current-context: proxy
`, p.url, ca), 0o600)
}

// serve handles one request.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	request := parseRequest(r, p.options.Namespace)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	if request.Verb == "create" {
		request.Name = metaOf(r.Header.Get("Content-Type"), body).Name
	}
	p.mu.Lock()
	p.total++
	script := p.script
	p.mu.Unlock()
	x := &exchange{Proxy: p, w: w, r: r, body: body, request: request, script: script}
	if request.Verb != "watch" {
		defer p.outages.Took(request.Resource, time.Now())
	}
	rule := script.decide(request, time.Now())
	if rule == nil {
		x.pass("")
		return
	}
	p.log(Injection{At: time.Now(), Request: request, Rule: rule.text})
	x.refused()
	x.inject(rule.action)
}

func (p *Proxy) log(i Injection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.injections = append(p.injections, i)
}

func (p *Proxy) upstream(name string) *upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.upstreams[name]
}

// exchange is one request on its way.
type exchange struct {
	*Proxy
	w       http.ResponseWriter
	r       *http.Request
	body    []byte
	request Request
	script  *Script
}

// inject carries out what a rule says about a request.
func (x *exchange) inject(a Action) {
	switch a.Name {
	case "delay", "freeze":
		if x.wait(a.Duration) {
			x.pass("")
		}
	case "blackhole":
		x.silence(a.Duration)
		x.pass("")
	case "cut":
		x.cut()
	case "reset":
		panic(http.ErrAbortHandler)
	case "answer":
		answer(x.w, a.Code, a.Seconds)
	case "gone", "drop": // of a watch that is being opened
		answer(x.w, http.StatusGone, 0)
	case "upstream":
		x.pass(a.Upstream)
	default:
		x.commit(a)
	}
}

// commit passes the request on, so that it is carried out whatever becomes of the client, and keeps back the answer.
func (x *exchange) commit(a Action) {
	resp, body, err := x.roundTrip(context.WithoutCancel(x.r.Context()), "")
	if err != nil {
		answer(x.w, http.StatusBadGateway, 0)
		return
	}
	switch a.Name {
	case "kill before":
		x.options.Kill()
		x.cut()
	case "kill after":
		copyAnswer(x.w, resp, body)
		_ = http.NewResponseController(x.w).Flush()
		x.options.Kill()
	case "commit timeout":
		if x.wait(a.Duration) {
			answer(x.w, http.StatusGatewayTimeout, 0)
		}
	case "commit cut":
		x.cut()
	case "commit hang":
		x.wait(a.Duration)
		panic(http.ErrAbortHandler)
	}
}

// cut closes the connection that the request came on.
func (x *exchange) cut() {
	x.disconnected(reconnecting)
	x.conns.cut(x.r)
	panic(http.ErrAbortHandler)
}

// wait reports false when the client is gone before.
func (x *exchange) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-x.r.Context().Done():
	case <-x.ctx.Done():
	}
	return false
}

// pass passes the request on, and the answer back.
func (x *exchange) pass(upstream string) {
	if x.request.Verb == "watch" {
		x.watch(upstream)
		return
	}
	resp, body, err := x.roundTrip(x.r.Context(), upstream)
	if err != nil {
		x.refused()
		answer(x.w, http.StatusBadGateway, 0)
		return
	}
	copyAnswer(x.w, resp, body)
	x.answered(resp.StatusCode)
}

// roundTrip passes the request on and reads the whole answer.
func (x *exchange) roundTrip(ctx context.Context, upstream string) (*http.Response, []byte, error) {
	if x.request.IsWrite() {
		x.mu.Lock()
		x.writes++
		x.mu.Unlock()
	}
	sent := time.Now()
	resp, err := x.send(ctx, upstream)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if answered := x.options.Answered; answered != nil && x.request.Resource != "" {
		e := Exchange{Request: x.request, Sent: sent, Done: time.Now()}
		e.readRequest(x.r.Header, x.body)
		if err == nil {
			e.readAnswer(resp, body)
		}
		answered(e)
	}
	return resp, body, err
}

// send passes the request on. It keeps the kubeconfig's certificate away from a request with a token: the API server would
// prefer the certificate's user.
func (x *exchange) send(ctx context.Context, name string) (*http.Response, error) {
	u := x.upstream(name)
	if u == nil {
		return nil, fmt.Errorf("no API server %q", name)
	}
	out := x.r.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = u.target.Scheme, u.target.Host, u.target.Host, ""
	out.Header.Del("Accept-Encoding")
	for _, hop := range []string{"Connection", "Upgrade", "Te", "Transfer-Encoding"} {
		out.Header.Del(hop)
	}
	out.Body, out.ContentLength = http.NoBody, 0
	if len(x.body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
	}
	transport := u.own
	if out.Header.Get("Authorization") != "" {
		transport = u.plain
	} else if u.token != "" {
		out.Header.Set("Authorization", "Bearer "+u.token)
	}
	resp, err := transport.RoundTrip(out)
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	return resp, err
}

func copyAnswer(w http.ResponseWriter, resp *http.Response, body []byte) {
	copyHeader(w, resp)
	_, _ = w.Write(body) // an error means that the client is gone
}

func copyHeader(w http.ResponseWriter, resp *http.Response) {
	for key, values := range resp.Header {
		if key != "Connection" && key != "Content-Length" && key != "Transfer-Encoding" {
			w.Header()[key] = values
		}
	}
	w.WriteHeader(resp.StatusCode)
}
