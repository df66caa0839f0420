package endpoints

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Port is a port of Endpoints in a form that can be compared. The zero port stands for none at all (EP-19).
type Port struct {
	Name     string
	Number   int32
	Protocol corev1.Protocol
	App      string
	// HasApp distinguishes an empty App from none.
	HasApp bool
}

// Entry is an address and the ports at which it is served.
type Entry struct {
	Address corev1.EndpointAddress
	// Ready says whether the address is among the ready ones.
	Ready bool
	// Ports are the service's, as the pod serves them.
	Ports []Port
}

// Pack returns the subsets that say what the entries say, in one canonical form, whatever the order and division of the
// entries (EP-20..23). Each port is in one subset only, and ports with the same addresses share it:
//
//	a: http metrics, b: http metrics    ->  {http metrics: a b}
//	a: http metrics, b: http            ->  {http: a b} {metrics: a}
//
// The entries are left as they are.
func Pack(entries []*Entry) []corev1.EndpointSubset { return Grouped(entries).Subsets() }

// Groups are entries that share their ports: what will be a subset each.
type Groups []Group

// Group is some ports, and the entries that serve them all, each in order.
type Group struct {
	Ports   []Port
	Entries []*Entry
}

// Grouped groups entries. Those that are in order already cost least.
func Grouped(entries []*Entry) Groups {
	if !slices.IsSortedFunc(entries, CompareEntries) {
		entries = slices.Clone(entries)
		slices.SortStableFunc(entries, CompareEntries)
	}
	if len(entries) == 0 {
		return nil
	}
	same := entries[0].Ports
	if len(same) > 0 &&
		!slices.ContainsFunc(entries,
			func(e *Entry) bool { return !shared(e.Ports, same) && !slices.Equal(e.Ports, same) }) {
		return Groups{{Ports: sortedPorts(same), Entries: slices.CompactFunc(slices.Clone(entries), isSame)}}
	}
	return groupedByPorts(entries)
}

// mostPlaces is how many addresses at ports are looked at one by one. Beyond, a port may be in several subsets.
const mostPlaces = 1 << 18

// list is one of the lists of ports that entries have, with its entries.
type list struct {
	ports   []Port
	entries []*Entry
	at      []int // of each entry, the position of the first one that equals it
}

// listed sorts entries by their lists of ports. It reports whether no port is in two lists, and at how many ports
// there are addresses.
func listed(sorted []*Entry) (lists []*list, apart bool, places int) {
	// known are those that entries share
	byText, byPort, known := map[string]*list{}, map[Port]*list{}, map[*Port]*list{}
	same := 0
	apart = true
	for i, e := range sorted {
		if CompareEntries(sorted[same], e) != 0 {
			same = i
		}
		places += len(e.Ports)
		if len(e.Ports) == 0 {
			continue
		}
		l := known[&e.Ports[0]]
		if l == nil || len(l.ports) != len(e.Ports) {
			text := portsText(e.Ports)
			if l = byText[text]; l == nil {
				l = &list{ports: e.Ports}
				byText[text], lists = l, append(lists, l)
				for _, p := range e.Ports {
					apart = apart && (byPort[p] == nil || byPort[p] == l)
					byPort[p] = l
				}
			}
			known[&e.Ports[0]] = l
		}
		if n := len(l.entries); n == 0 || !isSame(l.entries[n-1], e) { // EP-20
			l.entries, l.at = append(l.entries, e), append(l.at, same)
		}
	}
	return lists, apart, places
}

// groupedByLists returns a group for each list of ports, but one for those with the same entries.
func groupedByLists(lists []*list) (groups Groups) {
	byEntries := map[string]int{}
	for _, l := range lists {
		code := string(encode(l.at))
		at, known := byEntries[code]
		if !known {
			at = len(groups)
			byEntries[code], groups = at, append(groups, Group{Entries: l.entries})
		}
		groups[at].Ports = append(groups[at].Ports, l.ports...)
	}
	for i := range groups {
		groups[i].Ports = sortedPorts(groups[i].Ports)
	}
	slices.SortFunc(groups, func(a, b Group) int { return slices.CompareFunc(a.Ports, b.Ports, comparePorts) })
	return groups
}

// shared reports whether two lists are the same one.
func shared(a, b []Port) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}

