package devicetainteviction

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// recount is how long a count is good for: it costs a look at all claims.
const recount = time.Second

// countedAt says when was counted, and by which rules.
type countedAt struct {
	Second time.Time
	Rules  string
}

// counts are how many pods have devices, and what rules do to them, by name.
type counts struct {
	Pods  int
	Rules map[string]count
}

// count is how many pods are to be evicted for a rule, or would be if it had that effect, in how many namespaces they
// are, and how many allocated devices it selects.
type count struct{ Pods, Namespaces, Devices int }

// count counts the pods with devices.
func (k *caches) count(now time.Time) counts {
	rules := k.allRules()
	var versions strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&versions, "%s/%d ", r.UID, r.Generation)
	}
	return k.counts.Of(countedAt{now.Truncate(recount), versions.String()}, func() counts { return k.countFor(rules) })
}

// users are pods with devices, with their namespaces.
type users map[types.UID]string

func (u users) count() count {
	namespaces := map[string]bool{}
	for _, in := range u {
		namespaces[in] = true
	}
	return count{Pods: len(u), Namespaces: len(namespaces)}
}

// countFor counts the pods with devices, and those of them that rules concern.
func (k *caches) countFor(rules []*resourcev1.DeviceTaintRule) counts {
	all, of, n := users{}, map[string]users{}, counts{Rules: map[string]count{}}
	selected := map[string]int{}
	for c := range k.claims.All() {
		if len(devicesOf(c)) == 0 {
			continue
		}
		pods := k.usersOf(c)
		maps.Copy(all, pods)
		for _, rule := range rules {
			selected[rule.Name] += selectedOf(rule, c)
			if concerns(rule, c) {
				if of[rule.Name] == nil {
					of[rule.Name] = users{}
				}
				maps.Copy(of[rule.Name], pods)
			}
		}
	}
	n.Pods = len(all)
	for _, rule := range rules {
		one := of[rule.Name].count()
		one.Devices = selected[rule.Name]
		n.Rules[rule.Name] = one
	}
	return n
}

// usersOf returns the pods that have the devices of a claim, and may be evicted.
func (k *caches) usersOf(c *resourcev1.ResourceClaim) users {
	pods := users{}
	for _, r := range c.Status.ReservedFor {
		p := k.pods.Get(c.Namespace, r.Name)
		if isPod(r) && p != nil && p.UID == r.UID && exempt(p) == "" && uses(p, c) {
			pods[p.UID] = p.Namespace
		}
	}
	return pods
}

// published counts the devices that a rule selects in the slices of the latest generations of pools.
func (k *caches) published(rule *resourcev1.DeviceTaintRule) (n int) {
	all := slices.Collect(k.slices.All())
	newest := generations(all)
	for _, s := range all {
		in := poolOfSlice(s)
		if s.Spec.Pool.Generation != newest[in] {
			continue
		}
		for _, d := range s.Spec.Devices {
			if selects(rule, device{Driver: in.Driver, Pool: in.Name, Device: d.Name}) {
				n++
			}
		}
	}
	return n
}
