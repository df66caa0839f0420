// Package proxy injects faults between a controller manager and an API server. It is a reverse proxy that speaks HTTPS,
// HTTP/2 included, as the API server does, with the credentials of a kubeconfig, or with the client's own token where a
// request carries one. Package faults decides what becomes of which request; the scripts are those of the simulation.
//
//	p, err := proxy.Start(proxy.Options{Kubeconfig: file})
//	err = p.WriteKubeconfig(clientFile)
//	err = p.Play(script, "m0")
//	...
//	p.Calm()
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
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/standalone-kcm/controller-manager/test/faults"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// Options of a proxy.
type Options struct {
	Kubeconfig string // of the API server, with the identity to use there
	// Namespace, if not empty, is the only one that lists and watches show, whatever the client asks for. So several
	// managers, each with a proxy of its own, can work side by side on one API server.
	Namespace string
	// Process is the client's, for faults that are about it. It may be nil if there are none.
	Process Process
	// Asked, if set, is told of each request before any fault meets it.
	Asked func(Request)
	// Answered, if set, is told of each request but watches, once the API server has answered it and before the
	// client knows. It may be called in parallel.
	Answered func(Exchange)
}

// Process is that of a client. Its methods must be quick.
type Process interface {
	Kill(back time.Duration) // as a crash does; the next one may start after a while
	Stop(back time.Duration) // in good order
	Pause(to bool)
}

// Injection is a fault that was injected.
type Injection struct {
	At    time.Time
	What  string // the request or event that it has met, if it has met one
	Fault faults.Fault
}

// String is the injection in one line.
func (i Injection) String() string {
	return fmt.Sprintf("%s %s <- %s", i.At.Format("15:04:05.000"), i.What, i.Fault)
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
	state   *faults.State

	mu         sync.Mutex
	calm       chan struct{} // closed when the faults are over
	timers     []*time.Timer // of faults that have not begun
	ends       []func()      // of faults that have
	upstreams  map[string]*upstream
	diverted   string // the upstream of lists and watches of the caches
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
		served: make(chan struct{}), conns: conns, upstreams: map[string]*upstream{"": first}, state: faults.New(aftermath),
		calm: make(chan struct{}),
	}
	p.state.Injected = func(what string, f faults.Fault) { p.log(Injection{time.Now(), what, f}) }
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

// AddUpstream makes another API server known, for [Proxy.Switch] and [Proxy.Divert]. Server is its address; the
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
	p.log(Injection{time.Now(), "everything", faults.Fault{Word: "goes to " + name}})
	p.CutAll()
	return nil
}

// Divert sends lists and watches of the client's caches to the named API server from now on, and cuts all connections.
func (p *Proxy) Divert(name string) {
	p.mu.Lock()
	p.diverted = name
	p.mu.Unlock()
	p.log(Injection{time.Now(), "lists and watches", faults.Fault{Word: "go to " + name}})
	p.CutAll()
}

// Play injects the faults of a script that are for a process of some name, each at its time from now. Other lines have no effect.
func (p *Proxy) Play(s script.Script, name string) error {
	for _, l := range s.Lines {
		if target := l.Arg(0); l.Op() != "fault" || target != name && target != "m*" {
			continue
		}
		f, err := faults.Parse(l)
		if err != nil {
			return err
		}
		if f.Word == "lag" || f.Word == "vanish" || f.Word == "webhook" {
			return fmt.Errorf("%s: only a simulated API server can do that", f)
		}
		p.in(l.At, func() { p.begin(f) })
	}
	return nil
}

