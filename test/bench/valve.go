package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// valve stands between a manager and its counting proxy. It can cut all watches so that the manager must list anew, as it
// has to after an API server's restart, and it knows when the first list of all pods was over, and how much the manager has received.
type valve struct {
	server *http.Server
	url    string
	cancel context.CancelFunc
	served chan struct{}

	received atomic.Int64 // bytes of the bodies of all answers

	mu      sync.Mutex
	watches map[*http.Request]context.CancelFunc // those that run
	expired map[string]bool                      // what is to be listed anew
	listed  time.Time                            // when the first list of all pods was over
	lists   int                                  // of all pods, that are over
}

// newValve starts a valve before an address that is served with plain HTTP. The caller closes it.
func newValve(target string) (*valve, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	v := &valve{url: "http://" + listener.Addr().String(), cancel: cancel, served: make(chan struct{}),
		watches: map[*http.Request]context.CancelFunc{}, expired: map[string]bool{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			// Over TLS no manager asks for compression (CI-4). Over plain HTTP, client-go forgets that it was switched off.
			r.Out.Header.Del("Accept-Encoding")
		},
		Transport:      &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100},
		FlushInterval:  -1, // each event of a watch at once
		ModifyResponse: v.observe,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	v.server = &http.Server{
		Handler:     v.handler(proxy),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(v.served)
		_ = v.server.Serve(listener) // returns when close ends it
	}()
	return v, nil
}

func (v *valve) close() error {
	v.cancel()
	err := v.server.Close()
	<-v.served
	return err
}

const expiredStatus = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}`

// handler lets requests through, but a watch that would go on from where a cut one was.
func (v *valve) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isWatch(r) {
			next.ServeHTTP(w, r)
			return
		}
		if v.refuses(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, expiredStatus) // a client that has gone needs no answer
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		v.mu.Lock()
		v.watches[r] = cancel
		v.mu.Unlock()
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.watches, r)
		}()
		next.ServeHTTP(w, r)
	})
}

// cut ends all watches; none of them can go on without a list.
func (v *valve) cut() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for r, cancel := range v.watches {
		v.expired[watcher(r)] = true
		cancel()
		n++
	}
	return n
}

// refuses tells whether a watch is the first that wants to go on after it was cut.
func (v *valve) refuses(r *http.Request) bool {
	if initialEvents(r) {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	refused := v.expired[watcher(r)]
	delete(v.expired, watcher(r))
	return refused
}

// pods returns how many lists of all pods are over, and when the first one was.
func (v *valve) pods() (lists int, first time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lists, v.listed
}

// watcher is what is watched, and by whom.
func watcher(r *http.Request) string { return r.URL.Path + " " + r.UserAgent() }

func isWatch(r *http.Request) bool {
	yes, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
	return yes
}

// initialEvents tells whether a watch begins with a list.
func initialEvents(r *http.Request) bool {
	q := r.URL.Query()
	yes, _ := strconv.ParseBool(q.Get("sendInitialEvents"))
	return yes || q.Get("resourceVersion") == "" || q.Get("resourceVersion") == "0"
}

// observe counts what is received, and waits for the end of a list of all pods, be it one of its own or the beginning of a watch.
func (v *valve) observe(resp *http.Response) error {
	resp.Body = &meter{resp.Body, &v.received}
	r := resp.Request
	if resp.StatusCode != http.StatusOK || r.Method != http.MethodGet || r.URL.Path != "/api/v1/pods" {
		return nil
	}
	switch {
	case !isWatch(r):
		resp.Body = &spy{ReadCloser: resp.Body, over: v.podsListed}
	case initialEvents(r):
		resp.Body = &spy{ReadCloser: resp.Body, over: v.podsListed, marker: []byte("k8s.io/initial-events-end")}
	}
	return nil
}

func (v *valve) podsListed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lists++
	if v.listed.IsZero() {
		v.listed = time.Now()
	}
}

// meter counts what is read.
type meter struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (c *meter) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// open counts the watches that run.
func (v *valve) open() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.watches)
}

// spy calls over when the marker has been read, or without one at the end.
type spy struct {
	io.ReadCloser
	over   func()
	marker []byte
	tail   []byte // the end of what was read, where a marker may have begun
	done   bool
}

func (s *spy) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.done {
		return n, err
	}
	if s.marker == nil {
		s.done = err == io.EOF
	} else {
		s.done = s.find(p[:n])
	}
	if s.done {
		s.over()
	}
	return n, err
}

func (s *spy) find(chunk []byte) bool {
	if bytes.Contains(chunk, s.marker) {
		return true
	}
	s.tail = append(s.tail, chunk[:min(len(chunk), len(s.marker))]...) // over the seam
	if bytes.Contains(s.tail, s.marker) {
		return true
	}
	if len(chunk) >= len(s.marker) {
		s.tail = s.tail[:0]
		s.tail = append(s.tail, chunk[len(chunk)-len(s.marker):]...)
	} else if extra := len(s.tail) - len(s.marker); extra > 0 {
		s.tail = append(s.tail[:0], s.tail[extra:]...)
	}
	return false
}
