package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
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

// fakeWorker is a controller that says when it runs, and ends as it is told.
type fakeWorker struct {
	runs chan struct{}
	end  func(ctx context.Context) error
}

func (w fakeWorker) Run(ctx context.Context) error {
	close(w.runs)
	return w.end(ctx)
}

func entry(name string, w fakeWorker) Controller {
	return Controller{Name: name, Account: name, Init: func(Context) (Runner, error) { return w, nil }}
}

func untilDone(ctx context.Context) error { <-ctx.Done(); return nil }

func options(controllers ...Controller) Options {
	return Options{Component: "test", Controllers: controllers, ShutdownTimeout: 5 * time.Second}
}

// run runs a manager until it ends.
func run(ctx context.Context, client *rest.Config, o Options) error {
	m, err := New(client, o)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

func TestRunsWhatIsOnUntilToldToEnd(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	client, others := server(t, http.StatusOK)
	on, off := fakeWorker{make(chan struct{}), untilDone}, fakeWorker{make(chan struct{}), untilDone}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	o := options(entry("on", on), entry("off", off))
	o.Off = map[string]string{"off": "nobody wants it"}
	go func() { done <- run(ctx, client, o) }()
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
	good := fakeWorker{make(chan struct{}), untilDone}
	bad := fakeWorker{make(chan struct{}), func(context.Context) error { <-good.runs; return errors.New("no cache") }}
	err := run(t.Context(), client, options(entry("good", good), entry("bad", bad)))
	if err == nil || err.Error() != "controller bad: no cache" {
		t.Errorf("got %v", err)
	}
}

func TestControllersThatDoNotEnd(t *testing.T) { // CLI-24
	client, _ := server(t, http.StatusOK)
	stuck, free := make(chan struct{}), make(chan struct{})
	w := fakeWorker{stuck, func(context.Context) error { <-free; return nil }}
	c := options(entry("stuck", w))
	c.ShutdownTimeout = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx, client, c) }()
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
	}{
		{"healthy", http.StatusOK},
		{"does not tell us", http.StatusForbidden},
		{"has no such path", http.StatusNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _ := server(t, c.status)
			w := fakeWorker{make(chan struct{}), func(context.Context) error { return errors.New("started") }}
			err := run(t.Context(), client, options(entry("a", w)))
			if err == nil || !strings.Contains(err.Error(), "started") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// away is an API server in virtual time that answers with the status until it is healthy; 0 is no answer, -1 none ever.
type away struct{ status atomic.Int32 }

func (a *away) RoundTrip(r *http.Request) (*http.Response, error) {
	switch status := int(a.status.Load()); status {
	case 0:
		return nil, errors.New("connection refused")
	case -1:
		<-r.Context().Done()
		return nil, r.Context().Err()
	default:
		return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
	}
}

// TestAnAPIServerThatIsAway is waited for as long as it takes, in virtual time: not ready, with a line a minute, and with an end as
// soon as it is told to.
func TestAnAPIServerThatIsAway(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		check  string // of the reason of readyz
		log    string
	}{
		{"unreachable", 0, "connection refused", "INFO Waiting for the API server to be healthy"},
		{"silent", -1, "context deadline exceeded", "INFO Waiting for the API server to be healthy"},
		{"not healthy", http.StatusInternalServerError, "waiting for the API server", "INFO Waiting for the API server to be healthy"},
		{"does not know us", http.StatusUnauthorized, "provide credentials",
			"ERROR The API server does not know this process, waiting until it does"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
				log := logger.GetSink().(ktesting.Underlier).GetBuffer()
				server := &away{}
				server.status.Store(int32(test.status))
				w := fakeWorker{make(chan struct{}), untilDone}
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
				m, err := New(&rest.Config{Host: "http://api", Transport: server}, options(entry("a", w)))
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error)
				go func() { done <- m.Run(ctx) }()
				time.Sleep(time.Hour + time.Second) // a line comes each minute, and the log is read between two of them
				want(t, "after an hour", m.Readyz(), "shutdown", "started: "+test.check)
				want(t, "after an hour", m.Livez())
				said := log.String()
				if n := strings.Count(said, test.log); n < 55 || n > 61 || strings.Count(said, "\n") != n {
					t.Errorf("%d lines in an hour:\n%s", n, said)
				}
				server.status.Store(http.StatusOK)
				<-w.runs
				want(t, "it is there", m.Readyz(), "shutdown", "started", "a-rights")
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				start, server := time.Now(), &away{}
				server.status.Store(int32(test.status))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute+300*time.Millisecond)
				defer cancel()
				if err := run(ctx, &rest.Config{Host: "http://api", Transport: server}, options()); err != nil {
					t.Errorf("CLI-63: told to end while it waits: %v", err)
				}
				if late := time.Since(start); late > 20*time.Minute+301*time.Millisecond {
					t.Errorf("it ended after %v", late)
				}
			})
		})
	}
}

