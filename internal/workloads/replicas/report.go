package replicas

import (
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// desiredAnnotation is where a Deployment notes which of its own sizes a set's size was made for.
const desiredAnnotation = "deployment.kubernetes.io/desired-replicas"

// reportSet reports on what was decided.
func reportSet(now time.Time, s snapshot, d owned, did plan.Outcome) plan.Plan {
	return reportStatus(now, view{s, d}, did)
}

// reportStatus writes the set's status when something in it differs (RS-41..52). It counts the pods as they were before
// the plan was carried out (RS-16); what the plan did enqueues the key again.
func reportStatus(now time.Time, s view, did plan.Outcome) plan.Plan {
	if s.invalid != nil {
		return plan.Plan{}
	}
	failed, known := failureOf(now, s, did)
	if !known {
		return plan.Plan{}
	}
	counts := podutil.Count(append(s.mine, terminating(s)...), s.Set.Spec.MinReadySeconds, now)
	status := statusOf(s, counts)
	status.Conditions = failed.among(s.Set, now)
	before := *s.Set.Status
	before.TerminatingReplicas = workloads.ReportedTerminating(before.TerminatingReplicas, status.TerminatingReplicas)
	if equality.Semantic.DeepEqual(before, status) {
		return plan.Plan{Requeue: counts.Next, Progressing: moving(s.Set, counts)}
	}
	step := plan.Change{Old: s.Set.Object, New: s.Set.withStatus(status), Subresource: plan.Status,
		Why: "the status has changed"}
	news := !equality.Semantic.DeepEqual(s.Set.Status.Conditions, status.Conditions)
	if news && failed.event != "" {
		step.Events.Done = plan.Event{Type: corev1.EventTypeWarning, Reason: failed.reason, Message: failed.event}
	}
	return plan.Plan{
		Steps:       []plan.Step{step},
		Requeue:     counts.Next,
		When:        when(s.Set, counts, news, failed != failure{}, did),
		Progressing: moving(s.Set, counts),
	}
}

// terminating are the set's own pods that are being deleted and still run (RS-45).
func terminating(s view) (pods []*corev1.Pod) {
	for _, p := range s.Pods {
		if podutil.Terminating(p) && metav1.IsControlledBy(p, s.Set) && s.selector.Matches(labels.Set(p.Labels)) {
			pods = append(pods, p)
		}
	}
	return pods
}

// statusOf is the status with these counts. Its conditions are those that there are.
func statusOf(s view, c podutil.Counts) appsv1.ReplicaSetStatus {
	template := labels.SelectorFromSet(s.Set.Spec.Template.Labels)
	var fullyLabeled int32
	for _, p := range s.mine {
		if template.Matches(labels.Set(p.Labels)) {
			fullyLabeled++
		}
	}
	status := appsv1.ReplicaSetStatus{
		Replicas:             c.Active,
		FullyLabeledReplicas: fullyLabeled,
		ReadyReplicas:        c.Ready,
		AvailableReplicas:    c.Available,
		ObservedGeneration:   s.Set.Generation, // of the object that was acted upon (RS-51)
	}
	if !s.Disabled.TerminatingReplicas {
		status.TerminatingReplicas = &c.Terminating
	}
	return status
}

// failure is why pods could not be created or deleted; zero if nothing failed.
type failure struct {
	reason, message string
	event           string // about it, where no failed request has one
}

// failureOf returns what failed in this reconcile (RS-52). It is not known if a pod could not be adopted or released:
// then the counts would lie as well (RS-13). In a namespace that is being deleted nothing counts as failed (RS-28).
func failureOf(now time.Time, s view, did plan.Outcome) (f failure, known bool) {
	created, deleted := did.Failed(plan.Created), did.Failed(plan.Deleted)
	switch {
	case did.Failed(plan.Changed) != nil:
		return f, false
	case did.Stopped:
		return f, true
	case created != nil:
		return failure{reason: "FailedCreate", message: created.Error()}, true
	case deleted != nil:
		return failure{reason: "FailedDelete", message: "unable to delete pods: " + deleted.Error()}, true
	case did.Err != nil:
		return f, false
	}
	if s.Set.DeletionTimestamp != nil || len(s.mine) >= replicas(s.Set) {
		return f, true
	}
	if err := unfit(s.Set, s.selector); err != nil {
		return failure{reason: "FailedCreate", message: err.Error(), event: "Error creating: " + err.Error()}, true
	}
	if back := backoffOf(now, s); back.pausing(now) {
		return failure{reason: "BackOff", message: back.String(), event: back.String()}, true
	}
	return f, true
}

// among returns the set's conditions with the failure among them, or without any. A failure that says the same as
// before stays as it is, so that one which lasts is not written again with every retry; but what is written is always
// current.
func (f failure) among(set *Set, now time.Time) []appsv1.ReplicaSetCondition {
	before := set.Status.Conditions
	isFailure := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	at := slices.IndexFunc(before, isFailure)
	none := f == failure{}
	if none && at < 0 || !none && at >= 0 && f.is(before[at], podPrefix(set)) {
		return before
	}
	after := slices.DeleteFunc(slices.Clone(before), isFailure)
	if none {
		return after
	}
	return append(after, appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now), Reason: f.reason, Message: f.message,
	})
}

