package informers

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// ReplicationControllers come from the server as they are: their status is written by an update of the whole object.
func TestRC3RC18ReplicationControllers(t *testing.T) {
	whole := &corev1.ReplicationController{}
	plantest.Anything(1)(whole)
	whole.Namespace, whole.Name = "shop", "classic"
	whole.ManagedFields = nil // no cache has them, and the server keeps those of an update that has none
	client := fake.NewClientset()
	if err := client.Tracker().Add(whole.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f := NewFactory(client, 0)
	all := must(Objects[*corev1.ReplicationController](f))
	if again := must(Objects[*corev1.ReplicationController](f)); again.Informer().GetIndexer() != all.Informer().GetIndexer() {
		t.Error("CI-9: two informers for ReplicationControllers")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), all.Informer().HasSynced) {
		t.Fatal("not synced")
	}
	if diff := cmp.Diff(whole, all.Get("shop", "classic")); diff != "" {
		t.Errorf("the cache has another (-want +got):\n%s", diff)
	}
	if all.Get("shop", "x") != nil || all.Get("bank", "classic") != nil || names(all.In("bank")) != "" ||
		names(all.In("shop")) != "classic" {
		t.Errorf("in shop: %s", names(all.In("shop")))
	}
	later := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	if _, err := client.CoreV1().ReplicationControllers("bank").Create(ctx, later, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return names(all.In("bank")) == "new" })
}
