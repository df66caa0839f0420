package replicas

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// burst is how many pods one reconcile creates or deletes at most; the rest follows in the next (RS-25).
const burst = 500

// planSet finds out which pods are the set's own, once for all parts of the reconcile, and plans.
func planSet(now time.Time, s snapshot) (owned, plan.Plan) {
	v := newView(s)
	return v.owned, planPods(now, v)
}

// planPods decides which pods a set adopts or releases, and how many it creates or which it deletes.
func planPods(now time.Time, s view) plan.Plan {
	if s.invalid != nil {
		return plan.Plan{Why: s.invalid.Error()} // RS-8: no retry, only an edit helps
	}
	p := plan.Plan{Steps: s.ownership}
	missing := replicas(s.Set) - len(s.mine)
	var back startBackoff
	if missing > 0 {
		back = backoffOf(now, s)
	}
	switch {
	case s.Set.DeletionTimestamp != nil:
		p.Why = "being deleted, pods are left to the garbage collector"
	case missing > 0 && unfit(s.Set, s.selector) != nil:
		p.Why = unfit(s.Set, s.selector).Error()
	case missing > 0 && back.pausing(now):
		p.Requeue = plan.Sooner(p.Requeue, back.until.Sub(now))
		p.Why = fmt.Sprintf("%d pods are missing; %v", missing, back)
	case missing > 0:
		n := min(missing, burst)
		p.Steps = append(p.Steps, create(s.Set, n))
		p.Why = fmt.Sprintf("create %d of %d missing pods", n, missing)
	case missing < 0 && len(plan.Adopted(s.ownership)) > 0: // an adopted pod may be one to delete, and be written twice
		p.Why = fmt.Sprintf("adopt pods, then delete the %d too many", -missing)
	case missing < 0:
		n := min(-missing, burst)
		p.Steps = append(p.Steps, podutil.Delete(victims(now, s.mine, n, s), "pods are too many"))
		p.Why = fmt.Sprintf("delete %d of %d pods too many", n, -missing)
	default:
		p.Why = waiting(podutil.Count(s.mine, s.Set.Spec.MinReadySeconds, now))
	}
	return p
}

// snapshot is what one reconcile of a ReplicaSet has observed. Observe fills it, and the view that plan and
// report share is made of it. The objects belong to shared caches.
type snapshot struct {
	Set *Set
	// Pods are those that the set controls, by its uid, and the orphans of its namespace (RS-11). Others do no harm.
	Pods []*corev1.Pod
	// Related counts, by node, the active pods of all ReplicaSets that have the same controlling owner as this one
	// (RS-32). It is there only when pods have to be ranked.
	Related map[string]int
	// Failures is what was noticed of the pods that have failed.
	Failures failures
	// Disabled names what the configuration has switched off.
	Disabled features
}

// owned is the decision: the set's own active pods, and the steps that make them so. planSet makes it for the
// report, which wants the same, and with many pods to find them is most of the work.
type owned struct {
	// selector is that of the set, read.
	selector labels.Selector
	invalid  error // the selector makes no sense; then there are no pods and no steps
	// mine are the pods that the set has, or has when its steps are carried out.
	mine []*corev1.Pod
	// ownership are the steps that adopt and release pods.
	ownership []plan.Step
}

// view is a snapshot and what it means.
type view struct {
	snapshot
	owned
}

// newView finds out what a snapshot means.
func newView(of snapshot) view {
	s := view{snapshot: of}
	if s.selector, s.invalid = plan.Selector(s.Set.Spec.Selector); s.invalid == nil {
		mine, ownership := claim(s)
		s.mine, s.ownership = slices.Clip(mine), slices.Clip(ownership) // who appends makes a copy
	}
	return s
}

// features are those that a feature gate may switch off.
type features struct {
	PodDeletionCost     bool // the annotation has no say in who is deleted (CLI-66)
	TerminatingReplicas bool // the status does not count them (CLI-65)
	PodFailureBackoff   bool // pods that fail at start are replaced at once, however often
}

