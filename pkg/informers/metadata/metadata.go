package metadata

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/paging"
)

// Informers watch the metadata of any resources, built-in and custom ones, for those who want it: see
// [Informers.Subscribe]. What several subscriptions want is listed and watched once, and what is cached already is
// not watched again: see [Informers.UseCaches]. A resource that cannot be listed holds up no other.
//
// managedFields, the annotation of kubectl apply, and the kind (PartialObjectMetadata, for all of them) are dropped.
// There is no resync.
type Informers struct {
	client  metadata.Interface
	running sync.WaitGroup
	own     listwatch.Rollbacks // of the resources of Kubernetes
	others  listwatch.Rollbacks

	caches func(schema.GroupVersionResource) cache.SharedIndexInformer // nil for none

	mu      sync.Mutex // taken before the lock of a source
	closed  bool
	sources map[schema.GroupVersionResource]source // of the resources that somebody wants
}

// source is where the objects of one resource come from, for all subscriptions that want it.
type source interface {
	// join adds a feed. It does not wait. What it starts is counted in running; it gets its logger from ctx, and
	// outlives it.
	join(ctx context.Context, f *feed, running *sync.WaitGroup)
	// leave removes a feed, which gets nothing from then on. It returns true if none is left.
	leave(f *feed) (unused bool)
	// stop ends what join has started.
	stop()
}

// New returns informers that watch nothing yet. The client's requests must not be bounded in time.
func New(client metadata.Interface) *Informers {
	return &Informers{client: client, sources: map[schema.GroupVersionResource]source{}}
}

// OnRollback is like [listwatch.Rollbacks.OnRollback], for the resources of Kubernetes. Others may be of an
// aggregated API server, whose versions begin anew when it is restarted: they are listed anew, after a while in which
// the former are found out to have gone back, too, if they have.
func (i *Informers) OnRollback(f func(error)) { i.own.OnRollback(f) }

// UseCaches says which resources are cached whole already: their objects come from there, and are not watched a
// second time. caches returns nil for all others. It is asked when a subscription begins to want a resource, and must
// be set before.
func (i *Informers) UseCaches(caches func(schema.GroupVersionResource) cache.SharedIndexInformer) {
	i.caches = caches
}

// newSource returns where the objects of a resource come from.
func (i *Informers) newSource(resource schema.GroupVersionResource) source {
	if i.caches != nil {
		if informer := i.caches(resource); informer != nil {
			return &cacheSource{resource: resource, informer: informer, handlers: map[*feed]*cacheHandler{}}
		}
	}
	return newResourceWatch(i.client, resource, i.rollbacksOf(resource))
}

// rollbacksOf returns the handler for a resource that has gone back.
func (i *Informers) rollbacksOf(resource schema.GroupVersionResource) *listwatch.Rollbacks {
	if scheme.Scheme.IsGroupRegistered(resource.Group) {
		return &i.own
	}
	return &i.others
}

// Shutdown ends all watches and waits for their goroutines. Nothing starts any more.
func (i *Informers) Shutdown() {
	i.mu.Lock()
	i.closed = true
	for _, from := range i.sources {
		from.stop()
	}
	i.mu.Unlock()
	i.running.Wait()
}

// List reads the metadata of the objects of a namespace live.
func (i *Informers) List(ctx context.Context, resource schema.GroupVersionResource,
	namespace string) ([]metav1.PartialObjectMetadata, error) {
	var all []metav1.PartialObjectMetadata
	var pages paging.List
	for o := (metav1.ListOptions{}); ; {
		list, err := i.client.Resource(resource).Namespace(namespace).List(ctx, o)
		if err == nil { // a server may answer in pages though nobody has asked for them
			err = pages.Next(list.Continue)
		}
		if err != nil {
			return nil, fmt.Errorf("list %s in %s: %w", resource.GroupResource(), namespace, err)
		}
		all = append(all, list.Items...)
		if o.Continue = list.Continue; o.Continue == "" {
			return all, nil
		}
	}
}

// Any asks live whether there is any object of a resource, in whatever namespace.
func (i *Informers) Any(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	list, err := i.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false, fmt.Errorf("list %s: %w", resource.GroupResource(), err)
	}
	if len(list.Items) == 0 && list.Continue != "" { // there may be some, on a later page
		return false,
			fmt.Errorf("list %s: the server says that there is more, and shows nothing", resource.GroupResource())
	}
	return len(list.Items) > 0, nil
}

// State is how the watch of one resource does.
type State struct {
	Resource schema.GroupVersionResource // health checks and metrics call it Resource.GroupResource().String()
	Synced   bool                        // its objects have been listed
	Objects  int                         // how many there are
	// when the server last answered or sent an event or a bookmark; zero if it never has
	LastActivity time.Time
	Err          error // why the latest list or watch failed; nil if it did not
	activity     *listwatch.Activity
}

// Stalled is like [listwatch.Activity.Stalled].
func (s State) Stalled(bound time.Duration) error { return s.activity.Stalled(bound) }

// States reports how the watches do that somebody wants at the moment, sorted by group, resource and version. What
// comes from a cache has none.
func (i *Informers) States() []State {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []State
	for _, from := range i.sources {
		if w, ok := from.(*resourceWatch); ok {
			all = append(all, w.state())
		}
	}
	slices.SortFunc(all, func(a, b State) int { return compareResources(a.Resource, b.Resource) })
	return all
}

