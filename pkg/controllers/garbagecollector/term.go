package garbagecollector

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
)

const (
	// reviewEach is how long a decision waits for each of many owners, reviewMany for many dependents.
	reviewEach = 100 * time.Microsecond
	reviewMany = 100 * time.Millisecond
)

// term is what the collector knows while the process leads: the graph, what discovery has found, who waits for what.
// None of its methods asks the server. It is not safe for concurrent use: the runner has a lock around it.
type term struct {
	graph  *graph
	kinds  map[schema.GroupVersionResource]*resourceKind // of what is, or was, watched
	synced sets.Set[schema.GroupKind]                    // what has been listed, while the graph is not complete

	watched  sets.Set[schema.GroupVersionResource]
	absences map[schema.GroupVersionResource]int // how many discoveries in a row lack what was watched

	awaiting map[schema.GroupKind][]statedOwner     // to be verified when the kind has been listed
	reads    map[schema.GroupVersionKind]*kindReads // live reads of owners, by their kind
	// asking waits to learn whether it has dependents of kinds that are being listed, by namespace.
	asking map[string]sets.Set[*node]
	warned map[statedOwner]sets.Set[*node] // dependents with an event that says that the owner cannot be looked up

	absentByKind map[schema.GroupKind]*absentOwners // of owners that live reads have not found; none of Kubernetes' own
	local        sets.Set[schema.GroupVersion]      // groups that are known to be served by the API server itself

	queues
	workers int
	records *explain.Records
	events  record.EventRecorder
	brake   *brake.Brake
	health  *health
}

// newTerm returns a term in which nothing is known yet.
func (r *runner) newTerm() *term {
	return &term{
		graph: newGraph(), kinds: map[schema.GroupVersionResource]*resourceKind{}, synced: sets.New[schema.GroupKind](),
		watched: sets.New[schema.GroupVersionResource](), absences: map[schema.GroupVersionResource]int{},
		awaiting: map[schema.GroupKind][]statedOwner{}, reads: map[schema.GroupVersionKind]*kindReads{},
		asking: map[string]sets.Set[*node]{}, warned: map[statedOwner]sets.Set[*node]{},
		absentByKind: map[schema.GroupKind]*absentOwners{}, local: sets.New[schema.GroupVersion](),
		queues: r.newQueues(), workers: r.workers,
		records: r.records, events: r.events, brake: r.brake, health: &r.health,
	}
}

// follow queues what a change of the graph leads to.
func (t *term) follow(e effects) {
	for _, n := range e.remove {
		t.enqueue(n, 0)
	}
	for _, n := range e.review {
		t.enqueue(n, t.reviewAfter(n))
	}
	for _, n := range e.orphan {
		t.orphan.Enqueue(n, n.firstOwner(), 0)
	}
	for _, c := range e.verify {
		if kind := c.groupVersionKind().GroupKind(); t.awaited(kind) {
			t.awaiting[kind] = append(t.awaiting[kind], c)
		} else {
			t.verifyOwner(c)
		}
	}
	for _, s := range e.foreign {
		t.warning(s.dependent, "OwnerRefInvalidNamespace",
			"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			s.ref.APIVersion, s.ref.Kind, s.dependent.Namespace, s.ref.Name, s.ref.UID, s.dependent.Namespace)
	}
}

// warning records an event for users, if events are recorded.
func (t *term) warning(about runtime.Object, reason, format string, values ...any) {
	if t.events != nil {
		t.events.Eventf(about, corev1.EventTypeWarning, reason, format, values...)
	}
}

// enqueue has an object decided about after some time. Dependents of one owner take turns with those of others.
func (t *term) enqueue(n *node, after time.Duration) { t.remove.Enqueue(n, n.firstOwner(), after) }

// verifyOwner has an owner looked up.
func (t *term) verifyOwner(c statedOwner) { t.verify.Enqueue(c, c.uid, 0) }

// decideAgain has an object decided about that waits for its dependents, or is being read.
func (t *term) decideAgain(n *node) {
	if n.orphaning() {
		t.orphan.Enqueue(n, n.firstOwner(), 0)
	} else {
		t.enqueue(n, 0)
	}
}

// seenLive brings the graph up to date with a live read of an object; nil if it has not been found (GC-30, GC-40).
func (t *term) seenLive(n *node, found *metav1.PartialObjectMetadata) {
	n.attempt, n.absent = nil, false
	if found == nil || found.UID != n.uid {
		t.gone(n, true)
		return
	}
	t.follow(t.graph.observe(n.kind, found))
	t.decideAgain(n)
}

// reviewAfter returns how long a decision about an object waits that costs more than a moment. Thousands of its owners,
// or of the dependents for which it waits, may go one after the other.
func (t *term) reviewAfter(n *node) time.Duration {
	if n.byUID != nil {
		return time.Duration(len(n.owners)) * reviewEach
	}
	if o := t.graph.owners[n.uid]; o != nil && len(o.blocking) > mostBlocking {
		return reviewMany
	}
	return 0
}

// awaited reports whether the kind is being listed at the start, so that its objects will be seen.
func (t *term) awaited(kind schema.GroupKind) bool {
	if t.graph.complete || t.synced.Has(kind) {
		return false
	}
	for _, known := range t.kinds {
		if known.GroupKind() == kind {
			return true
		}
	}
	return false
}

// release has the owners of a kind verified that waited for it to be listed.
func (t *term) release(kind schema.GroupKind) {
	for _, c := range t.awaiting[kind] {
		if t.graph.isStated(c) {
			t.verifyOwner(c)
		} else {
			t.graph.dropUnstated(c)
		}
	}
	delete(t.awaiting, kind)
}

// gone notes that an object is gone.
func (t *term) gone(n *node, certain bool) {
	t.records.Forget(explainKey(n))
	if !certain {
		t.absentOwnersOf(n.kind.GroupKind()).lose(time.Now())
	}
	t.follow(t.graph.forget(n, certain && t.isSole(n.kind)))
}

// isSole reports whether no other resource has the kind. Otherwise a reference does not say which resource it means.
func (t *term) isSole(k *resourceKind) bool {
	for _, other := range t.kinds {
		if other.GroupKind() == k.GroupKind() && !other.same(k) {
			return false
		}
	}
	return true
}

// doneListing has owners that are to be released wait no longer for these resources.
func (t *term) doneListing(resources ...schema.GroupVersionResource) {
	if len(t.graph.listing) > 0 {
		t.graph.listing.Delete(resources...)
		t.health.setListing(t.graph.listing)
		t.reviewWaiting()
	}
}

// reviewWaiting queues the objects that wait for their dependents, if these are known by now.
func (t *term) reviewWaiting() {
	if !t.graph.settled() {
		return
	}
	clear(t.asking)
	t.graph.cleared.Clear()
	for n := range t.graph.all() {
		if !n.orphaning() && !n.waiting() {
			continue
		}
		if t.decideAgain(n); !n.orphaning() {
			var e effects
			t.graph.considerDependents(n, &e)
			t.follow(e)
		}
	}
}
