package oracle

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Annotations by which a Job takes its PodGroup from a Workload of somebody else.
const (
	workloadNameAnnotation  = "scheduling.k8s.io/workload-name"
	groupTemplateAnnotation = "scheduling.k8s.io/group-template-name"
)

// JobsGroupTheirPods is S43: a pod that a manager creates for a Job that has a PodGroup, or asks for one, is in it (JOB-130), unless a pod
// of the Job was active within the lag that is in none. The PodGroup is the Job's, exists, and a gang is as large as the Job says, each but
// for the lag (JOB-132). A Job has one PodGroup, and its Workload exists before it, and is the one that the Job names (JOB-133, JOB-134).
func JobsGroupTheirPods() Oracle {
	return Oracle{"S43", "pods of a Job with a PodGroup are in it, and a gang is as large as the Job says", func(j *judge) hooks {
		g := &jobGroupJudge{judge: j, groups: map[string]*jobGroup{}, workloads: map[string]time.Time{}, jobs: map[types.UID]*groupedJob{}}
		return hooks{before: g.before, after: g.after}
	}}
}

// jobGroupJudge is what S43 remembers.
type jobGroupJudge struct {
	*judge
	groups    map[string]*jobGroup // by key, also those that are gone
	workloads map[string]time.Time // when they went, by key; zero if they exist
	jobs      map[types.UID]*groupedJob
}

// jobGroup is a PodGroup.
type jobGroup struct {
	*schedulingv1beta1.PodGroup
	since, gone time.Time // gone is zero if it exists
}

// groupedJob is a Job, as it is and as it was.
type groupedJob struct {
	*batchv1.Job
	wishes    []groupWish // the last is the present one
	ungrouped time.Time   // when an active pod that is in no PodGroup has last changed
	groups    map[string]bool
}

// groupWish is how large a gang may be by a version of a Job.
type groupWish struct {
	sizes []int32
	since time.Time
}

func (g *jobGroupJudge) of(uid types.UID) *groupedJob {
	if g.jobs[uid] == nil {
		g.jobs[uid] = &groupedJob{groups: map[string]bool{}}
	}
	return g.jobs[uid]
}

func (g *jobGroupJudge) before(r *revision) {
	ref, ok := controller(r.Object)
	if !r.manager || r.Type != Added || !ok || ref.Kind != Job || g.of(ref.UID).Job == nil {
		return
	}
	job := g.of(ref.UID)
	switch o := r.Object.(type) {
	case *corev1.Pod:
		if job.Spec.Template.Spec.SchedulingGroup == nil {
			g.pod(r, o, job)
		}
	case *schedulingv1beta1.PodGroup:
		g.group(r, o, job)
	}
}

// pod judges the creation of a pod.
func (g *jobGroupJudge) pod(r *revision, p *corev1.Pod, job *groupedJob) {
	if p.Spec.SchedulingGroup == nil {
		g.ungrouped(r, job)
		return
	}
	name := ptr.Deref(p.Spec.SchedulingGroup.PodGroupName, "")
	group := g.groups[p.Namespace+"/"+name]
	related := []string{Job + "/" + keyOf(job.Job), PodGroup + "/" + p.Namespace + "/" + name}
	switch {
	case group == nil || !group.gone.IsZero() && !g.recent(r, group.gone, PodGroup):
		g.judges(false)
		g.report(r, related, "created in the PodGroup %q, which does not exist", name)
	case !owns(job, group):
		g.judges(false)
		g.report(r, related, "created in the PodGroup %q, which is not the Job's", name)
	default:
		excused := !group.gone.IsZero() || group.DeletionTimestamp != nil || job.delegated()
		if g.judges(excused); !excused {
			g.size(r, group, job, related)
		}
	}
}

// ungrouped judges the creation of a pod that is in no PodGroup.
func (g *jobGroupJudge) ungrouped(r *revision, job *groupedJob) {
	asks, excused := job.Spec.Scheduling != nil || job.delegated(), g.recent(r, job.ungrouped, Pod)
	for _, p := range g.podsOf[job.UID] {
		excused = excused || active(p.Pod) && p.Spec.SchedulingGroup == nil
	}
	for key := range job.groups {
		if group := g.groups[key]; group.gone.IsZero() && !g.recent(r, group.since, PodGroup) {
			asks = true
		}
	}
	if !asks {
		return
	}
	if g.judges(excused); !excused {
		g.report(r, []string{Job + "/" + keyOf(job.Job)}, "created in no PodGroup")
	}
}

