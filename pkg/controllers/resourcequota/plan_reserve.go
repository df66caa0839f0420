package resourcequota

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reservedFor is how long what admission has reserved is kept for an object that does not come: with its default
// --request-timeout, an API server works no longer than that on a request.
const reservedFor = time.Minute

// assumedFor is how long what is used and not counted is taken for reserved when a name is counted first, if the
// status has not changed for reservedFor: nothing that admission let in is under way any more, and what is not
// counted was used by objects that were deleted while nobody counted. Some watches may still be late.
const assumedFor = 15 * time.Second

// clockSkew is by how much the clock of the API server may differ from ours.
const clockSkew = 5 * time.Second

// farApart is more versions than an etcd makes while a reservation lasts. An object that is older by that comes from
// another etcd.
const farApart = 1 << 23

// memory is what is remembered of a quota: what was written, and what admission has let in that no watch has
// shown yet. Observe advances it by what was seen, and remember by what was written.
type memory struct {
	Sequence uint64 // of the latest arrival that was seen
	Selector string // the scopes for which this was remembered
	// Seen is the latest version of the quota that was looked at or written, and Used what its status said. If nobody
	// knows whether a write was carried out, it is the smaller of both.
	Seen uint64
	Used corev1.ResourceList
	// Known are the names of which the difference between what is used and what is counted was taken for reserved
	// when they were first counted, sorted.
	Known []corev1.ResourceName
	// Sources are the numbers of those that have counted the known names.
	Sources map[corev1.ResourceName]string
	// Compared are the numbers of the sources that were compared with the server.
	Compared []uint64
	// AtRest says that the status has not changed for as long as a reservation lasts. It is found out when names are
	// counted first.
	AtRest bool
	// Reserved is what admission has added, without what has arrived of it.
	Reserved []increase
	// Unmatched has arrived before the watch of the quota shows what was added for it.
	Unmatched []increase
}

// version is what a version of the quota said is used.
type version struct {
	Version, After uint64 // After is the version before it, 0 if that is not known
	Used           corev1.ResourceList
}

// increase is what was added to the usage of a quota in one version of it, or of the object that was created.
type increase struct {
	// Version is that of the quota, or of the object that was created.
	Version uint64
	// At is when it was added, as far as this process knows. When the reservation ends follows from that.
	At time.Time
	// Usage is what was added, by the names of the quota.
	Usage corev1.ResourceList
}

// under returns the memory for a quota of these scopes. What was reserved under others says nothing (RQ-59).
func (m memory) under(selector string) memory {
	if m.Selector != selector {
		m.Reserved, m.Unmatched = nil, nil
	}
	return m
}

// from returns the memory for names that are counted by these sources. Of a name that others have counted before,
// nobody knows what of the reservations they have missed; the name is taken for one that is counted for the first
// time.
func (m memory) from(sources map[corev1.ResourceName]string) memory {
	known := maps.Clone(m.Sources)
	if known == nil {
		known = map[corev1.ResourceName]string{}
	}
	moved := map[corev1.ResourceName]bool{}
	for name, now := range sources {
		before, ok := known[name]
		moved[name] = ok && before != now
		known[name] = now
	}
	m.Sources = known
	m.Known = slices.DeleteFunc(slices.Clone(m.Known), func(name corev1.ResourceName) bool { return moved[name] })
	m.Reserved, m.Unmatched = without(m.Reserved, moved), without(m.Unmatched, moved)
	return m
}

// without returns copies of increases that lack some names.
func without(all []increase, names map[corev1.ResourceName]bool) (left []increase) {
	for _, one := range all {
		one = one.copy()
		maps.DeleteFunc(one.Usage, func(name corev1.ResourceName, _ resource.Quantity) bool { return names[name] })
		left = append(left, one)
	}
	return left
}

// knows reports whether a name was counted before.
func (m *memory) knows(name corev1.ResourceName) bool {
	_, known := slices.BinarySearch(m.Known, name)
	return known
}

// advance returns what is to be remembered after versions of the quota were seen, the last of which is q, and objects
// have arrived (RQ-57).
func (m memory) advance(now time.Time, q *corev1.ResourceQuota, counted corev1.ResourceList, seen []version,
	arrived []increase) memory {
	next := memory{Sequence: m.Sequence, Seen: m.Seen, Used: m.Used, Known: slices.Clone(m.Known), Sources: m.Sources}
	for _, r := range m.Reserved {
		if now.Sub(r.At) < reservedFor {
			next.Reserved = append(next.Reserved, r.copy())
		}
	}
	for _, v := range seen {
		next.observeVersion(now, v)
	}
	latest := quota.Version(q)
	for _, a := range slices.Concat(m.Unmatched, arrived) {
		a = a.copy()
		if a.At.IsZero() {
			a.At = now
		}
		next.release(a)
		if a.Version > latest && len(a.Usage) > 0 && now.Before(a.At.Add(reservedFor)) {
			next.Unmatched = append(next.Unmatched, a)
		}
	}
	next.Reserved = slices.DeleteFunc(next.Reserved, func(r increase) bool { return len(r.Usage) == 0 })
	next.assumeReserved(now, q, counted, m.AtRest)
	return next
}

