package persistentvolumeexpander

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*corev1.PersistentVolumeClaim)

// newClaim is bound to the volume disk, and has the gibibyte that it asks for.
func newClaim(edits ...edit) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "uid-data",
		ResourceVersion: "5"}}
	c.Spec.VolumeName = "disk"
	c.Status.Phase = corev1.ClaimBound
	asks("1Gi")(c)
	has("1Gi")(c)
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func asks(size string) edit {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = storage(size) }
}

func has(size string) edit {
	return func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = storage(size) }
}

func phase(to corev1.PersistentVolumeClaimPhase) edit {
	return func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = to }
}

func named(driver string) edit {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{"volume.kubernetes.io/storage-resizer": driver, "other": "x"}
	}
}

type volumeEdit = func(*corev1.PersistentVolume)

// newVolume is a CSI volume that belongs to the claim.
func newVolume(edits ...volumeEdit) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk", UID: "uid-disk", ResourceVersion: "4"}}
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "uid-data"}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "x"}
	for _, edit := range edits {
		edit(v)
	}
	return v
}

// from gives a volume another source.
func from(s corev1.PersistentVolumeSource) volumeEdit {
	return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeSource = s }
}

func ebs() volumeEdit {
	return from(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol"}})
}

// newCaches returns caches with these objects.
func newCaches(t interface{ Fatal(...any) }, objects ...plan.Object) *caches {
	f := informers.NewFactory(fake.NewClientset(), 0)
	k := &caches{}
	var err1, err2 error
	k.claims, err1 = informers.Objects[*corev1.PersistentVolumeClaim](f)
	k.volumes, err2 = informers.Objects[*corev1.PersistentVolume](f)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		k.cache(t, o)
	}
	return k
}

func (k *caches) cache(t interface{ Fatal(...any) }, o plan.Object) {
	informer := k.volumes.Informer()
	if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
		informer = k.claims.Informer()
	}
	if err := informer.GetIndexer().Add(o); err != nil {
		t.Fatal(err)
	}
}

func request(m *memory) reconcile.Request[memory] {
	return reconcile.Request[memory]{Key: plan.Key{Namespace: "shop", Name: "data"}, Now: epoch, Memory: m}
}

// outcome is what a plan writes and says.
type outcome struct{ Event, Annotation string }

// of reads a plan, and checks that it changes nothing but the annotation.
func of(t interface{ Errorf(string, ...any) }, p plan.Plan) (o outcome) {
	for _, s := range p.Steps {
		switch s := s.(type) {
		case plan.RecordEvent:
			o.Event = s.Event.Type + " " + s.Event.Reason + " " + s.Event.Message
		case plan.Change:
			after := s.New.(*corev1.PersistentVolumeClaim).DeepCopy()
			o.Annotation = after.Annotations[resizer]
			before := s.Old.(*corev1.PersistentVolumeClaim)
			if value, ok := before.Annotations[resizer]; ok {
				after.Annotations[resizer] = value
			} else {
				delete(after.Annotations, resizer)
			}
			if !alike(before, after) || s.Subresource != plan.Status || !s.CheckVersion ||
				s.Events.Failed.Type != corev1.EventTypeWarning || s.Events.Failed.Reason != reason {
				t.Errorf("more is changed than the annotation, or not by the status and of the version that was observed: %+v", s)
			}
		default:
			t.Errorf("unexpected step %T", s)
		}
	}
	return o
}
