package why

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

var missingRequest = regexp.MustCompile(`missing request for \S+(?: in container \S+ of Pod \S+)?`)

func (w *world) autoscaler(ctx context.Context, a *autoscalingv2.HorizontalPodAutoscaler) *verdict {
	at := a.Spec.ScaleTargetRef
	kind := schema.FromAPIVersionAndKind(at.APIVersion, at.Kind)
	target, is := w.get(ctx, kind, a.Namespace, at.Name)
	name := Ref{at.APIVersion, at.Kind, a.Namespace, at.Name}
	if is == absent {
		v := fails(a, "NoTarget", "what it scales does not exist")
		return v.through(&verdict{object: name, state: Failing, reason: "NotFound",
			says: "it does not exist, and autoscaler " +
				a.Name + " wants it"})
	}
	if c := scaling(a, autoscalingv2.AbleToScale); c.Status == corev1.ConditionFalse && c.Reason != "BackoffBoth" {
		return fails(a, c.Reason, "it cannot scale: %s", c.Message)
	}
	if c := scaling(a, autoscalingv2.ScalingActive); c.Status == corev1.ConditionFalse {
		v := fails(a, c.Reason, "it does not scale: %s", c.Message)
		switch {
		case missingRequest.MatchString(c.Message) && is == present:
			return v.through(fails(target, "NoRequest", "its pods lack what is measured: %s",
				missingRequest.FindString(c.Message)).
				until("its template requests that resource"))
		case c.Reason == "ScalingDisabled":
			return v.through(&verdict{object: name, state: Waiting, reason: "ScaledToZero",
				says: "its spec.replicas is 0"})
		case is == present:
			if below := w.explain(ctx, target); below != nil && below.state == Failing {
				return v.through(below)
			}
		}
		return v
	}
	if len(a.Status.Conditions) == 0 {
		return waits(a, "NotObserved", "no controller has looked at it yet").through(w.leader(ctx))
	}
	if c := scaling(a, autoscalingv2.ScalingLimited); c.Status == corev1.ConditionTrue {
		return limited(a, c)
	}
	return fine(a, "it wants %d replicas, and there are %d", a.Status.DesiredReplicas, a.Status.CurrentReplicas)
}

// scaling returns a condition of an autoscaler; empty if it has none.
func scaling(
	a *autoscalingv2.HorizontalPodAutoscaler, t autoscalingv2.HorizontalPodAutoscalerConditionType,
) (c autoscalingv2.HorizontalPodAutoscalerCondition) {
	if found := first(a.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == t
	}); found != nil {
		c = *found
	}
	return c
}

// limited is a verdict on an autoscaler that its own limits hold back. That it is at its minimum is as wanted.
func limited(a *autoscalingv2.HorizontalPodAutoscaler, c autoscalingv2.HorizontalPodAutoscalerCondition) *verdict {
	if c.Reason == "TooManyReplicas" {
		return fails(a, c.Reason, "it wants more than maxReplicas, which is %d: %s", a.Spec.MaxReplicas, c.Message)
	}
	if least := ptr.Deref(a.Spec.MinReplicas, 1); c.Reason == "TooFewReplicas" {
		return fine(a, "it is at its minReplicas of %d", least)
	}
	return fine(a, "%s", c.Message)
}

func (w *world) budget(ctx context.Context, b *policyv1.PodDisruptionBudget) *verdict {
	return w.unseen(ctx, b, b.Status.ObservedGeneration, w.disruptions(ctx, b))
}

// disruptions is the verdict on a budget, as if its status was of the latest generation.
func (w *world) disruptions(ctx context.Context, b *policyv1.PodDisruptionBudget) *verdict {
	s := b.Status
	if v := w.overlap(ctx, b); v != nil {
		return v
	}
	switch {
	case s.DisruptionsAllowed > 0:
		return fine(b, "%d more pods may be disrupted", s.DisruptionsAllowed)
	}
	for _, c := range b.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			return fails(b, c.Reason, "it cannot be counted: %s", c.Message)
		}
	}
	v := fails(b, "NoDisruptionAllowed", "no pod may be evicted: %d of %d pods are healthy, and %d must be",
		s.CurrentHealthy,
		s.ExpectedPods, s.DesiredHealthy)
	if s.ExpectedPods == 0 {
		return waits(b, "NoPods", "it has no pods")
	}
	if s.CurrentHealthy >= s.ExpectedPods || s.DesiredHealthy >= s.ExpectedPods {
		v.says = fmt.Sprintf("no pod may ever be evicted: all %d pods are healthy, and %d must be", s.CurrentHealthy,
			s.DesiredHealthy)
		if s.CurrentHealthy < s.ExpectedPods {
			v.says = fmt.Sprintf("no pod may ever be evicted: %d of %d pods are healthy, and all must be",
				s.CurrentHealthy, s.ExpectedPods)
		}
		return v.until("minAvailable or maxUnavailable leaves room for one pod")
	}
	return v.through(w.worst(ctx, slices.DeleteFunc(w.selected(ctx, b.Namespace, b.Spec.Selector), podutil.Finished)))
}

// overlap is a verdict on a budget that shares a pod with another one: such a pod cannot be evicted. It is nil if none
// does.
func (w *world) overlap(ctx context.Context, b *policyv1.PodDisruptionBudget) *verdict {
	var others []*policyv1.PodDisruptionBudget
	for _, other := range list[*policyv1.PodDisruptionBudget](ctx, w, b.Namespace, nil) {
		if other.Name != b.Name {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return nil
	}
	for _, p := range w.selected(ctx, b.Namespace, b.Spec.Selector) {
		for _, other := range others {
			if other.Spec.Selector != nil && matches(other.Spec.Selector, p.Labels) {
				return fails(b, "Overlap", "pod %s has budget %s, too, and a pod with two budgets cannot be evicted",
					p.Name, other.Name)
			}
		}
	}
	return nil
}

// quota is a verdict on a quota: what is used up.
func (w *world) quota(q *corev1.ResourceQuota) *verdict {
	var full []string
	for name, hard := range q.Status.Hard {
		if used := q.Status.Used[name]; used.Cmp(hard) >= 0 {
			full = append(full, fmt.Sprintf("%s (%s of %s)", name, used.String(), hard.String()))
		}
	}
	if len(full) == 0 {
		return fine(q, "it has room")
	}
	slices.Sort(full)
	return waits(q, usedUp, "it is used up: %s", strings.Join(full, ", "))
}

// usedUp is the reason of a quota that has no room.
const usedUp = "UsedUp"
