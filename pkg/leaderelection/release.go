package leaderelection

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	coordinationv1api "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Watch lets a candidate see at once that the lease was given up or has expired, not only at its next try. Without the right
// to watch leases it goes on without. The client must not limit the time of a request. It must be called before Run.
func (e *Elector) Watch(leases coordinationv1.LeasesGetter) { e.watched = leases }

// vacated returns a channel that tells, once, that whoever had the lease has it no longer: it sends the record that has
// expired, or nil if it was given up. What is watched ends with ctx.
func (e *Elector) vacated(ctx context.Context) <-chan []byte {
	if e.watched == nil {
		return nil
	}
	vacant := make(chan []byte, 1)
	go func() {
		var seen sighting
		for ctx.Err() == nil {
			w, err := e.watchLease(ctx)
			if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
				klog.FromContext(ctx).V(2).Info("Does not watch the lease, tries it periodically", "lock", e.lockName(), "err", err.Error())
				return
			}
			if err == nil {
				if expired, ok := seen.untilVacant(w); ok {
					vacant <- expired
					return
				}
			}
			select { // a watch that ends quickly must not become a storm
			case <-time.After(e.config.RetryPeriod):
			case <-ctx.Done():
			}
		}
	}()
	return vacant
}

func (e *Elector) watchLease(ctx context.Context) (watch.Interface, error) {
	return e.watched.Leases(e.config.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, e.config.Name).String(),
	})
}

// sighting is what a candidate has seen of a lease that somebody else has. Before that what is free is no news.
type sighting struct {
	record []byte        // nil: nobody has had the lease since the candidacy began
	since  time.Time     // when it was first seen so, by our clock (LE-8)
	valid  time.Duration // how long it may stay so, as stored in the lease
}

// untilVacant reads until the lease has been given up or has expired, or the watch has ended. A sighting outlives a watch:
// a record that the next one shows unchanged was not renewed in between.
func (s *sighting) untilVacant(w watch.Interface) (expired []byte, vacant bool) {
	defer w.Stop()
	expiry := time.NewTimer(0)
	defer expiry.Stop()
	<-expiry.C
	for {
		select {
		case event, ok := <-w.ResultChan():
			lease, isLease := event.Object.(*coordinationv1api.Lease)
			if !ok || !isLease {
				return nil, false // the end, or an error; the next watch begins anew
			}
			if free(event.Type, lease) {
				if s.record != nil {
					return nil, true
				}
				continue
			}
			s.see(lease)
			expiry.Reset(time.Until(s.since.Add(s.valid)))
		case <-expiry.C:
			return s.record, true
		}
	}
}

func free(event watch.EventType, lease *coordinationv1api.Lease) bool {
	return event == watch.Deleted || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == ""
}

func (s *sighting) see(lease *coordinationv1api.Lease) {
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	if raw := rawOf(record); !bytes.Equal(raw, s.record) {
		*s = sighting{raw, time.Now(), time.Duration(record.LeaseDurationSeconds) * time.Second}
	}
}

// rawOf is the record in the form in which two are compared. It is never empty.
func rawOf(record *resourcelock.LeaderElectionRecord) []byte {
	raw, err := json.Marshal(record)
	if err != nil {
		return []byte(err.Error()) // there is nothing in it that cannot be encoded
	}
	return raw
}
