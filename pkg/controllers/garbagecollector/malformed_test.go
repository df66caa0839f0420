package garbagecollector

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// Whatever the metadata of objects are, and whoever they name as owners, neither the graph nor a decision panics. An object is deleted
// only if it names an owner and is not being deleted, and all is forgotten in the end.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		w := newWorld()
		uids := []types.UID{"", "a", "b", "c"}
		kinds := []*resourceKind{podKind, setKind, nodeKind, widgetKind, mirrorKind}
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			o := &metav1.PartialObjectMetadata{}
			fill(o)
			o.UID = rapid.SampledFrom(uids).Draw(t, "uid")
			if rapid.Bool().Draw(t, "named alike") {
				o.Namespace, o.Name = "shop", string(o.UID)
			}
			for i := range o.OwnerReferences {
				if rapid.Bool().Draw(t, "of a kind that is known") {
					o.OwnerReferences[i] = ref(rapid.SampledFrom(kinds).Draw(t, "owner"),
						string(rapid.SampledFrom(uids).Draw(t, "owner's uid")))
				}
				if rapid.Bool().Draw(t, "blocks") {
					yes := true
					o.OwnerReferences[i].BlockOwnerDeletion = &yes
				}
			}
			if rapid.Bool().Draw(t, "is being deleted") {
				o.DeletionTimestamp = &metav1.Time{Time: now}
				o.Finalizers = append(o.Finalizers, rapid.SampledFrom([]string{foreground, orphan, "x"}).Draw(t, "finalizer"))
			}
			w.see(rapid.SampledFrom(kinds).Draw(t, "kind"), o)
			decideAll(t, w)
			if uid := rapid.SampledFrom(uids).Draw(t, "verified"); w.owners[uid] != nil {
				w.verify(uid, rapid.SampledFrom([]ownerState{absent, notFound, present, unresolvable}).Draw(t, "state"))
				decideAll(t, w)
			}
		}
		for _, n := range slices.Collect(w.all()) {
			w.graph.forget(n, rapid.Bool().Draw(t, "certain"))
			decideAll(t, w)
		}
		if len(w.nodes) > 0 || len(w.owners) > 0 {
			t.Errorf("not forgotten: %v, %v", w.nodes, slices.Collect(maps.Keys(w.owners)))
		}
	})
}

func decideAll(t *rapid.T, w *world) {
	for n := range w.all() {
		d := w.decide(now, n)
		if d.deletes && (len(n.owners) == 0 || n.deleting) || d.Requeue < 0 {
			t.Errorf("%s with %d owners, being deleted: %t: %s, again in %v", n.name, len(n.owners), n.deleting, d.Why, d.Requeue)
		}
		if o := w.decideOrphan(n); len(o.Steps) > 0 && !n.orphaning() {
			t.Errorf("%s orphans its dependents: %s", n.name, o.Why)
		}
	}
}
