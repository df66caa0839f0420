package oracle

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// jobs is what has become of the pods of Jobs, by the uids of the Jobs.
type jobs map[types.UID]*jobTally

// jobTally is one Job with the uids of its pods.
type jobTally struct {
	*batchv1.Job
	ended map[types.UID]bool // have ended while they had the finalizer, and must be counted
	// had the finalizer while they were being deleted, or the Job failed, or lost it to nobody knows whom, or had ended when they were
	// taken away: may be counted
	might  map[types.UID]bool
	wishes []jobWish // oldest first
	before int       // pods that it had counted before the recording began
	given  time.Time // when the environment last changed who its pods are
}

type jobWish struct {
	parallelism int
	when        time.Time
}

func (all jobs) of(uid types.UID) *jobTally {
	if all[uid] == nil {
		all[uid] = &jobTally{ended: map[types.UID]bool{}, might: map[types.UID]bool{}}
	}
	return all[uid]
}

// note takes a revision in.
func (all jobs) note(r *revision, now time.Time) {
	switch o := r.Object.(type) {
	case *batchv1.Job:
		t := all.of(o.UID)
		t.Job = o
		if r.Type == Added && r.Injected {
			t.before = int(o.Status.Succeeded + o.Status.Failed)
		}
		n := 1
		if o.Spec.Parallelism != nil {
			n = int(*o.Spec.Parallelism)
		}
		if last := len(t.wishes) - 1; last < 0 || t.wishes[last].parallelism != n {
			t.wishes = append(t.wishes, jobWish{n, now})
		}
	case *corev1.Pod:
		all.notePod(r, o, now)
	}
}

func (all jobs) notePod(r *revision, p *corev1.Pod, now time.Time) {
	old, _ := r.old.(*corev1.Pod)
	ref, ok := controller(p)
	if old != nil {
		before, was := controller(old)
		if was && before.Kind == Job && before.UID != ref.UID && !all.of(before.UID).deleting() { // released, or taken away
			all.of(before.UID).mayHaveCounted(p.UID)
		}
	}
	if !ok || ref.Kind != Job {
		return
	}
	t := all.of(ref.UID)
	if !r.manager && (old == nil || !sameController(old, p) || !maps.Equal(old.Labels, p.Labels)) {
		t.given = now
	}
	switch {
	case !trackedPod(p):
		// somebody else has taken the finalizer, or a manager that died at this write
		if old != nil && trackedPod(old) && !r.manager && t.ended[p.UID] {
			t.mayHaveCounted(p.UID)
		}
	case !t.selects(p):
		t.mayHaveCounted(p.UID)
	case finished(p):
		t.ended[p.UID] = true
	case p.DeletionTimestamp != nil || t.Job != nil && jobHolds(t.Job, batchv1.JobFailureTarget):
		t.might[p.UID] = true
	}
}

// mayHaveCounted notes that a pod that has ended is the Job's no longer: it must not be counted, but may have been.
func (t *jobTally) mayHaveCounted(uid types.UID) {
	if t.ended[uid] {
		delete(t.ended, uid)
		t.might[uid] = true
	}
}

// deleting reports whether the Job is being deleted. Its pods may be orphaned then, between the look of the controller and the status
// by which it counts them.
func (t *jobTally) deleting() bool { return t.Job != nil && t.DeletionTimestamp != nil }

func (t *jobTally) selects(p *corev1.Pod) bool {
	if t.Job == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(t.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(p.Labels))
}

func trackedPod(p *corev1.Pod) bool {
	return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer)
}

func jobHolds(j *batchv1.Job, t batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions,
		func(c batchv1.JobCondition) bool { return c.Type == t && c.Status == corev1.ConditionTrue })
}

func jobEnded(j *batchv1.Job) bool {
	return jobHolds(j, batchv1.JobComplete) || jobHolds(j, batchv1.JobFailed)
}

func indexedJob(j *batchv1.Job) bool {
	return j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion
}

// mostListed is how many uids a status may list, so that its size has a bound.
const mostListed = 500

// JobsCountEachPodOnce is S18: the counters of a Job never fall (but for the indexes that a smaller Job no longer has), never count more
// pods than have ended or were being deleted, and when the Job is over they count each pod that has ended (JOB-40, JOB-44). A pod that has
// ended loses its finalizer only when the status lists it, or counts its index; but for pods of Jobs that are gone, over or being deleted,
// of another controller, and for those that a policy or a missing index keeps from being counted (JOB-6, JOB-18, JOB-46, JOB-70). The
// status lists 500 pods at most (JOB-42).
func JobsCountEachPodOnce() Oracle {
	return Oracle{"S18", "each pod of a Job is counted once, and keeps its finalizer until then", func(j *judge) hooks {
		all := jobs{}
		return hooks{
			before: func(r *revision) {
				if p, ok := r.Object.(*corev1.Pod); ok {
					j.freed(r, p, all)
				}
			},
			after: func(r *revision) {
				all.note(r, j.now)
				if o, ok := r.Object.(*batchv1.Job); ok && r.Type != Deleted && r.manager {
					j.counters(r, o, all.of(o.UID))
				}
			},
		}
	}}
}

