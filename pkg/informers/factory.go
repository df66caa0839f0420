package informers

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/apis"
	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/panics"
	"github.com/standalone-kcm/controller-manager/internal/podcache"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/selectors"
)

// Factory makes the informers of a process: one per kind, and one per kind and field selector. It is a
// SharedInformerFactory of client-go. An informer that is got by the methods of that, such as
// f.Core().V1().Secrets(), works as it does with client-go, and keeps whole objects.
type Factory struct {
	informers.SharedInformerFactory        // of the informers with this selector
	selector                        string // of fields; empty for none
	all                             *all
	may                             func(schema.GroupResource) error // nil: every kind may be cached
	needs, uses                     []schema.GroupVersionResource    // see WithAPIs
}

// all is what the factories of all selectors have in common.
type all struct {
	client      *listwatch.Client // that decodes in part; nil if the client is another one
	build       func(selector string) informers.SharedInformerFactory
	custom      listwatch.Custom              // the kinds that are not built in
	compactPods atomic.Pointer[cache.Indexer] // what the cache of pods stores; nil if it stores them as they are
	fallback    sync.Once                     // logs that there is no client
	// by resource, of all selectors: metrics distinguish informers by nothing else
	named  sync.Map
	labels selectors.LabelIndexes // of pods

	mu        sync.Mutex
	factories map[which]informers.SharedInformerFactory
	caches    map[string]CacheStatus // that have been asked for, by name
	safe      map[cache.SharedIndexInformer]panics.Informer
	fields    []projection.Fields // that are read
	fixed     bool                // the client knows what to keep, whatever is read
	started   bool
}

// which informers are of one factory of client-go: those with a selector, and apart from the others those of APIs
// that may be missing, because one waits for all informers of a factory.
type which struct {
	selector string
	gated    bool
}

// NewFactory returns the factory of all shared informers. With a client made by [listwatch.NewClient], objects are
// projected while they are decoded, and lists and watches that fail are retried within seconds. Of other clients, such
// as fakes, whole objects are kept but for managedFields, and a line of the log says so.
func NewFactory(client kubernetes.Interface, resync time.Duration, options ...informers.SharedInformerOption) *Factory {
	a := &all{factories: map[which]informers.SharedInformerFactory{}, caches: map[string]CacheStatus{},
		safe: map[cache.SharedIndexInformer]panics.Informer{}}
	a.labels.Most, a.labels.From = mostPodIndexes, podsWorthAnIndex
	project := projection.ManagedFields
	if own, ok := client.(*listwatch.Client); ok {
		a.client, a.fixed = own, own.Projection() != nil
		// it is made when the factory starts
		project = func(o any) (any, error) { return own.Projection().Transform(o) }
	}
	a.build = func(selector string) informers.SharedInformerFactory {
		all := append(slices.Clone(options), informers.WithTransform(panics.TransformFunc(podcache.Transform(project))),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = selector }))
		return informers.NewSharedInformerFactoryWithOptions(client, resync, all...)
	}
	return (&Factory{all: a}).selecting("")
}

// Selecting returns the factory of informers that list and watch only what the selector of fields matches, such as
// Secrets of one type: a cache must not hold values that nobody reads. Each kind has one informer for each selector,
// however many controllers ask. They are started and shut down together with those of f.
func Selecting(f *Factory, selector fields.Selector) *Factory { return f.selecting(selector.String()) }

// selecting returns a factory whose caches hold only what a field selector matches. All that ask for the same
// selector share it.
func (f *Factory) selecting(selector string) *Factory {
	a := f.all
	a.mu.Lock()
	defer a.mu.Unlock()
	of := *f
	of.selector = selector
	for _, gated := range []bool{true, false} {
		key := which{selector, gated}
		if a.factories[key] == nil {
			a.factories[key] = a.build(selector)
		}
		of.SharedInformerFactory = a.factories[key]
	}
	return &of
}

