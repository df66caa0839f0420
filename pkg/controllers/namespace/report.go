package namespace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// reportConditions says in the status what is left (NS-29 to NS-35). What was deleted a moment ago is reported by the
// next round, which sees what became of it; a deletion that failed is reported at once, and one that had no effect
// when the next round sees that.
func reportConditions(now time.Time, s snapshot, did plan.Outcome) plan.Plan {
	p := changeConditions(now, s, did)
	p.Progressing = s.hasFinalizers() && s.Discovery == nil && (len(s.Contents) == 0 || s.Rounds == 0)
	return p
}

// changeConditions writes the conditions, unless there is a reason not to: the next round sees more, or the
// namespace is gone.
func changeConditions(now time.Time, s snapshot, did plan.Outcome) plan.Plan {
	switch {
	case !s.hasFinalizers(), s.deletesMore() && did.Err == nil:
		return plan.Plan{}
	// it is gone
	case len(s.Contents) == 0 && s.Discovery == nil && !(s.Complete && s.stays()) && did.Failed(plan.Deleted) == nil:
		return plan.Plan{}
	case !conditionsChange(now, s, did):
		return plan.Plan{}
	case did.Failed(plan.Changed) != nil ||
		slices.ContainsFunc(did.Results, func(r plan.Result) bool { return r.Verb == plan.Changed }):
		return plan.Plan{} // it has just been released
	}
	changed := *s.Namespace
	changed.Status = statusOf(now, s, did)
	return plan.Plan{Steps: []plan.Step{plan.Change{
		Old: s.Namespace, New: &changed, Subresource: plan.Status, Why: "what is left in the namespace has changed",
	}}}
}

// conditionsChange reports whether the status is to say something new.
func conditionsChange(now time.Time, s snapshot, did plan.Outcome) bool {
	return !equality.Semantic.DeepEqual(s.Namespace.Status, statusOf(now, s, did))
}

// statusOf returns the status that says what is left.
func statusOf(now time.Time, s snapshot, did plan.Outcome) corev1.NamespaceStatus {
	status := corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating,
		Conditions: slices.Clone(s.Namespace.Status.Conditions)}
	for _, c := range conditions(now, s, did) {
		set(&status, c, now)
	}
	return status
}

// conditions are those that describe what is left, with the messages that runbooks look for.
func conditions(now time.Time, s snapshot, did plan.Outcome) []corev1.NamespaceCondition {
	return []corev1.NamespaceCondition{
		condition(corev1.NamespaceDeletionDiscoveryFailure, s.discoveryMessage(),
			"DiscoveryFailed", "ResourcesDiscovered", "All resources successfully discovered"),
		condition(corev1.NamespaceDeletionGVParsingFailure, "", // NS-32: versions are parsed by discovery
			"GroupVersionParsingFailed", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
		condition(corev1.NamespaceDeletionContentFailure, s.failureMessage(now, did),
			"ContentDeletionFailed", "ContentDeleted",
			"All content successfully deleted, may be waiting on finalization"),
		condition(corev1.NamespaceContentRemaining, s.remainingMessage(),
			"SomeResourcesRemain", "ContentRemoved", "All content successfully removed"),
		condition(corev1.NamespaceFinalizersRemaining, s.finalizersMessage(),
			"SomeFinalizersRemain", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	}
}

// condition returns a condition that is true if there is a message.
func condition(t corev1.NamespaceConditionType, message, reason, fineReason,
	fineMessage string) corev1.NamespaceCondition {
	if message != "" {
		return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	}
	return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionFalse, Reason: fineReason, Message: fineMessage}
}

// set replaces the condition of the same type. The time of its last transition changes with its status only.
func set(status *corev1.NamespaceStatus, c corev1.NamespaceCondition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now)
	for i, old := range status.Conditions {
		if old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			status.Conditions[i] = c
			return
		}
	}
	status.Conditions = append(status.Conditions, c)
}

// discoveryMessage says what could not be discovered (NS-31).
func (s snapshot) discoveryMessage() string {
	switch {
	case s.Discovery == nil:
		return ""
	case s.Discovery.Groups == 0:
		return s.Discovery.Message
	}
	return fmt.Sprintf("Discovery failed for some groups, %d failing: %s", s.Discovery.Groups, s.Discovery.Message)
}

// failureMessage says what could not be listed or deleted, and what stays without a reason (NS-26, NS-33).
func (s snapshot) failureMessage(now time.Time, did plan.Outcome) string {
	var errs []string
	for _, c := range s.Contents {
		switch {
		case c.Error != "":
			errs = append(errs, c.Error)
		case (!c.Undeleted || c.Unmoved && did.Err == nil) && c.estimate(now) == 0:
			errs = append(errs, fmt.Sprintf("unexpected items still remain in namespace: %s for gvr: %s",
				s.Namespace.Name, c.Kind.GroupVersion().WithResource(c.Resource)))
		}
	}
	for _, r := range did.Results {
		if r.Verb == plan.Deleted && r.Err != nil {
			errs = append(errs, r.Err.Error())
		}
	}
	if len(errs) == 0 {
		return ""
	}
	slices.Sort(errs)
	return fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(errs), strings.Join(errs, ", "))
}

// remainingMessage counts what is left (NS-34), pods included (NS-30).
func (s snapshot) remainingMessage() string {
	var parts []string
	for _, c := range s.Contents {
		if c.Count > 0 {
			parts = append(parts, fmt.Sprintf("%s.%s has %d resource instances", c.Resource, c.Kind.Group, c.Count))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return "Some resources are remaining: " + strings.Join(parts, ", ")
}

// finalizersMessage counts what the finalizers hold (NS-35).
func (s snapshot) finalizersMessage() string {
	total := map[string]int{}
	for _, c := range s.Contents {
		for name, n := range c.Finalizers {
			total[name] += n
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(total)) {
		parts = append(parts, fmt.Sprintf("%s in %d resource instances", name, total[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Some content in the namespace has finalizers remaining: " + strings.Join(parts, ", ")
}
