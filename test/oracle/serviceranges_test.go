package oracle

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRangesStayWhileUsed(t *testing.T) { // S36
	const used, early = "in no other one that stays", "before the API servers have noticed"
	within := func(s *scene, name, cidr string) Object {
		return s.User().Create(&networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{rangeFinalizer, "x"}},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}})
	}
	address := func(s *scene, ip, manager string) Object {
		return s.User().Create(&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{
			networkingv1.LabelManagedBy: manager}}})
	}
	const servers = "ipallocator.k8s.io"
	release := func(o Object) { o.SetFinalizers([]string{"x"}) }
	// goes deletes a ServiceCIDR, and takes its finalizer off after so long.
	goes := func(s *scene, c Object, after time.Duration) {
		doomed := s.User().Terminate(c)
		s.Wait(after)
		s.Manager().Edit(doomed, release)
	}
	run(t, RangesStayWhileUsed(), []history{
		{name: "SCC-5 no address is in it", write: func(s *scene) {
			address(s, "10.2.0.1", servers)
			goes(s, within(s, "a", "10.1.0.0/16"), time.Minute)
		}},
		{name: "SCC-1 SCC-5 an address is in it", write: func(s *scene) {
			address(s, "10.1.0.1", servers)
			goes(s, within(s, "a", "10.1.0.0/16"), time.Minute)
		}, want: used},
		{name: "SCC-2 an address of somebody else", write: func(s *scene) {
			address(s, "10.1.0.1", "example.com")
			goes(s, within(s, "a", "10.1.0.0/16"), time.Minute)
		}},
		{name: "SCC-2 the first address of the range", write: func(s *scene) {
			address(s, "10.1.0.0", servers)
			goes(s, within(s, "a", "10.1.0.0/16"), time.Minute)
		}},
		{name: "SCC-5 a larger one holds the address", write: func(s *scene) {
			address(s, "10.1.0.1", servers)
			within(s, "b", "10.0.0.0/8")
			goes(s, within(s, "a", "10.1.0.0/16"), time.Minute)
		}},
		{name: "SCC-20 a larger one that is being deleted", write: func(s *scene) {
			address(s, "10.1.0.1", servers)
			s.User().Terminate(within(s, "b", "10.0.0.0/8"))
			goes(s, within(s, "a", "10.1.0.0/16"), time.Minute)
		}, want: used},
		{name: "a larger one that was deleted just now", write: func(s *scene) {
			address(s, "10.1.0.1", servers)
			b := within(s, "b", "10.0.0.0/8")
			doomed := s.User().Terminate(within(s, "a", "10.1.0.0/16"))
			s.Wait(time.Minute)
			s.User().Terminate(b)
			s.Manager().Edit(doomed, release)
		}},
		{name: "SCC-6 sooner than the API servers notice", write: func(s *scene) {
			goes(s, within(s, "a", "10.1.0.0/16"), time.Second)
		}, want: early},
		{name: "an address that no API server has allocated", write: func(s *scene) {
			doomed := s.User().Terminate(within(s, "a", "10.1.0.0/16"))
			s.Wait(time.Minute)
			address(s, "10.1.0.1", servers)
			s.Manager().Edit(doomed, release)
		}},
		{name: "SCC-5 the address is gone", write: func(s *scene) {
			a := address(s, "10.1.0.1", servers)
			doomed := s.User().Terminate(within(s, "a", "10.1.0.0/16"))
			s.Wait(time.Minute)
			s.User().Delete(a)
			s.Manager().Edit(doomed, release)
		}},
		{name: "one that nobody deletes", write: func(s *scene) {
			s.Manager().Edit(within(s, "a", "10.1.0.0/16"), release)
		}, want: "is not being deleted"},
		{name: "a user takes it off", write: func(s *scene) {
			address(s, "10.1.0.1", servers)
			s.User().Edit(s.User().Terminate(within(s, "a", "10.1.0.0/16")), release)
		}},
	})
}
