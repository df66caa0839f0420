// Package informers holds the caches that all controllers of a process share: one per kind, with an index for every frequent
// lookup (CI-9, RS-63).
//
// Objects are projected to the fields that controllers read before they are cached (package projection), and equal parts of
// several objects are held once (package podcache). Lists and watches that fail are retried within seconds, their errors are logged
// at a limited rate, and [listwatch.Activity] tells which watches are alive.
package informers

import (
	"context"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/podcache"
	"github.com/standalone-kcm/controller-manager/internal/projection"
)

// factory makes the informers of a process: one per kind, and one per kind and field selector.
type factory struct {
	informers.SharedInformerFactory                   // of the informers with this selector
	selector                        string            // of fields; empty for none
	client                          *listwatch.Client // that decodes in part; nil if the client is another one
	build                           func(selector string) *factory
	named                           *sync.Map // by resource, of all selectors: metrics tell informers apart by nothing else

	mu       sync.Mutex
	selected map[string]*factory // by selector
}

// NewFactory returns the factory of all shared informers. With a client made by [listwatch.NewClient], objects are projected while they
// are decoded, and lists and watches that fail are retried within seconds. Other clients, such as fakes, only lose
// managedFields.
func NewFactory(client kubernetes.Interface, resync time.Duration, options ...informers.SharedInformerOption) informers.SharedInformerFactory {
	own, ok := client.(*listwatch.Client)
	project := projection.ManagedFields
	if ok {
		project = own.Projection().Transform
	}
	var build func(selector string) *factory
	var named sync.Map
	build = func(selector string) *factory {
		all := append(slices.Clone(options), informers.WithTransform(podcache.Transform(project)),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = selector }))
		return &factory{
			SharedInformerFactory: informers.NewSharedInformerFactoryWithOptions(client, resync, all...),
			selector:              selector, client: own, build: build, named: &named, selected: map[string]*factory{},
		}
	}
	return build("")
}

// Selecting returns the factory of informers that list and watch only what the selector of fields matches, such as Secrets of one
// type: a cache must not hold values that nobody reads. Each kind has one informer for each selector, however many controllers ask.
// They are started and shut down together with those of f, which [NewFactory] has made.
func Selecting(f informers.SharedInformerFactory, selector fields.Selector) informers.SharedInformerFactory {
	own, ok := f.(*factory)
	if !ok || selector.Empty() {
		return f
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	name := selector.String()
	if own.selected[name] == nil {
		own.selected[name] = own.build(name)
	}
	return own.selected[name]
}

// identity names the informer of a resource in metrics. Of several informers of a resource only the first has a name: client-go logs the
// second one as an error.
func (f *factory) identity(resource schema.GroupVersionResource) cache.InformerNameAndResource {
	if _, taken := f.named.LoadOrStore(resource, true); taken {
		return (*cache.InformerName)(nil).WithResource(resource)
	}
	return f.InformerName().WithResource(resource)
}

// parts are the factories of the informers with selectors.
func (f *factory) parts() []*factory {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.selected))
}

// Start implements informers.SharedInformerFactory.
func (f *factory) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext implements informers.SharedInformerFactory.
func (f *factory) StartWithContext(ctx context.Context) {
	f.SharedInformerFactory.StartWithContext(ctx)
	for _, part := range f.parts() {
		part.StartWithContext(ctx)
	}
}

// Shutdown implements informers.SharedInformerFactory.
func (f *factory) Shutdown() {
	for _, part := range f.parts() {
		part.Shutdown()
	}
	f.SharedInformerFactory.Shutdown()
}

// WaitForCacheSync implements informers.SharedInformerFactory.
func (f *factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext implements informers.SharedInformerFactory. A type of which there are several caches is synced when
// all of them are.
func (f *factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	result := f.SharedInformerFactory.WaitForCacheSyncWithContext(ctx)
	for _, part := range f.parts() {
		r := part.WaitForCacheSyncWithContext(ctx)
		for t, synced := range r.Synced {
			before, known := result.Synced[t]
			result.Synced[t] = synced && (before || !known)
		}
		if result.Err == nil {
			result.Err = r.Err
		}
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
