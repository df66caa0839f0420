package garbagecollector

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
)

// much is as many references as fit into an object, and so many dependents as a tenant may have.
const much = 20_000

// withReferences returns an object that refers to n owners, which nobody has.
func withReferences(name string, n int) *metav1.PartialObjectMetadata {
	o := object(name)
	for i := range n {
		o.OwnerReferences = append(o.OwnerReferences,
			metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "a", UID: types.UID(fmt.Sprint("u", i))})
	}
	return o
}

// What one object costs grows with its size, whatever its references are: most cases take less than 50 ms, those of 20,000 events half
// a second. Where costs grew with the square of the size, they took from half a minute to a quarter of an hour.
func TestCostsAreLinear(t *testing.T) {
	last := func(o *metav1.PartialObjectMetadata, change func(*metav1.OwnerReference)) *metav1.PartialObjectMetadata {
		change(&o.OwnerReferences[len(o.OwnerReferences)-1])
		return o
	}
	renamed := func(r *metav1.OwnerReference) { r.Name = "b" }
	all := func(w *world) []statedOwner {
		var all []statedOwner
		for i := range much {
			all = append(all, statedOwner{"v1", "Pod", "shop", "a", types.UID(fmt.Sprint("u", i))})
		}
		return all
	}
	for _, c := range []struct {
		name   string
		before func(w *world)
		then   func(w *world)
	}{
		{"two objects whose references differ in the last one",
			func(w *world) { w.see(podKind, withReferences("a", much)) },
			func(w *world) { w.see(podKind, last(withReferences("b", much), renamed)) }},
		{"one reference changes",
			func(w *world) { w.see(podKind, withReferences("a", much)) },
			func(w *world) {
				o := last(withReferences("a", much), renamed)
				o.ResourceVersion = "2"
				w.see(podKind, o)
			}},
		{"all references go", func(w *world) { w.see(podKind, withReferences("a", much)) },
			func(w *world) { w.see(podKind, object("a", version("2"))) }},
		{"the object goes", func(w *world) { w.see(podKind, withReferences("a", much)) },
			func(w *world) { w.add(w.forget("a", true)) }},
		{"one owner after the other is not found", func(w *world) { w.see(podKind, withReferences("a", much)) },
			func(w *world) {
				for _, c := range all(w) {
					if w.isStated(c) {
						w.add(w.verified(c, notFound))
					}
				}
			}},
		{"one owner after the other is of an unknown kind", func(w *world) { w.see(podKind, withReferences("a", much)) },
			func(w *world) {
				for _, c := range all(w) {
					w.add(w.verified(c, unresolvable))
				}
				w.decide(now, w.nodes["a"])
			}},
		{"one owner after the other goes",
			func(w *world) {
				for i := range much {
					w.see(podKind, object("a", func(o *metav1.PartialObjectMetadata) { o.UID = types.UID(fmt.Sprint("u", i)) }))
				}
				w.see(podKind, withReferences("d", much))
			},
			func(w *world) {
				for i := range much {
					w.add(w.forget(types.UID(fmt.Sprint("u", i)), true))
				}
			}},
		{"the references name one uid, and each time another object",
			func(*world) {},
			func(w *world) {
				for i := range much {
					w.see(podKind, object(fmt.Sprint("d", i), func(o *metav1.PartialObjectMetadata) {
						o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: fmt.Sprint(i), UID: "u"}}
					}))
				}
				for i := range much {
					c := statedOwner{"v1", "Pod", "shop", fmt.Sprint(i), "u"}
					w.isStated(c)
					w.add(w.verified(c, notFound))
				}
				w.add(w.setScope(podKind.GroupKind(), true))
			}},
		{"one after the other of the dependents goes that an object waits for",
			func(w *world) {
				w.see(setKind, object("set", deleted(foreground)))
				for i := range much {
					w.see(podKind, object(fmt.Sprint("d", i), blocking(setKind, "set")))
				}
			},
			func(w *world) {
				for i := range much {
					w.add(w.forget(types.UID(fmt.Sprint("d", i)), true))
					if i%10 > 0 && i < much-1 {
						continue // while there are many, it is looked at ten times a second
					}
					if released := len(w.decide(now, w.nodes["set"]).Steps) > 0; released != (i == much-1) {
						t.Fatalf("released %v after %d of %d", released, i+1, much)
					}
				}
			}},
		{"an object of many references is orphaned, and loses those that dangle",
			func(w *world) { w.see(podKind, withReferences("d", much)) },
			func(w *world) {
				for i := range much / 2 {
					w.see(podKind, object("a", func(o *metav1.PartialObjectMetadata) { o.UID = types.UID(fmt.Sprint("u", i)) }))
				}
				for _, c := range all(w) {
					w.add(w.verified(c, notFound))
				}
				if d := w.decide(now, w.nodes["d"]); len(d.Steps) != 1 {
					t.Errorf("decided: %s", d.Why)
				}
				w.see(podKind, object("a", deleted(orphan), version("2"), func(o *metav1.PartialObjectMetadata) { o.UID = "u0" }))
				w.decideOrphan(w.nodes["u0"])
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.before(w)
			w.queued()
			if took := costs.CPU(func() { c.then(w) }); costs.Exceeds(took, 2*time.Second) {
				t.Errorf("took %s of CPU", took)
			}
		})
	}
}

