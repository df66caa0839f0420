package oracle

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// OneRangePerNode is S26: a manager gives no node a range that another node has, in whole or in part, and none to a node that has one
// (IPAM-36, IPAM-60, IPAM-61, IPAM-64). Excused is a range that somebody else has given within the lag of a manager.
func OneRangePerNode() Oracle {
	return Oracle{"S26", "no two nodes share a range of addresses", func(j *judge) hooks {
		given := map[string]time.Time{} // when somebody else has given a node its ranges, by node
		return hooks{before: func(r *revision) {
			after, ok := r.Object.(*corev1.Node)
			if !ok || r.Type == Deleted {
				return
			}
			before := j.nodes[after.Name]
			if before != nil && before.UID != after.UID { // its deletion has not been recorded
				before = nil
			}
			if len(after.Spec.PodCIDRs) == 0 || before != nil && slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) {
				return
			}
			if given[after.Name] = j.now; !r.manager {
				return
			}
			delete(given, after.Name)
			j.judges(false)
			if before != nil && len(before.Spec.PodCIDRs) > 0 {
				j.report(r, nil, "the node had the ranges %v, and gets %v", before.Spec.PodCIDRs, after.Spec.PodCIDRs)
			}
			for name, other := range j.nodes {
				if name != after.Name {
					j.apart(r, after, other, given[name])
				}
			}
		}}
	}}
}

// apart judges the ranges that a node gets beside those of another one. If somebody else has given that its ranges, it says when.
func (j *judge) apart(r *revision, n, other *corev1.Node, given time.Time) {
	for _, a := range ranges(n) {
		for _, b := range ranges(other) {
			shared := a.Overlaps(b)
			switch {
			case !shared:
			case j.now.Sub(given) <= j.o.Lag:
				j.judges(true)
			default:
				j.report(r, nil, "the node gets %v, and %s has %v", a, other.Name, b)
			}
		}
	}
}

// ranges are those of a node, without what is none.
func ranges(n *corev1.Node) (all []netip.Prefix) {
	for _, text := range n.Spec.PodCIDRs {
		if r, err := netip.ParsePrefix(text); err == nil {
			all = append(all, r)
		}
	}
	return all
}