// portsText is the same for the same ports, in any order and number, and for no others.
func portsText(ports []Port) string {
	var text []byte
	for _, p := range sortedPorts(ports) {
		text = fmt.Appendf(text, "%d %q %q %t %q,", p.Number, p.Name, p.Protocol, p.HasApp, p.App)
	}
	return string(text)
}

// groupedByPorts groups sorted entries that differ in their ports.
func groupedByPorts(sorted []*Entry) Groups {
	if lists, apart, places := listed(sorted); apart || places > mostPlaces {
		return groupedByLists(lists)
	}
	return groupedByEachPort(sorted)
}

// groupedByEachPort looks at each port of each entry.
func groupedByEachPort(sorted []*Entry) (groups Groups) {
	// An entry is known by the position of the first one that equals it.
	members := map[Port][]int{}
	same := 0
	for i, e := range sorted {
		if CompareEntries(sorted[same], e) != 0 {
			same = i
		}
		for _, p := range e.Ports {
			list := members[p]
			if n := len(list); n > 0 && isSame(sorted[list[n-1]], e) {
				continue // EP-20: of one pod's addresses at a port the first counts, and not ready comes first
			}
			members[p] = append(list, same)
		}
	}
	byMembers := map[string][]Port{}
	for p, list := range members {
		code := string(encode(list))
		byMembers[code] = append(byMembers[code], p)
	}
	for _, ports := range byMembers {
		g := Group{Ports: sortedPorts(ports)}
		for _, i := range members[ports[0]] {
			g.Entries = append(g.Entries, sorted[i])
		}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b Group) int { return comparePorts(a.Ports[0], b.Ports[0]) })
	return groups
}

// encode makes a text of a list of numbers, as the key of a map.
func encode(list []int) (code []byte) {
	for _, i := range list {
		code = binary.AppendUvarint(code, uint64(i))
	}
	return code
}

// sortedPorts returns the ports in order, each once.
func sortedPorts(ports []Port) []Port {
	return slices.Compact(slices.SortedFunc(slices.Values(ports), comparePorts))
}

// Size counts addresses as the capacity does: in each subset anew (EP-32).
func (g Groups) Size() (n int) {
	for i := range g {
		n += len(g[i].Entries)
	}
	return n
}

// Subsets returns what the groups are in an object.
func (g Groups) Subsets() (subsets []corev1.EndpointSubset) {
	for i := range g {
		subsets = append(subsets, g[i].subset())
	}
	return subsets
}

// subset makes a subset of the addresses that have the same ports.
func (g Group) subset() (s corev1.EndpointSubset) {
	ready := 0
	for _, e := range g.Entries {
		if e.Ready {
			ready++
		}
	}
	s.Addresses, s.NotReadyAddresses = room(ready), room(len(g.Entries)-ready)
	for _, e := range g.Entries { // they are in the order of addresses
		if e.Ready {
			s.Addresses = append(s.Addresses, e.Address)
		} else {
			s.NotReadyAddresses = append(s.NotReadyAddresses, e.Address)
		}
	}
	for i, p := range g.Ports {
		if p == (Port{}) {
			continue
		}
		ep := corev1.EndpointPort{Name: p.Name, Port: p.Number, Protocol: p.Protocol}
		if p.HasApp {
			ep.AppProtocol = &g.Ports[i].App
		}
		s.Ports = append(s.Ports, ep)
	}
	return s
}

// room returns an empty list for n addresses; nil for none.
func room(n int) []corev1.EndpointAddress {
	if n == 0 {
		return nil
	}
	return make([]corev1.EndpointAddress, 0, n)
}

// Unpack takes stored subsets apart, whoever has packed them. An empty node name, which means nothing, is left out.
func Unpack(subsets []corev1.EndpointSubset) []*Entry {
	all := make([]Entry, 0, Size(subsets))
	for i := range subsets {
		ports := PortsOf(&subsets[i])
		for _, a := range subsets[i].Addresses {
			all = append(all, Entry{bare(a), true, ports})
		}
		for _, a := range subsets[i].NotReadyAddresses {
			all = append(all, Entry{bare(a), false, ports})
		}
	}
	entries := make([]*Entry, len(all))
	for i := range all {
		entries[i] = &all[i]
	}
	return entries
}

