package daemonset

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// placePods decides, node by node, which pods are created and deleted so that each node has the pods that it should
// have (DS-30..36).
func (w *planner) placePods() {
	w.placed, w.reasons, w.notices = map[string]bool{}, map[string]int{}, map[types.UID]plan.RecordEvent{}
	used := 0
	for _, n := range w.Nodes {
		pods := w.on[n.Name]
		if len(pods) > 0 {
			used++
		}
		w.placeOn(n, pods)
	}
	if used < len(w.on) {
		w.placeNodeless()
	}
}

// nodeCheck is when a DaemonSet is reconciled again that has a pod for a node which exists, but is not in the cache
// yet.
const nodeCheck = time.Second

// placeNodeless deletes pods that are meant for nodes that do not exist (DS-36).
func (w *planner) placeNodeless() {
	for name, pods := range w.nodeless(w.on) {
		if w.Uncached[name] {
			w.requeueAfter(nodeCheck)
			continue
		}
		for _, p := range pods {
			w.delete(name, p, "nodeless")
		}
	}
}

// nodeless returns the pods that are meant for nodes which the cache does not show, by the names of these. Those that
// were assigned are podgc's.
func (s snapshot) nodeless(on map[string][]*corev1.Pod) map[string][]*corev1.Pod {
	exists := make(map[string]bool, len(s.Nodes))
	for _, n := range s.Nodes {
		exists[n.Name] = true
	}
	all := map[string][]*corev1.Pod{}
	for name, pods := range on {
		for _, p := range pods {
			if !exists[name] && p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
				all[name] = append(all[name], p)
			}
		}
	}
	return all
}

// placeOn decides about the pods of one node: it deletes those that may not be there, creates one that is
// missing, and leaves one where there are several.
func (w *planner) placeOn(n node, pods []*corev1.Pod) {
	if n.Eligibility == excluded {
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				w.delete(n.Name, p, "misplaced")
			}
		}
		return
	}
	if len(pods) == 0 {
		if n.Eligibility == eligible {
			w.create(n.Name)
		}
		return
	}
	running, ended := w.removeEnded(n.Name, pods)
	switch {
	case w.budget.surge > 0:
		w.placeWithSurge(n, running, ended)
	case len(running) > 1:
		for _, p := range running[1:] {
			w.delete(n.Name, p, "surplus")
		}
	}
}

// removeEnded returns the pods of a node that neither have ended nor are being deleted, and how many have ended and
// are still to be deleted. It deletes those that have ended: failed ones with a delay that grows (DS-31).
func (w *planner) removeEnded(node string, pods []*corev1.Pod) (running []*corev1.Pod, ended int) {
	wait := w.Backoff[node].Sub(w.now)
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp != nil:
		case p.Status.Phase == corev1.PodFailed:
			ended++
			if wait > 0 {
				w.requeueAfter(wait)
				continue
			}
			w.notice(corev1.EventTypeWarning, "FailedDaemonPod",
				"Found failed daemon pod %s/%s on node %s, will try to kill it", p, node)
			w.delete(node, p, "failed")
		case p.Status.Phase == corev1.PodSucceeded:
			ended++
			w.notice(corev1.EventTypeNormal, "SucceededDaemonPod",
				"Found succeeded daemon pod %s/%s on node %s, will try to delete it", p, node)
			w.delete(node, p, "succeeded")
		default:
			running = append(running, p)
		}
	}
	return running, ended
}

// notice records an event about a pod on the DaemonSet (DS-81, DS-82), if this plan comes to delete the pod.
func (w *planner) notice(eventType, reason, message string, p *corev1.Pod, node string) {
	w.notices[p.UID] = plan.RecordEvent{Object: w.Set, Event: plan.Event{
		Type: eventType, Reason: reason, Message: fmt.Sprintf(message, p.Namespace, p.Name, node),
	}}
}

// placeWithSurge leaves a node at most one pod of the present template and one of another (DS-33). A node whose pod
// has failed gets no other one before that is deleted, so that pods that fail again and again do so ever more rarely.
func (w *planner) placeWithSurge(n node, running []*corev1.Pod, ended int) {
	if len(running) == 0 {
		if n.Eligibility == eligible && ended == 0 {
			w.create(n.Name)
		}
		return
	}
	if len(running) == 1 {
		return
	}
	var current, old *corev1.Pod
	for _, p := range running {
		switch new := w.present.has(p); {
		case new && current == nil:
			current = p
		case !new && old == nil:
			old = p
		default:
			w.delete(n.Name, p, "surplus")
		}
	}
	if current == nil || old == nil {
		return
	}
	if !podutil.Ready(old) || podutil.Available(current, w.Set.Spec.MinReadySeconds, w.now) {
		w.delete(n.Name, old, "outdated")
	}
}
