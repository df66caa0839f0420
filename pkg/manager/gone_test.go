package manager

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// What a watch shows to be gone is told while the controllers run, and neither what changes nor what goes afterwards.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		named := func(name string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		}
		client := fake.NewClientset(named("a"), named("b"), named("c"))
		m := &instance{informers: informers.NewFactory(client, 0)}
		if _, err := informers.Pods(m.informers); err != nil {
			t.Fatal(err)
		}
		m.tellGone(t.Context())() // nobody wants to know
		var told []string
		m.Gone = func(o plan.Object) { told = append(told, o.GetName()) }
		running, stop := context.WithCancel(t.Context())
		m.informers.StartWithContext(running)
		defer m.informers.Shutdown()
		defer stop()
		end := m.tellGone(t.Context())
		synctest.Wait()
		pods := client.CoreV1().Pods("ns")
		changed := named("b")
		changed.Labels = map[string]string{"a": "b"}
		if _, err := pods.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := pods.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		end()
		synctest.Wait()
		if err := pods.Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		m.gone(cache.DeletedFinalStateUnknown{Obj: named("missed")})
		m.gone("no object")
		if len(told) != 2 || told[0] != "a" || told[1] != "missed" {
			t.Errorf("told of %v", told)
		}
	})
}
