package integration

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	claimFinalizer  = "kubernetes.io/pvc-protection"
	volumeFinalizer = "kubernetes.io/pv-protection"
)

// claim makes a claim, which admission gives the finalizer.
func (b *bench) claim(name string) {
	b.Helper()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	made, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Create(b.Context(), c, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if !slices.Contains(made.Finalizers, claimFinalizer) {
		b.Errorf("SM-23: admission gives the claim no finalizer: %v", made.Finalizers)
	}
}

func (b *bench) deleteClaim(name string) {
	b.Helper()
	if err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

// claimIs waits until the claim is being deleted and has the finalizer, or is gone.
func (b *bench) claimIs(name, what string) {
	b.Helper()
	b.wait("the claim "+name+" is "+what, func() error {
		c, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Get(b.Context(), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && what == "gone":
			return nil
		case err == nil && c.DeletionTimestamp != nil && slices.Contains(c.Finalizers, claimFinalizer) && what == "kept":
			return nil
		case err == nil && c.DeletionTimestamp == nil && slices.Contains(c.Finalizers, claimFinalizer) && what == "protected":
			return nil
		}
		return fmt.Errorf("%v: %+v", err, c.ObjectMeta)
	})
}

// mounting makes a pod with a volume of the claim, on a node if it says so.
func (b *bench) mounting(name, claim string, edit func(*corev1.Pod)) *corev1.Pod {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	if edit != nil {
		edit(p)
	}
	made, err := b.Client.CoreV1().Pods(b.ns).Create(b.Context(), p, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return made
}

func (b *bench) waitScheduled(name string) {
	b.Helper()
	b.wait(name+" is on a node", func() error {
		if p := b.pod(name); p == nil || p.Spec.NodeName == "" {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}

func (b *bench) removePod(name string) {
	b.Helper()
	if err := b.Client.CoreV1().Pods(b.ns).Delete(b.Context(), name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		b.Fatal(err)
	}
}

// A claim that is deleted stays while a pod on a node uses it, also when this has completed, and goes with the pod.
func TestClaimsStayWhileTheyAreUsed(t *testing.T) { // SM-30, SM-35, SM-36
	b := share(t)
	for _, name := range []string{"unused", "waiting", "used"} {
		b.claim(name)
	}
	user := b.mounting("user", "used", nil)
	b.mounting("waiter", "waiting", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} })
	b.waitScheduled("user")
	for _, name := range []string{"unused", "waiting", "used"} {
		b.deleteClaim(name)
	}
	b.claimIs("unused", "gone")
	b.claimIs("waiting", "gone")
	b.claimIs("used", "kept")
	b.endPod(*user, corev1.PodSucceeded)
	b.claim("probe") // the manager has looked at the namespace again when it has let this one go
	b.deleteClaim("probe")
	b.claimIs("probe", "gone")
	b.claimIs("used", "kept")
	b.removePod("user")
	b.claimIs("used", "gone")
}

// The claim of an ephemeral volume stays while its pod uses it.
func TestClaimsOfEphemeralVolumes(t *testing.T) { // SM-36
	b := share(t)
	owner := b.mounting("user", "x", func(p *corev1.Pod) {
		p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: oneGibibyte()}
		p.Spec.NodeName = "node-0"
		if nodes, err := b.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1}); err == nil && len(nodes.Items) > 0 {
			p.Spec.NodeName = nodes.Items[0].Name
		}
	})
	b.waitOwned("user-data", owner)
	b.claim("user-other")
	b.deleteClaim("user-data")
	b.deleteClaim("user-other")
	b.claimIs("user-other", "gone")
	b.claimIs("user-data", "kept")
	b.removePod("user")
	b.claimIs("user-data", "gone")
}

// A bound claim says whether a pod uses it, on a node or not. It then goes as others do.
func TestClaimsSayWhetherTheyAreUsed(t *testing.T) { share(t).useOfABoundClaim() } // SM-39

// useOfABoundClaim makes a claim, has it bound, has a pod use it and go, and deletes it.
func (b *bench) useOfABoundClaim() {
	b.Helper()
	claims := b.Client.CoreV1().PersistentVolumeClaims(b.ns)
	says := func(unused corev1.ConditionStatus, reason string) {
		b.Helper()
		b.wait("the claim says that it is unused: "+string(unused), func() error {
			c, err := claims.Get(b.Context(), "bound", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, condition := range c.Status.Conditions {
				if condition.Type == corev1.PersistentVolumeClaimUnused && condition.Status == unused && condition.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("conditions: %+v", c.Status.Conditions)
		})
	}
	b.disk("bound", "1Gi", b.reservedFor("bound"))
	b.claim("bound")
	says(corev1.ConditionTrue, "NoPodsUsingPVC")
	b.mounting("mounts-bound", "bound", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} })
	says(corev1.ConditionFalse, "PodUsingPVC")
	b.removePod("mounts-bound")
	says(corev1.ConditionTrue, "NoPodsUsingPVC")
	b.deleteClaim("bound")
	b.claimIs("bound", "gone")
}

// A finalizer that somebody has taken off comes back; a volume that is deleted stays while it is bound.
func TestVolumesStayWhileTheyAreBound(t *testing.T) { // SM-20, SM-22, SM-23, SM-35
	b := share(t)
	b.claim("data")
	if _, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Patch(t.Context(), "data", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.claimIs("data", "protected")
	b.lifeOfAVolume()
}

// lifeOfAVolume makes a volume, takes its finalizer off, has it bound, deletes it, and waits until it is gone when it is released.
func (b *bench) lifeOfAVolume() {
	b.Helper()
	volumes, name := b.Client.CoreV1().PersistentVolumes(), b.disk("disk", "1Gi", b.reservedFor("disk"))
	if made, err := volumes.Get(b.Context(), name, metav1.GetOptions{}); err != nil || !slices.Contains(made.Finalizers, volumeFinalizer) {
		b.Errorf("SM-23: admission gives the volume no finalizer: %v, %v", made.Finalizers, err)
	}
	is := func(what string) {
		b.Helper()
		b.wait("the volume is "+what, func() error {
			v, err := volumes.Get(b.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) && what == "gone" ||
				err == nil && slices.Contains(v.Finalizers, volumeFinalizer) && what == "protected" {
				return nil
			}
			return fmt.Errorf("%v: %+v", err, v.ObjectMeta)
		})
	}
	b.patchDisk(name, `{"metadata":{"finalizers":null}}`)
	is("protected")
	b.wants("disk", "1Gi")
	b.waitBound("disk", name)
	if err := volumes.Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.patchDisk(name, `{"metadata":{"labels":{"looked":"at"}}}`)
	is("protected")
	b.deleteClaim("disk")
	is("gone")
}

// workOfProtection has a claim and a volume go that are in use for a while.
func (b *bench) workOfProtection() {
	b.Helper()
	b.claim("protected")
	b.mounting("mounts", "protected", nil)
	b.waitScheduled("mounts")
	b.deleteClaim("protected")
	b.claimIs("protected", "kept")
	b.wait("an event says why the claim stays", func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(b.Context(), metav1.ListOptions{FieldSelector: "reason=InUse"})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d events", len(list.Items))
		}
		return err
	})
	b.removePod("mounts")
	b.claimIs("protected", "gone")
	b.useOfABoundClaim()
	b.lifeOfAVolume()
}
