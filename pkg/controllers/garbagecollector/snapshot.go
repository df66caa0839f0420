package garbagecollector

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one decision about an object goes by: a copy of what the graph knows of the object, its owners and
// its dependents. What the lists of references and finalizers hold belongs to the graph, which replaces such a list and
// never changes it.
type snapshot struct {
	node     *node                         // of which a decision reads nothing
	resource string                        // in which a watch has shown it
	object   *metav1.PartialObjectMetadata // as a watch has shown it
	// as a live read has shown it, if the decision asks for one; nil if it is gone
	live      *metav1.PartialObjectMetadata
	absent    bool // the server has answered that there is no such object
	deleting  bool
	waiting   bool // for its dependents to be deleted
	orphaning bool // waits for its dependents to be orphaned
	attempt   *attempt

	owners   [referenceStates][]metav1.OwnerReference // its references, by what is known of the owners
	listed   bool                                     // no kind that has not been listed yet depends on it (GC-15)
	complete bool                                     // its dependents are known as far as possible

	dependents       bool // it has some; only known if an owner waits for it
	dependentWaiting bool // one of them waits for its own dependents; likewise

	blocking    []dependent // some of those that block its deletion, none if none does; only known if it waits for them
	allBlocking int         // about how many there are

	// orphans are the dependents whose references to it can be taken off; only known if it waits for that.
	orphans []*metav1.PartialObjectMetadata

	// missing are the kinds of those owners that live reads have not found; only known if it may be deleted. held says
	// why proof is waited for that they are gone, and again for how long at most; zero: until there is some.
	missing []schema.GroupVersionKind
	held    string
	again   time.Duration
}

// ref names the object for a live read.
func (s snapshot) ref() plan.Ref {
	return plan.Ref{
		Kind: s.object.GroupVersionKind(), Resource: s.resource,
		Namespace: s.object.Namespace, Name: s.object.Name, Metadata: true,
	}
}

// dependent is a dependent that blocks the deletion of its owner. Of the node, a decision reads what never changes.
type dependent struct {
	*node
	kind      string
	undecided bool // its deletion has neither begun nor been tried in the version that was seen
}

// snapshotOf returns what a decision about an object goes by.
func (g *graph) snapshotOf(n *node) snapshot {
	s := snapshot{
		node: n, resource: n.kind.resource, object: n.object(), absent: n.absent,
		deleting: n.deleting, waiting: n.waiting(), orphaning: n.orphaning(), attempt: n.attempt,
		listed: g.complete || g.cleared.Has(n), complete: g.knowsDependents(n),
	}
	switch {
	case s.orphaning && s.complete:
		s.orphans = g.orphansOf(n)
	case s.waiting && !s.orphaning:
		s.blocking, s.allBlocking = g.someBlocking(n)
	default:
		for _, ref := range n.owners {
			state := g.referenceState(n, ref)
			s.owners[state] = append(s.owners[state], ref)
		}
		if len(s.owners[ownerWaits]) > 0 {
			s.dependents, s.dependentWaiting = g.dependentsWait(n)
		}
	}
	return s
}

// referenceState is what is known of the owner that a reference states (GC-33).
type referenceState int

const (
	ownerExists       referenceState = iota // the owner exists
	ownerWaits                              // the owner exists, and waits for its dependents to be deleted
	ownerAbsent                             // there is no such owner
	unknown                                 // a live read will show it
	ownerUnresolvable                       // nobody can know (GC-34, GC-35)
	referenceStates
)

func (g *graph) referenceState(n *node, ref metav1.OwnerReference) referenceState {
	switch found := g.ownerOf(n, ref); {
	case found.waiting():
		return ownerWaits
	case found != nil:
		return ownerExists
	}
	s := g.owners[ref.UID].stated[g.statedBy(n, ref)]
	switch {
	case s == nil, s.ownerState == unverified:
		return unknown
	case s.ownerState == present:
		return ownerExists
	case s.ownerState == unresolvable:
		return ownerUnresolvable
	}
	return ownerAbsent
}

// dependentsWait reports whether an object has dependents, and whether one of these waits for its own.
func (g *graph) dependentsWait(n *node) (some, waiting bool) {
	for d := range g.dependentsOf(n) {
		if some = true; d.waiting() {
			return true, true
		}
	}
	return some, false
}

// mostBlocking is how many dependents are looked at that block an object. Each of them is queued when the object begins
// to wait, and again when its own deletion fails.
const mostBlocking = 100

// someBlocking returns some of the dependents that block the deletion of an object that waits for them, none if none
// does, and how many there are about.
func (g *graph) someBlocking(n *node) (some []dependent, all int) {
	o := g.owners[n.uid]
	if o == nil {
		return nil, 0
	}
	all = len(o.blocking)
	for d := range o.blocking {
		switch twin := g.twinOf(d, n); {
		case d == n, twin != nil && !twin.waiting(), !d.blocksOwner(n):
			all--
			continue
		}
		tried := d.attempt != nil && d.attempt.version == d.version
		if some = append(some, dependent{d, d.kind.Kind, !d.deleting && !tried}); len(some) == mostBlocking {
			break
		}
	}
	slices.SortFunc(some, func(a, b dependent) int {
		return cmp.Or(
			strings.Compare(a.kind, b.kind), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name),
		)
	})
	return some, all
}

// orphansOf are the dependents of an object whose references to it can be taken off. As references are removed by uid,
// they cannot if another owner has the uid.
func (g *graph) orphansOf(n *node) (all []*metav1.PartialObjectMetadata) {
	for d := range g.dependentsOf(n) {
		if d != n && g.twinOf(d, n) == nil {
			all = append(all, d.object())
		}
	}
	return all
}

// twinOf returns another owner of the dependent that has the uid of n, nil if there is none.
func (g *graph) twinOf(dependent, n *node) *node {
	for ref := range dependent.refsTo(n.uid) {
		if owner := g.ownerOf(dependent, ref); owner != nil && owner != n {
			return owner
		}
	}
	return nil
}
