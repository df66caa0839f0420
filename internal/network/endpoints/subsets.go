package endpoints

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"cmp"
	"encoding/binary"
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
	HasApp   bool
}

// Entry is an address and the ports at which it is served.
type Entry struct {
	Address corev1.EndpointAddress
	Ready   bool
	Ports   []Port
}

// Pack returns the subsets that say what the entries say, in one canonical form, whatever the order and division of the
// entries (EP-20..23). Each port is in one subset only, and ports with the same addresses share it:
//
//	a: http metrics, b: http metrics    ->  {http metrics: a b}
//	a: http metrics, b: http            ->  {http: a b} {metrics: a}
//
// The entries are left as they are.
func Pack(entries []Entry) []corev1.EndpointSubset {
	sorted := make([]*Entry, len(entries))
	for i := range entries {
		sorted[i] = &entries[i]
	}
	slices.SortStableFunc(sorted, CompareEntries)
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
	groups := map[string][]Port{}
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

func subset(ports []Port, members []int, entries []*Entry) (s corev1.EndpointSubset) {
	for _, i := range members {
		if e := entries[i]; e.Ready {
			s.Addresses = append(s.Addresses, e.Address)
		} else {
			s.NotReadyAddresses = append(s.NotReadyAddresses, e.Address)
		}
	}
	slices.SortFunc(s.Addresses, compareAddresses)
	slices.SortFunc(s.NotReadyAddresses, compareAddresses)
	slices.SortFunc(ports, comparePorts)
	for _, p := range ports {
		if p == (Port{}) {
			continue
		}
		ep := corev1.EndpointPort{Name: p.Name, Port: p.Number, Protocol: p.Protocol}
		if p.HasApp {
			ep.AppProtocol = &p.App
		}
		s.Ports = append(s.Ports, ep)
	}
	return s
}

// Unpack takes stored subsets apart, whoever has packed them. An empty node name, which means nothing, is left out.
func Unpack(subsets []corev1.EndpointSubset) (entries []Entry) {
	for i := range subsets {
		ports := PortsOf(&subsets[i])
		for _, a := range subsets[i].Addresses {
			entries = append(entries, Entry{bare(a), true, ports})
		}
		for _, a := range subsets[i].NotReadyAddresses {
			entries = append(entries, Entry{bare(a), false, ports})
		}
	}
	return entries
}

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

// SameSubsets reports whether subsets say the same, in the same order. The versions of objects that addresses refer to say nothing (EP-24).
func SameSubsets(a, b []corev1.EndpointSubset) bool {
	sameAddress := func(a, b corev1.EndpointAddress) bool { return compareAddresses(a, b) == 0 }
	return slices.EqualFunc(a, b, func(a, b corev1.EndpointSubset) bool {
		return slices.Equal(PortsOf(&a), PortsOf(&b)) && slices.EqualFunc(a.Addresses, b.Addresses, sameAddress) &&
			slices.EqualFunc(a.NotReadyAddresses, b.NotReadyAddresses, sameAddress)
	})
}

// ID tells the addresses at one port apart (EP-20).
type ID struct {
	IP  string
	UID types.UID
}

func IDOf(e *Entry) ID { return ID{e.Address.IP, uidOf(&e.Address)} }

func uidOf(a *corev1.EndpointAddress) types.UID {
	if a.TargetRef == nil {
		return ""
	}
	return a.TargetRef.UID
}

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

// compareAddresses orders addresses by IP and uid (EP-22), and then by all else that they say, but for the version of the object that they
// refer to (EP-24).
func compareAddresses(a, b corev1.EndpointAddress) int {
	if c := cmp.Compare(a.IP, b.IP); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(uidOf(&a), uidOf(&b)), cmp.Compare(a.Hostname, b.Hostname),
		compareOptional(a.NodeName, b.NodeName)); c != 0 {
		return c
	}
	if a.TargetRef == nil || b.TargetRef == nil {
		return -FalseLast(a.TargetRef != nil, b.TargetRef != nil)
	}
	x, y := a.TargetRef, b.TargetRef
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name),
		cmp.Compare(x.APIVersion, y.APIVersion), cmp.Compare(x.FieldPath, y.FieldPath))
}

func compareOptional(a, b *string) int {
	if a == nil || b == nil {
		return -FalseLast(a != nil, b != nil)
	}
	return cmp.Compare(*a, *b)
}

func comparePorts(a, b Port) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.App, b.App), -FalseLast(a.HasApp, b.HasApp))
}

func first(s corev1.EndpointSubset) Port { return PortsOf(&s)[0] }

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