// is reports whether the condition has this failure already.
func (f failure) is(c appsv1.ReplicaSetCondition, podPrefix string) bool {
	return c.Status == corev1.ConditionTrue && c.Reason == f.reason &&
		normalizedMessage(c.Message, podPrefix) == normalizedMessage(f.message, podPrefix)
}

// How the server makes up names: it cuts what they begin with, so that they fit, and adds random letters and digits.
const (
	longestPrefix = 58
	suffixLength  = 5
)

// normalizedMessage returns an error message without the generated part of pod names, which differs each time: `pods
// "web-x7k2p" is forbidden` becomes `pods "web-*" is forbidden`.
func normalizedMessage(message, podPrefix string) string {
	podPrefix = podPrefix[:min(len(podPrefix), longestPrefix)]
	var b strings.Builder
	for podPrefix != "" {
		before, after, found := strings.Cut(message, podPrefix)
		if !found {
			break
		}
		b.WriteString(before + podPrefix)
		message = after
		if isSuffix(after) {
			b.WriteString("*")
			message = after[suffixLength:]
		}
	}
	return b.String() + message
}

// isSuffix reports whether the text begins with random letters and digits, and no others follow in the same name.
func isSuffix(text string) bool {
	const random = "abcdefghijklmnopqrstuvwxyz0123456789"
	length := len(text) - len(strings.TrimLeft(text, random))
	return length == suffixLength && !strings.HasPrefix(text[length:], "-")
}

// when decides how long the report may wait for a newer one. What users wait for is reported at once: that the set is
// complete, that something has failed, that it has recovered. In the middle of a rollout nobody waits for the
// ReplicaSets: the Deployment counts the pods itself, and is about to change the set's size again.
func when(set *Set, c podutil.Counts, news, failed bool, did plan.Outcome) plan.When {
	if news && failed {
		return plan.Now()
	}
	pods := int64(max(replicas(set), int(c.Active)))
	later := plan.Progress(pods)
	switch {
	case ownedByDeployment(set): // users watch the Deployment, and in most rollouts its pods become available soon
		later = plan.SlowProgress(pods)
	case set.Status.ObservedGeneration < set.Generation:
		later = plan.Soon()
	}
	return did.ReportWhen(news, moving(set, c), later)
}

// moving reports whether more is about to change by itself: pods come, go or become available, or the set gets
// another size.
func moving(set *Set, c podutil.Counts) bool {
	return int(c.Active) != replicas(set) || c.Available != c.Active || c.Terminating != 0 || midRollout(set)
}

// ownedByDeployment reports whether a Deployment controls the set: then people watch that.
func ownedByDeployment(set *Set) bool {
	owner := metav1.GetControllerOfNoCopy(set)
	deployment := schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}
	return owner != nil && schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() == deployment
}

// midRollout reports whether the set's Deployment is about to give it another size.
func midRollout(set *Set) bool {
	if !ownedByDeployment(set) {
		return false
	}
	desired, known := desiredReplicas(set.Annotations[desiredAnnotation])
	return replicas(set) != 0 && !(known && replicas(set) == desired)
}

// desiredReplicas reads the annotation; known is false if there is none, or somebody has spoilt it.
func desiredReplicas(annotation string) (n int, known bool) {
	parsed, err := strconv.ParseInt(annotation, 10, 32)
	return int(parsed), err == nil
}
