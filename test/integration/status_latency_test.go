package integration

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// The time from a user's change to the last status that follows from it, for small work. The log has the figures, also those
// of another manager (MANAGER_BINARY); they mean something when the test runs alone. That the statuses are right is what is
// tested; test/simulation judges the times.
func TestStatusLatency(t *testing.T) {
	b := share(t)
	neverReady := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:"true"}}}}}`, cluster.NeverReady)

	b.create(deployment("five", 5))
	b.waitComplete("five")
	took := b.settled(func() { b.patch("five", neverReady) })
	b.Logf("a rollout of 5 stops at its limits: %v", took)
	b.hasCounts("five", 7, 3, 4)

	b.create(deployment("ten", 10))
	b.waitComplete("ten")
	b.settled(func() { b.patch("ten", neverReady) })
	b.hasCounts("ten", 13, 5, 8)
	up := b.settled(func() { b.patch("ten", `{"spec":{"replicas":20}}`) })
	down := b.settled(func() { b.patch("ten", `{"spec":{"replicas":5}}`) })
	b.Logf("a stuck rollout of 10 is scaled up and down: %v + %v", up, down)

	d := deployment("set", 1)
	set := &appsv1.ReplicaSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.ReplicaSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template}}
	set, err := b.Client.AppsV1().ReplicaSets(b.ns).Create(b.Context(), set, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var series time.Duration
	for _, n := range []int32{5, 2, 8, 0, 3} {
		series += b.settled(func() {
			patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
			if set, err = b.Client.AppsV1().ReplicaSets(b.ns).Patch(b.Context(), set.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				b.Fatal(err)
			}
		})
		if set, err = b.Client.AppsV1().ReplicaSets(b.ns).Get(b.Context(), set.Name, metav1.GetOptions{}); err != nil {
			b.Fatal(err)
		}
		if s := set.Status; s.ObservedGeneration != set.Generation || s.Replicas != n || s.AvailableReplicas != n {
			b.Errorf("status of a ReplicaSet of %d: %+v", n, s)
		}
	}
	b.Logf("five changes to one ReplicaSet: %v", series)
}

// hasCounts compares a Deployment's status: all replicas, updated ones, available ones.
func (b *bench) hasCounts(name string, all, updated, available int32) {
	b.Helper()
	d := b.get(name)
	s := d.Status
	if s.ObservedGeneration != d.Generation || s.Replicas != all || s.UpdatedReplicas != updated || s.AvailableReplicas != available {
		b.Errorf("status of %s: %+v, want %d replicas, %d updated, %d available", name, s, all, updated, available)
	}
}

// settled makes a change, waits until no Deployment and no ReplicaSet of the namespace has changed for three seconds, and returns
// how long after the change the last one did.
func (b *bench) settled(change func()) time.Duration {
	b.Helper()
	deployments, sets := b.Client.AppsV1().Deployments(b.ns), b.Client.AppsV1().ReplicaSets(b.ns)
	list, err := sets.List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	options := metav1.ListOptions{ResourceVersion: list.ResourceVersion}
	one, err := deployments.Watch(b.Context(), options)
	if err != nil {
		b.Fatal(err)
	}
	defer one.Stop()
	other, err := sets.Watch(b.Context(), options)
	if err != nil {
		b.Fatal(err)
	}
	defer other.Stop()
	began := time.Now()
	change()
	for last := began; ; last = time.Now() {
		select {
		case <-one.ResultChan():
		case <-other.ResultChan():
		case <-time.After(3 * time.Second):
			return last.Sub(began)
		}
	}
}
