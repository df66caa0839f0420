package vacprotection

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const finalizer = "kubernetes.io/vac-protection"

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*storagev1.VolumeAttributesClass)

// newClass is one that has just been created where no admission plugin adds the finalizer.
func newClass(edits ...edit) *storagev1.VolumeAttributesClass {
	c := &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold", UID: "uid-gold", ResourceVersion: "5", Labels: map[string]string{"a": "b"}},
		DriverName: "csi.example.com", Parameters: map[string]string{"iops": "1000"},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func with(finalizers ...string) edit {
	return func(c *storagev1.VolumeAttributesClass) { c.Finalizers = finalizers }
}

func leaving(c *storagev1.VolumeAttributesClass) { c.DeletionTimestamp = &metav1.Time{Time: epoch} }

// newClaim is a claim that refers to a class by one of the three fields.
func newClaim(name, field, class string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	switch field {
	case "spec":
		c.Spec.VolumeAttributesClassName = &class
	case "current":
		c.Status.CurrentVolumeAttributesClassName = &class
	case "target":
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: class}
	}
	return c
}

// newVolume is a volume that refers to a class, or to none.
func newVolume(name, class string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if class != "" {
		v.Spec.VolumeAttributesClassName = &class
	}
	return v
}

// newCaches returns caches with these objects.
func newCaches(t interface{ Fatal(...any) }, objects ...plan.Object) *caches {
	f := informers.NewFactory(fake.NewClientset(), 0)
	k := &caches{}
	var err1, err2, err3 error
	k.classes, err1 = informers.Objects[*storagev1.VolumeAttributesClass](f)
	k.claims, err2 = informers.IndexedObjects(f, "attributes class", classesOfClaim)
	k.volumes, err3 = informers.IndexedObjects(f, "attributes class", classesOfVolume)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		k.cache(t, o)
	}
	return k
}

func (k *caches) cache(t interface{ Fatal(...any) }, o plan.Object) {
	informer := k.classes.Informer()
	switch o.(type) {
	case *corev1.PersistentVolumeClaim:
		informer = k.claims.Informer()
	case *corev1.PersistentVolume:
		informer = k.volumes.Informer()
	}
	if err := informer.GetIndexer().Add(o); err != nil {
		t.Fatal(err)
	}
}