// observeVersion notes a version of the quota, and what others have added in it. (Own writes never add anything here:
// they are noted when they are made.) The watch may have skipped versions; what was added was then added at any time
// since the last one.
func (m *memory) observeVersion(now time.Time, v version) {
	if v.Version <= m.Seen {
		return
	}
	added := increase{Version: v.Version, At: now, Usage: quota.Over(v.Used, m.Used)}
	if v.After != m.Seen {
		added.Version = m.Seen
	}
	for name := range added.Usage { // of names that were never counted, all will be taken for reserved at once
		if !m.knows(name) {
			delete(added.Usage, name)
		}
	}
	m.Reserved = append(m.Reserved, added)
	m.Seen, m.Used = v.Version, v.Used
}

// release takes what has arrived out of what was reserved for it: the latest reservation before the arrival. The
// versions of objects in another etcd do not show what came before; such an object is taken out of any reservation.
func (m *memory) release(arrived increase) {
	for i := len(m.Reserved) - 1; i >= 0 && len(arrived.Usage) > 0; i-- {
		r := m.Reserved[i]
		if r.Version >= arrived.Version && r.Version-arrived.Version < farApart {
			continue
		}
		for name, amount := range arrived.Usage {
			reserved, ok := r.Usage[name]
			if !ok {
				continue
			}
			both := reserved.DeepCopy()
			if amount.Cmp(both) < 0 {
				both = amount.DeepCopy()
			}
			take(r.Usage, name, both)
			take(arrived.Usage, name, both)
		}
	}
}

// assumeReserved takes for reserved what is used and not counted, of names that are counted for the first time. If
// the status says that 5 pods are used when the process starts, and 3 are counted, the other 2 may have been admitted
// and not stored yet.
func (m *memory) assumeReserved(now time.Time, q *corev1.ResourceQuota, counted corev1.ResourceList, atRest bool) {
	if over := m.uncounted(q, counted); len(over) > 0 {
		assumed := reservedFor
		if atRest {
			assumed = assumedFor
		}
		m.Reserved = append(m.Reserved,
			increase{Version: quota.Version(q), At: now.Add(assumed - reservedFor), Usage: over})
	}
	known := m.Known
	for name := range counted {
		if !m.knows(name) {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	m.Known = known
}

// uncounted returns what is used and not counted, of names that are counted for the first time.
func (m memory) uncounted(q *corev1.ResourceQuota, counted corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{}
	for name := range counted {
		if !m.knows(name) {
			used[name] = q.Status.Used[name]
		}
	}
	return quota.Over(used, counted)
}

// atRest reports whether the status was written last before all reservations that can still be under way, by the
// managed fields of a quota. If they do not show it, it may have been just now.
func atRest(now time.Time, fields []metav1.ManagedFieldsEntry) bool {
	var last time.Time
	for _, f := range fields {
		if f.Subresource == plan.Status && f.Time != nil && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	return !last.IsZero() && now.Sub(last) >= reservedFor+clockSkew
}

// reserved returns the sum of what is reserved, and when the first of it ends.
func (m memory) reserved() (sum corev1.ResourceList, ends time.Time) {
	sum = corev1.ResourceList{}
	for _, r := range m.Reserved {
		quota.Add(sum, r.Usage)
		if end := r.At.Add(reservedFor); ends.IsZero() || end.Before(ends) {
			ends = end
		}
	}
	return sum, ends
}

// remember notes which version this process has made of the quota.
func remember(_ time.Time, s snapshot, _ struct{}, did plan.Outcome) *memory {
	m := s.Memory
	for _, r := range did.Results {
		q, ok := r.Object.(*corev1.ResourceQuota)
		made, err := strconv.ParseUint(r.Version, 10, 64)
		switch {
		case !ok || errors.Is(r.Err, plan.ErrStale): // it was not carried out
		case r.Err == nil && err == nil:
			m.Seen, m.Used = made, q.Status.Used
		default:
			m.Used = smaller(m.Used, q.Status.Used)
		}
	}
	return &m
}

// smaller returns the smaller amounts of two lists; of names that only one has, none.
func smaller(a, b corev1.ResourceList) corev1.ResourceList {
	both := corev1.ResourceList{}
	for name, amount := range a {
		if other, ok := b[name]; ok {
			if other.Cmp(amount) < 0 {
				amount = other
			}
			both[name] = amount
		}
	}
	return both
}

// copy returns an increase whose amounts may be changed.
func (r increase) copy() increase {
	r.Usage = r.Usage.DeepCopy()
	return r
}

// take subtracts an amount, and drops a name of which nothing is left.
func take(from corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) {
	left := from[name]
	if left.Sub(amount); left.Sign() <= 0 {
		delete(from, name)
		return
	}
	from[name] = left
}
