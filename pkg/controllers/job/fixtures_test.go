package job

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// now is when the Jobs and pods of the tests are looked at. They are an hour old by then.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

type jobEdit = func(*batchv1.Job)

// sum is a Job as a server would default it: so many completions, all at the same time, begun an hour ago.
func sum(n int32, edits ...jobEdit) *batchv1.Job {
	labels := map[string]string{"job": "sum"}
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "sum", UID: "job", Generation: 1, ResourceVersion: "1", CreationTimestamp: ago(time.Hour),
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(n), Completions: ptr.To(n), BackoffLimit: ptr.To[int32](6), Suspend: ptr.To(false),
			CompletionMode: ptr.To(batchv1.NonIndexedCompletion), PodReplacementPolicy: ptr.To(batchv1.TerminatingOrFailed),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "sum", Image: "sum:1"}},
				},
			},
		},
		Status: batchv1.JobStatus{
			StartTime: ptr.To(ago(time.Hour)), Ready: ptr.To[int32](0), Terminating: ptr.To[int32](0),
			UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
		},
	}
	for _, edit := range edits {
		edit(j)
	}
	return j
}

func parallel(n int32) jobEdit { return func(j *batchv1.Job) { j.Spec.Parallelism = &n } }

func noCompletions(j *batchv1.Job) { j.Spec.Completions = nil }

func byIndex(j *batchv1.Job) { j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) }

func limitPerIndex(n int32) jobEdit {
	return func(j *batchv1.Job) {
		byIndex(j)
		j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = &n, ptr.To[int32](2147483647)
	}
}

func limit(n int32) jobEdit { return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n } }

func deadline(seconds int64) jobEdit {
	return func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &seconds }
}

func suspend(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }

func notStarted(j *batchv1.Job) { j.Status = batchv1.JobStatus{} }

func noStart(j *batchv1.Job) { j.Status.StartTime = nil }

func late(j *batchv1.Job) { j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed) }

func onFailure(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }

func dying(j *batchv1.Job) { j.DeletionTimestamp = ptr.To(ago(time.Second)) }

func managedBy(who string) jobEdit { return func(j *batchv1.Job) { j.Spec.ManagedBy = &who } }

func condTrue(t batchv1.JobConditionType, reason string) jobEdit {
	return func(j *batchv1.Job) {
		setCondition(&j.Status, t, corev1.ConditionTrue, reason, "as decided before", now.Add(-time.Minute))
	}
}

// counted gives the Job counters, and uids of pods that are listed.
func counters(succeeded, failed int32, lists batchv1.UncountedTerminatedPods) jobEdit {
	return func(j *batchv1.Job) {
		j.Status.Succeeded, j.Status.Failed, j.Status.UncountedTerminatedPods = succeeded, failed, &lists
	}
}

func policy(rules ...batchv1.PodFailurePolicyRule) jobEdit {
	return func(j *batchv1.Job) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules}
		j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	}
}

func onExit(action batchv1.PodFailurePolicyAction, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
		Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
	}}
}

func onDisruption(action batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
	}}
}

type podEdit = func(*corev1.Pod)

// pod is one of the Job's pods: it has been running for half an hour. Its uid is its name.
func pod(name string, edits ...podEdit) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1", CreationTimestamp: ago(30 * time.Minute),
			Labels:          map[string]string{"job": "sum"},
			Finalizers:      []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(sum(0), jobKind)},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func succeeded(p *corev1.Pod) { endWith(corev1.PodSucceeded, 0, time.Minute)(p) }

func failed(p *corev1.Pod) { endWith(corev1.PodFailed, 1, time.Minute)(p) }

func failedWith(code int32, since time.Duration) podEdit {
	return endWith(corev1.PodFailed, code, since)
}

func endWith(phase corev1.PodPhase, code int32, since time.Duration) podEdit {
	return func(p *corev1.Pod) {
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sum", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: ago(since)},
		}}}
	}
}

func createdAgo(d time.Duration) podEdit {
	return func(p *corev1.Pod) { p.CreationTimestamp = ago(d) }
}

func ready(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Minute),
	})
}

func disrupted(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
}

func restarted(n int32) podEdit {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sum", RestartCount: n}}
	}
}

func untracked(p *corev1.Pod) { p.Finalizers = nil }

func terminating(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(time.Second)) }

func orphan(p *corev1.Pod) { p.OwnerReferences = nil }

