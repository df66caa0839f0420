package actors

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

const (
	noticed = 40 * time.Second // after which a silent kubelet's node is held for broken
	evicted = 60 * time.Second // after which pods are told to leave it (300s by default; the simulation is in a hurry)
)

// AddNode adds a node whose kubelet works, or lets the kubelet of one that is there work again.
func (c *Cluster) AddNode(name string) error {
	delete(c.lost, name)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if apiserver.One[*corev1.Node](c.server, "", name) == nil {
		if _, err := c.server.Do(apiserver.Write{By: "kubelet", Verb: apiserver.Create, Object: n}); err != nil {
			return err
		}
	}
	return c.setNode(name, true)
}

// StopNode stops a node's kubelet. It is noticed later.
func (c *Cluster) StopNode(name string) {
	c.lost[name], c.since[name] = true, time.Now()
	c.after(noticed, func() {
		if c.lost[name] {
			_ = c.setNode(name, false)
		}
	})
}

// RemoveNode removes a node for good, with what runs on it.
func (c *Cluster) RemoveNode(name string) {
	c.lost[name], c.since[name] = true, time.Now()
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

// setNode sets the condition Ready of a node.
func (c *Cluster) setNode(name string, to bool) error {
	status := corev1.ConditionTrue
	if !to {
		status = corev1.ConditionUnknown
	}
	_, err := Edit(c.server, "node-controller", "", name, "status", func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now().Rfc3339Copy()}}
	})
	if err == nil && to {
		_, err = Edit(c.server, "node-controller", "", name, "", func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
		})
	}
	return err
}

// noteNode is the controller that watches over nodes: the pods of a broken one are not ready, and are evicted later.
func (c *Cluster) noteNode(e *apiserver.Event) {
	c.noteNewNode(e)
	n := e.Object.(*corev1.Node)
	before, _ := e.Before.(*corev1.Node)
	if e.Type == watch.Deleted || ready(n.Status.Conditions) || before == nil || !ready(before.Status.Conditions) {
		return
	}
	for _, p := range c.podsOn(n.Name) {
		c.editPod("node-controller", p, "status", func(p *corev1.Pod) { setReady(p, false) })
	}
	since := c.since[n.Name]
	c.after(evicted, func() {
		if !c.lost[n.Name] || c.since[n.Name] != since {
			return
		}
		for _, p := range c.podsOn(n.Name) {
			if !slices.ContainsFunc(p.Spec.Tolerations, staysForGood) {
				c.remove("node-controller", "pods", p, metav1.DeleteOptions{})
			}
		}
	})
}

// staysForGood reports whether a pod with the toleration, as those of DaemonSets, stays on a broken node.
func staysForGood(t corev1.Toleration) bool {
	return t.Key == corev1.TaintNodeUnreachable && t.Effect == corev1.TaintEffectNoExecute && t.TolerationSeconds == nil
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
