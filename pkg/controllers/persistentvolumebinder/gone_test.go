package persistentvolumebinder

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A class that has its claims wait for pods is installed anew: the claims are not bound to any volume meanwhile. If it stays away, it
// is none (PV-32).
func TestClassInstalledAnew(t *testing.T) {
	run(t, Options{}, func(c *cluster) {
		c.put(class("local", noProvisioner, "wait"), volume("v", "class=local"), claim("data", "class=local"))
		clienttest.Settle()
		c.phases("v Available")
		gone := func() {
			if err := c.Delete(c.Context(), client.MappingFor[*storagev1.StorageClass](), plan.Key{Name: "local"},
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			c.put(claim("late", "class=local"))
			time.Sleep(10 * time.Second)
			c.phases("v Available")
		}
		gone()
		c.put(class("local", noProvisioner, "wait"))
		clienttest.Settle()
		c.phases("v Available")
		c.remove("late")
		gone()
		time.Sleep(15 * time.Second)
		c.phases("v Bound")
	})
}
