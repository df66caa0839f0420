package oracle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func freshNode(name string) *corev1.Node { return &corev1.Node{ObjectMeta: named(name)} }

// withRanges are the ranges of a node.
func withRanges(ranges ...string) func(Object) {
	return func(o Object) {
		n := o.(*corev1.Node)
		n.Spec.PodCIDRs = ranges
		if len(ranges) > 0 {
			n.Spec.PodCIDR = ranges[0]
		}
	}
}

func TestOneRangePerNode(t *testing.T) { // S26
	give := func(s *scene, name string, ranges ...string) Object {
		return s.Manager().Edit(s.User().Create(freshNode(name)), withRanges(ranges...))
	}
	run(t, OneRangePerNode(), []history{
		{name: "each has its own", write: func(s *scene) {
			give(s, "a", "10.0.1.0/24", "fd00::/64")
			give(s, "b", "10.0.2.0/24", "fd00:0:0:1::/64")
		}},
		{name: "IPAM-60 both have the same", write: func(s *scene) {
			give(s, "a", "10.0.1.0/24")
			give(s, "b", "10.0.1.0/24")
		}, want: "the node gets 10.0.1.0/24, and a has 10.0.1.0/24"},
		{name: "IPAM-61 one has a part of the other", write: func(s *scene) {
			give(s, "a", "10.0.1.0/24", "fd00::/60")
			give(s, "b", "10.0.2.0/24", "fd00:0:0:8::/64")
		}, want: "the node gets fd00:0:0:8::/64, and a has fd00::/60"},
		{name: "IPAM-45 the other one is gone", write: func(s *scene) {
			s.User().Delete(give(s, "a", "10.0.1.0/24"))
			give(s, "b", "10.0.1.0/24")
		}},
		{name: "the other one has just been given it by a user", write: func(s *scene) {
			s.User().Edit(s.User().Create(freshNode("a")), withRanges("10.0.1.0/24"))
			s.Wait(time.Second)
			give(s, "b", "10.0.1.0/24")
		}},
		{name: "the other one was given it by a user long ago", write: func(s *scene) {
			s.User().Edit(s.User().Create(freshNode("a")), withRanges("10.0.1.0/24"))
			s.Wait(time.Minute)
			give(s, "b", "10.0.1.0/24")
		}, want: "a has 10.0.1.0/24"},
		{name: "a user gives away what a node has", write: func(s *scene) {
			give(s, "a", "10.0.1.0/24")
			s.User().Edit(s.User().Create(freshNode("b")), withRanges("10.0.1.0/24"))
		}},
		{name: "ranges that are none", write: func(s *scene) {
			s.User().Edit(s.User().Create(freshNode("a")), withRanges("10.0.1.0/33"))
			s.Wait(time.Minute)
			give(s, "b", "10.0.1.0/24")
		}},
		{name: "IPAM-36 it has a range", write: func(s *scene) {
			s.Manager().Edit(give(s, "a", "10.0.1.0/24"), withRanges("10.0.2.0/24"))
		}, want: "the node had the ranges [10.0.1.0/24], and gets [10.0.2.0/24]"},
	})
}
