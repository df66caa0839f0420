package leaderelection

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
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

// Watch lets a candidate see at once that the lease was given up or has expired, not only at its next try. Without the
// right to watch leases it continues without. The client must not limit the time of a request. It must be called before
// Run.
func (e *Elector) Watch(leases coordinationv1.LeasesGetter) { e.watched = leases }

// leaseFreed returns a channel that receives once, as soon as the holder of the lease has released it (nil) or has
// let it expire (the record that has expired). The watch ends with ctx.
func (e *Elector) leaseFreed(ctx context.Context) <-chan []byte {
	if e.watched == nil {
		return nil
	}
	freed := make(chan []byte, 1)
	go func() {
		var observed observedRecord
		for ctx.Err() == nil {
			w, err := e.watchLease(ctx)
			if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
				klog.FromContext(ctx).V(2).Info("Does not watch the lease, tries it periodically", "lock", e.lockName(),
					"err", err.Error())
				return
			}
			if err == nil {
				if expired, ok := observed.untilFree(w, e.other.read); ok {
					freed <- expired
					return
				}
			}
			select { // a watch that ends quickly must not become a storm
			case <-time.After(e.config.RetryPeriod):
			case <-ctx.Done():
			}
		}
	}()
	return freed
}

// watchLease watches the one lease.
func (e *Elector) watchLease(ctx context.Context) (watch.Interface, error) {
	return e.watched.Leases(e.config.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, e.config.Name).String(),
	})
}

// observedRecord is the record of a lease that somebody else holds, as a candidate has last seen it. A lease that was
// free from the beginning is not reported as freed.
type observedRecord struct {
	record []byte        // nil: nobody has held the lease since the candidacy began
	since  time.Time     // when this record was first seen, by our clock (LE-8)
	valid  time.Duration // how long it is valid without a renewal, as stored in the lease
}

// untilFree reads until the lease has been released or has expired, or the watch has ended. An observed record
// outlives a watch: if the next watch shows it unchanged, it was not renewed in between. Seen is told of each record.
func (o *observedRecord) untilFree(
	w watch.Interface, seen func(*resourcelock.LeaderElectionRecord),
) (expired []byte, freed bool) {
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
			if event.Type == watch.Deleted && o.left() > 0 {
				continue // its holder makes it anew (LE-15), or it expires
			}
			if free(event.Type, lease) {
				if o.record != nil {
					return nil, true
				}
				continue
			}
			record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
			o.note(record)
			seen(record)
			expiry.Reset(time.Until(o.since.Add(o.valid)))
		case <-expiry.C:
			return o.record, true
		}
	}
}

// free reports whether nobody holds the lease after an event.
func free(event watch.EventType, lease *coordinationv1api.Lease) bool {
	return event == watch.Deleted || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == ""
}

// lastHolder is what competitors have last read of another holder. It outlives their candidacies.
type lastHolder struct {
	mu      sync.Mutex
	record  observedRecord
	missing bool // the lease is gone since
}

// read notes the record that was read; nil: nobody has the lease.
func (h *lastHolder) read(record *resourcelock.LeaderElectionRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.missing = false; record == nil {
		h.record = observedRecord{}
		return
	}
	h.record.note(record)
}

// mayLead reports whether the holder may still lead of a lease that is gone. It may have renewed it until it went,
// which is when it was first missed at the latest.
func (h *lastHolder) mayLead() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.record.record != nil && !h.missing {
		h.missing, h.record.since = true, time.Now()
	}
	return h.record.left() > 0
}

// left is how much longer the record is valid, as far as we have seen; not positive if it is not, or there is none.
func (o *observedRecord) left() time.Duration {
	if o.record == nil {
		return 0
	}
	return time.Until(o.since.Add(o.valid))
}

// note notes a record, and when it was first seen, by the clock of this process.
func (o *observedRecord) note(record *resourcelock.LeaderElectionRecord) {
	if raw := rawOf(record); !bytes.Equal(raw, o.record) {
		*o = observedRecord{raw, time.Now(), time.Duration(record.LeaseDurationSeconds) * time.Second}
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
