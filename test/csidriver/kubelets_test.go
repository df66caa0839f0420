package main

import (
	"context"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

const handle = "kubernetes.io/csi/test^vol-1"

// object is the metadata of one in the namespace "a"; its uid follows from its name.
func object(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "a", UID: types.UID("uid of " + name)}
}

func newNode(name string, attached ...corev1.UniqueVolumeName) *corev1.Node {
	n := &corev1.Node{ObjectMeta: object(name)}
	n.Namespace = ""
	n.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
	for _, v := range attached {
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: v})
	}
	return n
}

func newPod(name, node string, volumes ...corev1.VolumeSource) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: object(name), Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, v := range volumes {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: v})
	}
	return p
}

func using(claim string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
}

// newClaim is bound to the volume "pv" and has 1Gi.
func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: object(name), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size("1Gi")}}
}

// newVolume is bound to a claim and has 2Gi.
func newVolume(claim string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size("2Gi"), ClaimRef: &corev1.ObjectReference{Namespace: "a", Name: claim, UID: object(claim).UID},
	}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "test", VolumeHandle: "vol-1"}
	return v
}

func size(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

func equal(a, b corev1.ResourceList) bool {
	return a.Storage().Equal(*b.Storage())
}

// knowing returns kubelets of a cluster whose caches are filled.
func knowing(t *testing.T, objects ...runtime.Object) (*fake.Clientset, *kubelets) {
	t.Helper()
	client := fake.NewClientset(objects...)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	k, err := newKubelets(client, "test", ctx.Done())
	if err != nil {
		t.Fatal(err)
	}
	if !cache.WaitForCacheSync(ctx.Done(), k.synced...) {
		t.Fatal("the caches are not filled")
	}
	return client, k
}

// playing runs kubelets on a cluster until the test ends.
func playing(t *testing.T, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	client, k := knowing(t, objects...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); k.run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return client
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestNodesHaveTheDriver(t *testing.T) {
	real := newNode("real")
	real.Annotations = nil
	other := csiNode(newNode("with-another"), "other")
	gone := csiNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "made-anew", UID: "old"}}, "test")
	client := playing(t, real, newNode("new"), newNode("with-another"), other, newNode("made-anew"), gone)
	drivers := func(node string) (names []string) {
		c, err := client.StorageV1().CSINodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil || c.OwnerReferences[0].UID != object(node).UID {
			return nil
		}
		for _, d := range c.Spec.Drivers {
			if d.NodeID != node {
				t.Errorf("%s has the ID %s", node, d.NodeID)
			}
			names = append(names, d.Name)
		}
		return names
	}
	for node, want := range map[string][]string{"new": {"test"}, "with-another": {"other", "test"}, "made-anew": {"test"}} {
		eventually(t, node+" has the driver", func() bool { return slices.Equal(drivers(node), want) })
		eventually(t, node+" is managed", func() bool {
			n, err := client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
			return err == nil && n.Annotations[managed] == "true"
		})
	}
	if drivers("real") != nil {
		t.Error("a node that is not simulated has the driver")
	}
}

func TestNodesTellWhichVolumesPodsUse(t *testing.T) {
	ended := newPod("ended", "node-2", using("data"))
	ended.Status.Phase = corev1.PodSucceeded
	killed := newNode("node-3")
	killed.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/csi/test^vol-9"}
	holder := killer
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "node-3"}}
	lease.Spec.HolderIdentity = &holder
	client := playing(t, newNode("node-0"), newNode("node-1"), newNode("node-2"), killed, lease, newClaim("data"), newVolume("data"),
		newPod("first", "node-0", using("data")), newPod("second", "node-0", using("data"), using("unbound")),
		newPod("waits", "", using("data")), ended)
	inUse := func(node string) []corev1.UniqueVolumeName {
		n, err := client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n.Status.VolumesInUse
	}
	eventually(t, "node-0 has the volume in use", func() bool { return slices.Equal(inUse("node-0"), []corev1.UniqueVolumeName{handle}) })
	for _, name := range []string{"first", "second"} {
		if err := client.CoreV1().Pods("a").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().Pods("a").Create(t.Context(), newPod("third", "node-1", using("data")),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node-1 has it in use", func() bool { return slices.Equal(inUse("node-1"), []corev1.UniqueVolumeName{handle}) })
	eventually(t, "node-0 has it no longer", func() bool { return len(inUse("node-0")) == 0 })
	if len(inUse("node-2")) > 0 {
		t.Error("a pod that has ended uses it")
	}
	if !slices.Equal(inUse("node-3"), killed.Status.VolumesInUse) {
		t.Error("a node that is dead says something")
	}
}

func TestOnlyBoundClaimsOfTheDriverAreMounted(t *testing.T) {
	for name, edit := range map[string]func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume){
		"not bound": func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Status.Phase = corev1.ClaimPending
		},
		"without a volume":      func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Spec.VolumeName = "none" },
		"of another driver":     func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.CSI.Driver = "other" },
		"of no driver":          func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.CSI = nil },
		"for another claim":     func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" },
		"for no claim any more": func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil },
		"bound":                 func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {},
	} {
		t.Run(name, func(t *testing.T) {
			claim, volume := newClaim("first-data"), newVolume("first-data")
			edit(claim, volume)
			pod := newPod("first", "node-0", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
			_, k := knowing(t, claim, volume)
			mounts, err := k.mounts([]*corev1.Pod{pod})
			if err != nil {
				t.Fatal(err)
			}
			if mounted := len(mounts) == 1 && mounts[0].device == handle; mounted != (name == "bound") {
				t.Errorf("mounted is %+v", mounts)
			}
		})
	}
}

func TestFileSystemsGrowOnTheirNodes(t *testing.T) {
	claim := newClaim("data")
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue},
		{Type: "Unused", Status: corev1.ConditionFalse},
	}
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending}
	client, k := knowing(t, newNode("node-0"), claim, newVolume("data"), newPod("first", "node-0", using("data")))
	now := func() corev1.PersistentVolumeClaimStatus {
		c, err := client.CoreV1().PersistentVolumeClaims("a").Get(t.Context(), "data", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Status
	}
	if err := k.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := now(); !equal(s.Capacity, size("1Gi")) {
		t.Errorf("it has grown before it was attached: %+v", s)
	}
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), newNode("node-0", handle), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cache shows that it is attached", func() bool {
		n, err := k.nodes.Get("node-0")
		return err == nil && len(n.Status.VolumesAttached) == 1
	})
	if err := k.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := now(); !equal(s.Capacity, size("2Gi")) || len(s.Conditions) != 1 || s.Conditions[0].Type != "Unused" ||
		len(s.AllocatedResourceStatuses) > 0 {
		t.Errorf("its status is %+v", s)
	}
}

func TestWhatHasNotAskedToGrowDoesNot(t *testing.T) {
	claim := newClaim("data")
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing,
		Status: corev1.ConditionTrue}}
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInProgress}
	if got := grown(claim, newVolume("data")); got != nil {
		t.Errorf("it has grown: %+v", got.Status)
	}
}
