package attachdetach

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/clock"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// absentFor is how long a driver without a CSIDriver counts as it did before. Installers replace CSIDrivers, of which
// little can be changed, and then a driver that attaches nothing has none for a moment.
const absentFor = 30 * time.Second

// lookForAbsences is how often it is found out whether that time is over.
const lookForAbsences = 10 * time.Second

// absences are drivers without a CSIDriver, of which it is remembered or shown whether they attach their volumes.
type absences struct {
	began time.Time // of the term; zero: there is none
	known map[string]lastSeen
	// detached are the drivers that were missing when the term began, and that attach nothing as far as the cluster
	// shows.
	detached map[string]bool
}

// lastSeen is what the CSIDriver of a driver has said.
type lastSeen struct {
	attaches bool
	gone     time.Time // since when it is missed; zero if it is not
}

// attaches reports whether a driver attaches its volumes, as its CSIDriver says (AD-11).
func attaches(d *storagev1.CSIDriver) bool { return ptr.Deref(d.Spec.AttachRequired, true) }

// firstAbsences are those at the beginning of a term.
func (k *podView) firstAbsences(now time.Time) absences {
	a := absences{began: now, known: map[string]lastSeen{}, detached: map[string]bool{}}
	for d := range k.volumes.drivers.All() {
		a.known[d.Name] = lastSeen{attaches: attaches(d)}
	}
	for _, all := range []cache.Indexer{k.volumes.pvs.Informer().GetIndexer(), k.byVolume.Informer().GetIndexer()} {
		for _, value := range all.ListIndexFuncValues(indexName) {
			name, ok := strings.CutPrefix(value, byDriver)
			if _, known := a.known[name]; ok && !known && !k.showsAttached(name) {
				a.detached[name] = true
			}
		}
	}
	return a
}

// seeing are these with what a CSIDriver says now, or that it is gone. What has long been gone is forgotten.
func (a absences) seeing(now time.Time, name string, d *storagev1.CSIDriver) absences {
	a.known = maps.Clone(a.known)
	maps.DeleteFunc(a.known, func(_ string, d lastSeen) bool {
		return !d.gone.IsZero() && now.Sub(d.gone) > 10*absentFor
	})
	switch before, known := a.known[name]; {
	case d != nil:
		a.known[name] = lastSeen{attaches: attaches(d)}
	case known && before.gone.IsZero():
		before.gone = now
		a.known[name] = before
	}
	return a
}

// attaches reports whether a driver without a CSIDriver attaches its volumes. It does (AD-11), unless its CSIDriver has
// said otherwise a moment ago, or the term has just begun and the cluster has shown otherwise.
func (a absences) attaches(now time.Time, name string) bool {
	if d, known := a.known[name]; known {
		noticed := !d.gone.IsZero() // the cache shows it a moment before
		return d.attaches || noticed && now.Sub(d.gone) >= absentFor
	}
	return !a.detached[name] || now.Sub(a.began) >= absentFor
}

// over returns the drivers whose absence has begun to count since a time.
func (a absences) over(since, now time.Time) (drivers []string) {
	counts := func(from time.Time) bool {
		at := from.Add(absentFor)
		return !from.IsZero() && at.After(since) && !at.After(now)
	}
	for name, d := range a.known {
		if counts(d.gone) {
			drivers = append(drivers, name)
		}
	}
	for name := range a.detached {
		if counts(a.began) {
			drivers = append(drivers, name)
		}
	}
	return drivers
}

// showsAttached reports whether nothing shows that a driver attaches none of its volumes: that a pod runs with one,
// while there is no VolumeAttachment of the driver at all.
func (k *podView) showsAttached(name string) bool {
	if len(k.volumes.attachments.By(byDriver+name)) > 0 {
		return true
	}
	if slices.ContainsFunc(k.byVolume.By(byDriver+name), hasRun) {
		return false
	}
	for _, pv := range k.volumes.pvs.By(byDriver + name) {
		ref := pv.Spec.ClaimRef
		if ref != nil && slices.ContainsFunc(k.byClaim.Naming(ref.Namespace, ref.Name), hasRun) {
			return false
		}
	}
	return true
}

// enqueueAbsent enqueues, until ctx ends, the keys of drivers whose absence has begun to count. of returns the keys of
// a driver.
func (k *views) enqueueAbsent(ctx context.Context, enqueue func(plan.Key), of func(driver string) []plan.Key) {
	for since := time.Now(); clock.Sleep(ctx, lookForAbsences); {
		now := time.Now()
		t, _ := k.term.Get()
		for _, name := range t.Absences.over(since, now) {
			for _, key := range of(name) {
				enqueue(key)
			}
		}
		since = now
	}
}
