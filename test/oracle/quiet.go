package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"cmp"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// QuietAtRest is S14: no update leaves the resourceVersion as it was (RS-49, EP-27), unless in an outage, as it may repeat what was done
// and not answered.
// And when nobody else has done anything for Options.Quiet, and what belongs to an object is at its fixpoint (L1), the manager does not
// write it. L1 knows the fixpoints of ReplicaSets, Deployments and Endpoints; objects of other kinds must not be written when it has
// been quiet for twice as long. A time of quiet that ends without a write counts as judged, and so does each write in it.
//
// Excused are writes that something else has called for than a change that the history shows, see byTheClock; they count as changes.
// So do writes that were refused: the manager tries again. Renewals of the lease are not looked at.
func QuietAtRest() Oracle {
	return Oracle{"S14", "quiet when there is nothing to do", func(j *judge) hooks {
		q := &quietJudge{judge: j, last: epoch, minReady: map[types.UID]time.Duration{}}
		q.updates()
		return hooks{before: q.before, after: q.after, end: func() { q.rest() }}
	}}
}

// quietJudge is what the second half of S14 remembers.
type quietJudge struct {
	*judge
	last  time.Time // when something happened that a manager may have to act upon
	asked int       // how many of the requests were looked at
	// minReady is how long pods of a workload must be ready; those that exist, and for which that is not zero.
	minReady map[types.UID]time.Duration
}

// updates judges updates by whether they changed something.
func (j *judge) updates() {
	for _, q := range j.requests {
		if !q.manager || q.Resource == resources[Lease] || q.Verb != "update" && q.Verb != "patch" {
			continue
		}
		if !q.noop {
			j.judges(false)
			continue
		}
		r := j.answeredWith(q)
		by := j.o.Identity(*q.Request)
		out := j.outages.of(by, q.Resource).contain(q.Received)
		if out || r != nil && !r.manager && r.When.After(j.lagAt(q.Received, by, r.kind)) {
			j.judges(true) // it could not know that somebody else had just done the same
			continue
		}
		j.judges(false)
		if r != nil {
			j.report(r, nil, "%s of %s/%s%s by %s at %v changed nothing", q.Verb, q.Resource, q.Name, suffix(q.Subresource), q.User,
				q.Received.UTC().Format("15:04:05.000"))
		}
	}
}

// answeredWith is the revision in the answer to a request; nil if it is not recorded.
func (j *judge) answeredWith(q *request) *revision {
	i, ok := slices.BinarySearchFunc(j.revisions, q.Version, func(r *revision, v int64) int { return cmp.Compare(r.Version, v) })
	if !ok {
		return nil
	}
	return j.revisions[i]
}

// quiet reports whether nothing has happened for some time, and for as long as pods may take to become available.
func (q *quietJudge) quiet(d time.Duration) bool {
	outages := q.outages.of("")
	return q.last.After(epoch) && q.last.Before(outages.before(q.now, d)) && q.last.Before(outages.before(q.now, d+q.longestReady()))
}

// rest counts a time of quiet that is over.
func (q *quietJudge) rest() {
	if q.quiet(q.o.Quiet) {
		q.judges(false)
	}
}

func (q *quietJudge) before(r *revision) {
	for q.asked < len(q.requests) && !q.requests[q.asked].Received.After(q.now) {
		one := q.requests[q.asked]
		if q.asked++; one.manager && one.write() && !one.Succeeded() && one.Resource != resources[Lease] && one.Received.After(q.last) {
			q.last = one.Received
		}
	}
	if !r.manager || r.kind == Lease || r.Object.GetDeletionTimestamp() != nil || !q.quiet(q.o.Quiet) {
		return
	}
	if excused := adopts(r) || r.goes() && q.garbage(r.Object) || q.byTheClock(r); excused {
		q.judges(true)
		q.last = q.now
		return
	}
	q.restless(r)
}

func (q *quietJudge) after(r *revision) {
	q.noteReady(r)
	if !r.manager && r.kind != Lease && !heartbeat(r) {
		q.rest()
		q.last = q.now
	}
}

