package agreement

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Follow has the comparison look up objects in the caches of a factory that has been started, and see there what comes
// and goes.
func (c *Comparison) Follow(f *informers.Factory) error {
	projection, err := f.Projection()
	if err != nil {
		return err
	}
	all := informers.CacheStatuses(f)
	c.mu.Lock()
	c.Project = func(o plan.Object) plan.Object {
		if kept, err := projection.Project(o); err == nil {
			if kept, ok := kept.(plan.Object); ok {
				return kept
			}
		}
		return o
	}
	c.Cached = cachedIn(all)
	c.mu.Unlock()
	for _, one := range all {
		if _, err := one.Informer.AddEventHandler(c.handler()); err != nil {
			return err
		}
	}
	return nil
}

// handler tells the comparison what comes and goes.
func (c *Comparison) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			if o, ok := o.(plan.Object); ok && !initial {
				c.Came(o)
			}
		},
		UpdateFunc: func(before, after any) {
			old, was := before.(plan.Object)
			o, is := after.(plan.Object)
			if was && is && old.GetDeletionTimestamp() == nil && o.GetDeletionTimestamp() != nil {
				c.Went(o)
			}
		},
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			if o, ok := o.(plan.Object); ok && o.GetDeletionTimestamp() == nil {
				c.Went(o)
			}
		},
	}
}

// cachedIn looks objects up in caches. Those with a selector tell only that an object is there.
func cachedIn(all []informers.CacheStatus) Cached {
	by := map[string][]informers.CacheStatus{}
	for _, one := range all {
		by[one.Resource] = append(by[one.Resource], one)
	}
	return func(kind schema.GroupVersionKind, key plan.Key) (plan.Object, bool) {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		known := false
		for _, one := range by[resource.GroupResource().String()] {
			known = known || one.Name == one.Resource && one.Informer.HasSynced()
			name := cache.NewObjectName(key.Namespace, key.Name).String()
			if found, ok, err := one.Informer.GetIndexer().GetByKey(name); err == nil && ok {
				if o, ok := found.(plan.Object); ok {
					return o, true
				}
			}
		}
		return nil, known
	}
}
