package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
)

// shelf is the class of the volumes of a test, so that no other test's claims get them.
func (b *bench) shelf() string { return "shelf-" + b.ns }

// disk makes a volume of a size, which is deleted when the test ends.
func (b *bench) disk(name, size string, edits ...func(*corev1.PersistentVolume)) string {
	b.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + b.ns}, Spec: corev1.PersistentVolumeSpec{
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName:       b.shelf(),
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
	}}
	for _, edit := range edits {
		edit(v)
	}
	if _, err := b.Client.CoreV1().PersistentVolumes().Create(b.Context(), v, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.removeDisk(v.Name)
	return v.Name
}

// removeDisk deletes a volume when the test ends.
func (b *bench) removeDisk(name string) {
	b.Cleanup(func() {
		if err := b.Client.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			b.Error(err)
		}
	})
}

// reservedFor names a claim of the test.
func (b *bench) reservedFor(claim string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: b.ns, Name: claim}
	}
}

// wants makes a claim of the test's class.
func (b *bench) wants(name, size string, edits ...func(*corev1.PersistentVolumeClaim)) {
	b.Helper()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To(b.shelf()),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
	for _, edit := range edits {
		edit(c)
	}
	if _, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Create(b.Context(), c, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func classed(class *string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = class }
}

// waitBound waits until a claim is bound, to that volume unless it is empty.
func (b *bench) waitBound(name, volume string) (c *corev1.PersistentVolumeClaim) {
	b.Helper()
	b.waitClaim(name, corev1.ClaimBound, func(found *corev1.PersistentVolumeClaim) error {
		if c = found; volume != "" && c.Spec.VolumeName != volume {
			return fmt.Errorf("to %s", c.Spec.VolumeName)
		}
		return nil
	})
	return c
}

func (b *bench) waitClaim(name string, phase corev1.PersistentVolumeClaimPhase, check func(*corev1.PersistentVolumeClaim) error) {
	b.Helper()
	b.wait(fmt.Sprintf("the claim %s is %s", name, phase), func() error {
		c, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Get(b.Context(), name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case c.Status.Phase != phase:
			return fmt.Errorf("%s, %v", c.Status.Phase, c.Annotations)
		}
		return check(c)
	})
}

func (b *bench) waitDisk(name string, phase corev1.PersistentVolumePhase) (v *corev1.PersistentVolume) {
	b.Helper()
	b.wait(fmt.Sprintf("the volume %s is %s", name, phase), func() (err error) {
		if v, err = b.Client.CoreV1().PersistentVolumes().Get(b.Context(), name, metav1.GetOptions{}); err == nil &&
			v.Status.Phase != phase {
			err = fmt.Errorf("%s: %s", v.Status.Phase, v.Status.Message)
		}
		return err
	})
	return v
}

func (b *bench) patchDisk(name, document string, subresources ...string) {
	b.Helper()
	if _, err := b.Client.CoreV1().PersistentVolumes().Patch(b.Context(), name, types.MergePatchType, []byte(document),
		metav1.PatchOptions{}, subresources...); err != nil {
		b.Fatal(err)
	}
}

// waitSaid waits for an event of an object of the test.
func (b *bench) waitSaid(name, reason, message string) {
	b.Helper()
	b.wait("an event says "+message, func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(b.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",reason=" + reason})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range list.Items {
			if said = append(said, e.Message); strings.Contains(e.Message, message) && e.Source.Component == "persistentvolume-controller" {
				return nil
			}
		}
		return fmt.Errorf("%q", said)
	})
}

// class makes a StorageClass that is deleted when the test ends.
func (b *bench) class(name, provisioner string, edits ...func(*storagev1.StorageClass)) string {
	b.Helper()
	s := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + b.ns}, Provisioner: provisioner}
	for _, edit := range edits {
		edit(s)
	}
	classes := b.Client.StorageV1().StorageClasses()
	if _, err := classes.Create(b.Context(), s, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := classes.Delete(context.Background(), s.Name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	return s.Name
}

// provision does what a driver does for a claim that asks it.
func (b *bench) provision(name, class, driver string) string {
	b.Helper()
	var made string
	b.wait("the claim "+name+" asks the driver", func() error {
		c, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Get(b.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c.Annotations["volume.kubernetes.io/storage-provisioner"] != driver ||
			c.Annotations["volume.beta.kubernetes.io/storage-provisioner"] != driver {
			return fmt.Errorf("%v", c.Annotations)
		}
		v := actors.VolumeOf(c, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}}, driver)
		v.Finalizers = nil
		made = v.Name
		_, err = b.Client.CoreV1().PersistentVolumes().Create(b.Context(), v, metav1.CreateOptions{})
		return err
	})
	b.removeDisk(made)
	return made
}