// ranks reports whether pods may have to be ranked because some, and not all, are to be deleted (RS-30). It decides by
// what is to be seen before anything is decided.
func (s snapshot) ranks() bool {
	active, mine := 0, 0
	for _, p := range s.Pods {
		if podutil.Active(p) {
			active++
		}
	}
	selector, err := plan.Selector(s.Set.Spec.Selector)
	if active <= replicas(s.Set) || err != nil {
		return false
	}
	for _, p := range s.Pods {
		if podutil.Active(p) && selector.Matches(labels.Set(p.Labels)) {
			mine++
		}
	}
	surplus := mine - replicas(s.Set)
	return surplus > 0 && min(surplus, burst) < mine
}

// claim sorts out the set's own active pods; the others are neither counted nor touched (RS-12, RS-13).
func claim(s view) (mine []*corev1.Pod, steps []plan.Step) {
	active := make([]*corev1.Pod, 0, len(s.Pods))
	for _, p := range s.Pods {
		orphan := metav1.GetControllerOfNoCopy(p) == nil && s.selector.Matches(labels.Set(p.Labels))
		if podutil.Active(p) && !(orphan && podutil.Owns(s.Set, s.Pods, p)) {
			active = append(active, p)
		}
	}
	return plan.Claim(s.Set.Object, s.Set.Kind, s.selector, active)
}

// replicas is the wanted number of pods. The server defaults it to 1 (RS-62).
func replicas(set *Set) int {
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(max(0, *set.Spec.Replicas))
}

// unfit says why the template cannot make pods of the set (RS-27). The server refuses such sets; but a pod that the
// selector does not match would be released as soon as it is made, and another one made in its place, without end.
func unfit(set *Set, selector labels.Selector) error {
	switch {
	case len(set.Spec.Template.Labels) == 0:
		return errors.New("unable to create pods, no labels")
	case !selector.Matches(labels.Set(set.Spec.Template.Labels)):
		return errors.New("unable to create pods, the selector does not match the labels of the template")
	}
	return nil
}

// create makes pods of the template, as copies of one.
func create(set *Set, n int) plan.Step {
	return plan.Create{Object: newPod(set), Count: n, Selector: set.Spec.Selector, Why: "pods are missing",
		Events: plan.Events{
			Done: plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulCreate",
				Message: "Created pod: {name}"},
			Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedCreate",
				Message: "Error creating: {error}"},
		}}
}

// newPod is what the set's template makes (RS-27).
func newPod(set *Set) *corev1.Pod {
	template := set.Spec.Template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       set.Namespace,
			GenerateName:    podPrefix(set),
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, set.Kind)},
		},
		Spec: template.Spec,
	}
}

// podPrefix is what the names of the set's pods begin with: the set's name, and a dash if a name may begin so (RS-27).
func podPrefix(set *Set) string {
	prefix := set.Name + "-"
	if len(validation.NameIsDNSSubdomain(prefix, true)) > 0 {
		return set.Name
	}
	return prefix
}

// victims chooses n of the pods to delete. If all must go, there is nothing to rank (RS-30).
func victims(now time.Time, pods []*corev1.Pod, n int, s view) []*corev1.Pod {
	if n >= len(pods) {
		return pods
	}
	k := ranking{now: now, near: s.Related, minReady: s.Set.Spec.MinReadySeconds, costs: !s.Disabled.PodDeletionCost}
	return k.order(pods)[:n]
}

// waiting says what a set of the right size waits for.
func waiting(c podutil.Counts) string {
	switch {
	case c.Ready < c.Active:
		return fmt.Sprintf("%d pods are there, %d of them not ready yet", c.Active, c.Active-c.Ready)
	case c.Available < c.Active:
		return fmt.Sprintf("%d pods are ready, %d of them not for long enough yet", c.Active, c.Active-c.Available)
	}
	return fmt.Sprintf("all %d pods are available", c.Active)
}
