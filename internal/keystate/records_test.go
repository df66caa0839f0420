package keystate

import (
	"slices"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Of an object with RecordLatest only the latest change is kept, and a change that comes after Observe is there for the next one,
// whether or not Observe was given an earlier one of that object.
func TestLatestChanges(t *testing.T) {
	key := plan.Key{Name: "a"}
	lease := Object{Kind: podKind, Key: plan.Key{Namespace: "leases", Name: "a"}}
	other := Object{Kind: podKind, Key: plan.Key{Namespace: "leases", Name: "b"}}
	k := New[plan.Key, int, int]()
	s := k.get(key)
	observed := func(what string, want ...int) []int {
		t.Helper()
		if got := k.Peek(key).Changes; !slices.Equal(got, want) {
			t.Errorf("%s: %v for who asks, want %v", what, got, want)
		}
		got := k.Observed(s).Changes
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		return got
	}
	k.RecordLatest(key, lease, 1)
	k.Record(key, 2)
	k.RecordLatest(key, other, 3)
	k.RecordLatest(key, lease, 4)
	told := observed("one of each object, and all others", 4, 2, 3)
	k.RecordLatest(key, lease, 5)
	k.Record(key, 6)
	k.RecordLatest(key, lease, 7)
	if !slices.Equal(told, []int{4, 2, 3}) {
		t.Errorf("what Observe was given has become %v", told)
	}
	k.Commit(s, nil, "")
	observed("what came after Observe", 7, 6)
	k.RecordLatest(key, other, 8)
	observed("nothing was committed", 7, 6, 8)
	k.Commit(s, nil, "")
	observed("all is committed")
	k.RecordLatest(key, lease, 9)
	observed("a later one", 9)
	k.Forget(s, false)
	observed("the object is gone")
	for i := range 1000 {
		k.RecordLatest(key, lease, i)
	}
	if n := len(s.changes.all); n != 1 {
		t.Errorf("%d changes are kept of one object", n)
	}
}

// Of very many changes the latest are kept, and that there were others is told until that is committed.
func TestTooManyChanges(t *testing.T) {
	key := plan.Key{Name: "a"}
	k := New[plan.Key, int, int]()
	s := k.get(key)
	observe := func(what string, missed bool, last int) {
		t.Helper()
		o := k.Observed(s)
		if o.Missed != missed || k.Peek(key).Missed != missed || len(o.Changes) > mostRecords ||
			len(o.Changes) > 0 && o.Changes[len(o.Changes)-1] != last {
			t.Errorf("%s: %d changes, missed %t", what, len(o.Changes), o.Missed)
		}
	}
	k.RecordLatest(key, Object{Kind: podKind, Key: key}, -1)
	for i := range mostRecords - 1 {
		k.Record(key, i)
	}
	observe("as many as are kept", false, mostRecords-2)
	for i := range 100 * mostRecords {
		k.Record(key, i)
	}
	observe("too many", true, 100*mostRecords-1)
	for i := range 10 * mostRecords {
		k.Record(key, i)
	}
	k.Commit(s, nil, "")
	observe("too many since the first were told", true, 10*mostRecords-1)
	k.Record(key, 7)
	k.Commit(s, nil, "")
	observe("few", false, 7)
	k.RecordLatest(key, Object{Kind: podKind, Key: key}, 8)
	observe("of an object again", false, 8)
}
