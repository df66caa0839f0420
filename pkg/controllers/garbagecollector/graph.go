package garbagecollector

import (
	"iter"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/lru"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// graph is what the watches have shown of all objects: who refers to whom as owner, and who is being deleted. It is not
// safe for concurrent use.
type graph struct {
	nodes  map[types.UID]*node  // the first of those with the uid
	owners map[types.UID]*owner // of what somebody refers to, whether it exists or not
	// missing are owners that do not exist, and to which nobody refers any more. While dependents come and go, as in a
	// mass deletion, they are not asked for again.
	missing *lru.Cache
	// clusterScoped are the kinds that are known to have no namespaces.
	clusterScoped map[schema.GroupKind]bool
	// complete: the objects of all kinds have been listed, or have been waited for long enough (GC-15). Before, it is
	// not known that an owner has no more dependents.
	complete bool
	// listing are the resources that discovery has found lately, and that have neither been listed yet nor waited for
	// long enough. Their objects may be dependents that are not known yet.
	listing sets.Set[schema.GroupVersionResource]
	// cleared are objects on which nothing depends that is being listed, as live lists have shown. They wait for no
	// list.
	cleared sets.Set[*node]
}

const (
	// rememberedMissing is how many owners without dependents are remembered.
	rememberedMissing = 1000
	// mostStatedMissing is how many variants of such an owner are. References nearly always state one.
	mostStatedMissing = 10
	// mostForeign is how many references to owners in other namespaces events of one change name.
	mostForeign = 10
)

func newGraph() *graph {
	return &graph{
		nodes: map[types.UID]*node{}, owners: map[types.UID]*owner{}, clusterScoped: map[schema.GroupKind]bool{},
		missing: lru.New(rememberedMissing), cleared: sets.New[*node](),
		listing: sets.New[schema.GroupVersionResource](),
	}
}

// settled reports whether all dependents are known as far as possible, so that owners that wait for them can be
// released.
func (g *graph) settled() bool { return g.complete && len(g.listing) == 0 }

// knowsDependents reports whether the dependents of an object are known as far as possible.
func (g *graph) knowsDependents(n *node) bool { return g.settled() || g.cleared.Has(n) }

// resourceKind is a resource that is watched, in one version, and the kind of its objects.
type resourceKind struct {
	schema.GroupVersionKind
	resource string
}

// same reports whether both are one resource, perhaps in two versions.
func (k *resourceKind) same(other *resourceKind) bool {
	return k == other || k.Group == other.Group && k.resource == other.resource
}

// node is an object that a watch has shown (GC-17). Its uid does not identify it: an aggregated API server may show the
// objects of another group under their own uids. The resource, the namespace, the name and the uid do.
type node struct {
	kind            *resourceKind // one for all objects of the resource
	namespace, name string        // like the uid, they never change
	uid             types.UID
	version         string
	owners          []metav1.OwnerReference // dependents of one owner share a list
	byUID           map[types.UID][]int     // where in owners a uid is; nil unless there are many
	finalizers      []string
	deleting        bool
	absent          bool     // the server has answered to a write that there is no such object
	attempt         *attempt // the last deletion that was tried; nil if none was, or it has failed
	twin            *node    // the next object with the same uid; nearly always nil
}

// effects are what a change of the graph leads to.
type effects struct {
	remove  []*node // objects to decide about
	review  []*node // objects to decide about, after what else happens to them in a moment
	orphan  []*node // objects whose dependents are to be orphaned
	verify  []statedOwner
	foreign []foreignReference
}

// foreignReference is a reference to an owner in another namespace (GC-52).
type foreignReference struct {
	dependent *metav1.PartialObjectMetadata
	ref       metav1.OwnerReference
}

// waiting reports whether the object waits for its dependents to be deleted (GC-17).
func (n *node) waiting() bool {
	return n != nil && n.deleting && slices.Contains(n.finalizers, metav1.FinalizerDeleteDependents)
}

// orphaning reports whether the object waits for its dependents to be orphaned. That wins over foreground deletion
// (GC-25).
func (n *node) orphaning() bool {
	return n != nil && n.deleting && slices.Contains(n.finalizers, metav1.FinalizerOrphanDependents)
}

// key names the object, for people. It reads nothing that may change.
func (n *node) key() plan.Key { return plan.Key{Namespace: n.namespace, Name: n.name} }

// firstOwner returns the owner whose dependents take turns with those of others.
func (n *node) firstOwner() types.UID {
	if len(n.owners) == 0 {
		return ""
	}
	return n.owners[0].UID
}

// object returns what is known of the object. Its lists belong to the graph.
func (n *node) object() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: n.namespace, Name: n.name, UID: n.uid, ResourceVersion: n.version,
		OwnerReferences: n.owners, Finalizers: n.finalizers,
	}}
	o.SetGroupVersionKind(n.kind.GroupVersionKind)
	return o
}

