package manager

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// told is a controller that tells what the test says.
type told struct {
	fakeWorker
	status *reconcile.Status
}

func (t told) Statuses() []reconcile.Status { return []reconcile.Status{*t.status} }

// leadership is one that the test decides about.
type leadership struct {
	leaderelection.Always
	err *error
}

func (l leadership) Check() error { return *l.err }

// want compares the checks with "name: part of the error", or "name" for one that passes.
func want(t *testing.T, when string, checks []Check, want ...string) {
	t.Helper()
	var got []string
	for i, c := range checks {
		line := c.Name
		if err := c.Err(); err != nil {
			line += ": " + err.Error()
		}
		if i < len(want) && strings.Contains(want[i], ": ") && strings.HasPrefix(line, want[i][:strings.Index(want[i], ": ")]) &&
			strings.Contains(line, want[i][strings.Index(want[i], ": ")+2:]) {
			line = want[i]
		}
		got = append(got, line)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", when, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestControllersAreAlive(t *testing.T) {
	status, broken := &reconcile.Status{}, error(nil)
	m := &instance{
		Options:    Options{LeaderElect: true},
		leadership: leadership{err: &broken},
		runners: []*named{
			{Controller: Controller{Name: "a-controller"}, Runner: told{status: status}},
			{Controller: Controller{Name: "hand-written"}, Runner: fakeWorker{}},
		},
	}
	want(t, "MH-18, a standby", m.Healthz(), "leaderElection")
	want(t, "a standby", m.Livez(), "leaderElection", "a-controller-workers", "a-controller-queue")
	for _, r := range m.runners {
		r.running.Store(true)
	}
	*status = reconcile.Status{Stuck: 5 * time.Minute, Queued: 3, Idle: 2 * time.Minute, Key: plan.Key{Namespace: "ns", Name: "x"}}
	want(t, "within the bounds", m.Livez(), "leaderElection", "a-controller-workers", "a-controller-queue")
	want(t, "MH-17", m.Healthz(), "leaderElection", "a-controller", "hand-written")
	status.Stuck += time.Second
	want(t, "a worker is stuck", m.Livez(), "leaderElection",
		"a-controller-workers: a worker has been at ns/x for 5m1s without progress", "a-controller-queue")
	status.Stuck = 0
	status.Idle += time.Second
	want(t, "nobody serves the queue", m.Livez(), "leaderElection", "a-controller-workers",
		"a-controller-queue: 3 keys wait, and none has been taken for 2m1s")
	want(t, "MH-17: always passes", m.Healthz(), "leaderElection", "a-controller", "hand-written")
	*status = reconcile.Status{}
	want(t, "recovered", m.Livez(), "leaderElection", "a-controller-workers", "a-controller-queue")
	broken = errors.New("failed election to renew leadership on lease x")
	want(t, "LE-18", m.Livez(), "leaderElection: failed election to renew leadership on lease x", "a-controller-workers",
		"a-controller-queue")
	want(t, "LE-18", m.Healthz(), "leaderElection: failed election", "a-controller", "hand-written")
	broken = nil
	want(t, "renewed", m.Healthz(), "leaderElection", "a-controller", "hand-written")

	m.LeaderElect = false
	m.Bounds.Worker, m.Bounds.Queue = time.Second, time.Second
	*status = reconcile.Status{Stuck: 2 * time.Second, Queued: 1, Idle: 2 * time.Second}
	want(t, "LE-1a, shorter bounds", m.Livez(), "a-controller-workers: for 2s", "a-controller-queue: for 2s")
}

// listing is a controller that lists resources of its own choice.
type listing struct {
	fakeWorker
	failed *[]string
}

func (l listing) Unlisted() []string { return *l.failed }

// A garbage collector that cannot list what it has to know fails a check of its own, and the process stays ready (REG-103).
func TestAControllerThatCannotListItsResources(t *testing.T) {
	var failed []string
	m := &instance{runners: []*named{{Controller: Controller{Name: "a"}, Runner: listing{failed: &failed}}}}
	m.caches.SetStarted(informers.NewFactory(nil, 0))
	want(t, "REG-103 a standby", m.Readyz(), "shutdown", "started")
	m.runners[0].running.Store(true)
	want(t, "REG-103 all is listed", m.Readyz(), "shutdown", "started", "a-rights", "a-lists")
	failed = []string{"widgets.example.com"}
	want(t, "REG-103", m.Readyz(), "shutdown", "started", "a-rights", "a-lists: without what could not be listed: widgets.example.com")
	if checks := m.Readyz(); !checks[3].Advisory || checks[2].Advisory {
		t.Error("REG-103: the process is unready, or may not write and is ready")
	}
}

// podServer is an API server as a transport sees it: it lists when the gate is opened, and its watch has a bookmark.
type podServer struct {
	gate    <-chan struct{}
	watches chan *io.PipeWriter
}

func (s podServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(code int, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: body, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}, nil
	}
	text := func(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }
	switch q := r.URL.Query(); {
	case q.Get("sendInitialEvents") != "":
		return answer(http.StatusUnprocessableEntity,
			text(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
	case q.Get("watch") != "":
		read, write := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = write.Close() })
		s.watches <- write
		return answer(http.StatusOK, read)
	}
	select {
	case <-s.gate:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return answer(http.StatusOK, text(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
}

// k/k#71227: to restart a process because its caches are not filled yet keeps them from ever being so.
func TestACacheThatIsNotFilledIsAliveButNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, watches := make(chan struct{}), make(chan *io.PipeWriter, 1)
		whole, err := projection.New()
		if err != nil {
			t.Fatal(err)
		}
		client, err := listwatch.NewClient(&rest.Config{Host: "http://api", QPS: -1, Transport: podServer{gate, watches}}, whole)
		if err != nil {
			t.Fatal(err)
		}
		f := informers.NewFactory(client, 0)
		if _, err := informers.Pods(f); err != nil {
			t.Fatal(err)
		}
		m := &instance{leadership: leaderelection.Always{}}
		m.caches.Liveness = client.Liveness()
		want(t, "before the start", m.Livez())
		want(t, "before the start", m.Readyz(), "shutdown", "started: not been started")
		ctx, cancel := context.WithCancel(t.Context())
		defer f.Shutdown()
		defer cancel()
		f.StartWithContext(ctx)
		m.caches.SetStarted(f)
		time.Sleep(24 * time.Hour)
		want(t, "not filled for a day", m.Livez(), "watch-pods")
		want(t, "not filled for a day", m.Readyz(), "shutdown", "started", "cache-pods: not been filled",
			"watch-pods: nothing has come for 24h")
		close(gate)
		if _, err := io.WriteString(<-watches,
			`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}`); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, "filled", m.Readyz(), "shutdown", "started", "cache-pods", "watch-pods")
		want(t, "filled", m.Livez(), "watch-pods")
		time.Sleep(4 * time.Minute)
		want(t, "behind for 4m", m.Livez(), "watch-pods")
		want(t, "behind for 4m", m.Readyz(), "shutdown", "started", "cache-pods", "watch-pods: for 4m0s")
		m.Bounds = Bounds{Watch: time.Minute, Stale: time.Hour}
		want(t, "other bounds", m.Livez(), "watch-pods: for 4m0s")
		want(t, "other bounds", m.Readyz(), "shutdown", "started", "cache-pods", "watch-pods")
		m.Bounds = Bounds{}
		time.Sleep(2 * time.Minute)
		want(t, "silent for 6m", m.Livez(), "watch-pods: the watch is open, but nothing has come for 6m0s")
	})
}

func TestReadyFromTheStartToTheEnd(t *testing.T) {
	client, _ := server(t, http.StatusOK)
	free := make(chan struct{})
	w := fakeWorker{make(chan struct{}), func(ctx context.Context) error { <-ctx.Done(); <-free; return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	m, err := New(client, options(entry("a", w)))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "built", m.Readyz(), "shutdown", "started: not been started")
	want(t, "MH-18, built", m.Healthz())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	<-w.runs
	want(t, "runs", m.Readyz(), "shutdown", "started", "a-rights")
	want(t, "MH-17, runs", m.Healthz(), "a")
	cancel()
	for m.Readyz()[0].Err() == nil { // context.AfterFunc
		time.Sleep(time.Millisecond)
	}
	want(t, "is about to end", m.Readyz(), "shutdown: about to end", "started", "a-rights")
	want(t, "is about to end", m.Livez())
	close(free)
	if err := <-done; err != nil {
		t.Error(err)
	}
	want(t, "has ended", m.Healthz())
}
