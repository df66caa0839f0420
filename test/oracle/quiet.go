package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// S14: when nobody else has done anything for Options.Quiet and what belongs to an object is at its fixpoint (L1), the
// manager does not write it, nor does it ever send an update that leaves the resourceVersion as it was (RS-49, EP-27), unless
// in an outage, as it may repeat what was done and not answered.
// Writes of podgc are S12's business, and a progress deadline may pass at any time (DEP-73). Renewals of the lease are not
// looked at.
func S14() Oracle {
	return Oracle{"S14", "quiet when there is nothing to do", func(j *judge) hooks {
		last := epoch
		for _, q := range j.requests {
			if !q.manager || q.Resource == resources[Lease] || q.Verb != "update" && q.Verb != "patch" {
				continue
			}
			if out := j.outages.of(j.o.Identity(*q.Request), q.Resource).contain(q.Received); out || !q.noop {
				j.judges(out)
				continue
			}
			j.judges(false)
			j.noop(q)
		}
		return hooks{
			before: func(r *revision) {
				if !r.manager || !last.After(epoch) || r.Object.GetDeletionTimestamp() != nil || !last.Before(j.outages.of("").before(j.now, j.o.Quiet)) {
					return
				}
				if last.Before(j.outages.of("").before(j.now, j.o.Quiet+j.longestReady())) {
					j.restless(r, last)
				}
			},
			after: func(r *revision) {
				if !r.manager && r.kind != Lease && !heartbeat(r) {
					last = j.now
				}
			},
		}
	}}
}

func (j *judge) noop(q *request) {
	i, ok := slices.BinarySearchFunc(j.revisions, q.Version, func(r *revision, v int64) int { return cmp.Compare(r.Version, v) })
	if ok {
		j.report(j.revisions[i], nil, "%s of %s/%s%s by %s at %v changed nothing", q.Verb, q.Resource, q.Name, suffix(q.Subresource), q.User,
			q.Received.UTC().Format("15:04:05.000"))
	}
}

func suffix(subresource string) string {
	if subresource == "" {
		return ""
	}
	return "/" + subresource
}

// heartbeat reports whether a revision is one that nodes make by themselves.
func heartbeat(r *revision) bool {
	n, ok := r.Object.(*corev1.Node)
	old, known := r.old.(*corev1.Node)
	return ok && known && r.Type == Modified && nodeReady(n) == nodeReady(old) && outOfService(n) == outOfService(old)
}

// longestReady is how long a pod may take until it is available though nobody does anything.
func (w *world) longestReady() time.Duration {
	longest := int32(0)
	for _, d := range w.deployments {
		if d.gone == nil {
			longest = max(longest, d.Spec.MinReadySeconds)
		}
	}
	for _, s := range w.sets {
		if s.gone == nil {
			longest = max(longest, s.Spec.MinReadySeconds)
		}
	}
	return time.Duration(longest) * time.Second
}

// adopts reports whether an object gets a controller that had none: it was not settled, whatever that controller was. What
// must be adopted, L1 says.
func adopts(r *revision) bool {
	if r.old == nil {
		return false
	}
	_, had := controller(r.old)
	_, has := controller(r.Object)
	return has && !had
}

// restless judges a write of the manager after a time of quiet.
func (j *judge) restless(r *revision, last time.Time) {
	if adopts(r) || r.goes() && j.garbage(r.Object) {
		return
	}
	problem := ""
	var related []string
	switch o := r.Object.(type) {
	case *corev1.Pod:
		if r.by != nil && (ptr.Deref(r.by.Grace, 1) == 0 || r.by.Subresource == "status") {
			return
		}
		ref, _ := controller(o)
		s := j.sets[ref.UID]
		if s == nil {
			return
		}
		problem, related = j.unquietSet(s), j.related(s)
	case *appsv1.ReplicaSet:
		owner, _ := controller(o)
		if s := j.sets[r.uid]; s != nil {
			problem, related = j.unquietSet(s), j.related(s)
		} else if d := j.alive(owner.UID); d != nil { // it is created
			problem, related = j.unquiet(d), j.family(d)
		}
	case *appsv1.Deployment:
		if d := j.deployments[r.uid]; d != nil && (!expires(d.Deployment, o) || j.incomplete(d) == "") {
			problem, related = j.unquiet(d), j.family(d)
		} else {
			return
		}
	case *corev1.Endpoints:
		problem, related = j.unsettledService(r.key), []string{Service + "/" + r.key}
	default:
		return
	}
	if problem == "" {
		j.report(r, related, "written though it was settled, and nobody has done anything for %v", j.now.Sub(last).Round(time.Millisecond))
	}
}

// expires reports whether a Deployment's progress is told differently now.
func expires(old, now *appsv1.Deployment) bool {
	a, b := condition(old, appsv1.DeploymentProgressing), condition(now, appsv1.DeploymentProgressing)
	return b != nil && (a == nil || a.Status != b.Status || a.Reason != b.Reason)
}

// unquiet says what is not at its fixpoint about a Deployment, or is tried again and again.
func (w *world) unquiet(d *deployment) string {
	for _, s := range w.setsOf[d.UID] {
		if failing(s.ReplicaSet) {
			return refused
		}
	}
	return w.unsettled(d)
}

// unquietSet is the same of a ReplicaSet and its Deployment.
func (w *world) unquietSet(s *set) string {
	if d := w.alive(s.controller); d != nil {
		return w.unquiet(d)
	}
	if failing(s.ReplicaSet) {
		return refused
	}
	return w.unsettledPods(s)
}

// refused is at rest by the rules of L1, and yet may get its pods at any time: what refuses them is not in the history.
const refused = "says ReplicaFailure, and tries again"
