package oracle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// evictionAccount is the service account of taint eviction, and the end of its user agent (TE-1). No other controller that has it
// deletes pods.
const evictionAccount = "node-controller"

// NoEvictionBeforeItsTime is S27: taint eviction marks a pod, deletes it, or has it evicted, only when it is due by the taints that its
// node has, or had within the lag of a manager (TE-11 to TE-16, TE-61): there is one that no toleration of the pod matches, or the first
// that does was for a time that is over since the taint was added, or first seen; but no time begins before the pod is on the node. A
// tolerance of a second is for times that have no fractions. A pod that it deletes has been marked (TE-21); of one that it has evicted the
// API server says so.
func NoEvictionBeforeItsTime() Oracle {
	return Oracle{"S27", "no pod is evicted before its time", func(j *judge) hooks {
		t := &taintTimes{nodes: map[string][]taintsAt{}, bound: map[string]time.Time{}, marked: map[string]bool{}}
		return hooks{before: func(r *revision) {
			p, ok := r.Object.(*corev1.Pod)
			if !ok || r.old == nil {
				return
			}
			deletes := r.manager && r.deletes() && r.by != nil && isOf(r.by.Request, evictionAccount)
			switch {
			case r.manager && r.Type == Modified && marked(r.Object) && !marked(r.old):
				j.evicts(r, p, t, "marked")
			case deletes && r.by.Subresource == "" && !t.marked[string(r.uid)]:
				j.judges(false)
				j.report(r, nil, "the pod is deleted for the taints of its node, and was not marked before")
			case deletes, r.goes() && r.old.GetDeletionTimestamp() == nil && j.askedToEvict(r):
				j.evicts(r, r.old.(*corev1.Pod), t, "evicted")
			}
		}, after: func(r *revision) {
			switch o := r.Object.(type) {
			case *corev1.Node:
				t.apply(r, o, j.now)
			case *corev1.Pod:
				t.applyPod(r, o, j.now)
			}
		}}
	}}
}

// askedToEvict reports whether taint eviction has asked the API server for the eviction that ends a pod: the answer names no version.
func (j *judge) askedToEvict(r *revision) bool {
	if r.by != nil && r.by.Subresource != "eviction" {
		return false
	}
	return slices.ContainsFunc(j.requests, func(q *request) bool {
		return q.manager && q.Verb == "create" && q.Subresource == "eviction" && q.Succeeded() && q.Namespace+"/"+q.Name == r.key &&
			isOf(q.Request, evictionAccount) &&
			!r.When.Before(q.Received.Add(-j.o.Slack)) && !r.When.After(q.Done.Add(j.o.Slack))
	})
}

// marked reports whether a pod has the condition by which the controller says that it evicts it.
func marked(o Object) bool {
	p, ok := o.(*corev1.Pod)
	return ok && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByTaintManager"
	})
}

// taintsAt are the taints that a node has from a time on.
type taintsAt struct {
	from   time.Time
	taints map[corev1.Taint]time.Time // without when they were added: since when
}

type taintTimes struct {
	nodes  map[string][]taintsAt // by name, all that each has had
	bound  map[string]time.Time  // when a pod came to its node, by its uid
	marked map[string]bool       // pods by their uids
}

func (t *taintTimes) apply(r *revision, n *corev1.Node, now time.Time) {
	before := t.nodes[n.Name]
	if old, ok := r.old.(*corev1.Node); ok && r.Type != Deleted && equality.Semantic.DeepEqual(old.Spec.Taints, n.Spec.Taints) {
		return
	}
	next := taintsAt{from: now, taints: map[corev1.Taint]time.Time{}}
	for _, taint := range n.Spec.Taints {
		if r.Type == Deleted || taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		since, key := now, taint
		key.TimeAdded = nil
		if len(before) > 0 {
			if known, ok := before[len(before)-1].taints[key]; ok {
				since = known
			}
		}
		if taint.TimeAdded != nil && taint.TimeAdded.Time.Before(since) {
			since = taint.TimeAdded.Time
		}
		next.taints[key] = since
	}
	t.nodes[n.Name] = append(before, next)
}

func (t *taintTimes) applyPod(r *revision, p *corev1.Pod, now time.Time) {
	uid := string(p.UID)
	t.marked[uid] = t.marked[uid] || marked(p)
	switch {
	case r.Type == Deleted:
		delete(t.bound, uid)
		delete(t.marked, uid)
	case p.Spec.NodeName != "" && t.bound[uid].IsZero():
		t.bound[uid] = now
	}
}

// evicts judges one of the steps by which a pod is evicted.
func (j *judge) evicts(r *revision, p *corev1.Pod, t *taintTimes, step string) {
	since := j.outages.of(r.author, "none").before(j.now, j.o.Lag) // a watch that is late excuses nothing: the node is read live
	states := t.nodes[p.Spec.NodeName]
	for i := len(states) - 1; i >= 0; i-- {
		now := i == len(states)-1
		if !now && states[i+1].from.Before(since) {
			break
		}
		if j.due(p, states[i], t.bound[string(p.UID)]) {
			j.judges(!now)
			return
		}
	}
	taints := map[corev1.Taint]time.Time{}
	if len(states) > 0 {
		taints = states[len(states)-1].taints
	}
	j.judges(false)
	j.report(r, []string{Node + "/" + p.Spec.NodeName}, "the pod is %s, with the tolerations %v, although its node has the taints %v", step,
		p.Spec.Tolerations, taints)
}

// due reports whether a pod is due by the taints of a node.
func (j *judge) due(p *corev1.Pod, n taintsAt, bound time.Time) bool {
	for taint, since := range n.taints {
		if since.Before(bound) {
			since = bound
		}
		if seconds := tolerated(p, taint); seconds >= 0 && !since.Add(time.Duration(seconds)*time.Second).After(j.now.Add(time.Second)) {
			return true
		}
	}
	return false
}

// tolerated returns for how many seconds a pod tolerates a taint: 0 if it does not, negative: for ever.
func tolerated(p *corev1.Pod, t corev1.Taint) int64 {
	for _, o := range p.Spec.Tolerations {
		matches := (o.Effect == "" || o.Effect == t.Effect) && (o.Key == "" || o.Key == t.Key) &&
			(o.Operator == corev1.TolerationOpExists || o.Value == t.Value)
		if !matches {
			continue
		}
		if o.TolerationSeconds == nil {
			return -1
		}
		return max(0, *o.TolerationSeconds)
	}
	return 0
}
