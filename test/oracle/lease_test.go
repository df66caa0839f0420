package oracle

import "testing"

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
		{name: "no election", write: func(s *scene) {
			set := s.User().Create(aSet(nil, "a", 3))
			s.Manager().As("a").Create(s.aPod(set))
			s.Manager().As("b").Create(s.aPod(set))
		}},
	})
}