func relabelled(p *corev1.Pod) { p.Labels = map[string]string{"job": "other"} }

func pending(p *corev1.Pod) { p.Status.Phase, p.Spec.NodeName = corev1.PodPending, "" }

func index(text string) podEdit {
	return func(p *corev1.Pod) {
		p.Annotations = with(p.Annotations, batchv1.JobCompletionIndexAnnotation, text)
	}
}

func failedBefore(n string) podEdit {
	return func(p *corev1.Pod) {
		p.Annotations = with(p.Annotations, batchv1.JobIndexFailureCountAnnotation, n)
	}
}

func list(pods ...*corev1.Pod) []*corev1.Pod { return pods }

// lines renders what a plan does, a line for each object.
func lines(steps []plan.Step) (out []string) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Create:
			out = append(out, createLine(s))
		case plan.CreateAll:
			for _, o := range s.Objects {
				out = append(out, "create index "+o.GetAnnotations()[batchv1.JobCompletionIndexAnnotation])
			}
		case plan.Change:
			out = append(out, changeLine(s))
		case plan.Delete:
			for _, o := range s.Objects {
				out = append(out, "delete "+o.GetName())
			}
		case plan.Each:
			for _, sequence := range s.Sequences {
				out = append(out, strings.Join(lines(sequence), ", "))
			}
		case plan.RecordEvent:
			out = append(out, "event "+s.Event.Reason)
		}
	}
	return out
}

func createLine(s plan.Create) string {
	switch o := s.Object.(type) {
	case *schedulingv1beta1.Workload:
		return "create Workload" + ofSize(o.Spec.PodGroupTemplates[0].SchedulingPolicy)
	case *schedulingv1beta1.PodGroup:
		return "create PodGroup" + ofSize(o.Spec.SchedulingPolicy)
	case *corev1.Pod:
		if o.Spec.SchedulingGroup != nil {
			return fmt.Sprintf("create %d in %s", s.Count, *o.Spec.SchedulingGroup.PodGroupName)
		}
	}
	return fmt.Sprint("create ", s.Count)
}

// ofSize says how large a gang is.
func ofSize(p schedulingv1beta1.PodGroupSchedulingPolicy) string {
	if p.Gang == nil {
		return ""
	}
	return fmt.Sprint(" of ", p.Gang.MinCount)
}

func changeLine(s plan.Change) string {
	switch o := s.New.(type) {
	case *schedulingv1beta1.Workload:
		return "resize Workload" + ofSize(o.Spec.PodGroupTemplates[0].SchedulingPolicy)
	case *schedulingv1beta1.PodGroup:
		return "resize PodGroup" + ofSize(o.Spec.SchedulingPolicy)
	}
	switch j, ok := s.New.(*batchv1.Job); {
	case ok:
		return "status " + statusLine(s.Old.(*batchv1.Job).Status, j.Status)
	case s.Adopt:
		return "adopt " + s.New.GetName()
	case len(s.New.GetOwnerReferences()) < len(s.Old.GetOwnerReferences()):
		return "release " + s.New.GetName()
	case s.CheckVersion:
		return "untrack " + s.New.GetName() + " as observed"
	}
	return "untrack " + s.New.GetName()
}

// statusLine says what a status is, leaving out what is zero.
func statusLine(before, s batchv1.JobStatus) string {
	var parts []string
	add := func(name string, value any) { parts = append(parts, fmt.Sprintf("%s=%v", name, value)) }
	for _, n := range []struct {
		name string
		is   int32
	}{{"active", s.Active}, {"ready", ptr.Deref(s.Ready, 0)}, {"terminating", ptr.Deref(s.Terminating, 0)}, {"succeeded", s.Succeeded},
		{"failed", s.Failed}} {
		if n.is != 0 {
			add(n.name, n.is)
		}
	}
	if s.CompletedIndexes != "" {
		add("completed", s.CompletedIndexes)
	}
	if ptr.Deref(s.FailedIndexes, "") != "" {
		add("lost", *s.FailedIndexes)
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded) > 0 {
		add("uncounted.succeeded", len(u.Succeeded))
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Failed) > 0 {
		add("uncounted.failed", len(u.Failed))
	}
	if (before.StartTime == nil) != (s.StartTime == nil) || s.StartTime != nil && !s.StartTime.Equal(before.StartTime) {
		add("started", s.StartTime != nil)
	}
	for _, c := range s.Conditions {
		parts = append(parts, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	return strings.Join(parts, " ")
}