func TestPreboundVolumes(t *testing.T) { // PV-6, PV-7, PV-22, PV-30
	b := share(t)
	large := b.disk("mine", "9Gi", b.reservedFor("data"))
	b.disk("other", "1Gi")
	b.wants("data", "1Gi")
	c := b.waitBound("data", large)
	v := b.waitDisk(large, corev1.VolumeBound)
	const byController, completed = "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/bind-completed"
	has := c.Status.Capacity[corev1.ResourceStorage]
	if c.Annotations[completed] != "yes" || c.Annotations[byController] != "yes" || v.Annotations[byController] != "" ||
		has.String() != "9Gi" || v.Spec.ClaimRef.UID != c.UID {
		t.Errorf("%v, %v, %s", c.Annotations, v.Annotations, has.String())
	}
	named := b.disk("named", "2Gi")
	b.wants("named", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = named })
	if c := b.waitBound("named", named); c.Annotations[byController] != "" {
		t.Errorf("%v", c.Annotations)
	}
}

func TestVolumesAreMatched(t *testing.T) { // PV-28, PV-31, PV-71
	b := share(t)
	b.wants("data", "3Gi")
	b.disk("small", "2Gi")
	b.disk("block", "3Gi", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	b.disk("elsewhere", "3Gi", func(v *corev1.PersistentVolume) { v.Spec.StorageClassName += "-other" })
	b.waitDisk(b.disk("late", "4Gi"), corev1.VolumeBound)
	b.waitBound("data", "late-"+b.ns)
	b.waitDisk("small-"+b.ns, corev1.VolumeAvailable)
	b.wants("picky", "1Gi", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"color": "red"}}
	})
	b.patchDisk("small-"+b.ns, `{"metadata":{"labels":{"color":"red"}}}`)
	b.waitBound("picky", "small-"+b.ns)
}

func TestTheDefaultClass(t *testing.T) { // PV-16
	b := alone(t)
	b.Manager(t)
	b.wants("early", "1Gi", classed(nil))
	b.wants("never", "1Gi", classed(ptr.To("")))
	b.waitSaid("never", "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	class := b.class("std", "driver.example.com", func(s *storagev1.StorageClass) {
		s.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	})
	b.provision("early", class, "driver.example.com")
	if c := b.waitBound("early", ""); ptr.Deref(c.Spec.StorageClassName, "") != class {
		t.Errorf("%v", c.Spec.StorageClassName)
	}
	if c, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Get(t.Context(), "never", metav1.GetOptions{}); err != nil ||
		*c.Spec.StorageClassName != "" {
		t.Errorf("%v, %v", err, c.Spec.StorageClassName)
	}
}

