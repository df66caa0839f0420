package manager

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/engine"
	"github.com/standalone-kcm/controller-manager/pkg/health"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// told is a controller that tells what the test says.
type told struct {
	worker
	pulse *engine.Pulse
}

func (t told) Pulse() engine.Pulse { return *t.pulse }

// leadership is one that the test decides about.
type leadership struct {
	leaderelection.Always
	err *error
}

func (l leadership) Check() error { return *l.err }

// want compares the checks with "name: part of the error", or "name" for one that passes.
func want(t *testing.T, when string, checks []health.Check, want ...string) {
	t.Helper()
	var got []string
	for i, c := range checks {
		line := c.Name
		if err := c.Err(); err != nil {
			line += ": " + err.Error()
		}
		if i < len(want) && strings.Contains(want[i], ": ") && strings.HasPrefix(line, want[i][:strings.Index(want[i], ": ")]) && strings.Contains(line, want[i][strings.Index(want[i], ": ")+2:]) {
			line = want[i]
		}
		got = append(got, line)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", when, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestControllersAreAlive(t *testing.T) {
	pulse, broken := &engine.Pulse{}, error(nil)
	m := &Manager{
		Config:     Config{LeaderElect: true},
		leadership: leadership{err: &broken},
		runners: []*named{
			{Controller: Controller{Name: "a-controller"}, Runner: told{pulse: pulse}},
			{Controller: Controller{Name: "hand-written"}, Runner: worker{}},
		},
	}
	want(t, "MH-18, a standby", m.Healthz(), "leaderElection")
	want(t, "a standby", m.Livez(), "leaderElection", "a-controller-workers", "a-controller-queue")
	for _, r := range m.runners {
		r.running.Store(true)
	}
	*pulse = engine.Pulse{Stuck: 5 * time.Minute, Queued: 3, Idle: 2 * time.Minute, Key: plan.Key{Namespace: "ns", Name: "x"}}
	want(t, "within the bounds", m.Livez(), "leaderElection", "a-controller-workers", "a-controller-queue")
	want(t, "MH-17", m.Healthz(), "leaderElection", "a-controller", "hand-written")
	pulse.Stuck += time.Second
	want(t, "a worker is stuck", m.Livez(), "leaderElection",
		"a-controller-workers: a worker has been at ns/x for 5m1s without progress", "a-controller-queue")
	pulse.Stuck = 0
	pulse.Idle += time.Second
	want(t, "nobody serves the queue", m.Livez(), "leaderElection", "a-controller-workers",
		"a-controller-queue: 3 keys wait, and none has been taken for 2m1s")
	want(t, "MH-17: always passes", m.Healthz(), "leaderElection", "a-controller", "hand-written")
	*pulse = engine.Pulse{}
	want(t, "recovered", m.Livez(), "leaderElection", "a-controller-workers", "a-controller-queue")
	broken = errors.New("failed election to renew leadership on lease x")
	want(t, "LE-18", m.Livez(), "leaderElection: failed election to renew leadership on lease x", "a-controller-workers", "a-controller-queue")
	want(t, "LE-18", m.Healthz(), "leaderElection: failed election", "a-controller", "hand-written")
	broken = nil
	want(t, "renewed", m.Healthz(), "leaderElection", "a-controller", "hand-written")

	m.LeaderElect = false
	m.Bounds.Worker, m.Bounds.Queue = time.Second, time.Second
	*pulse = engine.Pulse{Stuck: 2 * time.Second, Queued: 1, Idle: 2 * time.Second}
	want(t, "LE-1a, shorter bounds", m.Livez(), "a-controller-workers: for 2s", "a-controller-queue: for 2s")
}

// pods is a cache whose server is the test: it lists when the gate is opened.
func pods(gate <-chan struct{}) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil)
			}
			return watch.NewFake(), nil
		},
	}, &corev1.Pod{}, 0, nil)
}

// k/k#71227: to restart a process because its caches are not filled yet keeps them from ever being so.
func TestACacheThatIsNotFilledIsAliveButNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		informer := pods(gate)
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go informer.RunWithContext(ctx)
		m := &Manager{leadership: leaderelection.Always{}, signs: informers.NewSigns()}
		want(t, "before the start", m.Livez())
		want(t, "before the start", m.Readyz(), "shutdown", "started: not been started")
		caches := []informers.Started{{Resource: "pods", Informer: informer}}
		m.caches.Store(&caches)
		tried(t, m.signs)
		time.Sleep(24 * time.Hour)
		want(t, "not filled for a day", m.Livez(), "watch-pods")
		want(t, "not filled for a day", m.Readyz(), "shutdown", "started", "cache-pods: not been filled", "watch-pods: nothing has come for 24h")
		close(gate)
		synctest.Wait()
		want(t, "filled, and nothing was ever heard", m.Livez(), "watch-pods: nothing has come for 24h0m0s")
		tried(t, m.signs)
		want(t, "filled", m.Readyz(), "shutdown", "started", "cache-pods", "watch-pods")
		want(t, "filled", m.Livez(), "watch-pods")
		time.Sleep(4 * time.Minute)
		want(t, "behind for 4m", m.Livez(), "watch-pods")
		want(t, "behind for 4m", m.Readyz(), "shutdown", "started", "cache-pods", "watch-pods: for 4m0s")
		m.Bounds = Bounds{Watch: time.Minute, Stale: time.Hour}
		want(t, "other bounds", m.Livez(), "watch-pods: for 4m0s")
		want(t, "other bounds", m.Readyz(), "shutdown", "started", "cache-pods", "watch-pods")
	})
}

// tried lets the signs see a request for pods, and its answer.
func tried(t *testing.T, signs *informers.Signs) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://host/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signs.Wrap(answering{}).RoundTrip(r); err != nil {
		t.Fatal(err)
	}
}

type answering struct{}

func (answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestReadyFromTheStartToTheEnd(t *testing.T) {
	client, _ := server(t, http.StatusOK)
	free := make(chan struct{})
	w := worker{make(chan struct{}), func(ctx context.Context) error { <-ctx.Done(); <-free; return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	m, err := New(ctx, config(client, "a"), []Controller{entry("a", w)})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "built", m.Readyz(), "shutdown", "started: not been started")
	want(t, "MH-18, built", m.Healthz())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	<-w.runs
	want(t, "runs", m.Readyz(), "shutdown", "started")
	want(t, "MH-17, runs", m.Healthz(), "a")
	cancel()
	for m.Readyz()[0].Err() == nil { // context.AfterFunc
		time.Sleep(time.Millisecond)
	}
	want(t, "is about to end", m.Readyz(), "shutdown: about to end", "started")
	want(t, "is about to end", m.Livez())
	close(free)
	if err := <-done; err != nil {
		t.Error(err)
	}
	want(t, "has ended", m.Healthz())
}
