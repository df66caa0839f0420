package oracle

import (
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestNoWriteWithoutLease(t *testing.T) { // S13
	run(t, NoWriteWithoutLease(), []history{
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
		{name: "a write of the holder whose lease has expired", write: func(s *scene) { renewed(s, 17*time.Second) },
			want: "had expired 2"},
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

// TestTheLastFinalizerOfWhatOthersDelete: the API server answers who takes it off with the version in which the deletion began. Where
// requests of users are not recorded, that is still not the time at which the manager wrote.
func TestTheLastFinalizerOfWhatOthersDelete(t *testing.T) {
	for _, c := range []struct {
		altered bool
		after   time.Duration // the deletion
	}{{false, 10 * time.Second}, {true, 10 * time.Second}, {false, 100 * time.Millisecond}} {
		s := NewScript()
		a, b := s.Manager().As("a"), s.Manager().As("b")
		held := a.Create(aLease("one"))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data",
			Finalizers: []string{"kubernetes.io/pvc-protection"}}}
		deleting := s.User().Terminate(s.User().Create(claim))
		if c.altered { // nobody knows by whom
			deleting = s.User().Edit(deleting, func(o Object) { o.SetLabels(map[string]string{"a": "b"}) })
		}
		s.Wait(c.after)
		b.Edit(held, holds("two"))
		b.Release(deleting)
		last := &s.Requests[len(s.Requests)-1]
		var err error
		if last.Version, err = strconv.ParseInt(deleting.GetResourceVersion(), 10, 64); err != nil {
			t.Fatal(err)
		}
		user := s.User().Request.User
		s.Requests = slices.DeleteFunc(s.Requests, func(q Request) bool { return q.User == user })

		o := Options{}
		for _, v := range Check(&s.History, o, NoWriteWithoutLease()) {
			t.Error(v)
		}
		if c := Cover(&s.History, o); len(c.Lost) > 0 || c.Manager[PersistentVolumeClaim] != 1 {
			t.Errorf("%+v", c)
		}
	}
}
