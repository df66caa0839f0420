package apis

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

var (
	websites = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "websites"}
	pods     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// answer is what a server says when it is asked for a version of a group.
type answer struct {
	code      int
	resources string
}

var (
	with      = answer{http.StatusOK, "websites websites/status"}
	without   = answer{http.StatusOK, "gadgets"}
	noVersion = answer{code: http.StatusNotFound}
	down      = answer{code: http.StatusServiceUnavailable}
	forbidden = answer{code: http.StatusForbidden}
)

// server answers discovery as the test says, and counts the questions.
type server struct {
	says  atomic.Pointer[answer]
	asked atomic.Int32
	path  atomic.Pointer[string]
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	s.path.Store(&r.URL.Path)
	says := s.says.Load()
	var body any = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(says.code)}
	if says.code == http.StatusOK {
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
		for _, name := range strings.Fields(says.resources) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		body = list
	}
	text, err := json.Marshal(body)
	return &http.Response{
		StatusCode: says.code, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(text))),
	}, err
}

// start follows resources of a server that answers so, until the test ends.
func start(t *testing.T, first answer, resources ...schema.GroupVersionResource) (*APIs, *server) {
	t.Helper()
	s := &server{}
	s.says.Store(&first)
	apis, err := New(&rest.Config{Host: "http://api", Transport: s, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	apis.Follow(resources...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); apis.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return apis, s
}

func TestWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []answer
		missing bool
	}{
		{"is served", []answer{with}, false},
		{"no such version", []answer{noVersion}, true},
		{"no such resource in the version", []answer{without}, true},
		{"discovery has never answered", []answer{down}, false},
		{"discovery is refused", []answer{forbidden}, false},
		{"comes", []answer{noVersion, with}, false},
		{"goes with its version", []answer{with, noVersion}, true},
		{"goes", []answer{with, without}, true},
		{"an aggregated API that is down", []answer{with, down}, false},
		{"missing, and then discovery fails", []answer{noVersion, down}, true},
		{"comes while discovery fails", []answer{noVersion, down, with}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				apis, s := start(t, c.answers[0], websites)
				for _, next := range c.answers[1:] {
					s.says.Store(&next)
					time.Sleep(2 * servedPause)
				}
				r, missing := apis.Missing(websites)
				if missing != c.missing || missing && r != websites {
					t.Errorf("%v is missing: %v", r, missing)
				}
			})
		})
	}
}

// An API that is missing is asked for soon, one that is there seldom, and a server that cannot answer ever more seldom.
func TestHowOftenDiscoveryIsAsked(t *testing.T) {
	for _, c := range []struct {
		name        string
		says        answer
		least, most int32 // in an hour
	}{
		{"served", with, 8, 13},
		{"missing", noVersion, 80, 121},
		{"failing", down, 80, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, s := start(t, c.says, websites, websites)
				time.Sleep(time.Hour)
				if n := s.asked.Load(); n < c.least || n > c.most {
					t.Errorf("asked %d times in an hour", n)
				}
			})
		})
	}
}

// Whoever asks is answered at once, and many who ask do not make many questions.
func TestAskNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apis, s := start(t, with, websites)
		if path := *s.path.Load(); path != "/apis/example.com/v1" {
			t.Error(path)
		}
		time.Sleep(2 * time.Second)
		before := s.asked.Load()
		s.says.Store(&noVersion)
		for range 1000 {
			apis.Ask()
			synctest.Wait()
		}
		if _, missing := apis.Missing(websites); !missing {
			t.Error("not asked at once")
		}
		time.Sleep(5 * time.Second)
		if n := s.asked.Load() - before; n > 2 {
			t.Errorf("asked %d times", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if _, s := start(t, with, pods); *s.path.Load() != "/api/v1" {
			t.Error(*s.path.Load())
		}
	})
}

// Nothing is asked of a server of which nothing is followed.
func TestNothingIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apis, s := start(t, noVersion)
		time.Sleep(time.Hour)
		if apis.Ask(); s.asked.Load() != 0 || apis.Gate(pods, "pods") != nil {
			t.Error("it asks all the same")
		}
	})
	var none *APIs
	none.Ask()
	if _, missing := none.Missing(websites); missing || none.Gate(websites, "websites") != nil {
		t.Error("nil")
	}
}

func TestWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		log := logger.GetSink().(ktesting.Underlier).GetBuffer()
		apis, s := start(t, noVersion, websites)
		var runs, running, off atomic.Int32
		ended := make(chan error, 1)
		failure := errors.New("broken")
		broken := make(chan struct{})
		go func() {
			ended <- apis.While(klog.NewContext(t.Context(), logger), []schema.GroupVersionResource{websites}, func() { off.Add(1) },
				func(ctx context.Context) error {
					runs.Add(1)
					running.Add(1)
					defer running.Add(-1)
					select {
					case <-ctx.Done():
						return ctx.Err() // of which nothing comes
					case <-broken:
						return failure
					}
				})
		}()
		expect := func(when string, wantRuns, wantRunning, wantOff int32) {
			t.Helper()
			time.Sleep(time.Hour)
			if runs.Load() != wantRuns || running.Load() != wantRunning || off.Load() != wantOff {
				t.Errorf("%s: %d runs, %d running, off %d times", when, runs.Load(), running.Load(), off.Load())
			}
		}
		expect("missing at the start", 0, 0, 1)
		s.says.Store(&with)
		expect("comes", 1, 1, 1)
		s.says.Store(&down)
		expect("discovery fails", 1, 1, 1)
		s.says.Store(&without)
		expect("goes", 1, 0, 2)
		s.says.Store(&down)
		expect("discovery fails while it is off", 1, 0, 2)
		s.says.Store(&with)
		expect("comes again", 2, 1, 2)
		if n := strings.Count(log.String(), "switched off until"); n != 2 {
			t.Errorf("%d lines say that it is off:\n%s", n, log.String())
		}
		if n := strings.Count(log.String(), "switched on"); n != 2 || !strings.Contains(log.String(), `missing="websites.v1.example.com"`) {
			t.Errorf("%d lines say that it is on:\n%s", n, log.String())
		}
		close(broken)
		if err := <-ended; !errors.Is(err, failure) {
			t.Errorf("its own failure is lost: %v", err)
		}
	})
}

// What is not known yet is waited for, and counts as served when discovery cannot tell.
func TestWhileDiscoveryFailsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apis, _ := start(t, down, websites, pods)
		ctx, cancel := context.WithCancel(t.Context())
		err := apis.While(ctx, []schema.GroupVersionResource{websites, pods}, func() { t.Error("off") }, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// store is an informer whose cache the test fills.
type store struct {
	cache.SharedIndexInformer
	synced  bool
	version string
}

func (s *store) HasSynced() bool { return s.synced }

func (s *store) GetStore() cache.Store {
	return versioned{cache.NewStore(cache.MetaNamespaceKeyFunc), s.version}
}

type versioned struct {
	cache.Store
	version string
}

func (v versioned) LastStoreSyncResourceVersion() string { return v.version }

// A cache waits while its API is missing, is listed anew when it returns, and is not synced before it shows that list.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apis, s := start(t, noVersion, websites)
		gate := apis.Gate(websites, "websites")
		if gate != apis.Gate(websites, "websites") ||
			apis.Gate(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}, "gadgets") != nil {
			t.Fatal("one gate for each cache of what is followed")
		}
		filled := &store{}
		informer := Informer{SharedIndexInformer: filled, Gate: gate}
		missing := apierrors.NewNotFound(websites.GroupResource(), "")
		var tries atomic.Int32
		request := func() (string, error) {
			tries.Add(1)
			if *s.says.Load() == with {
				return "list", nil
			}
			return "", missing
		}
		listed := make(chan error, 1)
		list := func() {
			_, err := Do(t.Context(), gate, false, request)
			listed <- err
		}

		go list()
		time.Sleep(time.Hour)
		if n := tries.Load(); n != 0 || !gate.Missing() {
			t.Errorf("%d requests while the API is missing", n)
		}
		s.says.Store(&with)
		if err := <-listed; err != nil || gate.Missing() || informer.HasSynced() {
			t.Errorf("it has come: %v", err)
		}
		gate.Listed("10")
		filled.synced, filled.version = true, "10"
		if !informer.HasSynced() {
			t.Error("filled, and not synced")
		}

		s.says.Store(&noVersion)
		if _, err := Do(t.Context(), gate, true, request); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch of what is missing goes on: %v", err)
		}
		if informer.HasSynced() {
			t.Error("synced while the API is missing")
		}
		go list()
		time.Sleep(time.Hour)
		s.says.Store(&with)
		if err := <-listed; err != nil || informer.HasSynced() {
			t.Errorf("synced before it is listed anew: %v", err)
		}
		convert := gate.Listing(nil)
		convert(watch.Event{Type: watch.Added, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "20"}}})
		if informer.HasSynced() {
			t.Error("synced after the first of its objects")
		}
		convert(watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "20", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}})
		if informer.HasSynced() {
			t.Error("synced before the cache shows what was listed")
		}
		if filled.version = "20"; !informer.HasSynced() {
			t.Error("never synced again")
		}
	})
}

// What the server does not find although discovery has it is an error, as everything else is.
func TestGateOfWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apis, s := start(t, with, websites)
		time.Sleep(time.Minute)
		before := s.asked.Load()
		for _, want := range []error{apierrors.NewNotFound(websites.GroupResource(), ""), errors.New("away")} {
			if _, err := Do(t.Context(), apis.Gate(websites, "w"), true,
				func() (runtime.Object, error) { return nil, want }); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		if n := s.asked.Load() - before; n != 1 {
			t.Errorf("discovery was asked %d times", n)
		}
		if answer, err := Do(t.Context(), nil, true, func() (string, error) { return "yes", nil }); answer != "yes" || err != nil {
			t.Error(answer, err)
		}
	})
}
