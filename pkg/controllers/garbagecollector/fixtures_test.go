package garbagecollector

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	now        = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	podKind    = &resourceKind{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "pods"}
	setKind    = &resourceKind{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, "replicasets"}
	nodeKind   = &resourceKind{schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "nodes"}
	widgetKind = &resourceKind{schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, "widgets"}
	// mirrorKind is of a group whose server shows objects of other groups under their uids.
	mirrorKind = &resourceKind{schema.GroupVersionKind{Group: "mirror.example.com", Version: "v1", Kind: "Mirror"}, "mirrors"}
)

type option func(*metav1.PartialObjectMetadata)

// object returns metadata in the namespace shop, with version 1. Its uid is its name.
func object(name string, options ...option) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name),
		ResourceVersion: "1"}}
	for _, set := range options {
		set(o)
	}
	return o
}

func ownedBy(kind *resourceKind, names ...string) option {
	return func(o *metav1.PartialObjectMetadata) {
		for _, name := range names {
			o.OwnerReferences = append(o.OwnerReferences, ref(kind, name))
		}
	}
}

func blocking(kind *resourceKind, names ...string) option {
	return func(o *metav1.PartialObjectMetadata) {
		for _, name := range names {
			r := ref(kind, name)
			r.BlockOwnerDeletion = ptr.To(true)
			o.OwnerReferences = append(o.OwnerReferences, r)
		}
	}
}

func ref(kind *resourceKind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, UID: types.UID(name)}
}

func namespace(name string) option {
	return func(o *metav1.PartialObjectMetadata) { o.Namespace = name }
}

func version(v string) option {
	return func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = v }
}

func finalizers(all ...string) option {
	return func(o *metav1.PartialObjectMetadata) { o.Finalizers = all }
}

// deleted marks an object as being deleted, with these finalizers.
func deleted(all ...string) option {
	return func(o *metav1.PartialObjectMetadata) {
		o.DeletionTimestamp, o.Finalizers = ptr.To(metav1.NewTime(now)), all
	}
}

const (
	foreground = metav1.FinalizerDeleteDependents
	orphan     = metav1.FinalizerOrphanDependents
)

// world is a graph that is complete.
type world struct {
	*graph
	effects
}

func newWorld() *world {
	w := &world{graph: newGraph()}
	w.complete = true
	w.setScope(nodeKind.GroupKind(), true)
	return w
}

func (w *world) see(kind *resourceKind, objects ...*metav1.PartialObjectMetadata) {
	for _, o := range objects {
		w.add(w.observe(kind, o))
	}
}

// forget has the only object with the uid go.
func (w *world) forget(uid types.UID, certain bool) effects {
	return w.graph.forget(w.nodes[uid], certain)
}

// decide decides about an object as it is known now.
func (w *world) decide(now time.Time, n *node) decision { return decide(now, w.snapshotOf(n)) }

// decideOrphan does the same for one whose dependents are to be orphaned.
func (w *world) decideOrphan(n *node) decision { return decideOrphan(w.snapshotOf(n)) }

func (w *world) add(e effects) {
	w.effects.remove = append(append(w.effects.remove, e.remove...), e.review...)
	w.effects.orphan = append(w.effects.orphan, e.orphan...)
	w.effects.verify = append(w.effects.verify, e.verify...)
	w.effects.foreign = append(w.effects.foreign, e.foreign...)
}

// answer verifies all owners that are stated to have the uid.
func (w *world) verify(uid types.UID, s ownerState) {
	for c := range w.owners[uid].stated {
		w.add(w.verified(c, s))
	}
}

// queued returns what the effects so far have queued, each once and sorted, and forgets them.
func (w *world) queued() string {
	var all []string
	for _, n := range w.effects.remove {
		all = append(all, n.name)
	}
	for _, n := range w.effects.orphan {
		all = append(all, "orphan:"+n.name)
	}
	for _, c := range w.effects.verify {
		all = append(all, fmt.Sprintf("verify:%s/%s", c.namespace, c.name))
	}
	for _, s := range w.effects.foreign {
		all = append(all, fmt.Sprintf("astray:%s->%s", s.dependent.Name, s.ref.Name))
	}
	w.effects = effects{}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// steps says in words what a plan writes.
func steps(all []plan.Step) (words []string) {
	for _, s := range all {
		switch s := s.(type) {
		case plan.Delete:
			o := s.Objects[0]
			words = append(words,
				fmt.Sprintf("delete %s@%s %s version=%t", o.GetName(), o.GetResourceVersion(), s.Propagation, s.CheckVersion))
		case plan.Change:
			words = append(words,
				fmt.Sprintf("%s finalizers=%v owners=%s", s.New.GetName(), s.New.GetFinalizers(), refs(s.New.GetOwnerReferences())))
		case plan.Each:
			var each []string
			for _, sequence := range s.Sequences {
				each = append(each, strings.Join(steps(sequence), ", "))
			}
			slices.Sort(each)
			words = append(words, each...)
		}
	}
	return words
}

func refs(all []metav1.OwnerReference) string {
	var names []string
	for _, r := range all {
		name := r.Name
		if blocks(r) {
			name += "!"
		}
		names = append(names, name)
	}
	return "[" + strings.Join(names, " ") + "]"
}
