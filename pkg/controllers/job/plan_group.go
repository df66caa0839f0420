package job

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Annotations by which a Job takes its pods' PodGroup from a Workload that somebody else has made (JOB-133).
const (
	workloadNameAnnotation  = "scheduling.k8s.io/workload-name"
	groupTemplateAnnotation = "scheduling.k8s.io/group-template-name"
	parentGroupAnnotation   = "scheduling.k8s.io/parent-compositepodgroup"
)

// scheduling is what the caches have of the objects by which the pods of a Job are scheduled as a group.
type scheduling struct {
	Workload *schedulingv1beta1.Workload // the Job's own, or the one that it names; nil if there is none
	PodGroup *schedulingv1beta1.PodGroup // the Job's own; nil if there is none
	// Somebody else's object has the name that the Job's own would have.
	WorkloadTaken, PodGroupTaken bool
	// The API server does not serve such objects, perhaps for a moment: one of several may be older.
	Unserved bool
}

// servedAgain is when a Job looks again that needs a PodGroup, while the API server serves none.
const servedAgain = time.Minute

// grouping is what a Job has to do so that its pods are scheduled as a group.
type grouping struct {
	name    string      // of the PodGroup that new pods belong to; empty for none
	steps   []plan.Step // that make the Workload and the PodGroup, or change their size
	lacking string      // why there can be no pods yet; empty if there can
	// unserved: it is because the API server does not serve such objects. A Job that lacks no pod does not mind.
	unserved bool
}

// planGroup decides what becomes of the Workload and the PodGroup of a Job. Both are made before the first pod, so
// that whatever a pod names exists.
func planGroup(s view) (g grouping) {
	switch {
	case s.Scheduling != nil && s.Scheduling.Unserved:
		if needsGroup(s) {
			g.lacking, g.unserved = "the API server does not serve Workloads and PodGroups", true
		}
		return g
	case !joinsGroup(s):
		return g
	}
	workload, have := g.findWorkload(s), s.Scheduling.PodGroup
	switch {
	case workload != nil:
		g.findPodGroup(s, workload)
	case have != nil: // it does without
		return grouping{name: have.Name}
	}
	return g
}

// joinsGroup reports whether new pods of the Job belong to a PodGroup. A Job that does not ask for it does so only
// from its first pod on, and none mixes pods with a PodGroup and pods without.
func joinsGroup(s view) bool {
	if s.Scheduling == nil || !mayGroup(s.Job) {
		return false
	}
	ungrouped := func(p *corev1.Pod) bool { return !inPodGroup(p) }
	have := s.Scheduling.PodGroup != nil
	switch {
	case len(s.active) > 0 && have: // a PodGroup is of no use to pods that run without it
		return slices.ContainsFunc(s.active, inPodGroup)
	case len(s.active) > 0:
		return !slices.ContainsFunc(s.active, ungrouped)
	case have:
		return true
	}
	return asksForGroup(s.Job) || len(s.mine) == 0 && s.totalSucceeded(s.Job) == 0 && s.totalFailed() == 0
}

// needsGroup reports whether the Job can have no pods without a PodGroup. None has pods of both kinds.
func needsGroup(s view) bool {
	if len(s.active) > 0 {
		return slices.ContainsFunc(s.active, inPodGroup)
	}
	return asksForGroup(s.Job) || slices.ContainsFunc(s.mine, inPodGroup)
}

// inPodGroup reports whether a pod belongs to a PodGroup.
func inPodGroup(p *corev1.Pod) bool { return p.Spec.SchedulingGroup != nil }

// asksForGroup reports whether the Job says that its pods are scheduled as a group.
func asksForGroup(j *batchv1.Job) bool { return j.Spec.Scheduling != nil || delegated(j) }

