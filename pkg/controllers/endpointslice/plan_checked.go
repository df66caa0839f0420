package endpointslice

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
)

// largeService is how many pods a service has at least of which it is remembered what its slices were compared with.
const largeService = 200

// checked is what slices were compared with in a reconcile that was carried out. When only a few pods have changed
// since, most slices need not be compared again. It is never changed.
type checked struct {
	Service string                     // its uid and version
	Zones   map[string]string          // of the nodes that the pods are on
	Slices  map[types.UID]checkedSlice // those of the service before the writes of the reconcile
	News    []string                   // pods that were in no slice then
}

// checkedSlice is what is remembered of one slice: in which version, and with which pods, it was right.
type checkedSlice struct {
	Version string
	Names   []string // of its pods, sorted
}

// news is what may have changed since slices were checked.
type news struct {
	pods    map[string]bool    // their names
	settled map[types.UID]bool // slices that show what they should
}

// news returns what may have changed, given the names of the pods that have changed, and the slices as they are now.
// It is not ok if all must be checked.
//
// A pod that is as it was, in a slice that is as it was, needs no look: when the slice was checked, it was found to
// be right, or would have been written.
func (c *checked) news(changed map[string]bool, now []*discoveryv1.EndpointSlice) (n news, ok bool) {
	moved := maps.Clone(changed) // pods that may be in any slice
	for _, name := range c.News {
		moved[name] = true
	}
	n = news{pods: map[string]bool{}, settled: map[types.UID]bool{}}
	found := 0
	for _, s := range now {
		was, known := c.Slices[s.UID]
		if known {
			found++
			if was.Version == s.ResourceVersion {
				continue
			}
		}
		is := namesIn(s)
		n.add(was.Names, is)
		differing(was.Names, is, func(name string) { moved[name] = true })
	}
	if found != len(c.Slices) || len(moved) > endpoints.MostNews {
		return n, false // a slice has gone, or it is no less work
	}
	for _, s := range now {
		if was := c.Slices[s.UID]; was.Version != s.ResourceVersion || len(s.Endpoints) == 0 {
			continue
		} else if was.hasAny(moved) {
			n.add(was.Names)
		} else {
			n.settled[s.UID] = true
		}
	}
	maps.Copy(n.pods, moved)
	return n, true
}

// add adds names of pods that may have changed.
func (n news) add(lists ...[]string) {
	for _, names := range lists {
		for _, name := range names {
			n.pods[name] = true
		}
	}
}

// hasAny reports whether a slice has one of the pods.
func (s checkedSlice) hasAny(names map[string]bool) bool {
	for name := range names {
		if _, has := slices.BinarySearch(s.Names, name); has {
			return true
		}
	}
	return false
}

// namesIn returns the names of the pods in a slice, sorted.
func namesIn(s *discoveryv1.EndpointSlice) []string {
	names := make([]string, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		if ref := s.Endpoints[i].TargetRef; ref != nil {
			names = append(names, ref.Name)
		}
	}
	slices.Sort(names)
	return names
}

// differing calls report with the elements that are in one of two sorted lists only.
func differing(a, b []string, report func(string)) {
	for _, pair := range [][2][]string{{a, b}, {b, a}} {
		for _, name := range pair[0] {
			if _, both := slices.BinarySearch(pair[1], name); !both {
				report(name)
			}
		}
	}
}

// newChecked returns what is to be remembered of a snapshot; nil if all must be checked the next time, too. Before is
// what was remembered, if the snapshot has only pods that may have changed since, and else nil.
func newChecked(s snapshot, before *checked) *checked {
	c := &checked{Service: endpoints.VersionOf(s.Service), Zones: s.Zones, Slices: map[types.UID]checkedSlice{}}
	for _, p := range s.Pods {
		if _, exists := s.Zones[p.Spec.NodeName]; !exists && p.Spec.NodeName != "" {
			return nil // it waits for its node
		}
	}
	if before != nil {
		c.Zones = before.zonesWith(s.Zones)
	}
	placed := map[discoveryv1.AddressType]map[string]bool{}
	for _, o := range s.mine() {
		if s.Settled[o.UID] {
			c.Slices[o.UID] = before.Slices[o.UID]
			continue
		}
		names := namesIn(o)
		c.Slices[o.UID] = checkedSlice{Version: o.ResourceVersion, Names: names}
		if placed[o.AddressType] == nil {
			placed[o.AddressType] = make(map[string]bool, len(s.Pods))
		}
		for _, name := range names {
			if placed[o.AddressType][name] {
				return nil // it is in two slices
			}
			placed[o.AddressType][name] = true
		}
	}
	families := familiesOf(s.Service)
	for _, p := range s.Pods {
		if slices.ContainsFunc(families, func(f discoveryv1.AddressType) bool { return !placed[f][p.Name] }) {
			c.News = append(c.News, p.Name)
		}
	}
	if len(c.News) > endpoints.MostNews {
		return nil
	}
	return c
}

// zonesWith returns the zones of nodes, and of others that there are now. If a zone has changed this moment, pods in
// settled slices still have the one before.
func (c *checked) zonesWith(now map[string]string) map[string]string {
	all := c.Zones
	for node, zone := range now {
		if _, known := c.Zones[node]; known {
			continue
		}
		if len(all) == len(c.Zones) {
			all = maps.Clone(c.Zones)
		}
		all[node] = zone
	}
	return all
}
