package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// logged collects log lines up to the verbosity, so that a test can look at them.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) logger(verbosity int) logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, args)
	}, funcr.Options{Verbosity: verbosity})
}

func (l *logged) count(substring string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, substring) {
			n++
		}
	}
	return n
}

func set(uid string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{Kind: "ReplicaSet", APIVersion: "apps/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: types.UID(uid), ResourceVersion: "7"},
	}
}

// echo answers the creation of an event with the event.
func echo(a **fakeAPI) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		log := (*a).log()
		var e corev1.Event
		if err := json.Unmarshal(log[len(log)-1].Body, &e); err == nil && e.Name == "" {
			e.Name = r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		}
		reply(w, 201, &e)
	}
}

func recorderConfig(a *fakeAPI) *rest.Config {
	return NewBuilder(a.config, Options{Component: component, ContentType: "application/json"}).Config("replicaset-controller")
}

func TestEventsCI40toCI42(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var a *fakeAPI
		a = serve(t, func(w http.ResponseWriter, r *http.Request) { echo(&a)(w, r) })
		var log logged
		ctx := klog.NewContext(t.Context(), log.logger(3))
		recorder, stop := NewRecorder(ctx, clientset(t, recorderConfig(a)).CoreV1(), "replicaset-controller", 3)
		defer stop()
		time.Sleep(1500 * time.Millisecond) // so that times are no whole seconds
		for range 3 {
			recorder.Eventf(set("u"), corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", "web-x")
			synctest.Wait()
		}
		requests := a.log()
		if len(requests) != 3 || requests[0].Method != "POST" || requests[0].Path != "/api/v1/namespaces/ns/events" ||
			requests[1].Method != "PATCH" || requests[2].Method != "PATCH" {
			t.Fatalf("CI-40, CI-42: requests %v", requests)
		}
		var e corev1.Event
		if err := json.Unmarshal(requests[0].Body, &e); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^web\.[0-9a-f]+$`).MatchString(e.Name) {
			t.Errorf("CI-41: name %q", e.Name)
		}
		involved := corev1.ObjectReference{Kind: "ReplicaSet", APIVersion: "apps/v1", Namespace: "ns", Name: "web", UID: "u",
			ResourceVersion: "7"}
		if e.InvolvedObject != involved {
			t.Errorf("CI-41: involvedObject %v", e.InvolvedObject)
		}
		if e.Source != (corev1.EventSource{Component: "replicaset-controller"}) || e.ReportingController != "replicaset-controller" ||
			e.ReportingInstance != "" {
			t.Errorf("CI-40: source %v, reporting %q %q", e.Source, e.ReportingController, e.ReportingInstance)
		}
		if !e.EventTime.IsZero() || e.Count != 1 || e.FirstTimestamp.Nanosecond() != 0 || e.FirstTimestamp.IsZero() {
			t.Errorf("CI-41: eventTime %v, count %d, first %v", e.EventTime, e.Count, e.FirstTimestamp)
		}
		if !strings.Contains(string(requests[2].Body), `"count":3`) {
			t.Errorf("CI-42: patch %s", requests[2].Body)
		}
		if n := log.count("Event occurred"); n != 3 {
			t.Errorf("CI-46: logged %d times: %q", n, log.lines)
		}
	})
}

func TestEventVerbosityCI46(t *testing.T) {
	for _, c := range []struct{ of, at, want int }{{3, 2, 0}, {3, 3, 1}, {0, 0, 1}} {
		bubble(t, func(t *testing.T) {
			var a *fakeAPI
			a = serve(t, func(w http.ResponseWriter, r *http.Request) { echo(&a)(w, r) })
			var log logged
			ctx := klog.NewContext(t.Context(), log.logger(c.at))
			recorder, stop := NewRecorder(ctx, clientset(t, recorderConfig(a)).CoreV1(), "x", klog.Level(c.of))
			defer stop()
			recorder.Event(set("u"), corev1.EventTypeNormal, "R", "m")
			synctest.Wait()
			if n := log.count("Event occurred"); n != c.want {
				t.Errorf("CI-46: at verbosity %d, an event of verbosity %d was logged %d times", c.at, c.of, n)
			}
		})
	}
}

func TestEventAggregationCI43CI44(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var a *fakeAPI
		a = serve(t, func(w http.ResponseWriter, r *http.Request) { echo(&a)(w, r) })
		recorder, stop := NewRecorder(t.Context(), clientset(t, recorderConfig(a)).CoreV1(), "replicaset-controller", 3)
		defer stop()
		for i := range 100 {
			recorder.Eventf(set("u"), corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %d", i)
			synctest.Wait()
		}
		requests := a.log()
		if len(requests) != 25 {
			t.Errorf("CI-44: %d requests, want the burst of 25", len(requests))
		}
		combined := 0
		for _, r := range requests {
			if strings.Contains(string(r.Body), "(combined from similar events): ") {
				combined++
			}
		}
		if combined < 15 || combined > 16 {
			t.Errorf("CI-43: %d combined events", combined)
		}
		recorder.Event(set("another"), corev1.EventTypeNormal, "SuccessfulCreate", "another object")
		recorder.Event(set("u"), corev1.EventTypeWarning, "FailedCreate", "another type")
		synctest.Wait()
		if n := len(a.log()); n != 27 {
			t.Errorf("CI-44: the limit is per object and type: %d requests", n)
		}
		time.Sleep(300 * time.Second)
		for i := range 3 {
			recorder.Eventf(set("u"), corev1.EventTypeNormal, "SuccessfulCreate", "later: %d", i)
			synctest.Wait()
		}
		if n := len(a.log()); n != 28 {
			t.Errorf("CI-44: one more per 300s: %d requests", n)
		}
	})
}

func TestEventRetriesCI45(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   int
		log    string
	}{
		"refused": {func(w http.ResponseWriter, r *http.Request) { refuse(w, 403, metav1.StatusReasonForbidden) }, 1,
			"Server rejected event"},
		"namespace terminating": {func(w http.ResponseWriter, r *http.Request) {
			reply(w, 403, metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 403, Reason: "Forbidden",
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
			})
		}, 1, ""},
		"no connection": {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, 12, "retry limit exceeded"},
		"no answer":     {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 12, "retry limit exceeded"},
	} {
		t.Run("CI-45: "+name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := serve(t, c.answer)
				var log logged
				ctx := klog.NewContext(t.Context(), log.logger(0))
				recorder, stop := NewRecorder(ctx, clientset(t, recorderConfig(a)).CoreV1(), "x", 3)
				defer stop()
				recorder.Event(set("u"), corev1.EventTypeNormal, "R", "m")
				time.Sleep(time.Hour)
				if n := len(a.log()); n != c.want {
					t.Errorf("%d requests, want %d", n, c.want)
				}
				if c.log == "" && len(log.lines) != 0 || log.count(c.log) == 0 && c.log != "" {
					t.Errorf("log: %q", log.lines)
				}
			})
		})
	}
}

func TestEventsNeverBlockCI45(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		var log logged
		ctx := klog.NewContext(t.Context(), log.logger(0))
		recorder, stop := NewRecorder(ctx, clientset(t, recorderConfig(a)).CoreV1(), "x", 3)
		begin := time.Now()
		for i := range 5000 {
			recorder.Event(set(fmt.Sprint(i)), corev1.EventTypeNormal, "R", "m")
		}
		synctest.Wait()
		stop()
		stop() // once more does no harm
		synctest.Wait()
		recorder.Event(set("u"), corev1.EventTypeNormal, "R", "after the end")
		if got := time.Since(begin); got != 0 {
			t.Errorf("recording and stopping took %v", got)
		}
		if n := log.count("Unable to write event"); n != 0 {
			t.Errorf("the end of the recorder was logged as %d errors", n)
		}
	})
}

// The buffers hold what comes faster than it is written. It is written one after the other all the same: a server that
// has much to do should do it for the rollouts.
func TestEventsOfManyRolloutsAreNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var written, atOnce atomic.Int32
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if n := atOnce.Add(1); n > 1 {
				t.Errorf("%d events at once", n)
			}
			time.Sleep(20 * time.Millisecond)
			atOnce.Add(-1)
			written.Add(1)
			reply(w, 201, &corev1.Event{})
		})
		recorder, stop := NewRecorder(t.Context(), clientset(t, recorderConfig(a)).CoreV1(), "x", 3)
		defer stop()
		const events = 3000
		for i := range events {
			recorder.Event(set(fmt.Sprint(i)), corev1.EventTypeNormal, "R", "m")
			if i%3 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		time.Sleep(time.Minute)
		if n := written.Load(); n != events {
			t.Errorf("%d of %d events were written", n, events)
		}
	})
}

func TestEventsEndWithContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var n atomic.Int32
		a := serve(t, func(w http.ResponseWriter, r *http.Request) { n.Add(1); reply(w, 201, &corev1.Event{}) })
		ctx, cancel := context.WithCancel(t.Context())
		recorder, _ := NewRecorder(ctx, clientset(t, recorderConfig(a)).CoreV1(), "x", 3)
		recorder.Event(set("u"), corev1.EventTypeNormal, "R", "m")
		synctest.Wait()
		cancel()
		synctest.Wait() // all goroutines of the recorder end, or the bubble would complain
		recorder.Event(set("u2"), corev1.EventTypeNormal, "R", "m")
		synctest.Wait()
		if n.Load() != 1 {
			t.Errorf("%d events were written", n.Load())
		}
	})
}

// A context that has ended already is no error: the process ends, and logs nothing about it.
func TestEventsOfEndedContext(t *testing.T) {
	for range 100 {
		bubble(t, func(t *testing.T) {
			var log logged
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), log.logger(0)))
			cancel()
			_, stop := NewRecorder(ctx, nil, "x", 3)
			synctest.Wait()
			stop()
			if len(log.lines) > 0 {
				t.Fatalf("logged: %q", log.lines)
			}
		})
	}
}

// A recorder that records nothing has neither buffers nor goroutines: most controllers have no events for hours.
func TestQuietRecordersCostNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		NewRecorder(t.Context(), nil, "quiet", 3)
	}
	if more := runtime.NumGoroutine() - before; more > 10 { // tests that have ended may leave some that are about to end
		t.Errorf("100 recorders have %d goroutines", more)
	}
	bytes := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewRecorder(t.Context(), nil, "quiet", 3)
		}
	}).AllocedBytesPerOp()
	if bytes > 16<<10 {
		t.Errorf("a recorder has %d bytes", bytes)
	}
}
