package storageversiongc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// REG-19: the names by which flags, logs, roles and clients know the controller, and what it needs.
func TestREG19Names(t *testing.T) {
	c := New(Options{})
	if c.Name != "storageversion-garbage-collector-controller" || c.Alias != "storage-version-gc" || c.OffByDefault || c.Flags != nil ||
		c.Account != "storage-version-garbage-collector" || fmt.Sprint(c.Gates, c.Needs) !=
		"[APIServerIdentity StorageVersionAPI] [internal.apiserver.k8s.io/v1alpha1, Resource=storageversions]" {
		t.Errorf("%+v", c)
	}
}

// bench is a server on which the controller works. Live reads of Leases fail with an error, if there is one.
type bench struct {
	*testing.T
	*clienttest.Server
	fails error
}

// Get implements client.Client.
func (b *bench) Get(ctx context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	if m.Resource == "leases" && b.fails != nil {
		return b.fails
	}
	return b.Server.Get(ctx, m, key, into)
}

// run runs the controller on a server with these objects, while a test works.
func run(t *testing.T, objects []plan.Object, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Server: clienttest.NewServer()}
		for _, o := range objects {
			b.put(o)
		}
		entry := New(Options{})
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &storageVersion{}},
			managertest.Cache{Example: &coordinationv1.Lease{}, Selector: fields.OneTermEqualSelector("metadata.namespace", "kube-system")})
		c.Access.Client, c.Shared.Verifier = b, b
		managertest.Run(t, c, entry, func() { test(b) })
	})
}

func (b *bench) put(o plan.Object) {
	b.Helper()
	if _, err := b.Put(o); err != nil {
		b.Fatal(err)
	}
}

// newLease is the Lease of an API server.
func newLease(id string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: id, UID: "uid-1",
		Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}}}
}

// ofSomebody is a Lease that has nothing to do with API servers.
func ofSomebody(id string) *coordinationv1.Lease {
	l := newLease(id)
	l.Labels = nil
	return l
}

// status is what the StorageVersion says after a moment; empty if there is none.
func (b *bench) status() string {
	b.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	v := &storageVersion{}
	if err := b.Server.Get(b.Context(), client.MappingFor[*storageVersion](), plan.KeyOf(newVersion("")), v); err != nil {
		return ""
	}
	return says(v)
}

func (b *bench) removeLease(id string) {
	b.Helper()
	leases := client.MappingFor[*coordinationv1.Lease]()
	if err := b.Delete(b.Context(), leases, plan.KeyOf(newLease(id)), metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

const both, agreedOnV1 = "a=v1 b=v1", "b=v1 common v1 AllEncodingVersionsEqual True CommonEncodingVersionSet"

// SVG-1, SVG-3: an API server ends, and then the other one.
func TestLifeOfAStorageVersion(t *testing.T) {
	run(t, []plan.Object{newLease("a"), newLease("b"), newVersion(both)}, func(b *bench) {
		if got := b.status(); got != both || len(b.Writes()) != 0 {
			b.Errorf("%s: %v", got, b.Log())
		}
		b.removeLease("a")
		if got := b.status(); got != agreedOnV1 {
			b.Error(got)
		}
		b.removeLease("b")
		if got := b.status(); got != "" || len(b.Writes()) != 2+2 { // of which two are the test's
			b.Errorf("%s: %v", got, b.Log())
		}
	})
}

// SVG-2: what is there when the manager starts is looked at, and a Lease of that name may be somebody else's.
func TestEntriesOfServersThatAreGone(t *testing.T) {
	for name, found := range map[string][]plan.Object{
		"no Lease": {newLease("b"), newVersion(both)}, "one of somebody else": {newLease("b"), ofSomebody("a"), newVersion(both)},
	} {
		run(t, found, func(b *bench) {
			if got := b.status(); got != agreedOnV1 {
				b.Errorf("%s: %s", name, got)
			}
		})
	}
}

// SVG-1: a Lease that is no longer that of an API server counts as one that is gone.
func TestALeaseThatLosesItsLabel(t *testing.T) {
	run(t, []plan.Object{newLease("a"), newLease("b"), newVersion(both)}, func(b *bench) {
		b.put(ofSomebody("a"))
		if got := b.status(); got != agreedOnV1 {
			b.Error(got)
		}
	})
}

// SVG-1, SVG-20: the cache does not show the Lease of an API server that has just started, or that came back.
func TestACacheThatLags(t *testing.T) {
	run(t, []plan.Object{newLease("a")}, func(b *bench) {
		b.FreezeWatches(client.KindFor[*coordinationv1.Lease]())
		b.put(newLease("b"))
		b.put(newVersion(both))
		if got := b.status(); got != both {
			b.Error(got)
		}
	})
}

// SVG-20: that a Lease cannot be read says nothing. When it can, work goes on.
func TestALeaseThatCannotBeRead(t *testing.T) {
	run(t, []plan.Object{newLease("b")}, func(b *bench) {
		b.fails = errors.New("connection refused")
		b.put(newVersion(both))
		time.Sleep(10 * time.Minute)
		if got := b.status(); got != both {
			b.Error(got)
		}
		b.fails = nil
		time.Sleep(2 * time.Minute)
		if got := b.status(); got != agreedOnV1 {
			b.Error(got)
		}
	})
}

// SVG-20: an API server that enters itself meanwhile makes the write fail, and is not lost.
func TestAnEntryThatComesMeanwhile(t *testing.T) {
	run(t, []plan.Object{newLease("b"), newLease("c")}, func(b *bench) {
		b.FreezeWatches(client.KindFor[*storageVersion]())
		b.put(newVersion("a=v1"))
		b.ResumeWatches(client.KindFor[*storageVersion]())
		var once sync.Once
		b.BeforeWrite(func(clienttest.Write) error {
			once.Do(func() {
				b.put(newVersion("a=v1 c=v2"))
			})
			return nil
		})
		if got := b.status(); got != "c=v2 common v2 AllEncodingVersionsEqual True CommonEncodingVersionSet" {
			b.Errorf("%s: %v", got, b.Log())
		}
	})
}