// mayGroup reports whether the Job is one for whose pods this controller makes a PodGroup. One that somebody else
// controls must ask for it.
func mayGroup(j *batchv1.Job) bool {
	return j.Spec.Template.Spec.SchedulingGroup == nil &&
		(asksForGroup(j) || metav1.GetControllerOfNoCopy(j) == nil)
}

// delegated reports whether the Job makes a PodGroup from somebody else's Workload.
func delegated(j *batchv1.Job) bool {
	return j.Annotations[groupTemplateAnnotation] != "" &&
		(j.Annotations[workloadNameAnnotation] != "" || metav1.GetControllerOfNoCopy(j) != nil)
}

// findWorkload returns the Workload, as it is or as it will be; nil if there can be none.
func (g *grouping) findWorkload(s view) *schedulingv1beta1.Workload {
	have := s.Scheduling.Workload
	if delegated(s.Job) {
		if have == nil {
			g.lacks(s.Job, failedPodGroup, "the Workload that the Job names does not exist")
		}
		return have
	}
	wanted, err := newWorkload(s.Job)
	switch {
	case err != nil:
		g.lacks(s.Job, "FailedWorkloadCompilation", err.Error())
		return nil
	case have == nil && s.Scheduling.WorkloadTaken:
		g.lacks(s.Job, failedWorkload, "the Job does not control the Workload "+wanted.Name)
		return nil
	case have == nil:
		g.steps = append(g.steps, plan.Create{Object: wanted, Why: "the Job has no Workload",
			Events: groupEvents(s.Job, "Workload", failedWorkload)})
		return wanted
	case len(have.Spec.PodGroupTemplates) != 1:
		g.lacks(s.Job, failedPodGroup, fmt.Sprintf("the Workload %s does not have one template", have.Name))
		return nil
	}
	after := have.DeepCopy()
	g.resize(have, after, &after.Spec.PodGroupTemplates[0].SchedulingPolicy,
		wanted.Spec.PodGroupTemplates[0].SchedulingPolicy)
	return after
}

// findPodGroup names the PodGroup of the Job, and has it made if it is not there.
func (g *grouping) findPodGroup(s view, workload *schedulingv1beta1.Workload) {
	wanted, err := newPodGroup(s.Job, workload)
	have := s.Scheduling.PodGroup
	switch {
	case err != nil && have != nil: // it does without the template
		g.name = have.Name
	case err != nil:
		g.lacks(s.Job, failedPodGroup, err.Error())
	case have != nil:
		g.name = have.Name
		after := have.DeepCopy()
		g.resize(have, after, &after.Spec.SchedulingPolicy, wanted.Spec.SchedulingPolicy)
	case s.Scheduling.PodGroupTaken:
		g.lacks(s.Job, failedPodGroup, "the Job does not control the PodGroup "+wanted.Name)
	default:
		g.name = wanted.Name
		g.steps = append(g.steps, plan.Create{Object: wanted, Why: "the Job has no PodGroup",
			Events: groupEvents(s.Job, "PodGroup", failedPodGroup)})
	}
}

// resize has an object changed if its gang is of another size than it shall be, and gives after the policy for that.
// No other part of a policy can be changed.
func (g *grouping) resize(have, after plan.Object, policy *schedulingv1beta1.PodGroupSchedulingPolicy,
	wanted schedulingv1beta1.PodGroupSchedulingPolicy) {
	if policy.Gang == nil || wanted.Gang == nil || policy.Gang.MinCount == wanted.Gang.MinCount ||
		have.GetDeletionTimestamp() != nil {
		return
	}
	policy.Gang.MinCount = wanted.Gang.MinCount
	g.steps = append(g.steps, plan.Change{Old: have, New: after, Why: "the gang has another size"})
}

// lacks notes why there can be no pods yet, and has an event say so.
func (g *grouping) lacks(j *batchv1.Job, reason, why string) {
	g.lacking = why
	g.steps = append(g.steps, warning(j, reason, why))
}

