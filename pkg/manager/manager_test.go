package manager

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/standalone-kcm/controller-manager/pkg/clients"
)

// server answers /healthz with the status, and counts everything else that it is asked.
func server(t *testing.T, status int) (*rest.Config, *atomic.Int32) {
	t.Helper()
	var others atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			others.Add(1)
		}
		w.WriteHeader(status)
	}))
	s.Config.SetKeepAlivesEnabled(false) // so that no idle connection looks like a leak
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}, &others
}

// worker is a controller that says when it runs, and ends as it is told.
type worker struct {
	runs chan struct{}
	end  func(ctx context.Context) error
}

func (w worker) Run(ctx context.Context) error {
	close(w.runs)
	return w.end(ctx)
}

func entry(name string, w worker) Controller {
	return Controller{Name: name, Account: name, Init: func(Context) (Runner, error) { return w, nil }}
}

func untilDone(ctx context.Context) error { <-ctx.Done(); return nil }

func config(client *rest.Config, on ...string) Config {
	c := Config{Client: client, Clients: clients.Options{Component: "test"}, Controllers: map[string]bool{}, ShutdownTimeout: 5 * time.Second}
	for _, name := range on {
		c.Controllers[name] = true
	}
	return c
}

func TestRunsWhatIsOnUntilToldToEnd(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	client, others := server(t, http.StatusOK)
	on, off := worker{make(chan struct{}), untilDone}, worker{make(chan struct{}), untilDone}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Run(ctx, config(client, "on"), []Controller{entry("on", on), entry("off", off)}) }()
	<-on.runs
	cancel()
	if err := <-done; err != nil {
		t.Errorf("CLI-63: %v", err)
	}
	select {
	case <-off.runs:
		t.Error("CLI-55: a controller that is off was run")
	default:
	}
	if n := others.Load(); n != 0 {
		t.Errorf("%d requests that nobody asked for", n)
	}
	goleak.VerifyNone(t, leaks, goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
}

func TestAFailingControllerEndsAll(t *testing.T) {
	client, _ := server(t, http.StatusOK)
	good := worker{make(chan struct{}), untilDone}
	bad := worker{make(chan struct{}), func(context.Context) error { <-good.runs; return errors.New("no cache") }}
	err := Run(t.Context(), config(client, "good", "bad"), []Controller{entry("good", good), entry("bad", bad)})
	if err == nil || err.Error() != "controller bad: no cache" {
		t.Errorf("got %v", err)
	}
}

func TestControllersThatDoNotEnd(t *testing.T) { // CLI-24
	client, _ := server(t, http.StatusOK)
	stuck, free := make(chan struct{}), make(chan struct{})
	w := worker{stuck, func(context.Context) error { <-free; return nil }}
	c := config(client, "stuck")
	c.ShutdownTimeout = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Run(ctx, c, []Controller{entry("stuck", w)}) }()
	<-stuck
	cancel()
	if err := <-done; !errors.Is(err, ErrShutdownTimeout) {
		t.Errorf("got %v", err)
	}
	close(free)
}

func TestServerAtStart(t *testing.T) { // CLI-58
	for _, c := range []struct {
		name   string
		status int
		want   string // in the error; empty: it starts
	}{
		{"healthy", http.StatusOK, ""},
		{"does not tell us", http.StatusForbidden, ""},
		{"has no such path", http.StatusNotFound, ""},
		{"does not know us", http.StatusUnauthorized, "failed to wait for apiserver being healthy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _ := server(t, c.status)
			w := worker{make(chan struct{}), func(context.Context) error { return errors.New("started") }}
			err := Run(t.Context(), config(client, "a"), []Controller{entry("a", w)})
			want := c.want
			if want == "" {
				want = "started"
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	t.Run("told to end while it waits", func(t *testing.T) {
		client, _ := server(t, http.StatusServiceUnavailable)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := Run(ctx, config(client), nil); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestAControllerThatCannotBeBuilt(t *testing.T) {
	client, _ := server(t, http.StatusOK)
	broken := Controller{Name: "broken", Init: func(Context) (Runner, error) { return nil, errors.New("no index") }}
	err := Run(t.Context(), config(client, "broken"), []Controller{broken})
	if err == nil || err.Error() != "controller broken: no index" {
		t.Errorf("got %v", err)
	}
}

// TestSaysWhatIsLacking: where the original is replaced by what has not all of its controllers, that is an error.
func TestSaysWhatIsLacking(t *testing.T) {
	for _, test := range []struct {
		name    string
		lease   string // empty: none
		lacking []string
		want    bool
	}{
		{"no lease", "", []string{"DaemonSets", "Jobs"}, true},
		{"the lease of the original", "kube-controller-manager", []string{"DaemonSets", "Jobs"}, true},
		{"a lease of its own, beside the original", "controller-manager", []string{"DaemonSets", "Jobs"}, false},
		{"nothing is lacking", "", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
			cancel()
			m := &Manager{Config: Config{LeaderElect: test.lease != "", Lacking: test.lacking}}
			m.LeaderElection.Name = test.lease
			if err := m.lead(ctx); err != nil {
				t.Fatal(err)
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			want := `ERROR This process takes the place of kube-controller-manager, but lacks controllers that a cluster needs willNotWork=["DaemonSets","Jobs"]`
			if got := strings.Count(log, want); got > 1 || (got == 1) != test.want || !test.want && log != "" {
				t.Errorf("logged: %s", log)
			}
		})
	}
}
