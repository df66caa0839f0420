package devicetainteviction

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// The reasons of the condition EvictionInProgress (DTE-7).
const (
	podsPending = "PodsPendingEviction"
	completed   = "Completed"
	notStarted  = "NotStarted"
	noEffect    = "NoEffect"
	otherEffect = "OtherEffect"
)

// ruleSnapshot is a rule, and what becomes of pods by it.
type ruleSnapshot struct {
	Rule    *resourcev1.DeviceTaintRule
	Pending count // that are to be evicted, or would be with the effect NoExecute
	Evicted int   // since this process leads
	// Published is how many devices it selects in the slices of the latest generations of pools. They are counted for a
	// rule without effect.
	Published int
}

// planRule has nothing to write but the status.
func planRule(_ time.Time, s ruleSnapshot) plan.Plan { return plan.Plan{Why: s.wanted().Message} }

// wanted is the condition of a rule.
func (s ruleSnapshot) wanted() metav1.Condition {
	c := metav1.Condition{
		Type: resourcev1.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse,
		ObservedGeneration: s.Rule.Generation,
	}
	var evicted string
	if s.Evicted > 0 {
		evicted = number(s.Evicted, "pod", "pods") + " evicted since starting the controller."
	}
	switch effect := s.Rule.Spec.Taint.Effect; {
	case effect == resourcev1.DeviceTaintEffectNone:
		c.Reason, c.Message = noEffect, s.preview()
	case effect != resourcev1.DeviceTaintEffectNoExecute:
		c.Reason, c.Message = otherEffect, "Eviction only happens for the NoExecute effect."
	case s.Pending.Pods > 0:
		c.Status, c.Reason = metav1.ConditionTrue, podsPending
		c.Message = strings.TrimSpace(s.Pending.need() + " " + evicted)
	case s.Evicted > 0:
		c.Reason, c.Message = completed, evicted
	default:
		c.Reason = notStarted
	}
	return c
}

// reportRule says how many pods are left to evict for a rule. It does not count anew what would be evicted without
// effect, nor tell that a process which has just begun has evicted nobody.
func reportRule(now time.Time, s ruleSnapshot, _ plan.Outcome) plan.Plan {
	wanted := s.wanted()
	is := meta.FindStatusCondition(s.Rule.Status.Conditions, wanted.Type)
	if is != nil && is.ObservedGeneration == wanted.ObservedGeneration && is.Status == wanted.Status {
		switch {
		case is.Reason == wanted.Reason && (is.Reason == noEffect || is.Message == wanted.Message),
			is.Reason == completed && wanted.Reason == notStarted:
			return plan.Plan{}
		}
	}
	wanted.LastTransitionTime = metav1.NewTime(now)
	if is != nil && is.Status == wanted.Status {
		wanted.LastTransitionTime = is.LastTransitionTime
	}
	return plan.Plan{Why: wanted.Message, Steps: []plan.Step{plan.Change{
		Old: s.Rule, New: withCondition(s.Rule, wanted), Subresource: plan.Status,
		Apply: &plan.Apply{FieldManager: name, Force: true}, Why: wanted.Message,
	}}}
}

// withCondition is a rule with nothing but the condition.
func withCondition(r *resourcev1.DeviceTaintRule, c metav1.Condition) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resourcev1.SchemeGroupVersion.String(), "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": r.Name, "uid": string(r.UID)},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message,
			"observedGeneration": c.ObservedGeneration,
			"lastTransitionTime": c.LastTransitionTime.UTC().Format(time.RFC3339),
		}}},
	}}
}

// need says how many pods are to be evicted.
func (n count) need() string {
	return number(n.Pods, "pod needs", "pods need") + " to be evicted in " + n.namespaces() + "."
}

// preview says how many pods would be evicted.
func (s ruleSnapshot) preview() string {
	return number(s.Published, "published device", "published devices") + " selected. " +
		number(s.Pending.Devices, "allocated device", "allocated devices") + " selected. " +
		number(s.Pending.Pods, "pod", "pods") + " would be evicted in " + s.Pending.namespaces() +
		" if the effect was NoExecute. This information will not be updated again. " +
		"Recreate the DeviceTaintRule to trigger an update."
}

// previewedPods is how many pods would be evicted, as a preview has said. It may have been another manager's.
func previewedPods(message string) (n int, ok bool) {
	before, _, ok := strings.Cut(message, " would be evicted")
	words := strings.Fields(before)
	if !ok || len(words) < 2 {
		return 0, false
	}
	n, err := strconv.Atoi(words[len(words)-2])
	return n, err == nil
}

func (n count) namespaces() string { return number(n.Namespaces, "namespace", "different namespaces") }

// number is a number of things.
func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}
