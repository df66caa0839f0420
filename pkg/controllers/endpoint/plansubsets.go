package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"cmp"
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// port is a port of Endpoints in a form that can be compared. The zero port stands for none at all (EP-19).
type port struct {
	name     string
	number   int32
	protocol corev1.Protocol
	app      string
	hasApp   bool
}

// entry is an address and the ports at which it is served.
type entry struct {
	address corev1.EndpointAddress
	ready   bool
	ports   []port
}

// pack returns the subsets that say what the entries say, in one canonical form, whatever the order and division of the
// entries (EP-20..23). Each port is in one subset only, and ports with the same addresses share it:
//
//	a: http metrics, b: http metrics    ->  {http metrics: a b}
//	a: http metrics, b: http            ->  {http: a b} {metrics: a}
//
// The entries are left as they are.
func pack(entries []entry) []corev1.EndpointSubset {
	sorted := make([]*entry, len(entries))
	for i := range entries {
		sorted[i] = &entries[i]
	}
	slices.SortStableFunc(sorted, compareEntries)
	// An entry is known by the position of the first one that equals it.
	members := map[port][]int{}
	same := 0
	for i, e := range sorted {
		if compareEntries(sorted[same], e) != 0 {
			same = i
		}
		for _, p := range e.ports {
			list := members[p]
			if n := len(list); n > 0 && isSame(sorted[list[n-1]], e) {
				continue // EP-20: of one pod's addresses at a port the first counts, and not ready comes first
			}
			members[p] = append(list, same)
		}
	}
	groups := map[string][]port{}
	for p, list := range members {
		code := string(encode(list))
		groups[code] = append(groups[code], p)
	}
	subsets := make([]corev1.EndpointSubset, 0, len(groups))
	for _, ports := range groups {
		subsets = append(subsets, subset(ports, members[ports[0]], sorted))
	}
	slices.SortFunc(subsets, func(a, b corev1.EndpointSubset) int { return comparePorts(first(a), first(b)) })
	if len(subsets) == 0 {
		return nil
	}
	return subsets
}

func encode(list []int) (code []byte) {
	for _, i := range list {
		code = binary.AppendUvarint(code, uint64(i))
	}
	return code
}

func subset(ports []port, members []int, entries []*entry) (s corev1.EndpointSubset) {
	for _, i := range members {
		if e := entries[i]; e.ready {
			s.Addresses = append(s.Addresses, e.address)
		} else {
			s.NotReadyAddresses = append(s.NotReadyAddresses, e.address)
		}
	}
	slices.SortFunc(s.Addresses, compareAddresses)
	slices.SortFunc(s.NotReadyAddresses, compareAddresses)
	slices.SortFunc(ports, comparePorts)
	for _, p := range ports {
		if p == (port{}) {
			continue
		}
		ep := corev1.EndpointPort{Name: p.name, Port: p.number, Protocol: p.protocol}
		if p.hasApp {
			ep.AppProtocol = &p.app
		}
		s.Ports = append(s.Ports, ep)
	}
	return s
}

// unpack takes stored subsets apart, whoever has packed them. What means nothing is left out: the version of an object
// that an address refers to (EP-24), an empty node name.
func unpack(subsets []corev1.EndpointSubset) (entries []entry) {
	for i := range subsets {
		ports := portsOf(&subsets[i])
		for _, a := range subsets[i].Addresses {
			entries = append(entries, entry{bare(a), true, ports})
		}
		for _, a := range subsets[i].NotReadyAddresses {
			entries = append(entries, entry{bare(a), false, ports})
		}
	}
	return entries
}

func portsOf(s *corev1.EndpointSubset) []port {
	ports := make([]port, 0, max(1, len(s.Ports)))
	for _, ep := range s.Ports {
		p := port{name: ep.Name, number: ep.Port, protocol: protocol(ep.Protocol)}
		if ep.AppProtocol != nil {
			p.app, p.hasApp = *ep.AppProtocol, true
		}
		ports = append(ports, p)
	}
	if len(ports) == 0 {
		ports = append(ports, port{})
	}
	return ports
}

func bare(a corev1.EndpointAddress) corev1.EndpointAddress {
	if a.TargetRef != nil && a.TargetRef.ResourceVersion != "" {
		ref := *a.TargetRef
		ref.ResourceVersion = ""
		a.TargetRef = &ref
	}
	if a.NodeName != nil && *a.NodeName == "" {
		a.NodeName = nil
	}
	return a
}