// Limited returns the same factory for somebody who may cache only some kinds: may returns an error for all others.
func (f *Factory) Limited(may func(schema.GroupResource) error) *Factory {
	limited := *f
	limited.may = may
	return &limited
}

// AddScheme lets the caches hold the kinds of one more scheme, whose resources the function returns, as that of any
// other scheme that is added does. They are read in JSON, and kept whole. It must be called before a cache is asked
// for.
func (f *Factory) AddScheme(
	s *runtime.Scheme, resource func(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, error),
) {
	f.all.custom.Schemes = append(f.all.custom.Schemes, s)
	f.all.custom.Resource = resource
}

// kindOf returns the kind of an object, and its resource.
func (f *Factory) kindOf(example runtime.Object) (kind schema.GroupVersionKind, resource schema.GroupVersionResource,
	err error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(example)
	for _, custom := range f.all.custom.Schemes {
		if err == nil {
			break
		}
		kinds, _, err = custom.ObjectKinds(example)
	}
	if err != nil {
		return kind, resource, fmt.Errorf("cache: %w", err)
	}
	resource, _ = meta.UnsafeGuessKindToResource(kinds[0]) // right for all kinds of client-go's scheme
	return kinds[0], resource, nil
}

// ask notes which fields are read of a kind. It fails if who asks may not cache it, if there are no such fields, or
// if it is too late.
func (f *Factory) ask(kind schema.GroupVersionKind, resource schema.GroupVersionResource,
	reads projection.Fields) error {
	if f.may != nil {
		if err := f.may(resource.GroupResource()); err != nil {
			return fmt.Errorf("cache of %s: %w", resource.Resource, err)
		}
	}
	if !scheme.Scheme.Recognizes(kind) {
		return nil // it is kept whole
	}
	if _, err := projection.New(reads); err != nil {
		return fmt.Errorf("cache of %s: %w", resource.Resource, err)
	}
	a := f.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started && a.client != nil && !a.fixed {
		return fmt.Errorf("cache of %s: asked for after the caches were started, which know by then what to keep",
			resource.Resource)
	}
	a.fields = append(a.fields, reads)
	return nil
}

// note remembers a cache, for [CacheStatuses], and returns it with its informer as all use it: a panic of what they
// give it ends at one object, and it is not synced while its API is missing.
func (f *Factory) note(kind schema.GroupVersionKind, resource schema.GroupVersionResource,
	made cache.SharedIndexInformer) cached {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	name := resource.GroupResource().String()
	of := cacheName(name, f.selector)
	gate := f.gate(resource)
	safe, known := f.all.safe[made]
	if !known {
		safe = panics.NewInformer(made)
		f.all.safe[made] = safe
	}
	c := cached{kind: kind, informer: safe, safe: safe, gate: gate}
	if gate != nil {
		c.optional = slices.Contains(f.uses, resource)
		c.informer = apis.Informer{SharedIndexInformer: safe, Gate: gate}
	}
	f.all.caches[of] = CacheStatus{
		Resource: name, Name: of, Informer: c.informer, gate: gate, version: resource.Version,
		waited: f.all.caches[of].waited || gate != nil && !f.mayLack(resource),
	}
	return c
}

// identity names the informer of a resource in metrics. Of several informers of a resource only the first has a name:
// client-go logs the second one as an error.
func (f *Factory) identity(resource schema.GroupVersionResource) cache.InformerNameAndResource {
	if _, taken := f.all.named.LoadOrStore(resource, true); taken {
		return (*cache.InformerName)(nil).WithResource(resource)
	}
	return f.InformerName().WithResource(resource)
}

// Projection is what caches keep of objects: the fields that controllers read.
type Projection interface {
	// Project returns what is kept of an object. It does not write to the object.
	Project(o runtime.Object) (runtime.Object, error)
	// ProjectPod returns what is kept of a pod.
	ProjectPod(whole *corev1.Pod) *corev1.Pod
	// Transform is the cache.TransformFunc of the caches: it may write to the object.
	Transform(o any) (any, error)
}

