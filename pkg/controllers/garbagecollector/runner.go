package garbagecollector

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	discoverEvery = 30 * time.Second
	syncTimeout   = 30 * time.Second
)

// runner runs the garbage collector.
type runner struct {
	client     client.Client
	shared     reconcile.Shared
	access     reconcile.Access
	mapper     client.KindMapper
	events     record.EventRecorder
	records    *explain.Records
	resources  func(ctx context.Context, verbs ...string) ([]client.Mapping, error)
	metadata   *metadata.Informers
	workers    int
	syncErrors *metrics.Counter
	brake      *brake.Brake
	health     health
	rendering  sync.Mutex // held while the graph is written out, which is large

	// mu guards the term. It is taken before the lock of health, and never while a method of a subscription that waits
	// is called.
	mu       sync.Mutex
	term     *term           // nil before the first one
	starting *sync.WaitGroup // parts of the term that do not work yet
}

// Run implements manager.Runner.
func (r *runner) Run(ctx context.Context) error {
	changes := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[*node]{ // GC-2: always empty
		Name: "garbage_collector_graph_changes",
	})
	defer changes.ShutDown()
	r.begin()
	defer r.records.Clear()
	var working, following sync.WaitGroup
	working.Go(func() { r.work(ctx) })
	r.starting.Wait()
	sub := r.metadata.Subscribe(r)
	r.health.begin(sub, r.term.parts())
	following.Go(func() {
		sub.Follow(ctx, r.discover, discoverEvery, func(ctx context.Context, err error) { r.updated(ctx, sub, err) })
	})
	working.Wait()
	sub.Close()
	following.Wait()
	r.health.begin(nil, nil)
	return nil
}

// work runs the parts of a term until ctx ends. None fails: there are no caches, of which one might not be usable.
func (r *runner) work(ctx context.Context) { _ = r.term.parts().Run(ctx) }

// begin begins a term, in which nothing is known of an earlier one.
func (r *runner) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term != nil {
		r.term.releaseHeld()
	}
	r.starting = &sync.WaitGroup{}
	r.term = r.newTerm()
}

// Records returns what is remembered for /debug/explain.
func (r *runner) Records() []*explain.Records { return []*explain.Records{r.records} }

// discover finds what to watch (GC-6, GC-7), and notes the kinds.
func (r *runner) discover(ctx context.Context) (all []schema.GroupVersionResource, err error) {
	found, err := r.resources(ctx, "delete", "list", "watch")
	clusterScoped := map[schema.GroupKind]bool{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range found {
		if m.Resource == "events" && (m.Group == "" || m.Group == "events.k8s.io") {
			continue
		}
		resource := m.GroupVersionResource()
		all = append(all, resource)
		if !r.term.watched.Has(resource) {
			r.term.graph.listing.Insert(resource) // before its watch begins
			r.term.graph.cleared.Clear()
		}
		if k := r.term.kinds[resource]; k == nil {
			r.term.kinds[resource] = &resourceKind{m.GroupVersionKind, m.Resource}
		} else if k.GroupVersionKind != m.GroupVersionKind { // a custom resource may be defined anew
			r.term.follow(r.term.graph.redefine(k, m.GroupVersionKind))
		}
		clusterScoped[m.GroupKind()] = clusterScoped[m.GroupKind()] || !m.Namespaced
	}
	for kind, is := range clusterScoped {
		r.term.follow(r.term.graph.setScope(kind, is))
	}
	r.health.setListing(r.term.graph.listing)
	return all, err
}

// updated waits for new resources to be listed, and counts what fails (GC-10, GC-13).
func (r *runner) updated(ctx context.Context, sub *metadata.Subscription, err error) {
	if _, partial := discovery.GroupDiscoveryFailedErrorGroups(err); err != nil && !partial && ctx.Err() == nil {
		r.syncErrors.Inc()
	}
	wanted := sets.New(sub.Resources()...)
	r.mu.Lock()
	added := wanted.Difference(r.term.watched)
	r.term.watched = wanted
	vanished := r.term.forgetVanished(err)
	otherwise := r.term.graph.listing.Difference(added) // found, but watched in another version
	r.term.doneListing(otherwise.UnsortedList()...)
	r.mu.Unlock()
	for _, resource := range vanished {
		sub.Forget(resource) // takes locks under which handlers are called
	}
	if r.health.setUndiscovered(nil); len(wanted) == 0 {
		r.health.setUndiscovered(err)
	}
	if len(added) == 0 {
		return
	}
	var waiting sync.WaitGroup
	for resource := range added {
		waiting.Go(func() {
			unsynced := sub.WaitForSync(ctx, syncTimeout, resource)
			r.listed(resource, len(unsynced) == 0)
		})
	}
	waiting.Wait()
	unsynced := slices.DeleteFunc(sub.Resources(), sub.Synced)
	if len(unsynced) > 0 && ctx.Err() == nil {
		r.syncErrors.Inc()
		klog.FromContext(ctx).Info("Some resources could not be listed in time, goes on without them",
			"resources", unsynced)
	}
	r.complete()
}

// listed has owners verified, and others released, that waited for a resource to be listed, or for long enough. When
// the resource has really been listed, what was seen in another version of its kind, and is not in this one, may be
// gone.
func (r *runner) listed(resource schema.GroupVersionResource, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.term.kinds[resource]
	if k == nil {
		return
	}
	r.term.synced.Insert(k.GroupKind())
	r.term.release(k.GroupKind())
	if r.term.graph.complete { // at the start, hardly any owner was looked up yet, and dozens of kinds are listed
		for _, c := range r.term.graph.unknownOwners(k.GroupKind()) {
			r.term.verifyOwner(c)
		}
	}
	for n := range r.term.graph.all() {
		if all && n.kind != k && n.kind.same(k) {
			r.term.gone(n, false)
		}
	}
	r.term.doneListing(resource)
}

// complete lets owners be released, as the objects of all kinds are known as far as possible (GC-15).
func (r *runner) complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.term.watched) == 0 || r.term.graph.complete {
		return
	}
	r.term.graph.complete = true
	for kind := range r.term.awaiting {
		r.term.release(kind)
	}
	r.term.reviewWaiting()
}

