package garbagecollector

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// GC-33, GC-71: an owner that nobody has seen is read once for all of its dependents.
func TestOneReadForEachOwner(t *testing.T) {
	run(t, func(b *bench) {
		b.seeDependents(50, "never-seen")
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"ConfigMap never-seen"}, b.server.live()); diff != "" {
			b.Errorf("reads (-want +got):\n%s", diff)
		}
		if n := len(b.server.Names(b.term.kinds[configMaps].GroupVersionKind)); n != 0 {
			b.Errorf("%d objects are left", n)
		}
	})
}

// GC-20: an owner that the server has, though no watch has shown it, keeps its dependents; when it is gone, so are they.
func TestOwnerThatNoWatchShows(t *testing.T) {
	run(t, func(b *bench) {
		b.put("unwatched")
		b.see(b.put("web", "unwatched"))
		time.Sleep(time.Minute)
		b.unwritten()
		if n := len(b.server.live()); n < 10 || n > 20 {
			b.Errorf("%d reads in a minute", n)
		}
		m, _ := client.BuiltIn(b.term.kinds[configMaps].GroupVersionKind)
		if err := b.server.Delete(b.Context(), m, plan.Key{Namespace: "shop", Name: "unwatched"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if n := b.server.CountWrites("delete ConfigMap web"); n != 1 {
			b.Errorf("written: %v", b.server.Log())
		}
	})
}

// GC-9, GC-34: an owner about which the server says nothing keeps its dependents, whatever the server says instead.
func TestFailingReadsDeleteNothing(t *testing.T) {
	noPath := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "configmaps"}, "owner", "404 page not found", 0,
		true)
	for name, err := range map[string]error{
		"no such path": noPath, "503": apierrors.NewServiceUnavailable("down"),
		"forbidden": apierrors.NewForbidden(schema.GroupResource{}, "owner", nil),
		"time-out":  context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *bench) {
				b.server.fails("owner", err)
				web := b.put("web", "owner", "absent")
				web.OwnerReferences[1].Kind = "Secret"
				b.see(web)
				time.Sleep(10 * time.Minute)
				b.unwritten()
				key := plan.Key{Namespace: "shop", Name: "ConfigMap:web"}
				if rec, _ := b.records.Get(key); !strings.Contains(rec.Why, "the owner ConfigMap owner") || rec.Error == "" {
					b.Errorf("explained: %+v", rec)
				}
				b.server.fails("owner", nil)
				time.Sleep(2 * time.Minute)
				if n := b.server.CountWrites("delete ConfigMap web"); n != 1 {
					b.Errorf("written when the server is well again: %v", b.server.Log())
				}
				if rec, ok := b.records.Get(key); ok {
					b.Errorf("still explained: %+v", rec)
				}
			})
		})
	}
}

// appearing is a mapper that knows widgets when they are served.
type appearing struct {
	builtIns
	served atomic.Bool
	asked  atomic.Int64 // in vain
}

func (a *appearing) Mapping(ctx context.Context, kind schema.GroupVersionKind) (client.Mapping, error) {
	if kind == widgetKind.GroupVersionKind && !a.served.Load() {
		a.asked.Add(1)
		return client.Mapping{}, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	return a.builtIns.Mapping(ctx, kind)
}

// GC-34: a tenant may name thousands of owners of kinds that do not exist. Each is looked up ever more rarely, but at once when its kind is
// watched.
func TestOwnersOfAnUnknownKind(t *testing.T) {
	run(t, func(b *bench) {
		widgets := client.Mapping{GroupVersionKind: widgetKind.GroupVersionKind, Resource: widgetKind.resource, Namespaced: true}
		m := &appearing{builtIns: builtIns{widgets}}
		b.mapper = m
		b.see(b.putOwned("web", widgetKind, "w"))
		time.Sleep(time.Hour)
		if n := m.asked.Load(); n < 8 || n > 11 {
			b.Errorf("it was looked up %d times", n)
		}
		if n := len(b.events.Events); n != 1 {
			b.Errorf("%d events", n)
		}
		b.see(b.putOwned("late", widgetKind, "w"))
		time.Sleep(time.Second)
		if r, _ := b.records.Get(plan.Key{Namespace: "shop", Name: "ConfigMap:late"}); !strings.HasPrefix(r.Why, "stays: ") {
			b.Errorf("explained: %+v", r)
		}
		gone := b.putOwned("gone", widgetKind, "x")
		b.see(gone)
		time.Sleep(time.Minute)
		b.OnDelete(configMaps, gone)
		time.Sleep(time.Hour)
		m.served.Store(true)
		b.mu.Lock()
		b.term.kinds[widgets.GroupVersionResource()] = widgetKind
		b.mu.Unlock()
		b.listed(widgets.GroupVersionResource(), true)
		time.Sleep(time.Second)
		if live := b.server.live(); !slices.Contains(live, "Widget w") {
			b.Errorf("read: %q", live)
		}
		if n := b.server.CountWrites("delete ConfigMap web"); n != 1 {
			b.Errorf("written: %v", b.server.Log())
		}
	})
}

// GC-15: at the start an owner is not verified while its kind is being listed.
func TestOwnersAreNotVerifiedWhileTheyAreListed(t *testing.T) {
	run(t, func(b *bench) {
		b.server.hanging = "ReplicaSet"
		sets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
		pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
		b.mu.Lock()
		b.term.graph.complete, b.term.kinds[pods], b.term.kinds[sets] = false, podKind, setKind
		b.mu.Unlock()
		b.OnUpdate(pods, object("web", ownedBy(setKind, "set")))
		b.OnUpdate(pods, object("b", ownedBy(setKind, "gone")))
		time.Sleep(time.Second)
		if read := b.server.live(); len(read) != 0 {
			t.Errorf("before they are listed, there are read: %v", read)
		}
		b.OnUpdate(sets, object("set"))
		b.listed(sets, true)
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"ReplicaSet gone"}, b.server.live()); diff != "" {
			t.Errorf("read is not the one that is not there (-want +got):\n%s", diff)
		}
	})
}

// GC-52: the message that users look for.
func TestEventAboutAnotherNamespace(t *testing.T) {
	run(t, func(b *bench) {
		owner := b.put("owner")
		owner.Namespace = "other"
		b.see(owner, b.put("web", "owner"))
		want := `Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: shop, name: owner, uid: owner] does not exist in namespace "shop"`
		if got := <-b.events.Events; got != want {
			b.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// GC-69: an event says once why a dependent stays, if that lasts.
func TestEventAboutAnOwnerThatCannotBeLookedUp(t *testing.T) {
	run(t, func(b *bench) {
		b.server.fails("owner", apierrors.NewServiceUnavailable("down"))
		b.see(b.put("web", "owner"))
		time.Sleep(time.Second)
		if n := len(b.events.Events); n != 0 {
			t.Errorf("%d events at once", n)
		}
		time.Sleep(10 * time.Minute)
		b.see(b.put("late", "owner"))
		time.Sleep(10 * time.Minute)
		if n := len(b.events.Events); n != 2 {
			t.Fatalf("%d events", n)
		}
		want := "Warning OwnerRefUnresolvable ownerRef [v1/ConfigMap, namespace: shop, name: owner, uid: owner] cannot be looked up, so " +
			"the object stays: "
		if got := <-b.events.Events; !strings.HasPrefix(got, want) || !strings.Contains(got, "down") {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
