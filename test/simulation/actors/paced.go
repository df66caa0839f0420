package actors

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// notePaced is notePod in a cluster with a pace: pods are bound, run and end at once, as kwok lets them, but for the turn of
// their kubelet.
func (c *Cluster) notePaced(p, before *corev1.Pod) {
	switch {
	case p.DeletionTimestamp != nil && (before == nil || before.DeletionTimestamp == nil):
		if p.Spec.NodeName != "" {
			after, _ := time.ParseDuration(p.Annotations[cluster.TerminateAfter])
			c.after(after, func() { c.inTurn(p.Spec.NodeName, func() { c.end(p, true) }) })
		}
	case p.Spec.NodeName == "" && before == nil && scheduled(p):
		c.inTurn("", func() { c.bind(p) })
	case p.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == ""):
		c.inTurn(p.Spec.NodeName, func() { c.runAtOnce(p) })
	}
}

// inTurn does something when all is done that the kubelet of a node, or the scheduler, which has none, had to do before.
func (c *Cluster) inTurn(node string, do func()) {
	at := c.busy[node]
	if now := time.Now(); at.Before(now) {
		at = now
	}
	c.busy[node] = at.Add(c.Pace)
	c.after(time.Until(c.busy[node]), do)
}

// runAtOnce lets a pod run, and be ready unless its image or its annotation says that it never is.
func (c *Cluster) runAtOnce(p *corev1.Pod) {
	if c.lost[p.Spec.NodeName] {
		return
	}
	c.addresses++
	ip := fmt.Sprintf("10.1.%d.%d", c.addresses/250, 1+c.addresses%250)
	c.editPod("kubelet", p, "status", func(p *corev1.Pod) {
		if finished(p) {
			return
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		p.Status.StartTime = ptr.To(metav1.Now().Rfc3339Copy())
		setReady(p, Character(p) != Bad && p.Annotations[cluster.NeverReady] != "true")
	})
}