// compareResources orders resources by group and name.
func compareResources(a, b schema.GroupVersionResource) int {
	return slices.Compare([]string{a.Group, a.Resource, a.Version}, []string{b.Group, b.Resource, b.Version})
}

// Handler is notified of what becomes of objects. Calls about one resource come one at a time, calls about different
// resources at the same time. A call must not block or change the object. Of the subscription it may use
// [Subscription.Resources] and [Subscription.Synced] only.
type Handler interface {
	// OnUpdate is called with an object that is new to the handler or has changed.
	OnUpdate(resource schema.GroupVersionResource, object *metav1.PartialObjectMetadata)
	// OnDelete is called with an object that is gone, once. Of an object whose deletion was missed by the watch and
	// found by a list there is only the namespace, name and uid.
	OnDelete(resource schema.GroupVersionResource, object *metav1.PartialObjectMetadata)
}

// Subscription is what one user wants to know of. Its methods may be called concurrently.
type Subscription struct {
	handler   Handler
	informers *Informers

	// Under the lock of the informers:
	closed bool
	// what the handler knows of resources that are not wanted any more
	lastKnown map[schema.GroupVersionResource]versions

	mu    sync.RWMutex // taken last, so that handlers can ask
	feeds map[schema.GroupVersionResource]*feed
}

// Subscribe returns a subscription to no resource yet. The handler is notified of all objects. Of those that it knows
// only their identities and versions are kept, so the handler can have the only copy of them. Whoever is done with a
// subscription closes it.
func (i *Informers) Subscribe(handler Handler) *Subscription {
	return &Subscription{
		handler: handler, informers: i,
		feeds: map[schema.GroupVersionResource]*feed{}, lastKnown: map[schema.GroupVersionResource]versions{},
	}
}

// SetResources says which resources are wanted from now on. It starts watches and ends those that nobody wants any
// more, and waits for neither. Watches outlive ctx, which only gives them their logger.
//
// When it returns, the handler gets no more events of resources that are no longer wanted. Nor does it learn that their
// objects are gone, for that is not known. If a resource is wanted again, the handler gets what has changed since.
//
// A resource that is watched already is listed once more for a subscription that joins, unless it comes from a cache.
func (s *Subscription) SetResources(ctx context.Context, resources []schema.GroupVersionResource) {
	s.informers.mu.Lock()
	defer s.informers.mu.Unlock()
	if s.closed || s.informers.closed {
		return
	}
	s.set(ctx, resources)
}

// Forget has the handler notified of all objects of a resource, as if they were new, when the resource is wanted again.
// It has no effect on one that is wanted.
func (s *Subscription) Forget(resource schema.GroupVersionResource) {
	s.informers.mu.Lock()
	defer s.informers.mu.Unlock()
	delete(s.lastKnown, resource)
}

// Close ends the subscription, see [Subscription.SetResources].
func (s *Subscription) Close() {
	s.informers.mu.Lock()
	defer s.informers.mu.Unlock()
	s.set(context.Background(), nil)
	s.closed, s.lastKnown = true, nil
}

// set is called under the lock of the informers.
func (s *Subscription) set(ctx context.Context, resources []schema.GroupVersionResource) {
	wanted, current := sets.New(resources...), sets.New(s.Resources()...)
	for resource := range current.Difference(wanted) {
		s.leave(resource)
	}
	for resource := range wanted.Difference(current) {
		s.join(ctx, resource)
	}
}

// join subscribes to one more resource. It is called under the lock of all informers.
func (s *Subscription) join(ctx context.Context, resource schema.GroupVersionResource) {
	i := s.informers
	from := i.sources[resource]
	if from == nil {
		from = i.newSource(resource)
		i.sources[resource] = from
	}
	f := newFeed(resource, s.handler, s.lastKnown[resource])
	delete(s.lastKnown, resource)
	from.join(context.WithoutCancel(ctx), f, &i.running)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds[resource] = f
}

// leave ends that. A source that nobody uses any more is stopped. It is called under the lock of all
// informers.
func (s *Subscription) leave(resource schema.GroupVersionResource) {
	f := s.feed(resource)
	s.mu.Lock()
	delete(s.feeds, resource)
	s.mu.Unlock()
	from := s.informers.sources[resource]
	if unused := from.leave(f); unused {
		from.stop()
		delete(s.informers.sources, resource)
	}
	if len(f.known) > 0 {
		s.lastKnown[resource] = f.known
	}
}

// Resources returns what is wanted, sorted.
func (s *Subscription) Resources() []schema.GroupVersionResource {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(s.feeds), compareResources)
}

// Synced reports whether the resource is wanted and its objects have been listed since.
func (s *Subscription) Synced(resource schema.GroupVersionResource) bool {
	f := s.feed(resource)
	return f != nil && f.isSynced()
}

// WaitForSync waits until the resources are synced, or all that are wanted if none are named, but no longer than the
// timeout or ctx allows. It returns those that are not. A resource that is not wanted, or no longer, is not waited for.
func (s *Subscription) WaitForSync(ctx context.Context, timeout time.Duration,
	resources ...schema.GroupVersionResource) (unsynced []schema.GroupVersionResource) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if len(resources) == 0 {
		resources = s.Resources()
	}
	for _, resource := range resources {
		f := s.feed(resource)
		if f == nil || !f.waitForSync(ctx) {
			unsynced = append(unsynced, resource)
		}
	}
	return unsynced
}

// feed returns what feeds the subscription of a resource; nil if nothing does.
func (s *Subscription) feed(resource schema.GroupVersionResource) *feed {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.feeds[resource]
}
