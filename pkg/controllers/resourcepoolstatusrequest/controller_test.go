package resourcepoolstatusrequest

import (
	"testing"
	"testing/synctest"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
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
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &request{}},
			managertest.Cache{Example: &resourcev1.ResourceSlice{}}, managertest.Cache{Example: &resourcev1.ResourceClaim{}},
			managertest.Cache{Example: &resourcev1.DeviceTaintRule{}})
		managertest.Run(t, c, entry, func() { test(b) })
	})
}

func (b *bench) put(objects ...plan.Object) {
	b.Helper()
	for _, o := range objects {
		if _, err := b.Put(o); err != nil {
			b.Fatal(err)
		}
	}
}

// ask makes a request now.
func (b *bench) ask() {
	b.put(newRequest(func(r *request) { r.CreationTimestamp = metav1.NewTime(time.Now()) }))
}

// want compares the answer; empty for none.
func (b *bench) want(what, want string) {
	b.Helper()
	r := &request{}
	if err := b.Get(b.Context(), client.MappingFor[*request](), plan.Key{Name: "ask"}, r); err != nil {
		b.Fatalf("%s: %v", what, err)
	}
	if got := text(r.Status); got != want {
		b.Errorf("%s: %s, %v", what, got, b.Log())
	}
}

func pools(devices string) string {
	return "1 pools; Calculated status for 1 pools\np 1 on node: 1 slices, " + devices
}

// A request is answered once, and deleted an hour later.
func TestLifeOfARequest(t *testing.T) { // RPS-1, RPS-10
	run(t, func(b *bench) {
		b.put(newSlice("a", "p", has("a"), has("b")), newClaim("x", "p", "a"))
		b.ask()
		time.Sleep(2 * time.Second)
		answer := pools("2 devices, 1 allocated, 0 unavailable, 1 available")
		b.want("it is answered", answer)
		b.put(newClaim("y", "p", "b"))
		time.Sleep(59 * time.Minute)
		if b.want("it is answered once", answer); b.CountWrites("") != 1 || b.CountWrites("patch") != 1 {
			t.Error(b.Log())
		}
		time.Sleep(2 * time.Minute)
		err := b.Get(b.Context(), client.MappingFor[*request](), plan.Key{Name: "ask"}, &request{})
		if !apierrors.IsNotFound(err) || b.CountWrites("delete") != 1 {
			t.Errorf("it is there after an hour: %v, %v", err, b.Log())
		}
	})
}

// A cache that is older than the request is not believed: live lists say what is so.
func TestRPS26CachesAreNewerThanTheRequest(t *testing.T) {
	run(t, func(b *bench) {
		b.put(newSlice("a", "p", has("a"), has("b")))
		clienttest.Settle()
		b.FreezeWatches(client.KindFor[*resourcev1.ResourceClaim]())
		b.put(newClaim("x", "p", "a"))
		b.ask()
		time.Sleep(900 * time.Millisecond)
		b.want("the cache is waited for", "")
		time.Sleep(2 * time.Second)
		b.want("it was late", pools("2 devices, 1 allocated, 0 unavailable, 1 available"))
	})
}

// A pool that lacks slices is answered for when they come, and otherwise after a while.
func TestRPS22IncompletePools(t *testing.T) {
	run(t, func(b *bench) {
		b.put(newSlice("a", "p", of(1, 2), has("a")))
		b.ask()
		time.Sleep(20 * time.Second)
		b.want("a slice is missing", "")
		b.put(newSlice("b", "p", of(1, 2), has("b")))
		time.Sleep(2 * time.Second)
		b.want("it has come", "1 pools; Calculated status for 1 pools\np 1 on node: 2 slices, 2 devices, 0 allocated, 0 unavailable, 2 available")
	})
	run(t, func(b *bench) {
		b.put(newSlice("a", "p", of(1, 2), has("a")))
		b.ask()
		time.Sleep(time.Minute)
		b.want("it does not come", "1 pools; Calculated status for 1 pools (1 incomplete)\np 1 on node: - slices, - devices, - allocated, "+
			"- unavailable, - available; PoolIncomplete: pool gpu.example.com/p is incomplete: observed 1/2 slices at generation 1")
	})
}
