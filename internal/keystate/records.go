package keystate

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Object names an object of which only the latest change is kept.
type Object struct {
	Kind schema.GroupVersionKind
	Key  plan.Key
}

// records are the changes that were recorded for a key, and not committed yet. The zero value is none.
type records[C any] struct {
	all      []record[C]
	at       map[Object]int // where the only change of an object is
	number   uint64         // of the latest
	observed uint64         // of the latest that Observe was given
	lost     uint64         // of the latest that is there no more, as there were too many; zero for none
}

// mostRecords bounds the changes of a key. They are many when something keeps the key from being observed, or its
// memory from being committed.
const mostRecords = 1024

type record[C any] struct {
	change C
	number uint64
	of     *Object // nil: each change of it is kept
}

// add adds a change. Of too many, the older half is dropped.
func (r *records[C]) add(c C) {
	if len(r.all) >= mostRecords {
		r.keep(func(at int, _ record[C]) bool { return at >= mostRecords/2 })
		r.lost = r.number
	}
	r.number++
	r.all = append(r.all, record[C]{change: c, number: r.number})
}

// replace puts a change in the place of the object's earlier one.
func (r *records[C]) replace(of Object, c C) {
	at, ok := r.at[of]
	if !ok {
		r.add(c)
		at = len(r.all) - 1
		r.all[at].of = &of
		if r.at == nil {
			r.at = map[Object]int{}
		}
		r.at[of] = at
		return
	}
	r.number++
	r.all[at].change, r.all[at].number = c, r.number
}

// list returns the changes, in the order in which they came, or the first one of an object came.
func (r *records[C]) list() []C {
	if len(r.all) == 0 {
		return nil
	}
	changes := make([]C, len(r.all))
	for i, one := range r.all {
		changes[i] = one.change
	}
	return changes
}

// dropObserved drops what Observe was given.
func (r *records[C]) dropObserved() {
	r.keep(func(_ int, one record[C]) bool { return one.number > r.observed })
	if r.lost <= r.observed {
		r.lost = 0
	}
}

// keep drops all others.
func (r *records[C]) keep(which func(at int, one record[C]) bool) {
	var kept []record[C]
	clear(r.at)
	for at, one := range r.all {
		if !which(at, one) {
			continue
		}
		if one.of != nil {
			r.at[*one.of] = len(kept)
		}
		kept = append(kept, one)
	}
	r.all = kept
}
