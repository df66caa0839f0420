package actors

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// beat is how often a kubelet renews its Lease.
const beat = 10 * time.Second

// AddNode adds a node whose kubelet works, or lets the kubelet of one that is there work again.
func (c *Cluster) AddNode(name string) error {
	delete(c.lost, name)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{managedVolumes: "true"}}}
	if apiserver.One[*corev1.Node](c.server, "", name) == nil {
		if _, err := c.server.Do(apiserver.Write{By: "kubelet", Verb: apiserver.Create, Object: n}); err != nil {
			return err
		}
	}
	return c.works(name)
}

// works lets a kubelet report that its node is ready, renew its Lease from now on, and let pods be ready again that were said not to be
// while it did not work.
func (c *Cluster) works(name string) error {
	if !c.beating[name] {
		c.beating[name] = true
		c.renew(name)
	}
	_, err := Edit(c.server, "kubelet", "", name, "status", func(n *corev1.Node) {
		now := metav1.Now().Rfc3339Copy()
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now,
			LastTransitionTime: now}}
	})
	for _, p := range c.podsOn(name) {
		if p.Status.Phase == corev1.PodRunning && Character(p) != Bad {
			c.after(c.delay("ready again", p.Name, 50*time.Millisecond, 3*time.Second), func() { c.become(p, true) })
		}
	}
	if err == nil {
		_, err = Edit(c.server, "admin", "", name, "", func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints),
				func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
		})
	}
	return err
}

// renew renews the Lease of a node, and does so again and again until the node is gone.
func (c *Cluster) renew(name string) {
	if apiserver.One[*corev1.Node](c.server, "", name) == nil {
		delete(c.beating, name)
		return
	}
	c.after(beat, func() { c.renew(name) })
	if c.lost[name] {
		return
	}
	now := metav1.NewMicroTime(time.Now())
	known, err := Edit(c.server, "kubelet", corev1.NamespaceNodeLease, name, "", func(l *coordinationv1.Lease) { l.Spec.RenewTime = &now })
	if err == nil && !known {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &name, ptr.To[int32](40), &now
		_, _ = c.server.Do(apiserver.Write{By: "kubelet", Verb: apiserver.Create, Object: lease})
	}
}

// StopNode stops a node's kubelet. The node lifecycle controller notices it later.
func (c *Cluster) StopNode(name string) { c.lost[name] = true }

// RemoveNode removes a node for good, with what runs on it.
func (c *Cluster) RemoveNode(name string) {
	c.lost[name] = true
	if n := apiserver.One[*corev1.Node](c.server, "", name); n != nil {
		c.remove("admin", "nodes", n, metav1.DeleteOptions{})
	}
}

// Taint declares a stopped node to be out of service.
func (c *Cluster) Taint(name string) error {
	_, err := Edit(c.server, "admin", "", name, "", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	})
	return err
}

// Mark gives a node labels and taints, in place of the taints that it has.
func (c *Cluster) Mark(name string, labels map[string]string, taints []corev1.Taint) error {
	_, err := Edit(c.server, "admin", "", name, "", func(n *corev1.Node) {
		n.Labels = labels
		n.Spec.Taints = taints
	})
	return err
}

func (c *Cluster) podsOn(node string) (on []*corev1.Pod) {
	for _, p := range apiserver.All[*corev1.Pod](c.server) {
		if p.Spec.NodeName == node && p.DeletionTimestamp == nil {
			on = append(on, p)
		}
	}
	return on
}