// refusing is an API server in virtual time that is healthy, and refuses all else: the lease with 401, what is listed and watched
// with 403, until it is told to allow that.
type refusing struct{ allows atomic.Bool }

func (s *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusForbidden, "{}"
	switch {
	case r.URL.Path == "/healthz":
		status = http.StatusOK
	case strings.Contains(r.URL.Path, "/leases"):
		status = http.StatusUnauthorized
		if s.allows.Load() {
			status, body = http.StatusOK,
				`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"l"},"spec":{"holderIdentity":"another","leaseDurationSeconds":3600}}`
		}
	case s.allows.Load() && r.URL.Query().Get("sendInitialEvents") != "":
		status = http.StatusUnprocessableEntity
	case s.allows.Load() && r.URL.Query().Get("watch") != "":
		open, _ := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = open.Close() })
		return &http.Response{StatusCode: http.StatusOK, Body: open, Request: r, Header: http.Header{"Content-Type": {"application/json"}}},
			nil
	case s.allows.Load():
		status, body = http.StatusOK, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"}}`
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}}, nil
}

// TestWhatIsRefusedIsSaid: without its rights, or with an identity that is not valid, a process is not ready, and says why as an
// error.
func TestWhatIsRefusedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		log := logger.GetSink().(ktesting.Underlier).GetBuffer()
		server := &refusing{}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		o := options(Controller{Name: "a", Account: "a", Init: func(c Context) (Runner, error) {
			_, err := informers.Pods(c.Informers)
			return fakeWorker{make(chan struct{}), untilDone}, err
		}})
		o.LeaderElect = true
		m, err := New(&rest.Config{Host: "http://api", Transport: server}, o)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(5 * time.Second)
		want(t, "at the beginning, when it may pass", m.Readyz(), "shutdown", "started", "lease", "cache-pods: not been filled",
			"watch-pods")
		time.Sleep(time.Hour)
		want(t, "after an hour", m.Readyz(), "shutdown", "started",
			"lease: the API server refuses to let this process get leases.coordination.k8s.io: 401 Unauthorized",
			"cache-pods: not been filled",
			"watch-pods: the API server refuses to let this process list pods: 403 Forbidden")
		for _, line := range []string{
			`ERROR A cache cannot be kept up to date, the API server refuses it err=`, `ERROR Error retrieving lease lock err=`,
		} {
			if !strings.Contains(log.String(), line) {
				t.Errorf("not logged: %s\n%s", line, log)
			}
		}
		server.allows.Store(true)
		time.Sleep(2 * time.Minute)
		want(t, "it is allowed", m.Readyz(), "shutdown", "started", "lease", "cache-pods", "watch-pods")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAControllerThatCannotBeBuilt(t *testing.T) {
	client, _ := server(t, http.StatusOK)
	broken := Controller{Name: "broken", Init: func(Context) (Runner, error) { return nil, errors.New("no index") }}
	err := run(t.Context(), client, options(broken))
	if err == nil || err.Error() != "controller broken: no index" {
		t.Errorf("got %v", err)
	}
	other := Controller{Name: "other", Init: func(Context) (Runner, error) { return nil, errors.New("no file") }}
	err = run(t.Context(), client, options(broken, other))
	if err == nil || err.Error() != "[controller broken: no index, controller other: no file]" {
		t.Errorf("REG-82: got %v", err)
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
			m := &instance{Options: Options{LeaderElect: test.lease != "", Lacking: test.lacking, ShutdownTimeout: -1},
				informers: informers.NewFactory(nil, 0), led: func() {}}
			m.brakes = newBrakeSet(brake.Budget{}, identity.NewBuilder(&rest.Config{}, identity.Options{}), "test")
			m.shared.Tracker = freshness.NewTracker()
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

// A gate is what the options say, and as in Kubernetes if they say nothing.
func TestEnabled(t *testing.T) {
	for _, c := range []struct {
		name  string
		gates map[string]bool
		want  string
	}{
		{"nobody says", nil, "true false false"},
		{"off", map[string]bool{"PodDeletionCost": false}, "false false false"},
		{"on", map[string]bool{"StatefulSetRecreateStrategy": true}, "true true false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _ := server(t, http.StatusOK)
			var got string
			o := options(Controller{Name: "toy", Account: "toy", Init: func(c Context) (Runner, error) {
				got = fmt.Sprint(c.Enabled("PodDeletionCost"), c.Enabled("StatefulSetRecreateStrategy"), c.Enabled("NoSuchGate"))
				return nil, Off{Why: "there is nothing to do"}
			}})
			o.FeatureGates = c.gates
			if _, err := New(client, o); err != nil || got != c.want {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	if _, err := New(&rest.Config{}, Options{FeatureGates: map[string]bool{"PodDeletionCosts": true}}); err == nil ||
		!strings.Contains(err.Error(), "PodDeletionCosts") {
		t.Errorf("a gate with a wrong name: %v", err)
	}
}

// What runs by default follows from the entry and the defaults of its gates.
func TestOnByDefault(t *testing.T) {
	for _, c := range []struct {
		entry Controller
		want  bool
	}{
		{Controller{}, true},
		{Controller{OffByDefault: true}, false},
		{Controller{Gates: []string{"APIServerIdentity"}}, true},
		{Controller{Gates: []string{"APIServerIdentity", "StorageVersionAPI"}}, false},
	} {
		if got := c.entry.OnByDefault(); got != c.want {
			t.Errorf("%+v: %t", c.entry, got)
		}
	}
}

// Discovery is asked for what a controller uses behind a feature gate only while the gate is on.
func TestREG92GatedUses(t *testing.T) {
	client, _ := server(t, http.StatusOK)
	always, gated := schema.GroupVersionResource{Version: "v1", Resource: "always"}, schema.GroupVersionResource{Version: "v1", Resource: "gated"}
	for _, on := range []bool{false, true} {
		o := options(Controller{Name: "toy", Account: "toy", Uses: []schema.GroupVersionResource{always},
			GatedUses: map[string][]schema.GroupVersionResource{"CompositePodGroup": {gated}},
			Init:      func(Context) (Runner, error) { return fakeWorker{}, nil }})
		o.FeatureGates = map[string]bool{"CompositePodGroup": on}
		built, err := New(client, o)
		if err != nil {
			t.Fatal(err)
		}
		m := built.current.Load()
		defer m.close()
		if m.apis.Gate(always, "") == nil || (m.apis.Gate(gated, "") != nil) != on {
			t.Errorf("with the gate %t, discovery is asked for other APIs", on)
		}
	}
}

// Controllers of the root identity are built first (TOK-1). What is off, or says that it cannot work, is logged in its words (TOK-2,
// REG-61).
func TestOrderAndLogOfBuilding(t *testing.T) {
	client, _ := server(t, http.StatusOK)
	var order []string
	entry := func(name string, root bool, runner Runner) Controller {
		return Controller{Name: name, Account: name, Root: root, Init: func(Context) (Runner, error) {
			order = append(order, name)
			if runner == nil {
				return nil, Off{Why: "no file"}
			}
			return runner, nil
		}}
	}
	log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	off := entry("off", true, fakeWorker{})
	unsigned := Controller{Name: "unsigned", Init: func(Context) (Runner, error) { return nil, Off{Why: "see --key", Log: "no key"} }}
	gated := entry("gated", false, fakeWorker{})
	gated.Gates, gated.Needs = []string{"APIServerIdentity", "StorageVersionAPI"}, []schema.GroupVersionResource{{Version: "v9"}}
	o := options(entry("a", false, fakeWorker{}), entry("b", false, nil), entry("token", true, fakeWorker{}), off, unsigned, gated)
	o.Off, o.Missing, o.Logger = map[string]string{"off": "not asked for"}, []string{"far"}, log
	built, err := New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	m := built.current.Load()
	defer m.close()
	if got := strings.Join(order, " "); got != "token a b" {
		t.Errorf("built in the order %s", got)
	}
	text := log.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, want := range []string{`Warning: controller is disabled controller="off"`, `no key controller="unsigned" reason="see --key"`,
		`Warning: skipping controller controller="b" reason="no file"`,
		`Controller is disabled by a feature gate controller="gated" requiredFeatureGates=["APIServerIdentity","StorageVersionAPI"]`,
		`Warning: skipping controller controller="gated" reason="the feature gate StorageVersionAPI is off"`} {
		if !strings.Contains(text, want) {
			t.Errorf("not logged: %s\n%s", want, text)
		}
	}
	want := []OffState{{Name: "off", Reason: "not asked for"}, {Name: "b", Reason: "no file"}, {Name: "unsigned", Reason: "see --key"},
		{Name: "gated", Reason: "the feature gate StorageVersionAPI is off"}, {Name: "far", Reason: "this build does not have it"}}
	if got := m.OffStates(); !slices.Equal(got, want) {
		t.Errorf("REG-101: %+v", got)
	}
	if len(m.accounts) != 1 || m.accounts[0] != "a" {
		t.Errorf("accounts are made for %v", m.accounts)
	}
	if m.apis.Gate(gated.Needs[0], "") != nil {
		t.Error("discovery is asked for what a controller needs whose gate is off")
	}
	o.FeatureGates = map[string]bool{"StorageVersionAPI": true}
	if built, err = New(client, o); err != nil {
		t.Fatal(err)
	}
	defer built.current.Load().close()
	if got := order[len(order)-1]; got != "gated" {
		t.Errorf("REG-60: the gates are on, and the last controller that is built is %s", got)
	}
}