// unchanged reports whether the graph knows all that it needs of the object.
func (n *node) unchanged(k *resourceKind, o *metav1.PartialObjectMetadata) bool {
	return n.kind == k && n.deleting == (o.DeletionTimestamp != nil) &&
		slices.Equal(n.finalizers, o.Finalizers) && sameReferences(n.owners, o.OwnerReferences)
}

// twins are all objects with the uid.
func (g *graph) twins(uid types.UID) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for n := g.nodes[uid]; n != nil; {
			next := n.twin // n may be dropped
			if !yield(n) {
				return
			}
			n = next
		}
	}
}

// all are the objects that are known.
func (g *graph) all() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for uid := range g.nodes {
			for n := range g.twins(uid) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// find returns what is known of an object of a resource; nil if nothing is.
func (g *graph) find(k *resourceKind, o *metav1.PartialObjectMetadata) *node {
	for n := range g.twins(o.UID) {
		if n.kind.same(k) && n.namespace == o.Namespace && n.name == o.Name {
			return n
		}
	}
	return nil
}

// has reports whether a node has not been forgotten.
func (g *graph) has(n *node) bool {
	for other := range g.twins(n.uid) {
		if other == n {
			return true
		}
	}
	return false
}

// add begins to know an object. If it was missing before, it no longer is: a backup of etcd that is restored brings
// objects back.
func (g *graph) add(k *resourceKind, o *metav1.PartialObjectMetadata) *node {
	n := &node{kind: k, namespace: o.Namespace, name: o.Name, uid: o.UID, twin: g.nodes[o.UID]}
	g.nodes[o.UID] = n
	g.missing.Remove(o.UID)
	return n
}

// drop ceases to know an object.
func (g *graph) drop(n *node) {
	first := g.nodes[n.uid]
	switch {
	case first != n:
		for first.twin != n {
			first = first.twin
		}
		first.twin = n.twin
	case n.twin != nil:
		g.nodes[n.uid] = n.twin
	default:
		delete(g.nodes, n.uid)
	}
	n.twin = nil
	g.cleared.Delete(n)
}

// observe takes in an object as a watch, or a live read, has shown it. What changes neither owners, finalizers nor
// deletion leads to nothing. Versions of one resource can be compared, those of two cannot.
func (g *graph) observe(k *resourceKind, o *metav1.PartialObjectMetadata) (e effects) {
	n := g.find(k, o)
	if o.UID == "" || n != nil && older(o.ResourceVersion, n.version) {
		return e
	}
	if n != nil && n.unchanged(k, o) {
		if n.version = o.ResourceVersion; n.attempt != nil && n.attempt.version != n.version {
			e.remove = append(e.remove, n) // the deletion was refused, or has begun
		}
		return e
	}
	var before node
	if n == nil {
		n = g.add(k, o)
	} else {
		before = *n
	}
	n.kind, n.version, n.finalizers, n.deleting = k, o.ResourceVersion, o.Finalizers, o.DeletionTimestamp != nil
	n.setOwners(g.shared(o.OwnerReferences))
	g.relink(n, before.owners, &e)
	if before.kind == nil || before.kind.GroupKind() != k.GroupKind() {
		g.resolve(n, &e)
	}
	g.deletionBegins(n, &before, &e)
	return e
}

// older reports whether version a is known to come before b.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// deletionBegins queues what a change of the deletion or of finalizers leads to (GC-25).
func (g *graph) deletionBegins(n, before *node, e *effects) {
	switch {
	case n.orphaning():
		e.orphan = append(e.orphan, n)
	case n.waiting():
		g.waitFor(n)
		if !before.waiting() || before.orphaning() {
			g.considerDependents(n, e)
		}
		e.remove = append(e.remove, n)
	default:
		g.consider(n, e)
	}
}

// relink brings the owners of n up to date.
func (g *graph) relink(n *node, before []metav1.OwnerReference, e *effects) {
	known := make(map[reference]bool, len(before))
	if len(before) > 0 {
		owners, blocked := uidsOf(n.owners, nil), uidsOf(n.owners, blocks)
		for _, ref := range before {
			known[referenceOf(ref)] = true
			g.unstate(n, ref)
		}
		for _, ref := range before {
			if blocks(ref) && !blocked[ref.UID] {
				g.unblock(n, ref.UID, e)
			}
			if !owners[ref.UID] {
				g.unlink(n, ref.UID)
			}
		}
	}
	for _, ref := range n.owners {
		o := g.owners[ref.UID]
		if o == nil {
			o = g.newOwner(ref.UID)
		}
		o.dependents[n] = struct{}{}
		if o.blocking != nil && blocks(ref) {
			o.blocking[n] = struct{}{}
		}
		g.checkReference(n, ref, !known[referenceOf(ref)], e)
	}
}

// shared returns the list of references that the dependents of its first owner share, if it says the same.
func (g *graph) shared(refs []metav1.OwnerReference) []metav1.OwnerReference {
	if len(refs) == 0 {
		return nil
	}
	o := g.owners[refs[0].UID]
	if o == nil {
		o = g.newOwner(refs[0].UID)
	}
	if !sameReferences(o.refs, refs) {
		o.refs = refs
	}
	return o.refs
}

// dependentsOf are the objects that refer to n, and not just to its uid.
func (g *graph) dependentsOf(n *node) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		o := g.owners[n.uid]
		if o == nil {
			return
		}
		for d := range o.dependents {
			if d.refersTo(n) && !yield(d) {
				return
			}
		}
	}
}