func TestWaitForFirstConsumer(t *testing.T) { // PV-8, PV-17, PV-32, PV-65
	b := share(t)
	class := b.class("late", "driver.example.com", func(s *storagev1.StorageClass) {
		s.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	})
	free := b.disk("free", "1Gi", func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = class })
	b.waitDisk(free, corev1.VolumeAvailable)
	b.wants("data", "1Gi", classed(&class))
	b.waitSaid("data", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	b.mounting("user", "data", func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" })
	b.waitSaid("data", "WaitForPodScheduled", "waiting for pod user to be scheduled")
	b.waitDisk(free, corev1.VolumeAvailable)
	if _, err := b.Client.CoreV1().PersistentVolumeClaims(b.ns).Patch(t.Context(), "data", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"n"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.waitBound("data", b.provision("data", class, "driver.example.com"))
	b.removePod("user")
}

func TestLostClaims(t *testing.T) { // PV-24, PV-25, PV-27
	b := share(t)
	b.loseAndFind("data")
}

// loseAndFind has a claim lose its volume and get it back.
func (b *bench) loseAndFind(name string) {
	b.Helper()
	volume := b.disk(name, "1Gi", b.reservedFor(name))
	b.wants(name, "1Gi")
	c := b.waitBound(name, volume)
	b.patchDisk(volume, `{"metadata":{"finalizers":null}}`)
	if err := b.Client.CoreV1().PersistentVolumes().Delete(b.Context(), volume, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.wait("the volume is gone", func() error {
		v, err := b.Client.CoreV1().PersistentVolumes().Get(b.Context(), volume, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && len(v.Finalizers) > 0 { // it is protected again, as it is bound
			_, err = b.Client.CoreV1().PersistentVolumes().Patch(b.Context(), volume, types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		return fmt.Errorf("it is there: %w", err)
	})
	b.waitClaim(name, corev1.ClaimLost, func(c *corev1.PersistentVolumeClaim) error {
		if len(c.Status.Capacity) > 0 || len(c.Status.AccessModes) > 0 {
			return fmt.Errorf("%+v", c.Status)
		}
		return nil
	})
	b.waitSaid(name, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	b.disk(name, "1Gi", b.reservedFor(name), func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = c.UID })
	b.waitBound(name, volume)
}

func TestReleasedVolumes(t *testing.T) { // PV-37, PV-48, PV-51, PV-52
	b := share(t)
	kept := b.disk("kept", "1Gi", b.reservedFor("data"))
	b.wants("data", "1Gi")
	b.waitBound("data", kept)
	b.deleteClaim("data")
	b.waitDisk(kept, corev1.VolumeReleased)
	b.wants("data", "1Gi")
	b.patchDisk(kept, `{"spec":{"claimRef":null}}`)
	b.waitBound("data", kept)
	b.patchDisk(kept, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	b.deleteClaim("data")
	if v := b.waitDisk(kept, corev1.VolumeFailed); !strings.Contains(v.Status.Message, "no driver deletes this volume") {
		t.Errorf("%q", v.Status.Message)
	}
}

func TestDynamicProvisioning(t *testing.T) { // PV-9, PV-10, PV-43, PV-44, PV-52
	b := share(t)
	class := b.class("made", "driver.example.com")
	b.wants("data", "1Gi", classed(&class))
	b.waitSaid("data", "ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner 'driver.example.com'")
	volume := b.provision("data", class, "driver.example.com")
	b.waitBound("data", volume)
	b.deleteClaim("data")
	v := b.waitDisk(volume, corev1.VolumeReleased)
	if slices.Contains(v.Finalizers, "kubernetes.io/pv-controller") { // PV-12
		t.Errorf("%v", v.Finalizers)
	}
	b.wants("odd", "1Gi", classed(ptr.To("missing-"+b.ns)))
	b.waitSaid("odd", "ProvisioningFailed", fmt.Sprintf("storageclass.storage.k8s.io %q not found", "missing-"+b.ns))
}

// volumesForMetrics has claims of all sorts: bound, waiting for a driver, and waiting for nothing; and a volume that is Released.
func (b *bench) volumesForMetrics() {
	b.Helper()
	class, odd := b.class("counted", "driver.example.com"), b.class("odd", "kubernetes.io/odd")
	b.wants("asks", "1Gi", classed(&class))
	b.wants("odd", "1Gi", classed(&odd))
	b.waitSaid("odd", "ProvisioningFailed", "no volume plugin matched name: kubernetes.io/odd")
	for _, name := range []string{"kept", "gone"} {
		b.wants(name, "1Gi", classed(&class))
		b.waitBound(name, b.provision(name, class, "driver.example.com"))
	}
	b.deleteClaim("gone")
	b.claimIs("gone", "gone")
	b.waitSaid("asks", "ExternalProvisioning", "driver.example.com")
	b.wait("a volume is Released", func() error {
		list, err := b.Client.CoreV1().PersistentVolumes().List(b.Context(), metav1.ListOptions{})
		for _, v := range list.Items {
			if v.Spec.StorageClassName == class && v.Status.Phase == corev1.VolumeReleased {
				return err
			}
		}
		return fmt.Errorf("none is: %w", err)
	})
}

// workOfVolumes has claims be bound, lost and released, and an event be repeated.
func (b *bench) workOfVolumes() {
	b.Helper()
	b.loseAndFind("lost")
	b.deleteClaim("lost")
	b.waitDisk("lost-"+b.ns, corev1.VolumeReleased)
	b.wants("nowhere", "1Gi", classed(ptr.To("nowhere-"+b.ns))) // that there is no such class is proved by a live read
	b.waitSaid("nowhere", "ProvisioningFailed", "not found")
	b.wants("waits", "1Gi", classed(ptr.To("")))
	for i := range 2 { // the second event is a patch of the first
		b.waitSaid("waits", "FailedBinding", "no persistent volumes available")
		claim, err := b.getClaim("waits")
		if err != nil {
			b.Fatal(err)
		}
		odd := b.disk(fmt.Sprint("odd-", i), "1Gi", b.reservedFor("waits"), func(v *corev1.PersistentVolume) {
			v.Spec.VolumeMode, v.Spec.ClaimRef.UID = ptr.To(corev1.PersistentVolumeBlock), claim.UID
		})
		b.waitSaid("waits", "VolumeMismatch", odd)
		if err := b.Client.CoreV1().PersistentVolumes().Delete(b.Context(), odd, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.wait("an event was repeated", func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(b.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=waits,reason=FailedBinding"})
		if err == nil && (len(list.Items) == 0 || list.Items[0].Count < 2) {
			err = fmt.Errorf("%d events", len(list.Items))
		}
		return err
	})
}
