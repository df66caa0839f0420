package garbagecollector

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// mirror is an object of another group with the uid, the namespace and the name of one that is called set.
func mirror(options ...option) *metav1.PartialObjectMetadata { return object("set", options...) }

// GC-23, GC-27: two objects have one uid, as when an aggregated API server shows those of others. In whichever order they come and go,
// a dependent goes with the owner that it names, and with no other.
func TestTwoResourcesWithOneUID(t *testing.T) {
	steps := map[string]func(w *world){
		"+set":    func(w *world) { w.see(setKind, object("set")) },
		"-set":    func(w *world) { w.add(w.graph.forget(w.find(setKind, object("set")), true)) },
		"+mirror": func(w *world) { w.see(mirrorKind, mirror(version("900000000"))) },
		"-mirror": func(w *world) { w.add(w.graph.forget(w.find(mirrorKind, mirror()), true)) },
		"+pod":    func(w *world) { w.see(podKind, object("of-set", ownedBy(setKind, "set"))) },
		"+other":  func(w *world) { w.see(podKind, object("of-mirror", ownedBy(mirrorKind, "set"))) },
	}
	orders := 0
	for _, order := range permutations([]string{"+set", "-set", "+mirror", "-mirror", "+pod", "+other"}) {
		if slices.Index(order, "-set") < slices.Index(order, "+set") || slices.Index(order, "-mirror") < slices.Index(order, "+mirror") {
			continue
		}
		orders++
		w, done := newWorld(), map[string]bool{}
		for _, step := range order {
			steps[step](w)
			done[step] = true
			for c := range w.statedOwnersOf("set") { // the server answers at once
				there := c.kind == "ReplicaSet" && done["+set"] && !done["-set"] ||
					c.kind == "Mirror" && done["+mirror"] && !done["-mirror"]
				w.add(w.verified(c, map[bool]ownerState{true: present, false: notFound}[there]))
			}
			for name, owner := range map[string]string{"of-set": "set", "of-mirror": "mirror"} {
				n := w.nodes[types.UID(name)]
				if n == nil {
					continue
				}
				if deletes, lives := w.decide(now, n).deletes, done["+"+owner] && !done["-"+owner]; deletes == lives {
					t.Errorf("%v: after %s, %s is deleted: %t", order, step, name, deletes)
				}
			}
		}
	}
	if orders != 180 {
		t.Errorf("%d orders were tried", orders)
	}
}

// statedOwnersOf are the owners that are stated to have the uid and that nobody has verified.
func (w *world) statedOwnersOf(name string) map[statedOwner]ownerState {
	unknown := map[statedOwner]ownerState{}
	if o := w.owners[types.UID(name)]; o != nil {
		for c, s := range o.stated {
			if s.ownerState == unverified {
				unknown[c] = s.ownerState
			}
		}
	}
	return unknown
}

func permutations(all []string) (orders [][]string) {
	if len(all) == 0 {
		return [][]string{nil}
	}
	for i, first := range all {
		for _, rest := range permutations(slices.Delete(slices.Clone(all), i, i+1)) {
			orders = append(orders, append([]string{first}, rest...))
		}
	}
	return orders
}

