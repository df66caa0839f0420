package oracle

import (
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// PodGCFollowsItsRules is S12: each pod that the manager deletes by force, without grace, is named by a rule of podgc: terminated while
// there are more than the threshold (PGC-4), being deleted on an out-of-service node (PGC-7) or without a node (PGC-12), or an orphan,
// whose node is absent for the grace period and was then found missing by a live read (PGC-8..10, PGC-28). It has finished before it is
// deleted, and an orphan that the manager made so has the condition DisruptionTarget (PGC-13, PGC-15). A node that came back, or into
// service, a moment ago does not count as such yet. Other deletions belong to other controllers, whatever owns the pod. It needs requests;
// without any it is silent.
func PodGCFollowsItsRules() Oracle {
	return Oracle{"S12", "podgc removes only what its rules name", func(j *judge) hooks {
		failed := map[string]bool{} // the pods, by uid, that the manager has made finished
		nodes := nodeTimes{absent: map[string]time.Time{}, back: map[string]absence{}, repaired: map[string]time.Time{}}
		return hooks{
			before: func(r *revision) {
				p := j.pods[r.key]
				if r.kind == Pod && r.goes() && r.forced() && p != nil && p.UID == r.uid {
					j.collected(r, p, failed[string(r.uid)], nodes)
				}
			},
			after: func(r *revision) {
				switch o := r.Object.(type) {
				case *corev1.Pod:
					old, ok := r.old.(*corev1.Pod)
					if r.manager && ok && !finished(old) && finished(o) {
						failed[string(r.uid)] = true
					}
					if node := o.Spec.NodeName; node != "" && j.nodes[node] == nil && nodes.absent[node].IsZero() {
						nodes.absent[node] = j.now // a pod of a node that never was
					}
					if r.Type == Deleted {
						delete(failed, string(r.uid))
					}
				case *corev1.Node:
					nodes.note(j.now, r, o)
				}
			},
		}
	}}
}

// nodeTimes is since when nodes are what podgc takes them for, or until when they were.
type nodeTimes struct {
	absent   map[string]time.Time // since when nodes are not there
	back     map[string]absence   // the last time that nodes were not there which are
	repaired map[string]time.Time // when nodes were last out of service
}

type absence struct{ from, to time.Time }

func (t nodeTimes) note(now time.Time, r *revision, n *corev1.Node) {
	if old, ok := r.old.(*corev1.Node); ok && outOfService(old) && !outOfService(n) {
		t.repaired[n.Name] = now
	}
	if r.Type == Deleted {
		t.absent[n.Name] = now
		return
	}
	if since, ok := t.absent[n.Name]; ok {
		t.back[n.Name] = absence{since, now}
		delete(t.absent, n.Name)
	}
}

// collected judges a forced deletion of a pod.
func (j *judge) collected(r *revision, p *pod, failedByManager bool, nodes nodeTimes) {
	node := j.nodes[p.Spec.NodeName]
	related := []string{Node + "//" + p.Spec.NodeName}
	terminated, unscheduled, outOf, orphan := j.tooMany(p, 0), p.DeletionTimestamp != nil && p.Spec.NodeName == "",
		p.DeletionTimestamp != nil && node != nil && outOfService(node), p.Spec.NodeName != "" && node == nil
	named := terminated || unscheduled || outOf || orphan
	terminated = terminated || j.tooMany(p, len(j.endedLost.since(j.lag(r, Pod))))
	outOf = outOf || p.DeletionTimestamp != nil && node != nil && j.recent(r, nodes.repaired[node.Name], Node)
	problem, since := "", nodes.absent[p.Spec.NodeName]
	if last := nodes.back[p.Spec.NodeName]; node != nil && j.recent(r, last.to, Node) {
		orphan, since = true, last.from
	}
	if orphan {
		problem = j.orphaned(p, since, r)
	}
	j.judges(!named && finished(p.Pod) && (terminated || outOf || orphan && problem == "")) // the world was so a moment ago
	switch {
	case !terminated && !unscheduled && !outOf && !orphan:
		j.report(r, related, "deleted by force, and no rule of podgc names it: phase %q, deleting %v, node %q, %d terminated pods",
			p.Status.Phase, p.DeletionTimestamp != nil, p.Spec.NodeName, j.ended)
	case problem != "" && !terminated && !outOf && !unscheduled:
		j.report(r, related, "deleted as an orphan, %s", problem)
	case !finished(p.Pod):
		j.report(r, related, "deleted by force in phase %q", p.Status.Phase)
	case orphan && failedByManager && !terminated && !disrupted(p.Pod):
		j.report(r, related, "an orphan that was made Failed has no condition %s", corev1.DisruptionTarget)
	}
	if r.Type == Deleted && finished(p.Pod) && (unscheduled || outOf || orphan) {
		j.endedLost = append(j.endedLost, loss{when: j.now, uid: p.UID}) // the rules look at the same moment (PGC-2)
	}
}

// tooMany reports whether a pod is terminated and there are more of them than the threshold, with those that others, or another rule,
// removed a moment ago.
func (j *judge) tooMany(p *pod, removed int) bool {
	if !finished(p.Pod) {
		return false
	}
	if j.o.CollectsMore != nil && j.o.CollectsMore(p.Pod, j.now) {
		return true
	}
	return j.o.TerminatedPodThreshold > 0 && j.ended+removed > j.o.TerminatedPodThreshold
}

// orphaned says why a pod without a node is not yet due.
func (j *judge) orphaned(p *pod, since time.Time, r *revision) string {
	due := since.Add(j.o.OrphanQuarantine)
	if !since.IsZero() && j.now.Before(due.Add(-j.o.Slack)) && !j.now.Equal(epoch) {
		return fmt.Sprintf("%v after its node was gone", j.now.Sub(since))
	}
	for _, look := range j.lookups[lookup{resource: resources[Node], name: p.Spec.NodeName}] {
		if look.Code == http.StatusNotFound && !look.Received.Before(due.Add(-j.o.Slack)) && !look.Received.After(r.by.Received) {
			return ""
		}
	}
	return "without a live read of its node after the grace period that found none"
}

// disrupted reports whether a pod has the condition that podgc gives to orphans (PGC-15).
func disrupted(p *corev1.Pod) bool {
	c := podCondition(p, corev1.DisruptionTarget)
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByPodGC"
}
