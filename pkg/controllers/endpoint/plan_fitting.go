package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
)

// fitting chooses what is left in an object that has no room for all (EP-32, EP-33): ready addresses before others,
// and among those of a kind the ones that the object holds already, so that a choice once made stays. Pods are left
// out whole, from all ports. full is how the entries, which are in order, are grouped.
func fitting(room int, entries found, full endpoints.Groups, stored *corev1.Endpoints) found {
	contained := containedIn(entries, stored)
	home := map[endpoints.Port]int{} // the group that a port is in
	for i := range full {
		for _, p := range full[i].Ports {
			home[p] = i
		}
	}
	chosen := make([]bool, len(entries))
	for _, kind := range []struct{ ready, contained bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		for i, e := range entries {
			if room == 0 {
				break
			}
			if e.Ready != kind.ready || contained[i] != kind.contained {
				continue
			}
			if takes := groupsOf(e.Ports, home); takes <= room {
				chosen[i] = true
				room -= takes
			}
		}
	}
	var fit found
	for i, e := range entries {
		if chosen[i] {
			fit = append(fit, e)
		}
	}
	return fit
}

// containedIn reports which of the entries, which are in order, an object holds already.
func containedIn(entries found, stored *corev1.Endpoints) []bool {
	contained := make([]bool, len(entries))
	if stored == nil {
		return contained
	}
	all := endpoints.Unpack(stored.Subsets)
	if !slices.IsSortedFunc(all, compareIDs) {
		slices.SortFunc(all, compareIDs)
	}
	for i, e := range entries {
		for len(all) > 0 && compareIDs(all[0], e) < 0 {
			all = all[1:]
		}
		contained[i] = len(all) > 0 && compareIDs(all[0], e) == 0
	}
	return contained
}

// compareIDs orders entries by address and then by the uid of the pod.
func compareIDs(a, b *endpoints.Entry) int {
	if c := cmp.Compare(a.Address.IP, b.Address.IP); c != 0 {
		return c
	}
	return cmp.Compare(endpoints.IDOf(a).UID, endpoints.IDOf(b).UID)
}

// groupsOf counts the groups that an address with these ports is in.
func groupsOf(ports []endpoints.Port, home map[endpoints.Port]int) int {
	if len(ports) == 1 {
		return 1
	}
	var seen []int
	for _, p := range ports {
		if i := home[p]; !slices.Contains(seen, i) {
			seen = append(seen, i)
		}
	}
	return len(seen)
}
