package devicetainteviction

import (
	"fmt"
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

// count is how many pods are to be evicted for a rule, or would be if it had that effect, and in how many namespaces.
type count struct{ Pods, Namespaces int }

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
	return count{len(u), len(namespaces)}
}

func (k *caches) countFor(rules []*resourcev1.DeviceTaintRule) counts {
	all, of := users{}, make([]users, len(rules))
	for i := range rules {
		of[i] = users{}
	}
	for c := range k.claims.All() {
		if len(devicesOf(c)) == 0 {
			continue
		}
		for _, r := range c.Status.ReservedFor {
			p := k.pods.Get(c.Namespace, r.Name)
			if !isPod(r) || p == nil || p.UID != r.UID || exempt(p) != "" || !uses(p, c) {
				continue
			}
			all[p.UID] = p.Namespace
			for i, rule := range rules {
				if concerns(rule, c) {
					of[i][p.UID] = p.Namespace
				}
			}
		}
	}
	n := counts{Pods: len(all), Rules: map[string]count{}}
	for i, rule := range rules {
		n.Rules[rule.Name] = of[i].count()
	}
	return n
}
