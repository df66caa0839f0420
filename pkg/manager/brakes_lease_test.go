package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
)

// leasedAPI notes the events that are created, and has a lease, which is renewed by whoever leads.
type leasedAPI struct {
	mu          sync.Mutex
	annotations map[string]string
	version     int                     // of the lease
	renewals    func(map[string]string) // of the process that leads
	events      []corev1.Event
}

func (a *leasedAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var e corev1.Event
	if r.Method != http.MethodPost {
		return nil, fmt.Errorf("%s %s", r.Method, r.URL.Path)
	}
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		return nil, err
	}
	a.events = append(a.events, e)
	body, err := json.Marshal(e)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body))}, err
}

// Metadata implements annotatedLease.
func (a *leasedAPI) Metadata() metav1.ObjectMeta {
	a.mu.Lock()
	defer a.mu.Unlock()
	return metav1.ObjectMeta{Namespace: "kube-system", Name: "lease", UID: "1", Annotations: maps.Clone(a.annotations)}
}

// Annotate implements annotatedLease.
func (a *leasedAPI) Annotate(f func(map[string]string)) { a.renewals = f }

// renew renews the lease every two seconds, until ctx ends and once more: a leader keeps it while its work ends.
func (a *leasedAPI) renew(ctx context.Context) {
	for {
		for !a.tryRenew() {
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
		}
	}
}

// tryRenew reports whether the lease was renewed, and had not changed meanwhile.
func (a *leasedAPI) tryRenew() bool {
	a.mu.Lock()
	version, changed := a.version, maps.Clone(a.annotations)
	a.mu.Unlock()
	if changed == nil {
		changed = map[string]string{}
	}
	a.renewals(changed)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.version != version {
		return false
	}
	a.annotations, a.version = changed, version+1
	return true
}

// annotate sets the annotation that releases brakes.
func (a *leasedAPI) annotate(names string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.annotations = maps.Clone(a.annotations); a.annotations == nil {
		a.annotations = map[string]string{}
	}
	a.version++
	if a.annotations[releaseAnnotation] = names; names == "" {
		delete(a.annotations, releaseAnnotation)
	}
}

// said returns an annotation.
func (a *leasedAPI) said(name string) string { return a.Metadata().Annotations[name] }

// told returns the events since the last call.
func (a *leasedAPI) told() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, e := range a.events {
		all = append(all, fmt.Sprintf("%s %s of %s %s: %s", e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message))
	}
	a.events = nil
	return strings.Join(all, "\n")
}

// lead runs the test with two brakes of a process that leads. At its end, all that is held is let go before the last renewal, as
// controllers do.
func (a *leasedAPI) lead(t *testing.T, elects bool, test func(garbage, pods *brake.Brake)) {
	t.Helper()
	s := &brakeSet{component: "test", root: func() (kubernetes.Interface, error) {
		return kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: a,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	}}
	garbage, pods := s.Add("garbage-collector-controller", "garbagecollector"), s.Add("pod-garbage-collector-controller", "podgc")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	if elects {
		s.Follow(a)
		running.Go(func() { a.renew(ctx) })
	}
	s.Begin()
	running.Go(func() { s.Run(ctx) })
	synctest.Wait()
	test(garbage, pods)
	cancel()
	for _, b := range []*brake.Brake{garbage, pods} {
		for _, h := range b.Noted(time.Now()) {
			b.Release(h.What, brake.NothingLeft)
		}
	}
	running.Wait()
	synctest.Wait()
}

// lead runs a test in which one process leads.
func lead(t *testing.T, elects bool, test func(a *leasedAPI, garbage, pods *brake.Brake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &leasedAPI{}
		a.lead(t, elects, func(garbage, pods *brake.Brake) { test(a, garbage, pods) })
	})
}