// PortsOf returns the ports of a subset. One without ports has the one port that is none.
func PortsOf(s *corev1.EndpointSubset) []Port {
	ports := make([]Port, 0, max(1, len(s.Ports)))
	for _, ep := range s.Ports {
		p := Port{Name: ep.Name, Number: ep.Port, Protocol: Protocol(ep.Protocol)}
		if ep.AppProtocol != nil {
			p.App, p.HasApp = *ep.AppProtocol, true
		}
		ports = append(ports, p)
	}
	if len(ports) == 0 {
		ports = append(ports, Port{})
	}
	return ports
}

// bare returns an address in which an empty name of a node counts as none.
func bare(a corev1.EndpointAddress) corev1.EndpointAddress {
	if a.NodeName != nil && *a.NodeName == "" {
		a.NodeName = nil
	}
	return a
}

// Size counts addresses as the capacity does: in each subset anew (EP-32).
func Size(subsets []corev1.EndpointSubset) (n int) {
	for i := range subsets {
		n += len(subsets[i].Addresses) + len(subsets[i].NotReadyAddresses)
	}
	return n
}

// SameSubsets reports whether stored subsets say what packed ones say, whoever has packed them. The versions of
// objects that addresses refer to say nothing (EP-24).
func SameSubsets(stored, packed []corev1.EndpointSubset) bool {
	return equal(stored, packed) || equal(Pack(Unpack(stored)), packed)
}

// equal reports whether subsets say the same, in the same order.
func equal(a, b []corev1.EndpointSubset) bool {
	sameAddress := func(a, b corev1.EndpointAddress) bool { return compareAddresses(a, b) == 0 }
	return slices.EqualFunc(a, b, func(a, b corev1.EndpointSubset) bool {
		return slices.Equal(PortsOf(&a), PortsOf(&b)) && slices.EqualFunc(a.Addresses, b.Addresses, sameAddress) &&
			slices.EqualFunc(a.NotReadyAddresses, b.NotReadyAddresses, sameAddress)
	})
}

// ID distinguishes the addresses at one port (EP-20).
type ID struct {
	IP  string
	UID types.UID
}

// IDOf distinguishes the entries of an object.
func IDOf(e *Entry) ID { return ID{e.Address.IP, uidOf(&e.Address)} }

// uidOf is the uid of the pod that an address stands for; empty if it stands for none.
func uidOf(a *corev1.EndpointAddress) types.UID {
	if a.TargetRef == nil {
		return ""
	}
	return a.TargetRef.UID
}

// isSame reports whether two entries are of the same address and pod.
func isSame(a, b *Entry) bool { return IDOf(a) == IDOf(b) }

// CompareEntries orders entries by address, as EP-22 says, those of one address with the ones that are not ready first,
// and then by all else but the ports, so that the order never depends on where entries come from.
func CompareEntries(a, b *Entry) int {
	if c := cmp.Compare(a.Address.IP, b.Address.IP); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(uidOf(&a.Address), uidOf(&b.Address)),
		-FalseLast(a.Ready, b.Ready),
		compareAddresses(a.Address, b.Address),
	)
}

// compareAddresses orders addresses by IP and uid (EP-22), and then by all else that they say, but for the version of
// the object that they refer to (EP-24).
func compareAddresses(a, b corev1.EndpointAddress) int {
	if c := cmp.Compare(a.IP, b.IP); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(uidOf(&a), uidOf(&b)), cmp.Compare(a.Hostname, b.Hostname),
		compareOptional(a.NodeName, b.NodeName)); c != 0 {
		return c
	}
	x, y := a.TargetRef, b.TargetRef
	if x == nil || y == nil {
		return -FalseLast(x != nil, y != nil)
	}
	if x == y {
		return 0
	}
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name),
		cmp.Compare(x.APIVersion, y.APIVersion), cmp.Compare(x.FieldPath, y.FieldPath))
}

// compareOptional orders values that may be missing.
func compareOptional[T cmp.Ordered](a, b *T) int {
	if a == nil || b == nil {
		return -FalseLast(a != nil, b != nil)
	}
	return cmp.Compare(*a, *b)
}

// comparePorts orders ports by all that they have.
func comparePorts(a, b Port) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.App, b.App), -FalseLast(a.HasApp, b.HasApp))
}

// FalseLast orders true before false.
func FalseLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
