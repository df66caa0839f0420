package manager

import (
	"context"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// tellGone has [Options.Gone] called with what the caches show to be gone, until end is called.
func (m *instance) tellGone(ctx context.Context) (end func()) {
	if m.Gone == nil {
		return func() {}
	}
	var ends []func()
	for _, of := range informers.CacheStatuses(m.informers) {
		handle, err := of.Informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: m.gone})
		if err != nil { // the informer has ended, and so will the controllers
			klog.FromContext(ctx).Info("What is gone is not told", "cache", of.Name, "err", err.Error())
			continue
		}
		ends = append(ends, func() { _ = of.Informer.RemoveEventHandler(handle) }) // or it has ended
	}
	return func() {
		for _, one := range ends {
			one()
		}
	}
}

// gone tells of an object, also of one whose deletion was missed.
func (m *instance) gone(o any) {
	if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = missed.Obj
	}
	if object, ok := o.(plan.Object); ok {
		m.Gone(object)
	}
}