// fitting chooses what is left in an object that has no room for all (EP-32, EP-33): ready addresses before others, and among
// those of a kind the ones that the object holds already, so that a choice once made stays. Pods are left out whole, from
// all ports. full is what the entries pack to.
func fitting(room int, entries []entry, full []corev1.EndpointSubset, stored *corev1.Endpoints) (chosen []entry) {
	held := map[id]bool{}
	if stored != nil {
		for _, e := range unpack(stored.Subsets) {
			held[idOf(&e)] = true
		}
	}
	home := map[port]int{} // the subset that a port is in
	for i := range full {
		for _, p := range portsOf(&full[i]) {
			home[p] = i
		}
	}
	ranked := slices.Clone(entries)
	slices.SortStableFunc(ranked, func(a, b entry) int {
		return cmp.Or(falseLast(a.ready, b.ready), falseLast(held[idOf(&a)], held[idOf(&b)]), compareEntries(&a, &b))
	})
	for _, e := range ranked {
		if takes := subsetsOf(e.ports, home); takes <= room {
			chosen = append(chosen, e)
			room -= takes
		}
	}
	return chosen
}

// subsetsOf counts the subsets that an address with these ports is in.
func subsetsOf(ports []port, home map[port]int) int {
	var seen []int
	for _, p := range ports {
		if i := home[p]; !slices.Contains(seen, i) {
			seen = append(seen, i)
		}
	}
	return len(seen)
}

// size counts addresses as the capacity does: in each subset anew (EP-32).
func size(subsets []corev1.EndpointSubset) (n int) {
	for i := range subsets {
		n += len(subsets[i].Addresses) + len(subsets[i].NotReadyAddresses)
	}
	return n
}

func sameSubsets(a, b []corev1.EndpointSubset) bool {
	sameAddress := func(a, b corev1.EndpointAddress) bool { return compareAddresses(a, b) == 0 }
	return slices.EqualFunc(a, b, func(a, b corev1.EndpointSubset) bool {
		return slices.Equal(portsOf(&a), portsOf(&b)) && slices.EqualFunc(a.Addresses, b.Addresses, sameAddress) &&
			slices.EqualFunc(a.NotReadyAddresses, b.NotReadyAddresses, sameAddress)
	})
}

// id tells the addresses at one port apart (EP-20).
type id struct {
	ip  string
	uid types.UID
}

func idOf(e *entry) id { return id{e.address.IP, uidOf(&e.address)} }

func uidOf(a *corev1.EndpointAddress) types.UID {
	if a.TargetRef == nil {
		return ""
	}
	return a.TargetRef.UID
}

func isSame(a, b *entry) bool { return idOf(a) == idOf(b) }

// compareEntries orders entries by address, as EP-22 says, those of one address with the ones that are not ready first,
// and then by all else but the ports, so that the order never depends on where entries come from.
func compareEntries(a, b *entry) int {
	if c := cmp.Compare(a.address.IP, b.address.IP); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(uidOf(&a.address), uidOf(&b.address)),
		-falseLast(a.ready, b.ready),
		compareAddresses(a.address, b.address),
	)
}

// compareAddresses orders addresses by IP and uid (EP-22), and then by all else that they say.
func compareAddresses(a, b corev1.EndpointAddress) int {
	if c := cmp.Compare(a.IP, b.IP); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(uidOf(&a), uidOf(&b)), cmp.Compare(a.Hostname, b.Hostname),
		compareOptional(a.NodeName, b.NodeName)); c != 0 {
		return c
	}
	if a.TargetRef == nil || b.TargetRef == nil {
		return -falseLast(a.TargetRef != nil, b.TargetRef != nil)
	}
	x, y := a.TargetRef, b.TargetRef
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name),
		cmp.Compare(x.APIVersion, y.APIVersion), cmp.Compare(x.FieldPath, y.FieldPath))
}

func compareOptional(a, b *string) int {
	if a == nil || b == nil {
		return -falseLast(a != nil, b != nil)
	}
	return cmp.Compare(*a, *b)
}

func comparePorts(a, b port) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.number, b.number), cmp.Compare(a.protocol, b.protocol),
		cmp.Compare(a.app, b.app), -falseLast(a.hasApp, b.hasApp))
}

func first(s corev1.EndpointSubset) port { return portsOf(&s)[0] }

// falseLast orders true before false.
func falseLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
