package integration

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const podGroupFinalizer = "scheduling.k8s.io/podgroup-protection"

// PodGroups have the finalizer from admission. One that is deleted stays while a pod of it may run, on a node or not, and goes when all of
// its pods have ended or are gone. One without pods goes at once, and one that lacks the finalizer does not get it.
func TestPodGroupsStayWhileTheirPodsRun(t *testing.T) { share(t).livesOfPodGroups() } // PGP-1 to PGP-4

func (b *bench) livesOfPodGroups() {
	b.Helper()
	if !serves(b.T, b.Cluster, schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")) {
		return // it was not there, or is not enabled
	}
	groups := b.Client.SchedulingV1beta1().PodGroups(b.ns)
	group := func(name string) *schedulingv1beta1.PodGroup {
		b.Helper()
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
		made, err := groups.Create(b.Context(), g, metav1.CreateOptions{})
		if err != nil || !slices.Contains(made.Finalizers, podGroupFinalizer) {
			b.Fatalf("PGP-1: %v, %v", made.Finalizers, err)
		}
		return made
	}
	kept := func(name string) bool {
		b.Helper()
		g, err := groups.Get(b.Context(), name, metav1.GetOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return slices.Contains(g.Finalizers, podGroupFinalizer)
	}
	member := func(name, group string) *corev1.Pod {
		b.Helper()
		return b.mounting(name, "none", func(p *corev1.Pod) {
			p.Spec.NodeSelector, p.Spec.Volumes = map[string]string{"no": "node"}, nil
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		})
	}
	doom := func(names ...string) {
		b.Helper()
		for _, name := range names {
			if err := groups.Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	gone := func(name string) {
		b.Helper()
		b.wait("the PodGroup "+name+" is gone", func() error {
			g, err := groups.Get(b.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is there: %v, %w", g.Finalizers, err)
		})
	}
	group("empty")
	group("ends")
	group("leaves")
	stripped := group("stripped")
	stripped.Finalizers = nil
	if _, err := groups.Update(b.Context(), stripped, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	ends, leaves := member("ends", "ends"), member("leaves", "leaves")
	doom("ends", "leaves", "empty")
	if gone("empty"); !kept("ends") || !kept("leaves") { // which were deleted before
		b.Error("PGP-3: a PodGroup does not stay, and a pod of it may run")
	}
	b.endPod(*ends, corev1.PodSucceeded)
	gone("ends")
	b.removePod(leaves.Name)
	gone("leaves")
	if kept("stripped") {
		b.Error("PGP-2: a PodGroup has its finalizer back")
	}
}