// resolve takes a node that is new, or of another kind than before, for the owner that its dependents refer to (GC-21).
func (g *graph) resolve(n *node, e *effects) {
	o := g.owners[n.uid]
	if o == nil {
		return
	}
	maps.DeleteFunc(o.stated, func(c statedOwner, _ *statement) bool {
		return n.isNamed(c.apiVersion, c.kind, c.namespace, c.name)
	})
	for d := range o.dependents {
		for ref := range d.refsTo(n.uid) {
			g.checkReference(d, ref, true, e)
		}
		if len(d.owners) > 1 {
			g.consider(d, e)
		}
	}
}

// consider queues a node if one of its references may have to go, and what all of them are is known. Of many
// references, it leaves that to the decision.
func (g *graph) consider(n *node, e *effects) {
	switch {
	case n.deleting:
		return
	case n.byUID != nil:
		e.review = append(e.review, n)
		return
	}
	act := false
	for _, ref := range n.owners {
		switch g.referenceState(n, ref) {
		case unknown:
			return
		case ownerAbsent, ownerWaits:
			act = true
		}
	}
	if act {
		e.remove = append(e.remove, n)
	}
}

func (g *graph) considerDependents(n *node, e *effects) {
	for d := range g.dependentsOf(n) {
		g.consider(d, e)
	}
}

// forget removes an object that is gone (GC-26). References to it dangle, and nobody has to be asked: those that name
// this object, for that another one with the uid is gone says nothing about it. If its end is not certain, because a
// list has not shown it any more, what refers to it is verified.
func (g *graph) forget(n *node, certain bool) (e effects) {
	g.drop(n)
	for _, ref := range n.owners {
		g.unstate(n, ref)
	}
	for _, ref := range n.owners {
		g.unblock(n, ref.UID, &e)
		g.unlink(n, ref.UID)
	}
	o := g.owners[n.uid]
	for d := range g.dependentsOf(n) {
		for ref := range d.refsTo(n.uid) {
			if !n.matches(d, ref) || g.ownerOf(d, ref) != nil {
				continue
			}
			c := g.statedBy(d, ref)
			s, known := o.statement(c)
			s.by[d] = struct{}{}
			if certain {
				s.ownerState = absent
			} else if !known || s.ownerState != unverified {
				s.ownerState = unverified
				e.verify = append(e.verify, c)
			}
		}
		if certain {
			g.consider(d, &e)
		}
	}
	return e
}

// redefine gives the objects of a resource another kind than before.
func (g *graph) redefine(k *resourceKind, as schema.GroupVersionKind) (e effects) {
	k.GroupVersionKind = as
	for n := range g.all() {
		if n.kind == k {
			g.resolve(n, &e)
		}
	}
	return e
}
