package sums

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	key  = plan.Key{Namespace: "shop", Name: "some"}
	pods = Limits{Resources: map[schema.GroupResource]bool{quota.Pods(): true}}
)

// put charges an object with itself.
func put(s *Sums, version int) {
	o := &metav1.ObjectMeta{Namespace: "shop", UID: types.UID(fmt.Sprint(version)), ResourceVersion: fmt.Sprint(version)}
	s.Put(quota.Pods(), o, quota.Object(quota.Pods()), false)
}

// Arrivals are kept for as long as a reservation may wait for them.
func TestArrivalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(func(plan.Key) {}, time.Minute)
		l := pods
		s.SetQuota(key, &l)
		for i := range 10 {
			put(s, i)
		}
		time.Sleep(time.Hour)
		put(s, 11)
		s.Put(quota.Pods(), &metav1.ObjectMeta{Namespace: "shop", UID: "11", ResourceVersion: "12"}, quota.Item{}, false) // it uses less
		if _, arrived, _ := s.Count("shop", pods, 0); len(arrived) != 11 {
			t.Errorf("before the tick there are %d arrivals", len(arrived))
		}
		s.Tick(time.Now())
		if _, arrived, last := s.Count("shop", pods, 0); len(arrived) != 1 || last != 11 {
			t.Errorf("%d arrivals are kept, the last is %d", len(arrived), last)
		}
	})
}

// A sum that has gone wrong is right again after it was made anew (RQ-2).
func TestRecount(t *testing.T) {
	s := New(func(plan.Key) {}, time.Minute)
	l := pods
	s.SetQuota(key, &l)
	put(s, 1)
	s.Count("shop", pods, 0)
	s.namespaces["shop"].sums[sumKey{quota.Pods(), ""}]["pods"] = resource.MustParse("7")
	told := s.Recount()
	sum, _, _ := s.Count("shop", pods, 0)
	if n := sum["pods"]; n.Value() != 1 || !slices.Equal(told, []plan.Key{key}) {
		t.Errorf("%v, and %v are told", sum, told)
	}
}
