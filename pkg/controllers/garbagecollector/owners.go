package garbagecollector

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// owner is what is known of a uid that is referred to.
type owner struct {
	dependents map[*node]struct{}
	blocking   map[*node]struct{}         // dependents that block an owner with the uid; nil until one waits
	refs       []metav1.OwnerReference    // those of the latest dependent that names it first, for others to share
	stated     map[statedOwner]*statement // owners that references to the uid state, and that no node is
}

// statement is what is known of an owner as references state it, and which dependents state it.
type statement struct {
	ownerState
	by map[*node]struct{}
}

// statedOwner is an owner as references state it, for which there is no node: the owner does not exist, or it has not
// been seen yet, or its kind, name or namespace is not what the references say (GC-19, GC-22). It is verified by one
// live read for all dependents, unless the watch of that kind has shown the deletion of that very object.
type statedOwner struct {
	apiVersion, kind string
	namespace, name  string // the namespace is that of the dependents; none for a cluster-scoped kind
	uid              types.UID
}

type ownerState int

const (
	unverified   ownerState = iota // nobody knows yet: the dependents wait
	absent                         // a watch has shown its deletion: references to it dangle (GC-26)
	notFound                       // a live read has not found it: they dangle, too (GC-33)
	present                        // the server has it, but no watch has shown it yet (GC-20)
	unresolvable                   // its kind is unknown (GC-34), or has namespaces, and the dependent none (GC-35)
)

// unblock queues an owner that waits for its dependents, because n does not block it any more (GC-24, GC-26).
func (g *graph) unblock(n *node, uid types.UID, e *effects) {
	if o := g.owners[uid]; o != nil {
		delete(o.blocking, n)
	}
	for owner := range g.twins(uid) {
		if owner.waiting() {
			e.review = append(e.review, owner)
		}
	}
}

// unlink forgets that n depends on the uid, and with the last dependent all that was known of it, but that it does not
// exist.
func (g *graph) unlink(n *node, uid types.UID) {
	o := g.owners[uid]
	if o == nil {
		return
	}
	delete(o.blocking, n)
	if delete(o.dependents, n); len(o.dependents) > 0 {
		return
	}
	delete(g.owners, uid)
	maps.DeleteFunc(o.stated, func(_ statedOwner, s *statement) bool {
		return s.ownerState != absent && s.ownerState != notFound
	})
	if len(o.stated) > 0 && len(o.stated) <= mostStatedMissing {
		g.missing.Add(uid, o.stated)
	}
}

// newOwner begins to note who refers to the uid. A resource does not use uids again: what was missing once still is,
// unless it is seen.
func (g *graph) newOwner(uid types.UID) *owner {
	o := &owner{dependents: map[*node]struct{}{}}
	if known, ok := g.missing.Get(uid); ok {
		o.stated = known.(map[statedOwner]*statement)
		g.missing.Remove(uid)
	}
	g.owners[uid] = o
	for n := range g.twins(uid) {
		if n.waiting() {
			o.blocking = map[*node]struct{}{}
		}
	}
	return o
}

// waitFor begins to note which dependents block the deletion of n.
func (g *graph) waitFor(n *node) {
	o := g.owners[n.uid]
	if o == nil || o.blocking != nil {
		return
	}
	o.blocking = map[*node]struct{}{}
	for d := range o.dependents {
		if d.blocksUID(n.uid) {
			o.blocking[d] = struct{}{}
		}
	}
}

// checkReference has the owner that a reference states verified if there is no node for it.
func (g *graph) checkReference(n *node, ref metav1.OwnerReference, tell bool, e *effects) {
	if g.ownerOf(n, ref) != nil {
		return
	}
	if tell && len(e.foreign) < mostForeign && g.isForeign(n, ref) {
		e.foreign = append(e.foreign, foreignReference{n.object(), ref})
	}
	c := g.statedBy(n, ref)
	s, known := g.owners[ref.UID].statement(c)
	s.by[n] = struct{}{}
	switch {
	case !known:
		e.verify = append(e.verify, c)
	case s.ownerState == unresolvable && n.byUID == nil:
		// People can read then why it stays. To look at many owners would cost much.
		e.remove = append(e.remove, n)
	}
}

// unstate forgets that n states an owner by a reference that it has no more. What is known of that owner stays.
func (g *graph) unstate(n *node, ref metav1.OwnerReference) {
	if o := g.owners[ref.UID]; o != nil {
		if s := o.stated[g.statedBy(n, ref)]; s != nil {
			delete(s.by, n)
		}
	}
}

