package podgroupprotection

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	finalizer          = "scheduling.k8s.io/podgroup-protection"
	compositeFinalizer = "scheduling.k8s.io/compositepodgroup-protection"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// edit changes an object of any kind.
type edit = func(plan.Object)

func newGroup(name string, edits ...edit) *podGroup {
	g := &podGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-gang", ResourceVersion: "5"}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	return edited(g, edits)
}

func newComposite(name string, edits ...edit) *compositePodGroup {
	c := &compositePodGroup{}
	c.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-fleet", ResourceVersion: "5"}
	c.GetObjectKind().SetGroupVersionKind(compositeKind())
	return edited(c, edits)
}

// newPod is a pod of a PodGroup, or of none.
func newPod(name, group string, edits ...edit) *pod {
	p := &pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if group != "" {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
	return edited(p, edits)
}

func edited[T plan.Object](o T, edits []edit) T {
	for _, e := range edits {
		e(o)
	}
	return o
}

func with(finalizers ...string) edit { return func(o plan.Object) { o.SetFinalizers(finalizers) } }

func leaving(o plan.Object) { o.SetDeletionTimestamp(&metav1.Time{Time: epoch}) }

func elsewhere(o plan.Object) { o.SetNamespace("office") }

func in(phase corev1.PodPhase) edit { return func(o plan.Object) { o.(*pod).Status.Phase = phase } }

// under puts a group into a CompositePodGroup.
func under(parent string) edit {
	return func(o plan.Object) {
		switch g := o.(type) {
		case *podGroup:
			g.Spec.ParentCompositePodGroupName = &parent
		case *compositePodGroup:
			g.Spec.ParentCompositePodGroupName = &parent
		}
	}
}

// cachesWith returns caches with these objects.
func cachesWith(t interface{ Fatal(...any) }, objects ...plan.Object) stores {
	f := informers.NewFactory(fake.NewClientset(), 0)
	f.AddScheme(scheme(), nil)
	s, err := newStores(f, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		s.cache(t, o)
	}
	return s
}

func (s stores) cache(t interface{ Fatal(...any) }, o runtime.Object) {
	informer := s.pods.Informer()
	switch o.(type) {
	case *podGroup:
		informer = s.groups.Informer()
	case *compositePodGroup:
		informer = s.composites.Informer()
	}
	if err := informer.GetIndexer().Add(o); err != nil {
		t.Fatal(err)
	}
}