func TestDecideAboutTwins(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  *resourceKind // of the twin that is decided about
		world func(w *world)
		want  string
	}{
		{"GC-44 dependents of another object with the uid do not block", mirrorKind, func(w *world) {
			w.see(setKind, object("set"))
			w.see(mirrorKind, mirror(deleted(foreground)))
			w.see(podKind, object("web", blocking(setKind, "set")))
		}, "set finalizers=[] owners=[]"},
		{"GC-44 its own do", setKind, func(w *world) {
			w.see(mirrorKind, mirror())
			w.see(setKind, object("set", deleted(foreground)))
			w.see(podKind, object("web", blocking(setKind, "set")))
		}, ""},
		{"GC-44 but for those that the other one owns as well, as references are removed by uid", setKind, func(w *world) {
			w.see(mirrorKind, mirror())
			w.see(setKind, object("set", deleted(foreground)))
			w.see(podKind, object("web", blocking(setKind, "set"), blocking(mirrorKind, "set")))
		}, "set finalizers=[] owners=[]"},
		{"GC-47 dependents of another object with the uid keep their references", mirrorKind, func(w *world) {
			w.see(setKind, object("set"))
			w.see(mirrorKind, mirror(deleted(orphan)))
			w.see(podKind, object("web", ownedBy(setKind, "set")))
		}, "set finalizers=[] owners=[]"},
		{"GC-47 its own lose them", setKind, func(w *world) {
			w.see(mirrorKind, mirror())
			w.see(setKind, object("set", deleted(orphan)))
			w.see(podKind, object("web", ownedBy(setKind, "set")))
		}, "web finalizers=[] owners=[], set finalizers=[] owners=[]"},
		{"GC-37 what has the uid of an owner has no dependents because of that", mirrorKind, func(w *world) {
			w.see(setKind, object("set"))
			w.see(widgetKind, object("owner", deleted(foreground)))
			w.see(mirrorKind, mirror(blocking(widgetKind, "owner")))
			w.see(podKind, object("web", ownedBy(setKind, "set")))
		}, "delete set@1 Background version=true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.world(w)
			n := w.find(c.kind, object("set"))
			d := w.decide(now, n)
			if n.orphaning() {
				d = w.decideOrphan(n)
			}
			if got := strings.Join(steps(d.Steps), ", "); got != c.want {
				t.Errorf("steps are %q, want %q; %s", got, c.want, d.Why)
			}
		})
	}
}

// Versions of two resources cannot be compared: an object with the uid of another one, and a huge version, hides none of its changes.
func TestVersionsAreComparedPerResource(t *testing.T) {
	w := newWorld()
	w.see(setKind, object("set", version("5")))
	w.see(mirrorKind, mirror(version("18446744073709551615")))
	w.see(setKind, object("set", version("6"), deleted(foreground)))
	if n := w.find(setKind, object("set")); n.version != "6" || !n.waiting() {
		t.Errorf("known is version %s, waiting: %t", n.version, n.waiting())
	}
}

var mirrors = schema.GroupVersionResource{Group: "mirror.example.com", Version: "v1", Resource: "mirrors"}

// GC-27, GC-30: a hostile extension API server shows objects with the uids of others and their ends. It costs reads at most, even if it
// had a resource of the same group and kind. When the owner really goes, so do its dependents.
func TestHostileExtensionServer(t *testing.T) {
	for name, evil := range map[string]*resourceKind{
		"another kind":                 mirrorKind,
		"a kind of that name":          {schema.GroupVersionKind{Group: mirrors.Group, Version: "v1", Kind: "ConfigMap"}, "configmaps"},
		"another resource of the kind": {configMapKind.GroupVersionKind, "mirrors"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *bench) {
				b.term.kinds[mirrors] = evil
				owner := b.put("owner")
				b.see(owner)
				b.seeDependents(3, "owner")
				b.put("unwatched")
				b.see(b.put("late", "unwatched"))
				for _, name := range []string{"owner", "unwatched", "dependent-0"} {
					o := object(name, version("18446744073709551615"))
					b.OnUpdate(mirrors, o)
					b.OnUpdate(mirrors, object(name, version("18446744073709551616"), deleted("example.com/hold")))
					b.OnDelete(mirrors, o)
				}
				time.Sleep(time.Minute)
				b.unwritten()
				m, _ := client.BuiltIn(b.term.kinds[configMaps].GroupVersionKind)
				if err := b.server.Delete(b.Context(), m, plan.Key{Namespace: "shop", Name: "owner"}, metav1.DeleteOptions{}); err != nil {
					b.Fatal(err)
				}
				b.OnDelete(configMaps, owner)
				time.Sleep(time.Minute)
				if n := b.deletions(); n != 3 || len(b.server.Log()) != 4 {
					b.Errorf("written when the owner is gone: %v", b.server.Log())
				}
			})
		})
	}
}
