package actors

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// kwokNode is the annotation of nodes that users make, and that kwok plays on a real control plane.
const kwokNode = "kwok.x-k8s.io/node"

// noteNewNode lets the kubelet of a node that a user has made work if kwok would play it. No kubelet works on others.
func (c *Cluster) noteNewNode(e *apiserver.Event) {
	if e.Before != nil || e.Type == watch.Deleted || e.By == "kubelet" {
		return
	}
	name := e.Object.GetName()
	if e.Object.GetAnnotations()[kwokNode] == "" {
		c.lost[name] = true
		return
	}
	c.after(c.delay("join", name, 10*time.Millisecond, time.Second), func() { _ = c.works(name) })
}

// told does what the annotations of a pod that has just been started say, as kwok does, and reports whether there are any.
func (c *Cluster) told(p *corev1.Pod) bool {
	switch after, err := time.ParseDuration(p.Annotations[cluster.ReadyAfter]); {
	case p.Annotations[cluster.NeverReady] == "true":
	case p.Annotations[cluster.Fail] == "true":
		c.after(c.delay("fail", p.Name, 0, time.Second), func() { c.finish(p, corev1.PodFailed, "") })
	case err == nil:
		c.after(after, func() { c.become(p, true) })
	default:
		return false
	}
	return true
}

// scheduled reports whether the scheduler is to bind a pod.
func scheduled(p *corev1.Pod) bool {
	return p.Spec.SchedulerName == "" || p.Spec.SchedulerName == corev1.DefaultSchedulerName
}