// OnUpdate implements metadata.Handler.
func (r *runner) OnUpdate(resource schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.term.kinds[resource]; k != nil {
		r.term.follow(r.term.graph.observe(k, o))
	}
}

// OnDelete implements metadata.Handler. An object without version was missed by a list, which proves nothing.
func (r *runner) OnDelete(resource schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.term.kinds[resource]; k != nil {
		if n := r.term.graph.find(k, o); n != nil {
			r.term.gone(n, o.ResourceVersion != "")
		}
	}
}

type objectObservation = reconcile.Observation[snapshot, struct{}]

// observeObject copies what a decision about an object goes by.
func (r *runner) observeObject(_ context.Context, req reconcile.TypedRequest[*node, struct{}]) (o objectObservation,
	_ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.term.graph.has(req.Key) {
		return o, nil
	}
	s := r.term.graph.snapshotOf(req.Key)
	if !s.deleting && len(s.owners[ownerAbsent]) > 0 {
		s.missing = r.term.graph.missingKinds(req.Key)
		s.held, s.again = r.term.waitsForProof(time.Now(), s.missing)
	}
	return objectObservation{Exists: true, Snapshot: s}, nil
}

// proveObject puts in what a live read has shown of an object.
func proveObject(o objectObservation, proof reconcile.Proof) objectObservation {
	o.Snapshot.live, _, _ = reconcile.Found[*metav1.PartialObjectMetadata](proof, o.Snapshot.ref())
	return o
}

// commitDecision updates the term with what was decided about an object. It fails if that is not so any more.
func (r *runner) commitDecision(s snapshot, d decision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.term.graph.has(s.node) || d.due && r.term.holdAny(time.Now(), s) != d.held {
		return plan.ErrStale
	}
	if d.attempt != nil {
		s.node.attempt = d.attempt
	}
	for _, other := range d.enqueue {
		r.term.enqueue(other, 0)
	}
	r.term.askLater(s.node, d)
	if d.read {
		r.term.seenLive(s.node, s.live)
	}
	return nil
}

// commitOutcome updates the term with the writes that have failed.
func (r *runner) commitOutcome(_ context.Context, s snapshot, d decision, did, _ plan.Outcome) {
	if did.Err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.node.absent = client.IsAbsent(did.Err)
	if d.deletes {
		s.node.attempt = nil
	}
}

// recorded says how people call an object, and whether a decision is worth a record: one that fails, or waits.
func (r *runner) recorded(n *node, rec *explain.Record) (plan.Key, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return explainKey(n), r.term.graph.has(n) && (rec.Error != "" || rec.Wrote == 0 && rec.Why != "")
}

// explainKey is how an object is called in /debug/explain.
func explainKey(n *node) plan.Key {
	return plan.Key{Namespace: n.namespace, Name: n.kind.Kind + ":" + n.name}
}

// Handlers returns what is served of the graph, by path (GC-57).
func (r *runner) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"/debug/controllers/garbage-collector-controller/graph": http.HandlerFunc(r.serveGraph),
	}
}

// drawn copies the graph, or the surroundings of some objects.
func (r *runner) drawn(uids []types.UID) []drawing {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term == nil {
		return nil
	}
	return r.term.graph.draw(uids...)
}

// serveGraph writes the graph for one request at a time. It is copied under the lock, and written out without it.
func (r *runner) serveGraph(w http.ResponseWriter, req *http.Request) {
	if !r.rendering.TryLock() {
		http.Error(w, "the graph is being written for another request", http.StatusTooManyRequests)
		return
	}
	defer r.rendering.Unlock()
	var uids []types.UID
	for _, uid := range req.URL.Query()["uid"] {
		uids = append(uids, types.UID(uid))
	}
	drawn := r.drawn(uids)
	w.Header().Set("Content-Type", "text/vnd.graphviz")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = writeDot(w, drawn) // whoever asked may have gone
}
