package leaderelection

import (
	"context"
	"time"

	coordinationv1api "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
)

// Watch lets a candidate see at once that the lease was given up, not only at its next try. Without the right to watch
// leases it goes on without. The client must not limit the time of a request. It must be called before Run.
func (e *Elector) Watch(leases coordinationv1.LeasesGetter) { e.watched = leases }

// released returns a channel that is closed when somebody who had the lease has given it up. What is watched ends with ctx.
func (e *Elector) released(ctx context.Context) <-chan struct{} {
	if e.watched == nil {
		return nil
	}
	seen := make(chan struct{})
	go func() {
		had := false // somebody had the lease since the candidacy began: what was free before is no news
		for ctx.Err() == nil {
			w, err := e.watchLease(ctx)
			if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
				klog.FromContext(ctx).V(2).Info("Does not watch the lease, tries it periodically", "lock", e.lockName(), "err", err.Error())
				return
			}
			if err == nil && givenUp(w, &had) {
				close(seen)
				return
			}
			select { // a watch that ends quickly must not become a storm
			case <-time.After(e.config.RetryPeriod):
			case <-ctx.Done():
			}
		}
	}()
	return seen
}

func (e *Elector) watchLease(ctx context.Context) (watch.Interface, error) {
	return e.watched.Leases(e.config.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, e.config.Name).String(),
	})
}

// givenUp reads until a lease that somebody had is nobody's, or the watch has ended.
func givenUp(w watch.Interface, had *bool) bool {
	defer w.Stop()
	for event := range w.ResultChan() {
		lease, ok := event.Object.(*coordinationv1api.Lease)
		if !ok {
			return false // an error; the next watch begins anew
		}
		free := event.Type == watch.Deleted || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == ""
		if free && *had {
			return true
		}
		*had = *had || !free
	}
	return false
}
