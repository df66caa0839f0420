package attachdetach

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// used has d0 in use on n0 by the pod a.
func used(b *bench) {
	b.disk(0)
	b.pod("a", 0, "n0")
	time.Sleep(time.Second)
	b.uses("n0", 0)
}

// dies has nodes become Unknown.
func (b *bench) dies(nodes ...string) {
	for _, name := range nodes {
		b.node(name, func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, metav1.Now()
		})
	}
}

// A Node is deleted, and its machine lives: that hears only from the deletion of its pods that it is to end their containers, which
// takes as long as they may take.
func TestMachineThatOutlivesItsNode(t *testing.T) {
	run(t, Options{}, 6, func(b *bench) {
		used(b)
		b.remove(nodeKind, "", "n0")
		time.Sleep(61 * time.Second)
		b.removePod("a") // as podgc does
		b.pod("b", 0, "n1")
		time.Sleep(80 * time.Second)
		b.is("d0:n0")
		time.Sleep(20 * time.Second)
		b.is("d0:n1 n1=d0")
	})
}

// A pod that has never run, because a claim of it is not bound, keeps no volume of others on a node that is dead.
func TestPodThatNeverRan(t *testing.T) {
	run(t, Options{}, 6, func(b *bench) {
		used(b)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n0"},
			Status: corev1.PodStatus{Phase: corev1.PodPending}}
		p.Spec.Volumes = []corev1.Volume{{Name: "x",
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "none"}}}}
		b.put(p)
		b.dies("n0")
		b.removePod("a")
		b.pod("b", 0, "n1")
		time.Sleep(time.Hour)
		b.is("d0:n1 n1=d0")
	})
}

// A deletion that is refused is tried more and more rarely.
func TestRefusedDeletion(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		used(b)
		b.refuses.Store(true)
		b.uses("n0")
		b.removePod("a")
		time.Sleep(5 * time.Second)
		b.refused.Store(0)
		time.Sleep(time.Minute)
		if n := b.refused.Load(); n > 20 {
			t.Errorf("%d tries in a minute", n)
		}
		b.refuses.Store(false)
		time.Sleep(2 * time.Minute)
		b.is("")
	})
}

// Two sites, and one of them is lost: the brake ends, and what pods of the other one need is detached there by force.
func TestLostSite(t *testing.T) {
	run(t, Options{}, 10, func(b *bench) {
		used(b)
		b.dies("n0", "n1", "n2", "n3", "n4", "n5")
		b.removePod("a")
		b.pod("b", 0, "n9")
		time.Sleep(9 * time.Minute)
		b.is("d0:n0 n0=d0")
		time.Sleep(2 * time.Minute)
		b.is("d0:n9 n9=d0")
	})
}

// Nodes that have been down for an hour are no news, and keep nobody waiting when another one dies.
func TestNodesThatStayDown(t *testing.T) {
	run(t, Options{}, 10, func(b *bench) {
		b.dies("n1", "n2", "n3", "n4", "n5", "n6")
		time.Sleep(2 * time.Hour)
		used(b)
		b.dies("n0")
		b.removePod("a")
		b.pod("b", 0, "n9")
		time.Sleep(5 * time.Minute)
		b.is("d0:n0 n0=d0")
		time.Sleep(2 * time.Minute)
		b.is("d0:n9 n9=d0")
	})
}

// runs has a pod run.
func (b *bench) runs(name string) {
	b.Helper()
	p := &corev1.Pod{}
	if err := b.Get(b.Context(), podKind, plan.Key{Namespace: "shop", Name: name}, p); err != nil {
		b.Fatal(err)
	}
	p.Status.Phase = corev1.PodRunning
	b.put(p)
}

// A driver could not attach a volume, or nobody knows whether it has, and the pod is gone: the node does not say that it has the volume
// in use, so it is detached without a wait for the node's next status.
func TestMEND27WhatWasNeverAttached(t *testing.T) {
	for _, failure := range []*storagev1.VolumeError{nil, {Message: "time-out"}} {
		run(t, Options{}, 1, func(b *bench) {
			b.stuck.Store(true)
			b.disk(0)
			b.pod("a", 0, "n0")
			time.Sleep(time.Minute)
			a := &storagev1.VolumeAttachment{}
			if err := b.Get(b.Context(), attachmentKind, plan.Key{Name: volumes.AttachmentName(driver, "d0", "n0")}, a); err != nil {
				b.Fatal(err)
			}
			a.Status.AttachError = failure
			b.put(a)
			b.removePod("a")
			time.Sleep(2 * time.Second)
			b.is("d0:n0!")
			b.stuck.Store(false)
		})
	}
}

// A Node is deleted that had a volume in use, and its pods are gone: the volume is detached when the machine has had the time to end
// them, which is long before the six minutes of a node that is not ready.
func TestMEND28NodeWithoutPods(t *testing.T) {
	run(t, Options{}, 3, func(b *bench) {
		used(b)
		b.removePod("a")
		b.remove(nodeKind, "", "n0")
		time.Sleep(2 * time.Minute)
		b.is("")
	})
}

// While nobody leads, a driver says that it attaches nothing any more, and the pod goes: the VolumeAttachment goes, too.
func TestMEND29DriverThatAttachesNothingAnyMore(t *testing.T) {
	no := false
	run(t, Options{}, 1, func(b *bench) {
		b.disk(0)
		b.pod("a", 0, "n0")
		time.Sleep(time.Second)
		b.is("d0:n0 n0=d0")
		b.before = func() {
			b.put(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no}})
			b.removePod("a")
		}
	}, func(b *bench) {
		time.Sleep(2 * time.Second)
		b.is("")
	})
}
