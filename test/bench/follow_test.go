package main

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//lint:file-ignore SA1019 Endpoints are deprecated; their controller serves those who still use them

func TestCrowdCountsAtEveryEvent(t *testing.T) {
	c := newCrowd()
	see := func(name, words string) { t.Helper(); c.see(testPod(name, "web", words), false) }
	see("a", "ready")
	see("b", "ready")
	c.allow("web", 3, 2)
	see("c", "pending")
	if c.active() != 3 || c.exceeded() != (excess{}) {
		t.Fatalf("%d pods, %+v", c.active(), c.exceeded())
	}
	see("d", "pending") // one too many, for a moment
	c.see(testPod("d", "web", "pending"), true)
	see("a", "ready deleting") // one is missing until c is ready
	see("c", "ready")
	if c.active() != 2 || c.exceeded() != (excess{tooMany: 1, tooFew: 1}) {
		t.Errorf("%d pods, %+v", c.active(), c.exceeded())
	}
	c.see(testPod("a", "web", "ready deleting"), true) // was not counted any more
	see("b", "succeeded")
	c.see(testPod("z", "other", "ready"), false) // of another Deployment, without limits
	if c.active() != 2 || c.exceeded() != (excess{tooMany: 1, tooFew: 1}) {
		t.Errorf("%d pods, %+v", c.active(), c.exceeded())
	}
	c.reset()
	see("e", "pending")
	if c.exceeded() != (excess{}) {
		t.Errorf("after the reset: %+v", c.exceeded())
	}
}

func TestRolloutsEndWithTheStatusOfTheChange(t *testing.T) {
	r, now := newRollouts(), time.Now()
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	see := func(second int, generation, observed int64, updated, available int32) {
		d := deployment("web", 2)
		d.Generation = generation
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: 2, UpdatedReplicas: updated,
			AvailableReplicas: available}
		r.see(d, at(second))
	}
	r.begin("web", at(0))
	see(1, 1, 0, 0, 0)
	see(2, 1, 1, 2, 1)
	if n, example := r.missing(); n != 1 || example != "web" {
		t.Errorf("%d missing, %q", n, example)
	}
	see(3, 1, 1, 2, 2)
	see(4, 1, 1, 2, 2)
	r.begin("web", at(10))
	see(11, 1, 1, 2, 2) // of before the change
	see(12, 2, 1, 2, 2) // the change: its status is old
	see(15, 2, 2, 2, 2)
	if took := r.take(); len(took) != 2 || took[0] != 3*time.Second || took[1] != 5*time.Second {
		t.Error(took)
	}
	if n, _ := r.missing(); n != 0 || len(r.take()) != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestArrival(t *testing.T) {
	a, now := newArrival(), time.Now()
	see := func(service string, ready, second int) {
		e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: service}}
		if ready > 0 {
			e.Subsets = []corev1.EndpointSubset{{Addresses: make([]corev1.EndpointAddress, ready)}}
		}
		a.see(e, now.Add(time.Duration(second)*time.Second))
	}
	see("s0", 1, 0)
	see("large", 7, 0)
	a.expect("s0", false, now)
	see("s0", 1, 1)
	see("large", 6, 2)
	if a.arrived("s0") || a.arrived("") || !a.arrived("s1") || a.addresses() != 7 {
		t.Errorf("%v, %d addresses", a.waiting, a.addresses())
	}
	see("s0", 0, 3)
	if took := a.take(); !a.arrived("") || len(took) != 1 || took[0] != 3*time.Second || len(a.take()) != 0 {
		t.Errorf("%v, %v", a.waiting, took)
	}
}

func TestFlipped(t *testing.T) {
	p := testPod("a", "web", "ready")
	q := flipped(p)
	if isReady(q) || !isReady(p) || q.ResourceVersion != "" || !isReady(flipped(q)) {
		t.Errorf("%+v", q.Status)
	}
}

func TestLongestGap(t *testing.T) {
	now := time.Now()
	at := func(seconds ...int) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, now.Add(time.Duration(s)*time.Second))
		}
		return all
	}
	for _, row := range []struct {
		seen []time.Time
		want time.Duration
	}{
		{nil, 10 * time.Second}, {at(2, 4, 6, 8), 2 * time.Second}, {at(1, 6, 9), 5 * time.Second}, {at(-5, 5, 20), 5 * time.Second},
		{at(1), 9 * time.Second},
	} {
		if got := longestGap(row.seen, now, now.Add(10*time.Second)); got != row.want {
			t.Errorf("%v: %v, want %v", row.seen, got, row.want)
		}
	}
}