// freed judges a pod that loses its finalizer.
func (j *judge) freed(r *revision, p *corev1.Pod, all jobs) {
	old, ok := r.old.(*corev1.Pod)
	if !ok || !r.manager || !trackedPod(old) || trackedPod(p) && r.Type != Deleted || !finished(old) {
		return
	}
	ref, ok := controller(old)
	if !ok || ref.Kind != Job {
		return
	}
	t := all.of(ref.UID)
	excused := !t.ended[p.UID] || t.Job == nil || j.owners[identity{Job, ref.UID}].gone != nil || t.DeletionTimestamp != nil ||
		jobEnded(t.Job) || t.ignores(old)
	if j.judges(excused); excused || t.counts(old) {
		return
	}
	j.report(r, []string{Job + "/" + t.Namespace + "/" + t.Name}, "%s loses its finalizer before it is counted", p.UID)
}

// ignores reports whether the pod need not be counted: a rule of a policy may say so, and there may be no such index.
func (t *jobTally) ignores(p *corev1.Pod) bool {
	if t.Spec.PodFailurePolicy != nil && p.Status.Phase == corev1.PodFailed {
		return true
	}
	index, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	return indexedJob(t.Job) && (err != nil || t.Spec.Completions != nil && index >= int(*t.Spec.Completions))
}

// counts reports whether the status counts the pod.
func (t *jobTally) counts(p *corev1.Pod) bool {
	if lists := t.Status.UncountedTerminatedPods; lists != nil &&
		(slices.Contains(lists.Succeeded, p.UID) || slices.Contains(lists.Failed, p.UID)) {
		return true
	}
	index, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	return indexedJob(t.Job) && err == nil && p.Status.Phase == corev1.PodSucceeded &&
		slices.Contains(expandIndexes(t.Status.CompletedIndexes), index)
}

// expandIndexes lists the numbers of a text such as "1,3-5".
func expandIndexes(text string) (all []int) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, found := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if found {
			last, _ = strconv.Atoi(to)
		}
		for i := first; err == nil && i <= last; i++ {
			all = append(all, i)
		}
	}
	return all
}

// counters judges the status of a Job.
func (j *judge) counters(r *revision, o *batchv1.Job, t *jobTally) {
	old, ok := r.old.(*batchv1.Job)
	if !ok {
		return
	}
	j.judges(false)
	before, after := old.Status, o.Status
	if after.Failed < before.Failed || after.Succeeded < before.Succeeded && !indexedJob(o) {
		j.report(r, nil, "the counters fall from %d and %d to %d and %d", before.Succeeded, before.Failed, after.Succeeded, after.Failed)
	}
	listed := 0
	if u := after.UncountedTerminatedPods; u != nil {
		listed = len(u.Succeeded) + len(u.Failed)
	}
	most := t.before + len(t.ended)
	for uid := range t.might {
		if !t.ended[uid] {
			most++
		}
	}
	if listed > mostListed {
		j.report(r, nil, "the status lists %d pods, %d is the most", listed, mostListed)
	}
	total := int(after.Succeeded+after.Failed) + listed
	if total > most {
		j.report(r, nil, "%d pods are counted, but only %d have ended", total, most)
	}
	if jobEnded(o) && !jobEnded(old) && !indexedJob(o) && o.Spec.PodFailurePolicy == nil && o.DeletionTimestamp == nil &&
		total < t.before+len(t.ended) {
		j.report(r, nil, "%d pods are counted, but %d have ended", total, t.before+len(t.ended))
	}
}

// NoPodBeyondParallelism is S19: a manager creates no pod for a Job that has as many active pods as its parallelism already, nor for an
// index that has an active pod, or is completed (JOB-20, JOB-66). A smaller parallelism that is new, and pods that somebody has just given
// to the Job, excuse it.
func NoPodBeyondParallelism() Oracle {
	return Oracle{"S19", "a Job has no more active pods than its parallelism, and no index twice", func(j *judge) hooks {
		all := jobs{}
		return hooks{
			before: func(r *revision) {
				p, ok := r.Object.(*corev1.Pod)
				ref, controlled := controller(r.Object)
				if ok && controlled && ref.Kind == Job && r.manager && r.old == nil && r.Type == Added {
					j.started(r, p, all.of(ref.UID))
				}
			},
			after: func(r *revision) { all.note(r, j.now) },
		}
	}}
}

// started judges the creation of a pod.
func (j *judge) started(r *revision, p *corev1.Pod, t *jobTally) {
	excused := t.Job == nil || j.recent(r, t.given, Pod)
	if j.judges(excused); excused {
		return
	}
	job := []string{Job + "/" + t.Namespace + "/" + t.Name}
	most, since := 0, j.lag(r, Job)
	for i, w := range t.wishes {
		if i+1 == len(t.wishes) || !t.wishes[i+1].when.Before(since) {
			most = max(most, w.parallelism)
		}
	}
	active, index := 0, p.Annotations[batchv1.JobCompletionIndexAnnotation]
	for _, other := range j.podsOf[t.UID] {
		if finished(other.Pod) || other.DeletionTimestamp != nil || !t.selects(other.Pod) {
			continue
		}
		active++
		if indexedJob(t.Job) && other.Annotations[batchv1.JobCompletionIndexAnnotation] == index {
			j.report(r, job, "created for index %s, which has the active pod %s", index, other.Name)
		}
	}
	if active >= most {
		j.report(r, job, "created while %d pods are active, with parallelism %d", active, most)
	}
	if i, err := strconv.Atoi(index); err == nil && indexedJob(t.Job) && slices.Contains(expandIndexes(t.Status.CompletedIndexes), i) {
		j.report(r, job, "created for index %s, which is completed", index)
	}
}
