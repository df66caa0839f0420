package nodelifecycle

import (
	"cmp"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/overlay"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// zones is how the nodes of all zones do, by the names of the zones: a value of the cluster. It is data.
type zones map[string]members

// members are the nodes of a zone, by name.
type members struct {
	All    overlay.Map[string, member]
	Ailing overlay.Map[string, member] // those of them that are not ready, or have a NoExecute taint
	sums
}

// sums say of a zone what decides about its nodes.
type sums struct {
	Nodes, Unready int // of those that count (NL-41)
	Waiting        int // nodes that are not ready and have no NoExecute taint yet
}

// member is what of a node concerns its zone.
type member struct {
	Ready   bool
	Counts  bool      // it has no label that leaves it out (NL-41)
	Since   time.Time // when it became unhealthy; zero if it is not, or its kubelet has said nothing yet
	Tainted time.Time // when it got a NoExecute taint for that; zero if it has none
}

// zone is how one zone does, as a node sees it.
type zone struct {
	Known   bool // all nodes have been counted
	Name    string
	AllDown bool // no zone has a node that is ready (NL-46)
	sums
	Last   time.Time // when a node last got a NoExecute taint
	Before int       // nodes that get one before this node
}

// zoneOf is the name of a node's zone (NL-40).
func zoneOf(n *corev1.Node) string {
	region := cmp.Or(n.Labels[corev1.LabelFailureDomainBetaRegion], n.Labels[corev1.LabelTopologyRegion])
	name := cmp.Or(n.Labels[corev1.LabelFailureDomainBetaZone], n.Labels[corev1.LabelTopologyZone])
	if region == "" && name == "" {
		return ""
	}
	return region + ":\x00:" + name
}

// excluded is the label of nodes that do not count (NL-41).
const excluded = "node.kubernetes.io/exclude-disruption"

// rounded is how much the time of a taint may have lost.
const rounded = time.Second

func memberOf(n *corev1.Node) member {
	_, out := n.Labels[excluded]
	m := member{Counts: !out}
	if r := ready(n); r != nil {
		m.Ready, m.Since = r.Status == corev1.ConditionTrue, r.LastTransitionTime.Time
	}
	if m.Ready {
		m.Since = time.Time{}
	}
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) {
			m.Tainted = time.Unix(1, 0) // for a taint without a time
			if t.TimeAdded != nil {
				m.Tainted = t.TimeAdded.Add(rounded)
			}
		}
	}
	return m
}

// firstZones is the value of so many nodes.
func firstZones(nodes []*corev1.Node) zones {
	all := zones{}
	for _, n := range nodes {
		m := all[zoneOf(n)]
		m.put(n.Name, memberOf(n))
		all[zoneOf(n)] = m
	}
	return all
}

// next is the value after a change of a node.
func (z zones) next(before, after plan.Object) zones {
	was, _ := before.(*corev1.Node)
	is, _ := after.(*corev1.Node)
	all := z
	if was != nil && (is == nil || zoneOf(is) != zoneOf(was)) {
		all = all.with(zoneOf(was), was.Name, nil)
	}
	if is != nil {
		m := memberOf(is)
		all = all.with(zoneOf(is), is.Name, &m)
	}
	return all
}

// with is the value with a node being such a member of a zone, or none of it.
func (z zones) with(zone, name string, is *member) zones {
	was, known := z[zone].All.Get(name)
	if known == (is != nil) && (is == nil || *is == was) {
		return z
	}
	all, m := maps.Clone(z), z[zone]
	m.All, m.Ailing = m.All.Clone(), m.Ailing.Clone()
	if known {
		m.remove(name, was)
	}
	if is != nil {
		m.put(name, *is)
	}
	if all[zone] = m; m.empty() {
		delete(all, zone)
	}
	return all
}

func (m *members) put(name string, is member) {
	m.All.Set(name, is)
	if is.ailing() {
		m.Ailing.Set(name, is)
	}
	m.add(is, 1)
}

func (m *members) remove(name string, was member) {
	m.All.Delete(name)
	if was.ailing() {
		m.Ailing.Delete(name)
	}
	m.add(was, -1)
}

func (m members) empty() bool {
	for range m.All.All() {
		return false
	}
	return true
}

func (s *sums) add(m member, n int) {
	if m.Counts {
		s.Nodes += n
	}
	if m.Counts && !m.Ready {
		s.Unready += n
	}
	if m.waits() {
		s.Waiting += n
	}
}

func (m member) ailing() bool { return !m.Ready || !m.Tainted.IsZero() }

func (m member) waits() bool { return !m.Since.IsZero() && m.Tainted.IsZero() }

// of is how the zone of a node does. A taint from the future was added by somebody whose clock is wrong, and says nothing.
func (z zones) of(now time.Time, n *corev1.Node) zone {
	name, self := zoneOf(n), memberOf(n)
	found := zone{Known: true, Name: name, AllDown: z.allDown(), sums: z[name].sums}
	if !self.waits() {
		return found
	}
	for other, m := range z[name].Ailing.All() {
		if m.Tainted.After(found.Last) && !m.Tainted.After(now.Add(rounded)) {
			found.Last = m.Tainted
		}
		if m.waits() && other != n.Name && earlier(m, other, self, n.Name) {
			found.Before++
		}
	}
	return found
}

func earlier(a member, aName string, b member, bName string) bool {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(aName, bName)) < 0
}

// concerns reports whether a change concerns other nodes than the one that has changed: nodes get taints at another rate, or a node that was
// before others is well again or gone. Each node in the line knows when its turn is otherwise.
func (z zones) concerns(was zones, o Options) bool {
	if z.allDown() != was.allDown() {
		return true
	}
	for name, is := range z {
		if old, known := was[name]; known && (is.rate(o) != old.rate(o) || is.Waiting < old.Waiting && is.Unready < old.Unready) {
			return true
		}
	}
	return false
}

// allDown reports whether there are nodes that count, and none of them is ready.
func (z zones) allDown() bool {
	count := false
	for _, zone := range z {
		if zone.Unready < zone.Nodes {
			return false
		}
		count = count || zone.Nodes > 0
	}
	return count
}

// The states of a zone, as the contract has them (NL-42..45).
const (
	normal  = "Normal"
	partial = "PartialDisruption"
	full    = "FullDisruption"
)

func (z sums) state(o Options) string {
	switch {
	case z.Nodes > 0 && z.Unready == z.Nodes:
		return full
	case z.Unready >= 3 && float32(z.Unready) >= o.UnhealthyThreshold*float32(z.Nodes):
		return partial
	}
	return normal
}

// rate is how many nodes of the zone get a NoExecute taint in a second.
func (z sums) rate(o Options) float32 {
	switch {
	case z.state(o) != partial:
		return o.EvictionRate
	case z.Nodes > int(o.LargeClusterSize):
		return o.SecondaryEvictionRate
	}
	return 0
}