func TestAnOperatorReleasesABrake(t *testing.T) {
	lead(t, true, func(a *leasedAPI, garbage, pods *brake.Brake) {
		garbage.Hold(time.Now(), "all", "a reason")
		time.Sleep(20 * time.Second)
		if told := a.told(); told != "" {
			t.Errorf("told at once: %q", told)
		}
		time.Sleep(5 * time.Minute)
		want := "Warning BrakeHolds of Lease lease: garbage-collector-controller holds all: a reason. The annotation " +
			"controller-manager/release-brakes=garbage-collector-controller of this lease releases it."
		if told := a.told(); told != want {
			t.Errorf("told: %q", told)
		}
		for annotation, released := range map[string]bool{
			"": false, "nobody": false, "podgc": false, "garbagecollector": true, "podgc, garbage-collector-controller": true, "*": true,
			",": false,
		} {
			a.annotate(annotation)
			time.Sleep(15 * time.Second)
			if garbage.Released() != released || pods.Released() != (strings.Contains(annotation, "podgc") || annotation == "*") {
				t.Errorf("annotation %q: released %t %t", annotation, garbage.Released(), pods.Released())
			}
		}
		a.annotate("")
		time.Sleep(15 * time.Second)
		a.told()
		a.annotate("garbagecollector, nobody")
		time.Sleep(15 * time.Second)
		if told := a.told(); !strings.HasPrefix(told,
			"Warning BrakesReleased of Lease lease: The annotation controller-manager/release-brakes=garbagecollector, nobody of this "+
				"lease releases brakes until ") ||
			!strings.HasSuffix(told, ". There is no controller nobody.") {
			t.Errorf("told: %q", told)
		}
		garbage.Release("all", brake.ByProof)
		time.Sleep(15 * time.Second)
		if told := a.told(); told != "Normal BrakeReleased of Lease lease: garbage-collector-controller no longer holds all: an operator has released it" {
			t.Errorf("told: %q", told)
		}
		a.annotate("")
		time.Sleep(15 * time.Second)
		if told := a.told(); garbage.Released() ||
			told != "Normal BrakesWorkAgain of Lease lease: The annotation controller-manager/release-brakes=garbagecollector, nobody of "+
				"this lease is gone." {
			t.Errorf("still released: %t, told: %q", garbage.Released(), told)
		}
	})
}

// A release that is forgotten is told of by each leader, and ends after an hour, whoever leads. The next one is a new one.
func TestAForgottenReleaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &leasedAPI{}
		var until string
		a.lead(t, true, func(_, pods *brake.Brake) {
			a.annotate("podgc")
			time.Sleep(15 * time.Second)
			_, until, _ = strings.Cut(a.told(), "releases brakes until ")
			time.Sleep(40 * time.Minute)
			if !pods.Released() || a.said(releaseAnnotation) != "podgc" {
				t.Error("not released any more")
			}
		})
		a.lead(t, true, func(_, pods *brake.Brake) {
			if !pods.Released() {
				t.Error("the next leader does not obey from the beginning")
			}
			time.Sleep(15 * time.Second)
			want := "Warning BrakesReleased of Lease lease: The annotation controller-manager/release-brakes=podgc of this lease releases " +
				"brakes until " + until
			if told := a.told(); until == "" || told != want {
				t.Errorf("told: %q, want %q", told, want)
			}
			time.Sleep(20 * time.Minute)
			if pods.Released() || a.said(releaseAnnotation) != "" || a.said(brakesAnnotation) != "" {
				t.Errorf("released %t after an hour, annotations: %q %q",
					pods.Released(), a.said(releaseAnnotation), a.said(brakesAnnotation))
			}
			want = "Warning BrakesWorkAgain of Lease lease: The annotation controller-manager/release-brakes=podgc of this lease has been " +
				"there for an hour. It has no effect any more, and is removed."
			if told := a.told(); told != want {
				t.Errorf("told: %q", told)
			}
			a.annotate("podgc")
			time.Sleep(15 * time.Second)
			if !pods.Released() || !strings.Contains(a.told(), "BrakesReleased") {
				t.Error("the same release cannot be asked for again")
			}
		})
		time.Sleep(10 * time.Hour) // nobody leads
		a.lead(t, true, func(_, pods *brake.Brake) {
			if pods.Released() {
				t.Error("a release of yesterday counts")
			}
			time.Sleep(15 * time.Second)
			if told := a.told(); pods.Released() || a.said(releaseAnnotation) != "" || !strings.Contains(told, "BrakesWorkAgain") {
				t.Errorf("released %t, annotation %q, told: %q", pods.Released(), a.said(releaseAnnotation), told)
			}
		})
	})
}