// warning records an event about a Job that lacks something.
func warning(j *batchv1.Job, reason, why string) plan.Step {
	return plan.RecordEvent{Object: j, Event: plan.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: why}}
}

// newWorkload is the Workload that says how the pods of a Job are scheduled: as its spec.scheduling says, and where
// that says nothing, one by one. A gang without a size is as large as the Job may run pods at a time.
func newWorkload(j *batchv1.Job) (*schedulingv1beta1.Workload, error) {
	item := &workloadbuilder.WorkloadItem{
		Name:          templateName(j),
		DefaultConfig: &workloadbuilder.SchedulingConfig{PriorityClassName: j.Spec.Template.Spec.PriorityClassName},
		Callbacks: []workloadbuilder.SchedulingConfigFunc{func(c *workloadbuilder.SchedulingConfig) {
			if c.Policy != nil && c.Policy.Gang != nil && c.Policy.Gang.MinCount == nil {
				c.Policy.Gang.MinCount = ptr.To(gangSize(j))
			}
		}},
	}
	if asked := j.Spec.Scheduling; asked != nil {
		item.Input.Policy.PodGroupData = asked.SchedulingPolicy
		item.Input.Constraints.PodGroupData = asked.SchedulingConstraints
		item.Input.DisruptionMode.PodGroupData = asked.DisruptionMode
		item.Input.ResourceClaims.PodGroupData = asked.ResourceClaims
	}
	return workloadbuilder.NewBuilder(item, workloadbuilder.BuildOptions{
		Namespace: j.Namespace, Name: workloadName(j), Owner: metav1.NewControllerRef(j, jobKind),
	}).BuildWorkload()
}

// gangSize is how many pods of the Job are scheduled together, if nothing says so: no more than it will ever run.
func gangSize(j *batchv1.Job) int32 {
	n := workloads.Parallelism(j)
	if j.Spec.Completions != nil {
		n = min(n, workloads.Completions(j))
	}
	return int32(max(1, n))
}

// groupTemplate is the name of the template for the pods of the Job in its Workload, which may be nil.
func groupTemplate(j *batchv1.Job, of *schedulingv1beta1.Workload) string {
	switch {
	case delegated(j):
		return j.Annotations[groupTemplateAnnotation]
	case of != nil && len(of.Spec.PodGroupTemplates) == 1:
		return of.Spec.PodGroupTemplates[0].Name
	}
	return templateName(j)
}

// newPodGroup is what the Workload's template makes for a Job. It is an error if there is no such template.
func newPodGroup(j *batchv1.Job, of *schedulingv1beta1.Workload) (*schedulingv1beta1.PodGroup, error) {
	template := groupTemplate(j, of)
	if len(template) > longestTemplate {
		return nil, fmt.Errorf("%s names no template: that is longer than %d characters", groupTemplateAnnotation,
			longestTemplate)
	}
	group, err := workloadbuilder.NewBuilderFromExistingWorkload(of, workloadbuilder.BuildOptions{
		Owner: metav1.NewControllerRef(j, jobKind),
	}).NewPodGroup(podGroupName(j.UID, of.Name, template), template)
	if parent := j.Annotations[parentGroupAnnotation]; err == nil && parent != "" {
		group.Spec.ParentCompositePodGroupName = &parent
	}
	return group, err
}

// Reasons of events.
const (
	failedWorkload = "FailedWorkloadCreate"
	failedPodGroup = "FailedPodGroupCreate"
)

// groupEvents are those about the Workload or the PodGroup of a Job.
func groupEvents(j *batchv1.Job, kind, failed string) plan.Events {
	return plan.Events{
		Done: plan.Event{Type: corev1.EventTypeNormal, Reason: kind + "Created",
			Message: fmt.Sprintf("Created %s {name} for Job %s", kind, j.Name)},
		Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: failed,
			Message: fmt.Sprintf("Failed to create %s for Job %s: {error}", kind, j.Name)},
	}
}
