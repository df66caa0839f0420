package tenants

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func namespace(name, tenant string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotation: tenant}}}
}

func tenant(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tenants", Name: name}}
}

func TestPlanAsksForTheTenant(t *testing.T) {
	p := planNamespace(time.Time{}, snapshot{Namespace: namespace("shop", "acme")})
	want := []plan.Ref{{Kind: client.KindFor[*corev1.ConfigMap](), Namespace: "tenants", Name: "acme"}}
	if !slices.Equal(p.Proof, want) || len(p.Steps) != 1 {
		t.Errorf("asks for %v, and plans %v", p.Proof, p.Steps)
	}
	for _, s := range []snapshot{{Namespace: namespace("shop", "")}, {Namespace: namespace("shop", "acme"), Tenant: tenant("acme")}} {
		if p := planNamespace(time.Time{}, s); len(p.Proof)+len(p.Steps) > 0 {
			t.Errorf("%s: asks for %v, and plans %v", p.Why, p.Proof, p.Steps)
		}
	}
}

func TestPlanHolds(t *testing.T) {
	p := planNamespace(time.Time{}, snapshot{Namespace: namespace("shop", "acme"), TooMany: "too many"})
	want := plan.Hold{What: "namespaces of tenants that are gone", Why: "too many"}
	if p.Hold != want || len(p.Proof)+len(p.Steps) > 0 {
		t.Errorf("%+v", p)
	}
}

// Somebody has deleted most tenants: their namespaces stay, and people are told, until an operator says that it was meant.
func TestNamespacesAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, entry := clienttest.NewServer(), New()
		put := func(o plan.Object) {
			if _, err := server.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		put(tenant("left"))
		put(namespace("f", "left"))
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			put(namespace(name, "gone-"+name))
		}
		c := managertest.Context(t, server, entry,
			managertest.Cache{Example: &corev1.Namespace{}}, managertest.Cache{Example: &corev1.ConfigMap{}})
		managertest.Run(t, c, entry, func() {
			time.Sleep(time.Hour)
			if held := c.Brake.Holds(time.Now()); len(held) != 1 || held[0].Why != "the tenants of 5 of 6 namespaces are gone" {
				t.Errorf("held: %+v", held)
			}
			if got := server.Names(client.KindFor[*corev1.Namespace]()); len(got) != 6 {
				t.Errorf("there are %v", got)
			}
			c.Brake.SetReleased(true)
			time.Sleep(time.Minute)
			clienttest.Settle()
			if got := server.Names(client.KindFor[*corev1.Namespace]()); !slices.Equal(got, []string{"f"}) {
				t.Errorf("there are %v", got)
			}
			if held := c.Brake.Holds(time.Now()); len(held) > 0 {
				t.Errorf("held: %+v", held)
			}
		})
	})
}

// The cache of ConfigMaps does not show the tenant of a new namespace yet: that stays. When the tenant is gone, it goes.
func TestNamespacesGoWithTheirTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, entry := clienttest.NewServer(), New()
		put := func(o plan.Object) {
			if _, err := server.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		namespaces := func(want ...string) {
			t.Helper()
			clienttest.Settle()
			if got := server.Names(client.KindFor[*corev1.Namespace]()); !slices.Equal(got, want) {
				t.Errorf("there are %v, want %v", got, want)
			}
		}
		c := managertest.Context(t, server, entry,
			managertest.Cache{Example: &corev1.Namespace{}}, managertest.Cache{Example: &corev1.ConfigMap{}})
		managertest.Run(t, c, entry, func() {
			maps := client.MappingFor[*corev1.ConfigMap]()
			server.FreezeWatches(maps.GroupVersionKind)
			put(tenant("acme"))
			put(namespace("shop", "acme"))
			put(namespace("lost", "nobody"))
			namespaces("shop")
			server.ResumeWatches(maps.GroupVersionKind)
			namespaces("shop")
			if err := server.Delete(t.Context(), maps, plan.Key{Namespace: "tenants", Name: "acme"}, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			namespaces()
		})
	})
}
