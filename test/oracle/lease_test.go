package oracle

import (
	"testing"
	"time"
)

// renewed is a pod that is created a time after the last renewal of a lease of 15 s.
func renewed(s *scene, later time.Duration) {
	a := s.Manager().As("a")
	set := s.User().Create(aSet(nil, "a", 3))
	lease := aLease("one")
	lease.Spec.LeaseDurationSeconds = pointer[int32](15)
	held := a.Create(lease)
	s.Wait(10 * time.Second)
	a.Edit(held, holds("one"))
	s.Wait(later)
	a.Create(s.aPod(set))
}

func TestS13(t *testing.T) {
	run(t, S13(), []history{
		{name: "a write by the former holder", write: func(s *scene) {
			a, b := s.Manager().As("a"), s.Manager().As("b")
			lease := a.Create(aLease("one"))
			set := s.User().Create(aSet(nil, "a", 3))
			a.Create(s.aPod(set))
			b.Edit(lease, holds("two"))
			b.Create(s.aPod(set))
			a.Create(s.aPod(set))
		}, want: `written by "a", while the lease is held by "b"`},
		{name: "a write after the release", write: func(s *scene) {
			a := s.Manager().As("a")
			a.Edit(a.Create(aLease("one")), holds(""))
			a.Create(s.aPod(s.User().Create(aSet(nil, "a", 3))))
		}, want: `held by ""`},
		{name: "a write without ever having held it", write: func(s *scene) {
			s.Manager().As("a").Create(s.aPod(s.User().Create(aSet(nil, "a", 3))))
			s.Manager().As("b").Create(aLease("two"))
		}, want: `written by "a"`},
		{name: "each in its time, renewals between", write: func(s *scene) {
			a, b := s.Manager().As("a"), s.Manager().As("b")
			lease := a.Create(aLease("one"))
			set := s.User().Create(aSet(nil, "a", 3))
			lease = a.Edit(lease, holds("one"))
			a.Create(s.aPod(set))
			lease = a.Edit(lease, holds(""))
			b.Edit(lease, holds("two"))
			b.Create(s.aPod(set))
		}},
		{name: "a write of the holder whose lease has expired", write: func(s *scene) { renewed(s, 17*time.Second) }, want: "had expired 2"},
		{name: "a write of the holder just before its lease expires", write: func(s *scene) { renewed(s, 14*time.Second) }},
		{name: "a write of the holder that was under way when its lease expired", write: func(s *scene) { renewed(s, 17*time.Second) },
			options: Options{Outages: []Outage{blind("a", resources[Pod])}}},
		{name: "no election", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 3))
			s.Manager().As("a").Create(s.aPod(set))
			s.Manager().As("b").Create(s.aPod(set))
		}},
	})
}