// The lease says what is held, and for as long as it is; so the next leader knows, also if this one has let everything go because it ended.
func TestTheNextLeaderKnowsWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &leasedAPI{}
		a.lead(t, true, func(garbage, pods *brake.Brake) {
			time.Sleep(time.Minute)
			if said := a.said(brakesAnnotation); said != "" {
				t.Errorf("nothing is held: %q", said)
			}
			garbage.Hold(time.Now(), "all", "a reason")
			pods.Hold(time.Now(), "a moment", "a reason")
			time.Sleep(5 * time.Second)
			if said := a.said(brakesAnnotation); !strings.Contains(said, `"what":"a moment"`) {
				t.Errorf("the lease says %q", said)
			}
			pods.Release("a moment", brake.ByProof)
			time.Sleep(time.Minute)
			want := `{"holds":[{"controller":"garbage-collector-controller","what":"all","since":"2000-01-01T00:01:00Z"}]}`
			if said := a.said(brakesAnnotation); said != want {
				t.Errorf("the lease says %q", said)
			}
		})
		a.told()
		a.lead(t, true, func(garbage, pods *brake.Brake) {
			since, ok := garbage.Inherited(time.Now(), "all")
			if _, too := pods.Inherited(time.Now(), "all"); !ok || too || !since.Equal(time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)) {
				t.Errorf("inherited: %t since %s, by another controller: %t", ok, since, too)
			}
			garbage.Hold(time.Now(), "all", "a reason")
			time.Sleep(15 * time.Second)
			if told := a.told(); !strings.Contains(told, "BrakeHolds") {
				t.Errorf("told: %q", told)
			}
			garbage.Release("all", brake.ByProof)
			time.Sleep(15 * time.Second)
			if said := a.said(brakesAnnotation); said != "" || !strings.Contains(a.told(), "BrakeReleased") {
				t.Errorf("the lease says %q", said)
			}
		})
		a.lead(t, true, func(garbage, _ *brake.Brake) {
			if _, ok := garbage.Inherited(time.Now(), "all"); ok {
				t.Error("what has ended is inherited")
			}
		})
	})
}

// What is noted is bounded, and what others write in its place does no harm.
func TestNotes(t *testing.T) {
	var n brakesNote
	var held []brake.Hold
	for i := range 100 {
		held = append(held, brake.Hold{What: fmt.Sprint("what-", i), Since: time.Unix(int64(1000-i), 0)})
	}
	n.add("c", held)
	if len(n.Holds) != mostNoted || n.Holds[0].What != "what-99" {
		t.Errorf("%d are noted, first %v", len(n.Holds), n.Holds[0])
	}
	for _, text := range []string{"", "nonsense", "[]", `{"holds":7}`, `{"release":"x"}`} {
		if n := noteOf(map[string]string{brakesAnnotation: text}); len(n.Holds) > 0 || n.Release != nil {
			t.Errorf("%q says %v", text, n)
		}
	}
}

func TestWhatIsHeldForAMomentIsNotTold(t *testing.T) {
	lead(t, true, func(a *leasedAPI, garbage, pods *brake.Brake) {
		for range 10 {
			pods.Hold(time.Now(), "all", "a reason")
			time.Sleep(25 * time.Second)
			pods.Release("all", brake.ByProof)
		}
		time.Sleep(time.Minute)
		if told := a.told(); told != "" {
			t.Errorf("told %q", told)
		}
	})
}

func TestWithoutALease(t *testing.T) {
	lead(t, false, func(a *leasedAPI, garbage, pods *brake.Brake) {
		pods.Hold(time.Now(), "all", "a reason")
		time.Sleep(5 * time.Minute)
		pods.Release("all", brake.ByTime)
		time.Sleep(time.Minute)
		if told := a.told(); told != "" || pods.Released() {
			t.Errorf("told %q", told)
		}
	})
}
