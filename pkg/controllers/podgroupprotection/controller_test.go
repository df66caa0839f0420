package podgroupprotection

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &podGroup{}}, managertest.Cache{Example: &pod{}})
		managertest.Run(t, c, entry, func() { test(b) })
	})
}

func (b *bench) put(o plan.Object) {
	b.Helper()
	if _, err := b.Put(o); err != nil {
		b.Fatal(err)
	}
}

// doom has the PodGroup deleted now.
func (b *bench) doom() {
	b.put(newGroup("gang", with(finalizer), func(o plan.Object) { o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()}) }))
}

// want says whether the PodGroup still has the finalizer.
func (b *bench) want(what string, kept bool) {
	b.Helper()
	g := &podGroup{}
	err := b.Get(b.Context(), client.MappingFor[*podGroup](), plan.Key{Namespace: "shop", Name: "gang"}, g)
	if err != nil && !apierrors.IsNotFound(err) || slices.Contains(g.Finalizers, finalizer) != kept {
		b.Errorf("%s: %v, %v, %v", what, g.Finalizers, err, b.Log())
	}
}

// A PodGroup keeps its finalizer until it is deleted and the last of its pods has ended. That is one update.
func TestLifeOfAPodGroup(t *testing.T) { // PGP-2 to PGP-4
	run(t, func(b *bench) {
		b.put(newGroup("gang"))
		clienttest.Settle()
		b.want("it has none, and gets none", false)
		b.put(newPod("rank-0", "gang", in(corev1.PodPending)))
		b.put(newPod("rank-1", "gang", in(corev1.PodFailed)))
		b.put(newGroup("gang", with(finalizer)))
		b.doom()
		time.Sleep(time.Hour)
		b.want("a pod waits for a node", true)
		b.put(newPod("rank-0", "gang", in(corev1.PodSucceeded)))
		clienttest.Settle()
		if b.want("the last pod has ended", false); b.CountWrites("") != 1 || b.CountWrites("update") != 1 {
			t.Error(b.Log())
		}
	})
}

// A cache that may be older than the deletion does not say that no pod may run: a live list does.
func TestPGP20CachesAreNewerThanTheDeletion(t *testing.T) {
	pods := client.KindFor[*pod]()
	run(t, func(b *bench) {
		b.put(newGroup("gang", with(finalizer)))
		b.FreezeWatches(pods)
		b.put(newPod("rank-0", "gang"))
		b.doom()
		time.Sleep(time.Hour)
		b.want("the cache lacks a pod", true)
		b.put(newPod("rank-0", "gang", in(corev1.PodSucceeded)))
		time.Sleep(listAgain + time.Second)
		b.want("it has ended, which the cache does not know either", false)
	})
	run(t, func(b *bench) {
		b.put(newGroup("gang", with(finalizer)))
		b.doom()
		time.Sleep(900 * time.Millisecond)
		b.want("nothing happens in the cluster", true)
		time.Sleep(200 * time.Millisecond)
		b.want("the pods were listed", false)
	})
	run(t, func(b *bench) {
		b.put(newGroup("gang", with(finalizer)))
		b.doom()
		b.put(newPod("other", ""))
		time.Sleep(300 * time.Millisecond)
		b.want("the cache is newer", false)
	})
}