// isForeign reports whether the owner that a reference names is in another namespace.
func (g *graph) isForeign(n *node, ref metav1.OwnerReference) bool {
	for found := range g.twins(ref.UID) {
		foreign := found.namespace != "" && found.namespace != n.namespace
		if foreign && found.isNamed(ref.APIVersion, ref.Kind, found.namespace, ref.Name) {
			return true
		}
	}
	return false
}

// statement returns what is known of an owner as references state it. It is unverified if nothing was known.
func (o *owner) statement(c statedOwner) (s *statement, known bool) {
	if s, known = o.stated[c]; known {
		return s, true
	}
	if o.stated == nil {
		o.stated = map[statedOwner]*statement{}
	}
	s = &statement{by: map[*node]struct{}{}}
	o.stated[c] = s
	return s, false
}

func (g *graph) statedBy(n *node, ref metav1.OwnerReference) statedOwner {
	c := statedOwner{ref.APIVersion, ref.Kind, n.namespace, ref.Name, ref.UID}
	if g.clusterScoped[schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()] {
		c.namespace = ""
	}
	return c
}

// ownerOf returns the object to which a reference of n refers, nil if none is known. If there were two, the one that
// does not wait for its dependents counts.
func (g *graph) ownerOf(n *node, ref metav1.OwnerReference) (found *node) {
	for other := range g.twins(ref.UID) {
		if other.matches(n, ref) && (found == nil || found.waiting()) {
			found = other
		}
	}
	return found
}

// matches reports whether the node is the owner that the reference of a dependent states. The version of the API may be
// another one (GC-54).
func (n *node) matches(dependent *node, ref metav1.OwnerReference) bool {
	return ref.UID == n.uid && n.isNamed(ref.APIVersion, ref.Kind, dependent.namespace, ref.Name)
}

// isNamed reports whether a kind and a name, in a namespace, mean the node.
func (n *node) isNamed(apiVersion, kind, namespace, name string) bool {
	// Discovery has a kind in small letters, too, so live reads find an owner that is called so.
	return name == n.name && (n.namespace == "" || n.namespace == namespace) &&
		meansKind(schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind(), n.kind.GroupKind())
}

// meansKind reports whether a reference that states a kind means this one.
func meansKind(stated, kind schema.GroupKind) bool {
	return stated.Group == kind.Group && (stated.Kind == kind.Kind || stated.Kind == strings.ToLower(kind.Kind))
}

// verified notes what a live read has said of an owner, and queues the dependents that state it (GC-20, GC-22).
func (g *graph) verified(c statedOwner, state ownerState) (e effects) {
	s := g.statementOf(c)
	if s == nil || s.ownerState == state {
		return e
	}
	s.ownerState = state
	for d := range s.by {
		g.consider(d, &e)
	}
	return e
}

// statementOf returns what is known of an owner as references state it; nil if none does.
func (g *graph) statementOf(c statedOwner) *statement {
	if o := g.owners[c.uid]; o != nil {
		return o.stated[c]
	}
	return nil
}

// isStated reports whether dependents still state the owner.
func (g *graph) isStated(c statedOwner) bool {
	s := g.statementOf(c)
	return s != nil && len(s.by) > 0
}

// dropUnstated forgets the owner if no dependent states it any more.
func (g *graph) dropUnstated(c statedOwner) {
	if s := g.statementOf(c); s != nil && len(s.by) == 0 {
		delete(g.owners[c.uid].stated, c)
	}
}

// dependentsStating are the dependents that state the owner.
func (g *graph) dependentsStating(c statedOwner) map[*node]struct{} {
	if s := g.statementOf(c); s != nil {
		return s.by
	}
	return nil
}

// unknownOwners are those of a kind that nobody knew when they were looked up.
func (g *graph) unknownOwners(kind schema.GroupKind) (all []statedOwner) {
	for _, o := range g.owners {
		for c, s := range o.stated {
			if s.ownerState == unresolvable && meansKind(c.groupVersionKind().GroupKind(), kind) {
				all = append(all, c)
			}
		}
	}
	return all
}

// setScope notes whether a kind has namespaces. Dependents in several namespaces state one owner if it has none.
func (g *graph) setScope(kind schema.GroupKind, clusterScoped bool) (e effects) {
	if g.clusterScoped[kind] == clusterScoped {
		return e
	}
	g.clusterScoped[kind] = clusterScoped
	of := func(c statedOwner, _ *statement) bool { return c.groupVersionKind().GroupKind() == kind }
	for uid, o := range g.owners {
		stated := len(o.stated)
		if maps.DeleteFunc(o.stated, of); len(o.stated) == stated {
			continue
		}
		for d := range o.dependents {
			for ref := range d.refsTo(uid) {
				if schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() == kind {
					g.checkReference(d, ref, false, &e)
				}
			}
		}
	}
	return e
}
