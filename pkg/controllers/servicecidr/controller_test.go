package servicecidr

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
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
	synctest.Test(t, func(t *testing.T) { work(t, clienttest.NewServer(), test) })
}

// work has the controller work on a server.
func work(t *testing.T, s *clienttest.Server, test func(b *bench)) {
	t.Helper()
	entry := New(Options{})
	c := managertest.Context(t, s, entry, managertest.Cache{Example: &networkingv1.ServiceCIDR{}},
		managertest.Cache{Example: &networkingv1.IPAddress{}})
	managertest.Run(t, c, entry, func() { test(&bench{t, s}) })
}

func (b *bench) put(objects ...plan.Object) {
	b.Helper()
	for _, o := range objects {
		o.SetUID("")
		o.SetResourceVersion("")
		if _, err := b.Put(o); err != nil {
			b.Fatal(err)
		}
	}
}

// doom has a ServiceCIDR deleted now.
func (b *bench) doom(name string) {
	b.Helper()
	c := b.get(name)
	c.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if _, err := b.Put(c); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) remove(ip string) {
	b.Helper()
	err := b.Delete(b.Context(), client.MappingFor[*networkingv1.IPAddress](), plan.Key{Name: ip}, metav1.DeleteOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get(name string) *networkingv1.ServiceCIDR {
	b.Helper()
	c := &networkingv1.ServiceCIDR{}
	if err := b.Get(b.Context(), client.MappingFor[*networkingv1.ServiceCIDR](), plan.Key{Name: name}, c); err != nil {
		b.Fatal(err)
	}
	return c
}

// want compares whether a ServiceCIDR is protected, and its condition.
func (b *bench) want(what string, protected bool, condition string) {
	b.Helper()
	synctest.Wait()
	c, got := b.get("extra"), ""
	for _, one := range c.Status.Conditions {
		got += string(one.Status) + one.Reason
	}
	if slices.Contains(c.Finalizers, finalizer) != protected || got != condition {
		b.Errorf("%s: %v, %s: %v", what, c.Finalizers, got, b.Log())
	}
}

// A ServiceCIDR gets the finalizer and is ready, stays while it alone holds an address, and goes ten seconds after its deletion at the
// earliest.
func TestLifeOfARange(t *testing.T) { // SCC-1 to SCC-6
	run(t, func(b *bench) {
		b.put(newCIDR([]string{"10.1.0.0/16"}), newAddress("10.1.0.9"))
		clienttest.Settle()
		b.want("it is created", true, "True")
		b.doom("extra")
		time.Sleep(time.Hour)
		b.want("it is deleted", true, "FalseTerminating")
		b.remove("10.1.0.9")
		time.Sleep(time.Second)
		b.want("the address is gone", false, "FalseTerminating")
		if b.CountWrites("") != 5 || b.CountWrites("patch") != 4 { // and the deletion of the address
			b.Error(b.Log())
		}
	})
	run(t, func(b *bench) {
		b.put(newCIDR([]string{"10.1.0.0/16"}, protected, ready))
		b.doom("extra")
		time.Sleep(9 * time.Second)
		b.want("the API servers may not have noticed", true, "True")
		time.Sleep(2 * time.Second)
		b.want("they have", false, "True")
	})
}

// A ServiceCIDR that is made for the addresses of another one lets that one go, but not before it is protected itself.
func TestAnotherRangeTakesTheAddresses(t *testing.T) { // SCC-5
	run(t, func(b *bench) {
		b.put(newCIDR([]string{"10.1.0.0/16"}, protected, ready), newAddress("10.1.0.9"))
		b.doom("extra")
		time.Sleep(time.Hour)
		b.want("it is deleted", true, "FalseTerminating")
		larger := other("larger", "10.0.0.0/8")
		larger.Finalizers = nil
		b.put(larger)
		b.AfterWrite(func(w clienttest.Write) error {
			if !slices.Contains(b.get("extra").Finalizers, finalizer) && !slices.Contains(b.get("larger").Finalizers, finalizer) {
				b.Errorf("%s: nobody is protected", w)
			}
			return nil
		})
		time.Sleep(time.Second)
		b.want("a larger one holds the address", false, "FalseTerminating")
	})
}

// Two that hold the same addresses, and are deleted together, both stay.
func TestSCC20TwoTogether(t *testing.T) {
	run(t, func(b *bench) {
		twin := other("twin", "10.1.0.0/16")
		b.put(newCIDR([]string{"10.1.0.0/16"}, protected, ready), twin, newAddress("10.1.0.9"))
		clienttest.Settle()
		b.doom("extra")
		b.doom("twin")
		time.Sleep(time.Hour)
		b.want("both are deleted", true, "FalseTerminating")
		if !slices.Contains(b.get("twin").Finalizers, finalizer) {
			b.Error(b.Log())
		}
		b.remove("10.1.0.9")
		time.Sleep(time.Second)
		b.want("the address is gone", false, "FalseTerminating")
	})
}

// Caches that lack an address, or that another ServiceCIDR is being deleted, let none go.
func TestCachesThatLag(t *testing.T) {
	addresses, ranges := client.KindFor[*networkingv1.IPAddress](), client.KindFor[*networkingv1.ServiceCIDR]()
	run(t, func(b *bench) {
		b.put(newCIDR([]string{"10.1.0.0/16"}, protected, ready))
		b.FreezeWatches(addresses)
		b.put(newAddress("10.1.0.9"))
		b.doom("extra")
		time.Sleep(time.Minute)
		b.want("the cache lacks an address", true, "FalseTerminating")
		b.remove("10.1.0.9")
		time.Sleep(time.Minute)
		b.want("it is gone, and was never in the cache", false, "FalseTerminating")
		b.ResumeWatches(addresses)
	})
	run(t, func(b *bench) {
		b.put(newCIDR([]string{"10.1.0.0/16"}, protected, ready), other("twin", "10.1.0.0/16"), newAddress("10.1.0.9"))
		clienttest.Settle()
		b.doom("extra")
		time.Sleep(5 * time.Second)
		b.FreezeWatches(ranges)
		b.doom("twin")
		time.Sleep(time.Minute)
		b.ResumeWatches(ranges)
		time.Sleep(time.Minute)
		b.want("the cache lacks the deletion of the other", true, "FalseTerminating")
	})
}

// A write that is refused is tried again without end, and after a takeover the rest is done.
func TestRefusalsAndTakeovers(t *testing.T) { // SCC-7
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.NewServer()
		s.BeforeWrite(clienttest.RefuseFirst(20, errors.New("no")))
		work(t, s, func(b *bench) {
			b.put(newCIDR([]string{"10.1.0.0/16"}))
			time.Sleep(time.Hour)
			b.want("the first writes were refused", true, "True")
			b.doom("extra")
			time.Sleep(9 * time.Second)
		})
		work(t, s, func(b *bench) {
			time.Sleep(20 * time.Second)
			b.want("another process leads", false, "True")
		})
	})
}

func TestEntry(t *testing.T) {
	c := New(Options{})
	if c.Name != "service-cidr-controller" || c.Alias != "" || c.Account != "service-cidrs-controller" ||
		c.EventSource != "service-cidr-controller" || c.OffByDefault {
		t.Errorf("%+v", c)
	}
}