// Projection returns what the caches keep: the fields that were asked for.
func (f *Factory) Projection() (Projection, error) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	return projection.New(f.all.fields...)
}

// start settles what the caches keep, and returns the factories of all selectors.
func (a *all) start() []informers.SharedInformerFactory {
	a.mu.Lock()
	defer a.mu.Unlock()
	factories := slices.Collect(maps.Values(a.factories))
	if a.started {
		return factories
	}
	a.started = true
	if a.client == nil || a.fixed {
		return factories
	}
	for _, f := range factories {
		a.fields = append(a.fields, a.unasked(f))
	}
	kept, err := projection.New(a.fields...)
	if err != nil {
		panic(fmt.Sprintf("fields that are cached: %v", err)) // not reached: ask has tried each of them
	}
	a.client.Keep(kept)
	return factories
}

// unasked says that of what was got by client-go's own methods, all fields are read.
func (a *all) unasked(f informers.SharedInformerFactory) projection.Fields {
	done, cancel := context.WithCancel(context.Background())
	cancel() // to learn which informers there are, and not to wait for them
	kinds := map[schema.GroupVersionKind][]string{}
	for t := range f.WaitForCacheSyncWithContext(done).Synced {
		example, ok := reflect.New(t.Elem()).Interface().(runtime.Object)
		if !ok {
			continue
		}
		of, _, err := scheme.Scheme.ObjectKinds(example)
		ours := func(read projection.Fields) bool { _, asked := read.Kinds[of[0]]; return asked }
		if err == nil && !slices.ContainsFunc(a.fields, ours) {
			kinds[of[0]] = nil
		}
	}
	return projection.Fields{Kinds: kinds}
}

// factories returns a copy of those of all selectors.
func (f *Factory) factories() map[which]informers.SharedInformerFactory {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	return maps.Clone(f.all.factories)
}

// Start implements informers.SharedInformerFactory.
func (f *Factory) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext implements informers.SharedInformerFactory. It starts the informers of all selectors.
func (f *Factory) StartWithContext(ctx context.Context) {
	if f.all.client == nil {
		f.all.fallback.Do(func() {
			klog.FromContext(ctx).Info("Caches keep whole objects: only the client of a manager decodes them in part")
		})
	}
	for _, one := range f.all.start() {
		one.StartWithContext(ctx)
	}
}

// Shutdown implements informers.SharedInformerFactory.
func (f *Factory) Shutdown() {
	for _, one := range f.factories() {
		one.Shutdown()
	}
}

// WaitForCacheSync implements informers.SharedInformerFactory.
func (f *Factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext implements informers.SharedInformerFactory. A type of which there are several caches is
// synced when all of them are. Caches of APIs that are missing are not waited for.
func (f *Factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	result := cache.SyncResult{Synced: map[reflect.Type]bool{}}
	for of, one := range f.factories() {
		if of.gated {
			continue
		}
		r := one.WaitForCacheSyncWithContext(ctx)
		for t, synced := range r.Synced {
			before, known := result.Synced[t]
			result.Synced[t] = synced && (before || !known)
		}
		if result.Err == nil {
			result.Err = r.Err
		}
	}
	if !f.waitForGated(ctx) && result.Err == nil {
		result.Err = context.Cause(ctx)
	}
	return result
}

// cacheName is the name of a cache in metrics and health checks: the resource, and what it selects of it.
func cacheName(resource, selector string) string {
	if selector == "" {
		return resource
	}
	return resource + "-" + strings.NewReplacer("=", "-", "/", "-", ",", "-", "!", "not-").Replace(selector)
}

// DrawResync draws the period in which informers re-deliver everything: uniform in [least, 2*least), so that the
// processes of a cluster don't do it in step (CI-14).
func DrawResync(least time.Duration) time.Duration {
	if least <= 0 {
		return 0
	}
	return least + rand.N(least)
}
