package replicaset

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// web is a ReplicaSet as a server would default it.
func web(size int32, generation int64) *appsv1.ReplicaSet {
	app := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID("web"), Generation: generation},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &size, Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}},
		},
	}
}

// While a cache does not show what the controller has written, whatever else changes leads to nothing: no pod is created or deleted
// that would have to be known of.
func TestRS9StaleCache(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	for _, c := range []struct {
		name       string
		size, next int32 // of the set, and when the watch of pods is frozen
	}{
		{"RS-9 pods that it does not see yet are not created again", 0, 3},
		{"RS-9 nor are others deleted for those that it has deleted", 5, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			managertest.InVirtualTime(t, time.Now(), func(t *testing.T, server *clienttest.Server) {
				entry := New(Options{})
				from := managertest.Context(t, server, entry, managertest.Cache{Example: &appsv1.ReplicaSet{}},
					managertest.Cache{Example: &corev1.Pod{}})
				from.Access.Events, from.Enabled = &record.FakeRecorder{}, func(string) bool { return true }
				put := managertest.Putter[*appsv1.ReplicaSet](t, server)
				managertest.Run(t, from, entry, func() {
					put(web(c.size, 1))
					time.Sleep(time.Minute)
					synctest.Wait()
					writes := func() string {
						return fmt.Sprint(server.CountWrites("create Pod"), " created, ", server.CountWrites("delete Pod"), " deleted")
					}
					server.FreezeWatches(pods)
					put(web(c.next, 2))
					time.Sleep(time.Second)
					synctest.Wait()
					once := writes()
					if want := fmt.Sprint(max(c.size, c.next), " created, ", max(0, c.size-c.next), " deleted"); once != want {
						t.Errorf("%s, want %s", once, want)
					}
					for i := range 20 {
						put(edited(c.next, i))
						time.Sleep(time.Second)
						synctest.Wait()
					}
					if got := writes(); got != once {
						t.Errorf("while the cache is stale: %s, before that %s", got, once)
					}
					server.ResumeWatches(pods)
					time.Sleep(time.Minute)
					synctest.Wait()
					if got := writes(); got != once || len(server.Names(pods)) != int(c.next) {
						t.Errorf("in the end: %s, and there are %v", got, server.Names(pods))
					}
				})
			})
		})
	}
}

// edited is the set with an annotation that has changed.
func edited(size int32, i int) *appsv1.ReplicaSet {
	s := web(size, 2)
	s.Annotations = map[string]string{"edit": fmt.Sprint(i)}
	return s
}