// byTheClock reports whether a write may come at any time, since the clock or something that is not in the history calls for it: what
// Jobs that have not ended, their pods and podgc do (back-offs, deadlines, schedules, times to live, graces), a pod that has ended and
// is replaced after a back-off, volumes that nodes which are not ready or are gone lose by force, the conditions of pods that were not
// evicted and the budgets that wait for that, a progress deadline (DEP-73), sizes that metrics ask for, what quotas say of kinds that
// are not recorded or of pods, whose graces end, and the ConfigMaps that are made of Secrets and files.
func (q *quietJudge) byTheClock(r *revision) bool {
	if r.by != nil && r.by.Subresource == "scale" {
		return true
	}
	switch o := r.Object.(type) {
	case *corev1.Pod:
		ref, _ := controller(o)
		return ref.Kind == Job || finished(o) || r.forced() || r.by != nil && r.by.Subresource == "status"
	case *appsv1.Deployment:
		d := q.deployments[r.uid]
		return d == nil || expires(d.Deployment, o) && q.incomplete(d) != ""
	case *policyv1.PodDisruptionBudget:
		old, ok := r.old.(*policyv1.PodDisruptionBudget)
		return ok && len(old.Status.DisruptedPods) > 0
	case *batchv1.Job: // made by a schedule, removed after its time to live, or at work
		old, ok := r.old.(*batchv1.Job)
		return !ok || r.goes() || !jobEnded(old)
	case *corev1.ResourceQuota:
		return countsUnseen(o)
	case *corev1.ConfigMap:
		return slices.Contains(publishedMaps, o.Name)
	case *storagev1.VolumeAttachment: // detached by force after a time, or attached as a node that used it without one has lost it
		n := q.nodes[o.Spec.NodeName]
		return r.goes() && (n == nil || !nodeReady(n)) || r.old == nil && q.lostInUse(o)
	case *corev1.Node: // and not listed any more
		old, ok := r.old.(*corev1.Node)
		return ok && !nodeReady(o) && len(old.Status.VolumesAttached) > len(o.Status.VolumesAttached)
	}
	return false
}

// lostInUse reports whether a node that is not ready has the volume of a VolumeAttachment in use.
func (q *quietJudge) lostInUse(a *storagev1.VolumeAttachment) bool {
	for _, n := range q.nodes {
		if !nodeReady(n) && slices.ContainsFunc(n.Status.VolumesInUse, func(v corev1.UniqueVolumeName) bool {
			return attachmentName(string(v), a.Spec.NodeName) == a.Name
		}) {
			return true
		}
	}
	return false
}

// publishedMaps are the ConfigMaps that controllers make of what no history shows.
var publishedMaps = []string{"kube-root-ca.crt", "cluster-info"}

// countsUnseen reports whether a quota limits more than numbers of objects that the history shows and that count until they are gone.
func countsUnseen(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		seen := false
		for kind, names := range countedAs {
			seen = seen || kind != Pod && slices.Contains(names, name)
		}
		if !seen {
			return true
		}
	}
	return false
}

func suffix(subresource string) string {
	if subresource == "" {
		return ""
	}
	return "/" + subresource
}

// heartbeat reports whether a revision is one that nodes make by themselves: what is asked of them, whether they are ready, and which
// volumes they use is as before.
func heartbeat(r *revision) bool {
	n, ok := r.Object.(*corev1.Node)
	old, known := r.old.(*corev1.Node)
	return ok && known && r.Type == Modified && nodeReady(n) == nodeReady(old) &&
		equality.Semantic.DeepEqual(n.Spec, old.Spec) && maps.Equal(n.Labels, old.Labels) &&
		slices.Equal(n.Status.VolumesInUse, old.Status.VolumesInUse)
}

// noteReady keeps for how long pods of a workload must be ready until they are available.
func (q *quietJudge) noteReady(r *revision) {
	seconds := int32(0)
	switch o := r.Object.(type) {
	case *appsv1.Deployment:
		seconds = o.Spec.MinReadySeconds
	case *appsv1.ReplicaSet:
		seconds = o.Spec.MinReadySeconds
	case *corev1.ReplicationController:
		seconds = o.Spec.MinReadySeconds
	case *appsv1.DaemonSet:
		seconds = o.Spec.MinReadySeconds
	case *appsv1.StatefulSet:
		seconds = o.Spec.MinReadySeconds
	default:
		return
	}
	put(q.minReady, r.uid, time.Duration(seconds)*time.Second, r.Type == Deleted || seconds == 0)
}

// longestReady is how long a pod may take until it is available though nobody does anything.
func (q *quietJudge) longestReady() (longest time.Duration) {
	for _, d := range q.minReady {
		longest = max(longest, d)
	}
	return longest
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

// restless judges a write of the manager in a time of quiet. What is not at its fixpoint excuses it.
func (q *quietJudge) restless(r *revision) {
	problem, related := "", []string(nil)
	switch o := r.Object.(type) {
	case *corev1.Pod:
		ref, _ := controller(o)
		if s := q.sets[ref.UID]; s != nil {
			problem, related = q.unquietSet(s), q.related(s)
		} else if !q.quiet(2 * q.o.Quiet) {
			return
		}
	case *appsv1.ReplicaSet:
		owner, _ := controller(o)
		if s := q.sets[r.uid]; s != nil {
			problem, related = q.unquietSet(s), q.related(s)
		} else if d := q.alive(owner.UID); d != nil { // it is created
			problem, related = q.unquiet(d), q.family(d)
		}
	case *appsv1.Deployment:
		problem, related = q.unquiet(q.deployments[r.uid]), q.family(q.deployments[r.uid])
	case *corev1.Endpoints:
		problem, related = q.unsettledService(r.key), []string{Service + "/" + r.key}
	default:
		if !q.quiet(2 * q.o.Quiet) {
			return
		}
	}
	if q.judges(problem != ""); problem == "" {
		q.report(r, related, "written though it was settled, and nobody has done anything for %v",
			q.now.Sub(q.last).Round(time.Millisecond))
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
