package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// emptier is the namespace controller, in the namespace shop.
func (s *scene) emptier() Hand { return s.Manager().Account(namespaceAccount).In("shop") }

// look lists some resources.
func (s *scene) look(resources ...string) {
	for _, resource := range resources {
		s.emptier().Ask("list", resource, "", 200)
	}
}

// aNamespace is one that a user deletes, with a ConfigMap in it.
func aNamespace(s *scene) (ns, content Object) {
	ns = s.User().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}})
	content = s.User().Create(aMap("content"))
	s.Wait(time.Minute)
	return s.User().Terminate(ns), content
}

// deletedBefore is a namespace that was deleted so long ago, when the recording begins.
func deletedBefore(s *scene, ago time.Duration) Object {
	deleted := metav1.NewTime(s.Now.Add(-ago))
	ns := s.User().Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", DeletionTimestamp: &deleted},
		Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}})
	s.Revisions[len(s.Revisions)-1].Injected = true
	return ns
}

// release takes off the finalizer. Without finalizers of others the namespace goes with it.
func (s *scene) release(ns Object) {
	s.emptier().Edit(ns, func(o Object) { o.(*corev1.Namespace).Spec.Finalizers = nil })
}

func TestNamespacesEndEmpty(t *testing.T) { // S17
	run(t, NamespacesEndEmpty(), []history{
		{name: "NS-28, NS-36 a round has looked at everything after the last object went", write: func(s *scene) {
			ns, content := aNamespace(s)
			s.look("pods", "configmaps")
			s.emptier().Delete(content)
			s.Wait(6 * time.Second)
			s.look("pods", "configmaps")
			s.release(ns)
		}},
		{name: "NS-4 too soon", write: func(s *scene) {
			ns, content := aNamespace(s)
			s.emptier().Delete(content)
			s.Wait(time.Second)
			s.release(ns)
		}, want: "after its deletion"},
		{name: "it was deleted before the recording began", write: func(s *scene) { // the soak's seed 7, epoch 38
			s.release(deletedBefore(s, 10*time.Second))
		}},
		{name: "NS-4 it was deleted before the recording began, but too late", write: func(s *scene) {
			s.release(deletedBefore(s, time.Second))
		}, want: "after its deletion"},
		{name: "NS-36 something is left", write: func(s *scene) {
			ns, _ := aNamespace(s)
			s.Wait(6 * time.Second)
			s.release(ns)
		}, want: "there are ConfigMap/shop/content"},
		{name: "NS-28 one kind was listed before the last object went", write: func(s *scene) {
			ns, content := aNamespace(s)
			s.look("pods", "configmaps")
			s.Wait(6 * time.Second)
			s.emptier().Delete(content)
			s.Wait(6 * time.Second)
			s.look("configmaps")
			s.release(ns)
		}, want: "released though pods were listed 12."},
		{name: "NS-28 a list that failed does not count", write: func(s *scene) {
			ns, content := aNamespace(s)
			s.look("pods", "configmaps")
			s.Wait(6 * time.Second)
			s.emptier().Delete(content)
			s.Wait(6 * time.Second)
			s.look("configmaps")
			s.emptier().Ask("list", "pods", "", 500)
			s.release(ns)
		}, want: "released though pods were listed"},
		{name: "what came and went without being listed is not known", write: func(s *scene) {
			ns, content := aNamespace(s)
			s.look("pods", "configmaps")
			s.emptier().Delete(content)
			s.Wait(6 * time.Second)
			s.look("pods")
			late := s.User().Create(aMap("late"))
			s.Wait(6 * time.Second)
			s.User().Delete(late)
			s.look("configmaps")
			s.release(ns)
		}},
		{name: "a user takes the finalizer off", write: func(s *scene) {
			ns, _ := aNamespace(s)
			s.User().Edit(ns, func(o Object) { o.(*corev1.Namespace).Spec.Finalizers = nil })
		}},
		{name: "something is stored after the release", write: func(s *scene) {
			ns, content := aNamespace(s)
			s.emptier().Delete(content)
			s.Wait(6 * time.Second)
			s.release(ns)
			s.User().Create(aMap("late"))
		}, want: "stored in a namespace that was released"},
		{name: "something is stored in a new one of that name", write: func(s *scene) {
			ns, content := aNamespace(s)
			s.emptier().Delete(content)
			s.Wait(6 * time.Second)
			s.release(ns)
			s.User().Delete(ns)
			aNamespace(s)
		}},
	})
}
