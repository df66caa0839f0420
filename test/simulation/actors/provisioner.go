package actors

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// Driver is the provisioner of the classes whose volumes are made here: it makes the volumes of claims that ask for it, and deletes
// those that are Released, if their policy is Delete.
const Driver = "actor.example.com"

// Fails is the parameter of a class that says how often the driver fails before it makes a volume; [Never] for always.
const (
	Fails = "fails"
	Never = "never"
)

const driverFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// noteClaim makes an appointment for a claim that asks for the driver.
func (c *Cluster) noteClaim(e *apiserver.Event) {
	claim := e.Object.(*corev1.PersistentVolumeClaim)
	before, _ := e.Before.(*corev1.PersistentVolumeClaim)
	if e.Type != watch.Deleted && asks(claim) && (before == nil || !asks(before)) {
		c.after(c.delay("provision", claim.Name, 50*time.Millisecond, 5*time.Second), func() { c.provision(claim, 0) })
	}
}

// asks reports whether a claim asks for a volume of the driver.
func asks(c *corev1.PersistentVolumeClaim) bool {
	return c.Annotations["volume.kubernetes.io/storage-provisioner"] == Driver && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil
}

// provision makes the volume of a claim, when it has failed so often as its class says.
func (c *Cluster) provision(claim *corev1.PersistentVolumeClaim, failures int) {
	now := apiserver.One[*corev1.PersistentVolumeClaim](c.server, claim.Namespace, claim.Name)
	if now == nil || now.UID != claim.UID || !asks(now) {
		return
	}
	class := apiserver.One[*storagev1.StorageClass](c.server, "", ptr.Deref(now.Spec.StorageClassName, ""))
	if class == nil || class.Parameters[Fails] == Never {
		return // it looks again when the claim changes
	}
	if most, _ := strconv.Atoi(class.Parameters[Fails]); failures < most {
		c.after(5*time.Second, func() { c.provision(claim, failures+1) })
		return
	}
	_, _ = c.server.Do(apiserver.Write{By: "driver", Verb: apiserver.Create, Object: VolumeOf(now, class, Driver)})
}

// VolumeOf is the volume that a driver makes for a claim.
func VolumeOf(c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, driver string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(c.UID), Finalizers: []string{driverFinalizer},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": driver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: c.Spec.AccessModes,
			VolumeMode:  c.Spec.VolumeMode, StorageClassName: class.Name,
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace,
				Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver,
				VolumeHandle: string(c.UID)}},
		},
	}
}

// noteVolume makes an appointment for a volume that the driver is to delete, and takes its finalizer off one that is to go and is not
// bound.
func (c *Cluster) noteVolume(e *apiserver.Event) {
	v := e.Object.(*corev1.PersistentVolume)
	if e.Type == watch.Deleted || v.Annotations["pv.kubernetes.io/provisioned-by"] != Driver {
		return
	}
	before, _ := e.Before.(*corev1.PersistentVolume)
	switch {
	case v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound && len(v.Finalizers) > 0:
		c.after(c.delay("undo", v.Name, 50*time.Millisecond, 2*time.Second), func() { c.letGo(v) })
	case Deletable(v) && (before == nil || !Deletable(before)):
		c.after(c.delay("unprovision", v.Name, 50*time.Millisecond, 5*time.Second), func() {
			if now := apiserver.One[*corev1.PersistentVolume](c.server, "", v.Name); now != nil && now.UID == v.UID && Deletable(now) {
				c.remove("driver", "persistentvolumes", now, metav1.DeleteOptions{})
			}
		})
	}
}

// Deletable reports whether a driver is to delete its volume.
func Deletable(v *corev1.PersistentVolume) bool {
	return v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		v.DeletionTimestamp == nil
}

// letGo takes the driver's finalizer off a volume.
func (c *Cluster) letGo(v *corev1.PersistentVolume) {
	_, _ = Edit(c.server, "driver", "", v.Name, "", func(now *corev1.PersistentVolume) {
		if now.UID == v.UID {
			now.Finalizers = without(now.Finalizers, driverFinalizer)
		}
	})
}

// without returns the finalizers but for one; nil if there is none left.
func without(finalizers []string, one string) (left []string) {
	for _, f := range finalizers {
		if f != one {
			left = append(left, f)
		}
	}
	return left
}