// size judges how large the gang is that a pod is created for.
func (g *jobGroupJudge) size(r *revision, group *jobGroup, job *groupedJob, related []string) {
	gang := group.Spec.SchedulingPolicy.Gang
	if gang == nil {
		return
	}
	since := g.lag(r, Job)
	for i, w := range job.wishes {
		if (i+1 == len(job.wishes) || !job.wishes[i+1].since.Before(since)) && slices.Contains(w.sizes, gang.MinCount) {
			return
		}
	}
	g.report(r, related, "created in a gang of %d", gang.MinCount)
}

// group judges the creation of a PodGroup.
func (g *jobGroupJudge) group(r *revision, group *schedulingv1beta1.PodGroup, job *groupedJob) {
	g.judges(false)
	for key := range job.groups {
		if other := g.groups[key]; other.gone.IsZero() && other.DeletionTimestamp == nil && !g.recent(r, other.since, PodGroup) {
			g.report(r, []string{PodGroup + "/" + key}, "the Job has the PodGroup %s", other.Name)
		}
	}
	if ref := group.Spec.WorkloadRef; ref != nil {
		if named := job.Annotations[workloadNameAnnotation]; job.delegated() && ref.WorkloadName != named {
			g.report(r, nil, "made from the Workload %s, and the Job names %s", ref.WorkloadName, named)
		}
		gone, known := g.workloads[group.Namespace+"/"+ref.WorkloadName]
		if !known || !gone.IsZero() && !g.recent(r, gone, Workload) {
			g.report(r, nil, "the Workload %s does not exist", ref.WorkloadName)
		}
	}
}

// after notes what there is.
func (g *jobGroupJudge) after(r *revision) {
	switch o := r.Object.(type) {
	case *batchv1.Job:
		job := g.of(o.UID)
		job.Job = o
		if sizes := gangSizes(o); len(job.wishes) == 0 || !slices.Equal(job.wishes[len(job.wishes)-1].sizes, sizes) {
			job.wishes = append(job.wishes, groupWish{sizes, g.now})
		}
	case *corev1.Pod:
		g.notePod(o)
		if old, ok := r.old.(*corev1.Pod); ok {
			g.notePod(old)
		}
	case *schedulingv1beta1.Workload:
		g.workloads[r.key] = time.Time{}
		if r.Type == Deleted {
			g.workloads[r.key] = g.now
		}
	case *schedulingv1beta1.PodGroup:
		g.noteGroup(r, o)
	}
}

func (g *jobGroupJudge) noteGroup(r *revision, o *schedulingv1beta1.PodGroup) {
	group := &jobGroup{PodGroup: o, since: g.now}
	if before := g.groups[r.key]; before != nil && before.UID == o.UID {
		group.since = before.since
	}
	if r.Type == Deleted {
		group.gone = g.now
	}
	g.groups[r.key] = group
	if ref, ok := controller(o); ok && ref.Kind == Job {
		g.of(ref.UID).groups[r.key] = true
	}
}

// notePod notes an active pod, as it is or was, that is in no PodGroup.
func (g *jobGroupJudge) notePod(p *corev1.Pod) {
	if ref, ok := controller(p); ok && ref.Kind == Job && active(p) && p.Spec.SchedulingGroup == nil {
		g.of(ref.UID).ungrouped = g.now
	}
}

// owns reports whether the Job controls the PodGroup.
func owns(job *groupedJob, group *jobGroup) bool {
	ref, ok := controller(group)
	return ok && ref.UID == job.UID
}

// delegated reports whether the Job takes its PodGroup from somebody else's Workload.
func (job *groupedJob) delegated() bool {
	return job.Annotations[groupTemplateAnnotation] != "" && job.Annotations[workloadNameAnnotation] != ""
}

// gangSizes are how large a gang of the Job may be: as it says, or else as many pods as may run at a time. That more than it will ever run
// do not fit, is left to the manager.
func gangSizes(j *batchv1.Job) []int32 {
	if s := j.Spec.Scheduling; s != nil && s.SchedulingPolicy != nil && s.SchedulingPolicy.Gang != nil &&
		s.SchedulingPolicy.Gang.MinCount != nil {
		return []int32{*s.SchedulingPolicy.Gang.MinCount}
	}
	n := ptr.Deref(j.Spec.Parallelism, 1)
	return []int32{max(1, n), max(1, min(n, ptr.Deref(j.Spec.Completions, n)))}
}
