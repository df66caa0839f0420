package nodelifecycle

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// zones is how the nodes of all zones do, by the names of the zones. The term follows it: firstZones makes
// the first value, next each later one, and of what a snapshot has of it. It is data.
type zones map[string]members

// members are the nodes of a zone, by name.
type members struct {
	// All are the nodes of the zone by name.
	All    cowmap.Map[string, member]
	Ailing cowmap.Map[string, member] // those of them that are not ready, or have a NoExecute taint
	Line   []place                    // those that wait for a NoExecute taint, in turn
	Served []place                    // those that are unhealthy and have one, in the same order
	Taints []time.Time                // when nodes got theirs, sorted
	sums
}

// place is that of a node in the line of its zone: the one that is unhealthy for the longest comes first.
type place struct {
	Since time.Time
	Name  string
}

// compare orders the line.
func (p place) compare(other place) int {
	return cmp.Or(p.Since.Compare(other.Since), cmp.Compare(p.Name, other.Name))
}

// sums say of a zone what decides about its nodes.
type sums struct {
	Nodes, Unready int // of those that count (NL-41)
}

// member is what of a node concerns its zone.
type member struct {
	Ready   bool
	Counts  bool      // it has no label that excludes it (NL-41)
	Since   time.Time // when it became unhealthy; zero if it is not, or is to get no NoExecute taint for that
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

// memberOf returns what of a node concerns its zone.
func memberOf(n *corev1.Node) member {
	_, out := n.Labels[excluded]
	m := member{Counts: !out}
	if r := ready(n); r != nil {
		m.Ready = r.Status == corev1.ConditionTrue
		if (r.Status == corev1.ConditionFalse || r.Status == corev1.ConditionUnknown) && !mayBeCutOff(n) {
			m.Since = r.LastTransitionTime.Time
		}
	}
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute &&
			(t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) {
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
	m.Line, m.Served, m.Taints = slices.Clone(m.Line), slices.Clone(m.Served), slices.Clone(m.Taints)
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

// put adds a node to its zone.
func (m *members) put(name string, is member) {
	m.All.Set(name, is)
	if is.ailing() {
		m.Ailing.Set(name, is)
	}
	switch at := (place{is.Since, name}); {
	case is.waits():
		m.Line = inserted(m.Line, at, place.compare)
	case !is.Since.IsZero():
		m.Served = inserted(m.Served, at, place.compare)
	}
	if !is.Tainted.IsZero() {
		m.Taints = inserted(m.Taints, is.Tainted, time.Time.Compare)
	}
	m.add(is, 1)
}

// remove takes a node out of its zone, as it was when it was put there.
func (m *members) remove(name string, was member) {
	m.All.Delete(name)
	if was.ailing() {
		m.Ailing.Delete(name)
	}
	switch at := (place{was.Since, name}); {
	case was.waits():
		m.Line = removed(m.Line, at, place.compare)
	case !was.Since.IsZero():
		m.Served = removed(m.Served, at, place.compare)
	}
	if !was.Tainted.IsZero() {
		m.Taints = removed(m.Taints, was.Tainted, time.Time.Compare)
	}
	m.add(was, -1)
}

// inserted returns a sorted list with one more element.
func inserted[T any](sorted []T, one T, compare func(a, b T) int) []T {
	at, _ := slices.BinarySearchFunc(sorted, one, compare)
	return slices.Insert(sorted, at, one)
}

// removed returns a sorted list without an element that may be there.
func removed[T any](sorted []T, one T, compare func(a, b T) int) []T {
	if at, ok := slices.BinarySearchFunc(sorted, one, compare); ok {
		return slices.Delete(sorted, at, at+1)
	}
	return sorted
}

// overtaken is how many nodes at the front of the line are behind a node that has its taint, because they could not
// get theirs when it was their turn. They keep nobody waiting: they come after all others.
func (m members) overtaken() int {
	if len(m.Served) == 0 {
		return 0
	}
	n, _ := slices.BinarySearchFunc(m.Line, m.Served[len(m.Served)-1], place.compare)
	return n
}

// before is how many nodes get a taint before the one at a place.
func (m members) before(p place) int {
	overtaken := m.overtaken()
	at, _ := slices.BinarySearchFunc(m.Line, p, place.compare)
	if at < overtaken {
		return len(m.Line) - overtaken + at
	}
	return at - overtaken
}

// next are the nodes whose turn comes next.
func (m members) next(n int) (names []string) {
	overtaken := m.overtaken()
	for i := range min(n, len(m.Line)) {
		names = append(names, m.Line[(overtaken+i)%len(m.Line)].Name)
	}
	return names
}

// last is when a node last got a taint. One from the future was added by somebody whose clock is wrong, and says
// nothing.
func (m members) last(now time.Time) time.Time {
	for _, at := range slices.Backward(m.Taints) {
		if !at.After(now.Add(rounded)) {
			return at
		}
	}
	return time.Time{}
}

// empty reports whether a zone has no node any more.
func (m members) empty() bool {
	for range m.All.All() {
		return false
	}
	return true
}

// add counts a member n times, which is -1 for one that is removed.
func (s *sums) add(m member, n int) {
	if m.Counts {
		s.Nodes += n
	}
	if m.Counts && !m.Ready {
		s.Unready += n
	}
}

// ailing reports whether the state of the zone concerns a node.
func (m member) ailing() bool { return !m.Ready || !m.Tainted.IsZero() }

// waits reports whether a node is to get its first NoExecute taint.
func (m member) waits() bool { return !m.Since.IsZero() && m.Tainted.IsZero() }

// of is how the zone of a node does.
func (z zones) of(now time.Time, n *corev1.Node) zone {
	name, self := zoneOf(n), memberOf(n)
	found := zone{Known: true, Name: name, AllDown: z.allDown(), sums: z[name].sums}
	if self.waits() {
		found.Last, found.Before = z[name].last(now), z[name].before(place{self.Since, n.Name})
	}
	return found
}

// concerns reports whether a change concerns all nodes that ail: they get taints at another rate.
func (z zones) concerns(was zones, o Options) bool {
	if z.allDown() != was.allDown() {
		return true
	}
	for name, is := range z {
		if old, known := was[name]; known && is.rate(o) != old.rate(o) {
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

// state says how a zone does, by the share of its nodes that are not ready.
func (z sums) state(o Options) string {
	switch {
	case z.Nodes > 0 && z.Unready == z.Nodes:
		return full
	case z.Unready >= 3 && float32(z.Unready)/float32(z.Nodes) >= o.UnhealthyThreshold:
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
