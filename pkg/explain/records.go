package explain

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/standalone-kcm/controller-manager/internal/list"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Bounds of what a runner remembers. Keys whose objects are gone are forgotten, so the first bound is for what
// nobody has foreseen.
const (
	mostKeys    = 200_000
	mostEarlier = 2000 // records before the last one of their key, of all keys together
	mostOfKey   = 8    // records of one key, the last one included
)

// Records are the records of one runner: of each key the last one, and a few before it. The methods are safe for
// concurrent use.
type Records struct {
	observe func(ctx context.Context, key plan.Key) (Detail, error)

	mu      sync.Mutex
	keys    map[plan.Key]*kept
	last    list.List[*kept] // the last records of all keys, the oldest first
	earlier list.List[*kept] // all records before these, the oldest first
}

// kept is a record with its place among the others.
type kept struct {
	Record
	key    plan.Key
	before *kept // the record of the same key before this one
	place  list.Element[*kept]
}

func keptOf(key plan.Key, before *kept) *kept {
	k := &kept{key: key, before: before}
	k.place.Value = k
	return k
}

// Entry is a key with its last record.
type Entry struct {
	Key plan.Key
	Record
}

// NewRecords returns empty ones. The function finds out what there is about a key, without writing; it may be nil.
func NewRecords(observe func(ctx context.Context, key plan.Key) (Detail, error)) *Records {
	return &Records{observe: observe, keys: map[plan.Key]*kept{}}
}

// Get returns the last record of a key; ok is false if there is none.
func (r *Records) Get(key plan.Key) (rec Record, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.keys[key]; k != nil {
		return k.Record, true
	}
	return Record{}, false
}

// History returns the records of a key before the last one, the newest first.
func (r *Records) History(key plan.Key) (all []Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.keys[key]; k != nil {
		for k = k.before; k != nil; k = k.before {
			all = append(all, k.Record)
		}
	}
	return all
}

// Failing returns the last records of keys that have failed, or wait for a cache, in the order of the keys, at most
// so many, and how many there are.
func (r *Records) Failing(most int) (found []Entry, total int) {
	r.mu.Lock()
	for key, k := range r.keys {
		if k.failing() {
			found = append(found, Entry{key, k.Record})
		}
	}
	r.mu.Unlock()
	slices.SortFunc(found, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name))
	})
	return found[:min(most, len(found))], len(found)
}

// Detail observes a key and plans for it, without writing.
func (r *Records) Detail(ctx context.Context, key plan.Key) (Detail, error) {
	if r.observe == nil {
		return Detail{}, errors.New("this controller keeps records only")
	}
	return r.observe(ctx, key)
}

// Put keeps a record. One that says nothing is kept only after one that reports a failure. One that says what the last
// one has said is counted in that one's place. A wait for a cache is no news when it is over.
func (r *Records) Put(key plan.Key, rec Record) {
	rec.Why, rec.Error = clip(rec.Why), clip(rec.Error)
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.keys[key]
	switch {
	case rec.silent() && (k == nil || !k.failing()):
		return
	case k == nil:
		k = keptOf(key, nil)
		r.keys[key] = k
	case k.alike(&rec):
		rec.Alike, rec.Since = k.Alike+1, k.Since
		if rec.Since.IsZero() {
			rec.Since = k.Time
		}
		r.last.Remove(&k.place)
	case k.Waiting != "":
		r.last.Remove(&k.place)
	default:
		r.last.Remove(&k.place)
		r.earlier.Append(&k.place)
		k = keptOf(key, k)
		r.keys[key] = k
	}
	k.Record = rec
	r.last.Append(&k.place)
	r.shrink(k)
}

// shrink drops the oldest record of the key, or of all, if there are too many.
func (r *Records) shrink(k *kept) {
	n, oldest := 1, k
	for ; oldest.before != nil; oldest = oldest.before {
		n++
	}
	if n > mostOfKey {
		r.drop(oldest)
	}
	if r.earlier.Len() > mostEarlier {
		r.drop(r.earlier.First().Value)
	}
	if len(r.keys) > mostKeys {
		r.forget(r.last.First().Value.key)
	}
}

// drop drops the oldest record of a key, which is not its last one.
func (r *Records) drop(oldest *kept) {
	r.earlier.Remove(&oldest.place)
	k := r.keys[oldest.key]
	for k.before != oldest {
		k = k.before
	}
	k.before = nil
}

// Forget forgets the records of a key that is gone.
func (r *Records) Forget(key plan.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(key)
}

func (r *Records) forget(key plan.Key) {
	k := r.keys[key]
	if k == nil {
		return
	}
	delete(r.keys, key)
	r.last.Remove(&k.place)
	for k = k.before; k != nil; k = k.before {
		r.earlier.Remove(&k.place)
	}
}

// Clear forgets everything: the records of an earlier term say nothing about this one.
func (r *Records) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys, r.last, r.earlier = map[plan.Key]*kept{}, list.List[*kept]{}, list.List[*kept]{}
}
