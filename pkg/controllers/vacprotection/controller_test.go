package vacprotection

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bench is a server on which the controller works in virtual time.
type bench struct {
	*testing.T
	*clienttest.Server
}

func run(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, entry := &bench{t, clienttest.NewServer()}, New(Options{})
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &storagev1.VolumeAttributesClass{}},
			managertest.Cache{Example: &corev1.PersistentVolumeClaim{}}, managertest.Cache{Example: &corev1.PersistentVolume{}})
		managertest.Run(t, c, entry, func() { test(b) })
	})
}

func (b *bench) put(o plan.Object) {
	b.Helper()
	if _, err := b.Put(o); err != nil {
		b.Fatal(err)
	}
}

// doom has the class deleted now.
func (b *bench) doom() {
	b.put(newClass(with(finalizer), func(c *storagev1.VolumeAttributesClass) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} }))
}

func (b *bench) removeClaim(name string) {
	b.Helper()
	if err := b.Delete(b.Context(), client.MappingFor[*corev1.PersistentVolumeClaim](), plan.Key{Namespace: "shop", Name: name},
		metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

// want compares the finalizers of the class.
func (b *bench) want(what string, finalizers ...string) {
	b.Helper()
	c := &storagev1.VolumeAttributesClass{}
	err := b.Get(b.Context(), client.MappingFor[*storagev1.VolumeAttributesClass](), plan.Key{Name: "gold"}, c)
	if err != nil || !slices.Equal(c.Finalizers, finalizers) {
		b.Errorf("%s: %v, %v, %v", what, c.Finalizers, err, b.Log())
	}
}

// A class gets the finalizer, keeps it while a claim refers to it, and loses it when none does. Each step is one update.
func TestLifeOfAClass(t *testing.T) { // ST-40 to ST-43
	run(t, func(b *bench) {
		b.put(newClaim("data", "spec", "gold"))
		b.put(newClass())
		clienttest.Settle()
		b.want("it is created", finalizer)
		b.doom()
		time.Sleep(time.Hour)
		b.want("it is deleted", finalizer)
		b.put(newClaim("data", "current", "gold"))
		time.Sleep(time.Hour)
		b.want("the claim is to have another class", finalizer)
		b.removeClaim("data")
		b.put(newVolume("disk", ""))
		clienttest.Settle()
		b.want("the claim is gone")
		if b.CountWrites("") != 3 || b.CountWrites("update") != 2 { // and the deletion of the claim
			t.Error(b.Log())
		}
	})
}

// A cache that may be older than the deletion of a class does not say that nobody uses it; but it is not waited for without end.
func TestST94CachesAreNewerThanTheDeletion(t *testing.T) {
	claims := client.KindFor[*corev1.PersistentVolumeClaim]()
	run(t, func(b *bench) {
		b.put(newClass(with(finalizer)))
		b.FreezeWatches(claims)
		b.put(newClaim("data", "spec", "gold"))
		b.put(newVolume("disk", ""))
		b.doom()
		b.put(newVolume("disk", "silver"))
		time.Sleep(4 * time.Second)
		b.want("the cache lacks a claim", finalizer)
		b.ResumeWatches(claims)
		time.Sleep(time.Hour)
		b.want("the claim has come", finalizer)
		b.removeClaim("data")
		time.Sleep(time.Second)
		b.want("the claim is gone, and both caches are newer than the deletion")
	})
	run(t, func(b *bench) {
		b.put(newClass(with(finalizer)))
		b.doom()
		b.put(newVolume("disk", "silver"))
		time.Sleep(time.Second)
		b.want("only one of the two caches is newer", finalizer)
		b.put(newClaim("data", "spec", "silver"))
		time.Sleep(time.Second)
		b.want("both are")
	})
	run(t, func(b *bench) {
		b.put(newClass(with(finalizer)))
		b.doom()
		time.Sleep(4 * time.Second)
		b.want("nothing happens in the cluster", finalizer)
		time.Sleep(2 * time.Second)
		b.want("nothing has happened for a while")
	})
}
