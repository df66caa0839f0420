package attachdetach

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// holder returns another node that has an exclusive volume, or gets it before this one; empty if there is none.
func (k *nodeController) holder(now time.Time, n *corev1.Node, v nodeVolume) (other string) {
	_, by := k.pods.podsNeeding(v.Name)
	for _, one := range k.reportingNodes(v.Name, by) {
		if one.Node.Name != n.Name && one.hasVolume(now, v, k.disableTimeout, k.held(now)) {
			return one.Node.Name
		}
	}
	t, _ := k.term.Get()
	if node, reserved := t.Holders.Get(v.Name); reserved {
		if node == n.Name { // its status may list it already
			return ""
		}
		return node
	}
	users := k.users(by)
	// A node that is gone has it as long as its pods may run (AD-18). Its status is gone with it.
	if i := slices.IndexFunc(users, func(u usingNode) bool { return u.MayRun && u.Node != n.Name }); i >= 0 {
		return users[i].Node
	}
	for _, u := range users { // that of the oldest pod has it (AD-80)
		if !u.Managed {
			continue
		}
		if u.Node != n.Name {
			return u.Node
		}
		break
	}
	return ""
}
