package ephemeralvolume

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type podEdit = func(*corev1.Pod)

// newPod is one with an ordinary volume, which concerns nobody here, and what the edits add.
func newPod(name string, edits ...podEdit) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "5"}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		{Name: "named",
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "web-other"}}},
	}
	p.Status.Phase = corev1.PodPending
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// ephemeral gives a pod an ephemeral volume.
func ephemeral(name string) podEdit {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"type": name}, Annotations: map[string]string{"note": "x"}},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(
						"1Gi")}},
				},
			}},
		}})
	}
}

func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }

func phase(to corev1.PodPhase) podEdit { return func(p *corev1.Pod) { p.Status.Phase = to } }

func uid(of types.UID) podEdit { return func(p *corev1.Pod) { p.UID = of } }

// newClaim is a claim that belongs to a pod, or to nobody.
func newClaim(name string, of *corev1.Pod) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
		ResourceVersion: "6"}}
	if of != nil {
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(of, corev1.SchemeGroupVersion.WithKind("Pod"))}
	}
	return c
}

// seen is the snapshot of a pod with these claims.
func seen(p *corev1.Pod, claims ...*corev1.PersistentVolumeClaim) snapshot {
	s := snapshot{Pod: p, Claims: map[string]*corev1.PersistentVolumeClaim{}}
	for _, c := range claims {
		s.Claims[c.Name] = c
	}
	return s
}

// newCaches returns caches with these objects.
func newCaches(t interface{ Fatal(...any) }, objects ...plan.Object) *caches {
	f := informers.NewFactory(fake.NewClientset(), 0)
	k := &caches{}
	var err1, err2 error
	k.pods, err1 = informers.PodsByClaim(f)
	k.claims, err2 = informers.Objects[*corev1.PersistentVolumeClaim](f)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		informer := k.pods.Informer()
		if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
			informer = k.claims.Informer()
		}
		if err := informer.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func request(pod string) reconcile.Request[memory] {
	return reconcile.Request[memory]{Key: plan.Key{Namespace: "shop", Name: pod}, Now: epoch}
}

// created returns the claims that a plan creates, and told the messages of the events that it records.
func created(p plan.Plan) (claims []*corev1.PersistentVolumeClaim) {
	for _, s := range p.Steps {
		if each, ok := s.(plan.Each); ok {
			for _, sequence := range each.Sequences {
				claims = append(claims, sequence[0].(plan.Create).Object.(*corev1.PersistentVolumeClaim))
			}
		}
	}
	return claims
}

func told(p plan.Plan) (messages []string) {
	for _, s := range p.Steps {
		if e, ok := s.(plan.RecordEvent); ok {
			messages = append(messages, e.Event.Type+" "+e.Event.Reason+" "+e.Event.Message)
		}
	}
	return messages
}

func namesOf(claims []*corev1.PersistentVolumeClaim) (names []string) {
	for _, c := range claims {
		names = append(names, c.Name)
	}
	return names
}
