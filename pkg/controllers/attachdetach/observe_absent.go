package attachdetach

import (
	"context"
	"slices"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// absentFor is how long a driver without a CSIDriver counts as it did before. Installers replace CSIDrivers, of which little can be changed, and then a
// driver that attaches nothing has none for a moment.
const absentFor = 30 * time.Second

// lookForAbsences is how often it is found out whether that time is over.
const lookForAbsences = 10 * time.Second

// absences are drivers without a CSIDriver, of which it is remembered or shown whether they attach their volumes.
type absences struct {
	mu       sync.Mutex
	began    time.Time // of the term; zero: there is none
	known    map[string]*lastSeen
	attached map[string]bool // of those that were missing when the term began: whether they attach, as far as the cluster shows
}

// lastSeen is what the CSIDriver of a driver has said.
type lastSeen struct {
	attaches bool
	gone     time.Time // since when it is missed; zero if it is not
}

// attaches reports whether a driver attaches its volumes, as its CSIDriver says (AD-11).
func attaches(d *storagev1.CSIDriver) bool { return ptr.Deref(d.Spec.AttachRequired, true) }

// term notes when a term begins, or its end, as the zero time. CSIDrivers may have been seen before.
func (a *absences) term(began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began, a.attached = began, map[string]bool{}; began.IsZero() {
		a.known = nil
	}
}

// see notes what a CSIDriver says, or that it is gone.
func (a *absences) see(now time.Time, name string, d *storagev1.CSIDriver) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[string]*lastSeen{}
	}
	switch before := a.known[name]; {
	case d != nil:
		a.known[name] = &lastSeen{attaches: attaches(d)}
	case before != nil && before.gone.IsZero():
		before.gone = now
	}
}

// attaches reports whether a driver without a CSIDriver attaches its volumes. It does (AD-11), unless its CSIDriver has said otherwise a moment ago, or
// the term has just begun and the cluster shows otherwise. That is asked once.
func (a *absences) attaches(now time.Time, name string, shows func() bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.known[name]; d != nil {
		if d.gone.IsZero() { // the cache shows it, and nobody has been told yet
			d.gone = now
		}
		return d.attaches || now.Sub(d.gone) >= absentFor
	}
	if a.began.IsZero() || now.Sub(a.began) >= absentFor {
		return true
	}
	attached, asked := a.attached[name]
	if !asked {
		attached = shows()
		a.attached[name] = attached
	}
	return attached
}

// over returns the drivers whose absence has begun to count since a time. What has long been gone is forgotten.
func (a *absences) over(since, now time.Time) (drivers []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := func(from time.Time) bool {
		at := from.Add(absentFor)
		return !from.IsZero() && at.After(since) && !at.After(now)
	}
	for name, d := range a.known {
		switch {
		case counts(d.gone):
			drivers = append(drivers, name)
		case !d.gone.IsZero() && now.Sub(d.gone) > 10*absentFor:
			delete(a.known, name)
		}
	}
	for name, attached := range a.attached {
		if !attached && counts(a.began) {
			drivers = append(drivers, name)
		}
	}
	return drivers
}

// showsAttached reports whether nothing shows that a driver attaches none of its volumes: that a pod runs with one, while there is no VolumeAttachment of
// the driver at all.
func (k *caches) showsAttached(name string) bool {
	if len(k.attachments.By(byDriver+name)) > 0 {
		return true
	}
	if slices.ContainsFunc(k.podsWith.By(byDriver+name), hasRun) {
		return false
	}
	for _, pv := range k.volumes.By(byDriver + name) {
		if ref := pv.Spec.ClaimRef; ref != nil && slices.ContainsFunc(k.podsOf.Naming(ref.Namespace, ref.Name), hasRun) {
			return false
		}
	}
	return true
}

// wake enqueues, until ctx ends, what concerns drivers whose absence has begun to count. of returns that.
func (k *caches) wake(ctx context.Context, enqueue func(plan.Key), of func(driver string) []plan.Key) {
	for since := time.Now(); pause(ctx, lookForAbsences); {
		now := time.Now()
		for _, name := range k.absences.over(since, now) {
			for _, key := range of(name) {
				enqueue(key)
			}
		}
		since = now
	}
}