// in does something after a time, unless the script is over before.
func (p *Proxy) in(d time.Duration, do func()) {
	if d == 0 {
		do()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timers = append(p.timers, time.AfterFunc(d, do))
}

// begin begins a fault, and sees to its end.
func (p *Proxy) begin(f faults.Fault) {
	end := p.state.Begin(f)
	undo := func() {}
	switch f.Word {
	case "silent":
		undo = p.conns.silence()
	case "down":
		p.conns.cutAll()
	case "pause":
		p.options.Process.Pause(true)
		undo = func() { p.options.Process.Pause(false) }
	case "stop":
		p.options.Process.Stop(f.Back)
	}
	switch f.Word {
	case "cut", "expire", "stop", "pause", "silent":
		p.log(Injection{time.Now(), "", f}) // others wait for what they meet
	}
	var once sync.Once
	stop := func() { once.Do(func() { undo(); end() }) }
	p.mu.Lock()
	p.ends = append(p.ends, stop)
	p.mu.Unlock()
	if f.For > 0 {
		p.in(f.For, stop)
	}
}

// Calm ends all faults. From now on none is injected.
func (p *Proxy) Calm() {
	p.mu.Lock()
	for _, timer := range p.timers {
		timer.Stop()
	}
	ends := p.ends
	p.timers, p.ends = nil, nil
	close(p.calm)
	p.calm = make(chan struct{})
	p.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// CutAll closes all connections.
func (p *Proxy) CutAll() {
	p.disconnected()
	p.conns.cutAll()
}

// Injections are the faults that were injected so far.
func (p *Proxy) Injections() []Injection {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Injection(nil), p.injections...)
}

// Writes counts the writes that were passed on so far, without those that are noise ([faults.IsWork]).
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
	p.mu.Unlock()
	if p.options.Asked != nil {
		p.options.Asked(request)
	}
	x := &exchange{Proxy: p, w: w, r: r, body: body, request: request}
	if request.Verb != "watch" {
		defer p.state.Outages.Took(request.Resource, time.Now())
	}
	if p.state.Way().Down {
		p.log(Injection{time.Now(), faults.Describe(request.Request), faults.Fault{Word: "down"}})
		x.cut()
	}
	if d := p.state.Latency(request.Request); d > 0 && !x.wait(d) {
		return
	}
	if f := p.state.Sends(request.Request); f != nil {
		if request.Verb == "watch" {
			p.state.Outages.Blind(x.watched(), time.Now())
		}
		x.suffer(f)
		return
	}
	x.pass(p.upstreamOf(request))
}

func (p *Proxy) log(i Injection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.injections = append(p.injections, i)
}

// upstreamOf names the API server for a request.
func (p *Proxy) upstreamOf(r Request) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (r.Verb == "list" || r.Verb == "watch") && strings.Contains(r.Agent, "shared-informers") {
		return p.diverted
	}
	return ""
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
}

// suffer lets a request, or its answer, meet a fault.
func (x *exchange) suffer(f *faults.Fault) {
	switch {
	case f.Word == "crash":
		x.options.Process.Kill(f.Back)
		x.cut()
	case f.Code == 0:
		x.cut()
	case f.Code < 0:
		x.hang(x.r.Context())
		panic(http.ErrAbortHandler)
	case f.Code == http.StatusTooManyRequests:
		answer(x.w, f.Code, 1)
	default:
		answer(x.w, f.Code, 0)
	}
}

// hang waits until the client gives up or the faults are over.
func (p *Proxy) hang(client context.Context) {
	p.mu.Lock()
	calm := p.calm
	p.mu.Unlock()
	select {
	case <-calm:
	case <-client.Done():
	case <-p.ctx.Done():
	}
}

// cut closes the connection that the request came on.
func (x *exchange) cut() {
	x.disconnected()
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
		x.state.Outages.Refused(x.object())
		answer(x.w, http.StatusBadGateway, 0)
		return
	}
	if x.unanswered(resp.StatusCode) {
		x.state.Outages.Refused(x.object())
	} else if f := x.state.Hears(x.request.Request); f != nil {
		x.suffer(f)
		return
	}
	copyAnswer(x.w, resp, body)
}

// roundTrip passes the request on and reads the whole answer.
func (x *exchange) roundTrip(ctx context.Context, upstream string) (*http.Response, []byte, error) {
	if faults.IsWork(x.request.Request) {
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
