package brakes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// api is an API server that has a lease, and notes the events that are created.
type api struct {
	mu         sync.Mutex
	annotation string
	reads      int
	down       bool
	events     []corev1.Event
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var answer any = &metav1.Status{}
	switch {
	case a.down:
		return nil, fmt.Errorf("%s does not answer", r.URL.Path)
	case strings.HasSuffix(r.URL.Path, "/leases/lease"):
		a.reads++
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease", UID: "1"}}
		lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
		if a.annotation != "" {
			lease.Annotations = map[string]string{Annotation: a.annotation}
		}
		answer = lease
	case r.Method == http.MethodPost:
		var e corev1.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			return nil, err
		}
		a.events, answer = append(a.events, e), &e
	}
	body, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}, err
}

// annotate sets the annotation.
func (a *api) annotate(names string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.annotation = names
}

// readings returns how often the lease was read.
func (a *api) readings() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads
}

// told returns the events since the last call.
func (a *api) told() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, e := range a.events {
		all = append(all, fmt.Sprintf("%s %s of %s %s: %s", e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message))
	}
	a.events = nil
	return strings.Join(all, "\n")
}

// run runs the test with two brakes of a manager that leads.
func run(t *testing.T, lease plan.Key, test func(a *api, garbage, pods *brake.Brake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		s := &Set{component: "test", Lease: lease, root: func() (kubernetes.Interface, error) {
			return kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: a, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
		}}
		garbage, pods := s.Add("garbage-collector-controller", "garbagecollector"), s.Add("pod-garbage-collector-controller", "podgc")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		test(a, garbage, pods)
		cancel()
		<-ended
		synctest.Wait()
	})
}

var leaseKey = plan.Key{Namespace: "kube-system", Name: "lease"}

func TestAnOperatorReleasesABrake(t *testing.T) {
	run(t, leaseKey, func(a *api, garbage, pods *brake.Brake) {
		garbage.Hold(time.Now(), "all", "a reason")
		time.Sleep(20 * time.Second)
		if told := a.told(); told != "" || a.readings() > 0 {
			t.Errorf("told at once: %q, reads %d", told, a.readings())
		}
		time.Sleep(5 * time.Minute)
		want := "Warning BrakeHolds of Lease lease: garbage-collector-controller holds all: a reason. The annotation " +
			"controller-manager/release-brakes=garbage-collector-controller of this lease releases it."
		if told := a.told(); told != want {
			t.Errorf("told: %q", told)
		}
		for annotation, released := range map[string]bool{
			"": false, "nobody": false, "podgc": false, "garbagecollector": true, "podgc, garbage-collector-controller": true, "*": true, ",": false,
		} {
			a.annotate(annotation)
			time.Sleep(15 * time.Second)
			if garbage.Released() != released || pods.Released() != (strings.Contains(annotation, "podgc") || annotation == "*") {
				t.Errorf("annotation %q: released %t %t", annotation, garbage.Released(), pods.Released())
			}
		}
		a.annotate("garbagecollector")
		time.Sleep(15 * time.Second)
		garbage.Release("all", brake.ByProof)
		time.Sleep(15 * time.Second)
		if told := a.told(); told != "Normal BrakeReleased of Lease lease: garbage-collector-controller no longer holds all: an operator has released it" {
			t.Errorf("told: %q", told)
		}
		a.mu.Lock()
		a.down = true
		a.mu.Unlock()
		time.Sleep(time.Minute)
		if !garbage.Released() {
			t.Error("not released because the lease cannot be read")
		}
		a.mu.Lock()
		a.down = false
		a.mu.Unlock()
		a.annotate("")
		time.Sleep(15 * time.Second)
		if garbage.Released() {
			t.Error("still released when the annotation is gone")
		}
		reads := a.readings()
		time.Sleep(time.Hour)
		if a.readings() != reads {
			t.Error("the lease is read while nothing is held")
		}
	})
}

func TestWhatIsHeldForAMomentIsNotTold(t *testing.T) {
	run(t, leaseKey, func(a *api, garbage, pods *brake.Brake) {
		for range 10 {
			pods.Hold(time.Now(), "all", "a reason")
			time.Sleep(25 * time.Second)
			pods.Release("all", brake.ByProof)
		}
		time.Sleep(time.Minute)
		if told := a.told(); told != "" || a.readings() > 0 {
			t.Errorf("told %q, reads %d", told, a.readings())
		}
	})
}

func TestWithoutALease(t *testing.T) {
	run(t, plan.Key{}, func(a *api, garbage, pods *brake.Brake) {
		pods.Hold(time.Now(), "all", "a reason")
		time.Sleep(5 * time.Minute)
		pods.Release("all", brake.ByTime)
		time.Sleep(time.Minute)
		if told := a.told(); told != "" || a.readings() > 0 || pods.Released() {
			t.Errorf("told %q, reads %d", told, a.readings())
		}
	})
}
