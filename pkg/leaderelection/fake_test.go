package leaderelection

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

func TestMain(m *testing.M) {
	// klog starts its flusher when it is first configured, once for the process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// server keeps one lease and the events, in memory, so that it works with virtual time.
type server struct {
	mu           sync.Mutex
	lease        *coordinationv1.Lease
	version      int
	events       []corev1.Event
	watchesBegun int
	watches      []*watch.RaceFreeFakeWatcher
}

// request is one request that was sent.
type request struct {
	Method string
	At     time.Time
}

// wire is one process's way to the server. It is a http.RoundTripper.
type wire struct {
	server *server

	mu       sync.Mutex
	before   func(r *http.Request) error // instead of carrying a request out
	after    func(r *http.Request) error // instead of its answer
	requests []request
}

func (w *wire) cut(before, after func(*http.Request) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

func (w *wire) log() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]request(nil), w.requests...)
}

var errDown = errors.New("connection refused")

func down(*http.Request) error   { return errDown }
func hang(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	before, after := w.before, w.after
	w.requests = append(w.requests, request{r.Method, time.Now()})
	w.mu.Unlock()
	if before != nil {
		if err := before(r); err != nil {
			return nil, err
		}
	}
	code, body := w.server.handle(r)
	if after != nil {
		if err := after(r); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(raw)), Request: r,
	}, nil
}

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

func (s *server) handle(r *http.Request) (int, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sent coordinationv1.Lease
	if strings.HasSuffix(r.URL.Path, "/events") {
		var e corev1.Event
		_ = json.NewDecoder(r.Body).Decode(&e)
		s.events = append(s.events, e)
		return 201, &e
	}
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&sent)
	}
	switch {
	case r.Method == "GET" && r.URL.Path == leasePath+"/kube-controller-manager":
		if s.lease == nil {
			return status(404, metav1.StatusReasonNotFound)
		}
		return 200, s.lease
	case r.Method == "POST" && r.URL.Path == leasePath:
		if s.lease != nil {
			return status(409, metav1.StatusReasonAlreadyExists)
		}
		sent.UID = types.UID(fmt.Sprint("uid-", s.version))
		return 201, s.store(&sent)
	case r.Method == "PUT" && r.URL.Path == leasePath+"/kube-controller-manager":
		if s.lease == nil {
			return status(404, metav1.StatusReasonNotFound)
		}
		if sent.ResourceVersion != s.lease.ResourceVersion {
			return status(409, metav1.StatusReasonConflict)
		}
		return 200, s.store(&sent)
	}
	return status(403, metav1.StatusReasonForbidden) // LE-24
}

func (s *server) store(l *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	l.ResourceVersion = fmt.Sprint(s.version)
	l.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
	s.lease = l
	s.tell(watch.Modified, l)
	return l
}

// tell sends an event to all watches.
func (s *server) tell(what watch.EventType, l *coordinationv1.Lease) {
	for _, w := range s.watches {
		if !w.IsStopped() {
			w.Action(what, l.DeepCopy())
		}
	}
}

// watcher is the right to watch the server's lease, or the lack of it.
type watcher struct {
	coordinationv1client.LeaseInterface
	server *server
	err    error
	frozen bool // a watch shows what is there when it begins, and nothing after
}

func (w watcher) Leases(string) coordinationv1client.LeaseInterface { return w }

func (w watcher) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.watchesBegun++
	if w.err != nil {
		return nil, w.err
	}
	fake := watch.NewRaceFreeFake()
	context.AfterFunc(ctx, fake.Stop)
	if w.server.lease != nil {
		fake.Add(w.server.lease.DeepCopy())
	}
	if !w.frozen {
		w.server.watches = append(w.server.watches, fake)
	}
	return fake, nil
}

func status(code int32, reason metav1.StatusReason) (int, any) {
	return int(code), &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason),
	}
}

func (s *server) get() *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease.DeepCopy()
}

// set replaces the lease behind everybody's back; nil deletes it.
func (s *server) set(l *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l == nil {
		s.tell(watch.Deleted, s.lease)
		s.lease = nil
		return
	}
	s.store(l)
}

func leaseOf(holder string, seconds int32) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager", Namespace: "kube-system"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, LeaseTransitions: ptr.To[int32](3),
			AcquireTime: &now, RenewTime: &now,
		},
	}
}

// process is one manager: its elector, its way to the server, its work and its log.
type process struct {
	*Elector
	wire  *wire
	sees  *watcher // how it watches the lease; nil if it does not
	jumps *jumpingClock
	ctx   context.Context
	end   context.CancelFunc
	done  chan error // the result of Run

	mu      sync.Mutex
	leads   int
	cause   error       // why the last lead was told to stop
	told    time.Time   // when
	rolls   func(error) // is told of rollbacks; may be nil
	notes   func(map[string]string)
	now     int           // leads running
	most    int           // at once
	stopFor time.Duration // how long lead takes to stop
	says    error         // what it returns then
	result  chan error    // makes lead return by itself
	lines   []string
}

// start runs a process. The test must end it, see finish.
func start(t *testing.T, s *server, id string, change func(*process, *Config)) *process {
	t.Helper()
	p := &process{wire: &wire{server: s}, jumps: newJumpingClock(), done: make(chan error, 1), result: make(chan error, 1)}
	config := Defaults()
	if change != nil {
		change(p, &config)
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://api", Transport: p.wire, Timeout: 5 * time.Second, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Elector, err = New(config, id, client.CoordinationV1(), nopEvents{})
	if err != nil {
		t.Fatal(err)
	}
	p.clock = p.jumps.now
	p.OnRollback(p.rolls)
	p.Annotate(p.notes)
	if p.sees != nil {
		p.Watch(*p.sees)
	}
	logger := funcr.New(func(_, args string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lines = append(p.lines, args)
	}, funcr.Options{Verbosity: 2})
	p.ctx, p.end = context.WithCancel(klog.NewContext(t.Context(), logger))
	go func() { p.done <- p.Run(p.ctx, p.lead) }()
	return p
}

type nopEvents struct{}

func (nopEvents) Eventf(_ runtime.Object, _, _, _ string, _ ...any) {}

// lead works until it is told to stop, and then for stopFor.
func (p *process) lead(ctx context.Context) error {
	p.mu.Lock()
	p.leads++
	p.now++
	p.most = max(p.most, p.now)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.now--
		p.mu.Unlock()
	}()
	select {
	case err := <-p.result:
		return err
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.cause, p.told = context.Cause(ctx), time.Now()
	wait, says := p.stopFor, p.says
	p.mu.Unlock()
	time.Sleep(wait)
	return says
}

func (p *process) leading() (running bool, leads int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now > 0, p.leads
}

// wait sleeps in small steps until the condition holds, and returns how long that took.
func wait(t *testing.T, most time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !condition() {
		if time.Since(begin) > most {
			t.Fatalf("%s: not within %v", what, most)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begin)
}

func (p *process) untilLeading(t *testing.T) time.Duration {
	t.Helper()
	return wait(t, time.Minute, "leading", func() bool { running, _ := p.leading(); return running })
}

// returned waits for the end of Run.
func (p *process) returned(t *testing.T, most time.Duration) error {
	t.Helper()
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-time.After(most):
		t.Fatalf("Run did not return within %v", most)
		return nil
	}
}

// finish ends the process gracefully.
func (p *process) finish(t *testing.T) error {
	t.Helper()
	p.end()
	return p.returned(t, time.Minute)
}

func (p *process) logged(substring string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if strings.Contains(line, substring) {
			n++
		}
	}
	return n
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