// Of many owners of an object that cannot be looked up, one stands for all where people read why the object stays, whether the references
// name many uids or one uid and many objects.
func TestManyOwnersAreExplainedOnce(t *testing.T) {
	for name, nth := range map[string]func(r *metav1.OwnerReference, i int){
		"many uids": func(*metav1.OwnerReference, int) {},
		"one uid":   func(r *metav1.OwnerReference, i int) { r.Name, r.UID = fmt.Sprint("a", i), "u" },
	} {
		t.Run(name, func(t *testing.T) {
			o := withReferences("a", much/5)
			for i := range o.OwnerReferences {
				nth(&o.OwnerReferences[i], i)
			}
			w := newWorld()
			w.see(podKind, o)
			known := &term{graph: w.graph, records: explain.NewRecords(nil)}
			took := costs.CPU(func() {
				for _, r := range o.OwnerReferences {
					known.explainDependents(ownerSnapshot{owner: w.statedBy(w.nodes["a"], r), state: unresolvable, err: errors.New("unknown")})
				}
			})
			if costs.Exceeds(took, 500*time.Millisecond) {
				t.Errorf("took %s of CPU", took)
			}
			if rec, ok := known.records.Get(explainKey(w.nodes["a"])); !ok || rec.Error != "unknown" {
				t.Errorf("explained %v, %+v", ok, rec)
			}
		})
	}
}

// Health checks and metrics answer while the graph is busy.
func TestHealthNeedsNoGraph(t *testing.T) {
	run(t, func(b *bench) {
		sub := b.metadata.Subscribe(b.runner)
		defer sub.Close()
		b.health.begin(sub, b.term.parts())
		b.mu.Lock()
		defer b.mu.Unlock()
		answered := make(chan string)
		go func() { answered <- fmt.Sprint(len(b.Statuses()), b.Unlisted(), len(b.Records())) }()
		if got := <-answered; got != "5 [] 1" {
			t.Errorf("answered %s", got)
		}
	})
}

// mostAllocations is how many objects on the heap a deletion may cost, from the change of the owner to the answer of the server.
const mostAllocations = 52

func TestCostOfADeletion(t *testing.T) {
	run(t, func(b *bench) {
		const n = 2000
		owner := b.put("owner")
		b.see(owner)
		b.seeDependents(n, "owner")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b.OnDelete(configMaps, owner)
		time.Sleep(5 * time.Second)
		runtime.ReadMemStats(&after)
		if b.deletions() != n {
			b.Fatalf("%d deletions", b.deletions())
		}
		each := (after.Mallocs - before.Mallocs) / n
		t.Logf("%d allocations, %d bytes", each, (after.TotalAlloc-before.TotalAlloc)/n)
		if each > mostAllocations {
			t.Errorf("%d allocations", each)
		}
	})
}
