package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
)

// fitting chooses what is left in an object that has no room for all (EP-32, EP-33): ready addresses before others, and among
// those of a kind the ones that the object holds already, so that a choice once made stays. Pods are left out whole, from
// all ports. full is what the entries pack to.
func fitting(room int, entries []endpoints.Entry, full []corev1.EndpointSubset, stored *corev1.Endpoints) (chosen []endpoints.Entry) {
	held := map[endpoints.ID]bool{}
	if stored != nil {
		for _, e := range endpoints.Unpack(stored.Subsets) {
			held[endpoints.IDOf(&e)] = true
		}
	}
	home := map[endpoints.Port]int{} // the subset that a port is in
	for i := range full {
		for _, p := range endpoints.PortsOf(&full[i]) {
			home[p] = i
		}
	}
	ranked := slices.Clone(entries)
	slices.SortStableFunc(ranked, func(a, b endpoints.Entry) int {
		return cmp.Or(endpoints.FalseLast(a.Ready, b.Ready), endpoints.FalseLast(held[endpoints.IDOf(&a)], held[endpoints.IDOf(&b)]), endpoints.CompareEntries(&a, &b))
	})
	for _, e := range ranked {
		if takes := subsetsOf(e.Ports, home); takes <= room {
			chosen = append(chosen, e)
			room -= takes
		}
	}
	return chosen
}

// subsetsOf counts the subsets that an address with these ports is in.
func subsetsOf(ports []endpoints.Port, home map[endpoints.Port]int) int {
	var seen []int
	for _, p := range ports {
		if i := home[p]; !slices.Contains(seen, i) {
			seen = append(seen, i)
		}
	}
	return len(seen)
}
