package oracle

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// EndsAtAFixpoint is L1: the end of a settled history is a fixpoint (Anvil's "eventually stable reconciliation"): ReplicaSets have their
// pods, or say that they cannot; Deployments are rolled out, or no step of theirs is possible; statuses tell the truth; Endpoints have the
// addresses that their Services select; nothing is left to adopt.
func EndsAtAFixpoint() Oracle {
	return Oracle{"L1", "the end is a fixpoint", func(j *judge) hooks {
		return hooks{end: func() {
			if !j.o.Settled {
				return
			}
			for _, s := range j.sets {
				if s.gone != nil || !s.deleting.IsZero() || !selectable(s.selector) {
					continue
				}
				j.judges(false)
				problem := j.unsettledPods(s)
				if problem == "" && j.o.Unhindered && failing(s.ReplicaSet) {
					problem = "given up: says ReplicaFailure, though nothing refuses its pods any more"
				}
				if problem != "" {
					j.reportEnd(ReplicaSet, keyOf(s), j.related(s), "%s", problem)
				}
			}
			for _, d := range j.deployments {
				if d.gone != nil || !d.deleting.IsZero() || !selectable(selector(d.Spec.Selector)) {
					continue
				}
				j.judges(false)
				if problem := j.unsettledRollout(d); problem != "" {
					j.reportEnd(Deployment, keyOf(d), j.family(d), "%s", problem)
				}
			}
			for key, service := range j.services {
				if !hasEndpoints(service) {
					continue
				}
				j.judges(false)
				if problem := j.unsettledService(key); problem != "" {
					j.reportEnd(Endpoints, key, []string{Service + "/" + key}, "%s", problem)
				}
			}
			for key, e := range j.endpoints {
				if j.services[key] == nil && e.Labels[managedBy] == endpointController {
					j.judges(false)
					j.reportEnd(Endpoints, key, []string{Service + "/" + key}, "left over: its Service is gone (EP-7, EP-8)")
				}
			}
			j.orphans()
		}}
	}}
}

// orphans reports what ought to have been adopted (RS-22, DEP-7).
func (j *judge) orphans() {
	setsIn := map[string][]*set{}
	for _, s := range j.sets {
		if s.gone == nil && s.deleting.IsZero() {
			setsIn[s.Namespace] = append(setsIn[s.Namespace], s)
		}
	}
	for _, p := range j.pods {
		if _, ok := controller(p.Pod); ok || !active(p.Pod) || len(setsIn[p.Namespace]) == 0 {
			continue
		}
		j.judges(false)
		for _, s := range setsIn[p.Namespace] {
			if s.selector.Matches(labels.Set(p.Labels)) {
				j.reportEnd(Pod, keyOf(p), j.related(s), "an orphan that %s selects", s.Name)
				break
			}
		}
	}
	for _, d := range j.deployments {
		if d.gone != nil || !d.deleting.IsZero() {
			continue
		}
		match := selector(d.Spec.Selector)
		for _, s := range setsIn[d.Namespace] {
			if s.controller != "" {
				continue
			}
			if j.judges(false); match.Matches(labels.Set(s.Labels)) {
				j.reportEnd(ReplicaSet, keyOf(s), j.family(d), "an orphan that %s selects", d.Name)
			}
		}
	}
}

// selectable reports whether a selector can select anything.
func selectable(s labels.Selector) bool {
	_, can := s.Requirements()
	return can
}

// unsettledPods says what keeps a ReplicaSet from its fixpoint (RS-25, RS-41..48); empty if nothing does.
func (w *world) unsettledPods(s *set) string {
	if s.gone != nil || !s.deleting.IsZero() || !selectable(s.selector) {
		return ""
	}
	stuck := failing(s.ReplicaSet)
	switch size := int(s.size()); {
	case s.active != size && !stuck:
		return fmt.Sprintf("%d active pods of %d", s.active, size)
	case s.active == size && stuck:
		return "says ReplicaFailure, and has all pods"
	case s.Status.ObservedGeneration != s.Generation:
		return fmt.Sprintf("generation %d of %d observed", s.Status.ObservedGeneration, s.Generation)
	}
	want := struct{ replicas, labeled, ready, available int32 }{}
	templateLabels := labels.SelectorFromSet(s.Spec.Template.Labels)
	for _, p := range w.podsOf[s.UID] {
		if !p.counted {
			continue
		}
		want.replicas++
		if templateLabels.Matches(labels.Set(p.Labels)) {
			want.labeled++
		}
		if ready(p.Pod) {
			want.ready++
		}
		if available(p.Pod, s.Spec.MinReadySeconds, w.now) {
			want.available++
		}
	}
	have := want
	have.replicas, have.labeled, have.ready, have.available = s.Status.Replicas, s.Status.FullyLabeledReplicas, s.Status.ReadyReplicas,
		s.Status.AvailableReplicas
	if have != want {
		return fmt.Sprintf("status has %+v, and there are %+v", have, want)
	}
	return ""
}

// unsettled says what keeps a Deployment or its ReplicaSets from the fixpoint.
func (w *world) unsettled(d *deployment) string {
	for _, s := range w.setsOf[d.UID] {
		if problem := w.unsettledPods(s); problem != "" {
			return s.Name + ": " + problem
		}
	}
	return w.unsettledRollout(d)
}

// unsettledRollout says what keeps a Deployment from its fixpoint; empty if nothing does.
func (w *world) unsettledRollout(d *deployment) string {
	if !d.deleting.IsZero() || !selectable(selector(d.Spec.Selector)) {
		return ""
	}
	if d.Status.ObservedGeneration != d.Generation {
		return fmt.Sprintf("generation %d of %d observed", d.Status.ObservedGeneration, d.Generation)
	}
	if problem := w.untrue(d); problem != "" {
		return problem
	}
	if d.Spec.Paused {
		return w.unsettledPause(d)
	}
	if _, err := strconv.ParseInt(d.Annotations[rollbackAnnotation], 10, 64); err == nil {
		return "the rollback is not done"
	}
	return w.unsettledSizes(d)
}

// untrue says what is wrong in a Deployment's status (DEP-17, DEP-64, DEP-67). ReplicaSets that are being deleted may count or not.
func (w *world) untrue(d *deployment) string {
	var all, staying []*set
	for _, s := range w.setsOf[d.UID] {
		all = append(all, s)
		if s.deleting.IsZero() {
			staying = append(staying, s)
		}
	}
	problem := w.untrueOf(d, all)
	if problem != "" && len(staying) < len(all) && w.untrueOf(d, staying) == "" {
		return ""
	}
	return problem
}

// untrueOf is the same for a Deployment of the ReplicaSets.
func (w *world) untrueOf(d *deployment, sets []*set) string {
	type counts struct{ replicas, updated, ready, available, unavailable int32 }
	want, sizes := counts{}, int32(0)
	for _, s := range sets {
		want.replicas += s.Status.Replicas
		want.ready += s.Status.ReadyReplicas
		want.available += s.Status.AvailableReplicas
		sizes += s.size()
	}
	want.unavailable = max(0, sizes-want.available)
	if current := oldest(sets, d.template()); current != nil {
		want.updated = current.Status.Replicas
		if _, ok := revisionOf(current); ok && d.Annotations[revisionAnnotation] != current.Annotations[revisionAnnotation] {
			return fmt.Sprintf("has revision %q, and %s has %q", d.Annotations[revisionAnnotation], current.Name,
				current.Annotations[revisionAnnotation])
		}
	}
	s := d.Status
	if have := (counts{s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas}); have != want {
		return fmt.Sprintf("status has %+v, and its ReplicaSets %+v", have, want)
	}
	_, unavailable := fences(d.Deployment)
	enough := want.available >= ptr.Deref(d.Spec.Replicas, 1)-unavailable
	if c := condition(d.Deployment, appsv1.DeploymentAvailable); c == nil || (c.Status == corev1.ConditionTrue) != enough {
		return fmt.Sprintf("%d are available, and the condition Available is not %v", want.available, enough)
	}
	return ""
}

// unsettledPause says what a paused Deployment has yet to scale (DEP-35, DEP-37, DEP-57). Recreate scales one ReplicaSet only
// (DEP-39), and one of size 0 not while others have pods (S8).
func (w *world) unsettledPause(d *deployment) string {
	var biggest *set
	n, left, replicas := 0, 0, ptr.Deref(d.Spec.Replicas, 1)
	wrong := ""
	recreate := d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	for _, s := range w.setsOf[d.UID] {
		left += s.present
		if s.size() == 0 {
			continue
		}
		n, biggest = n+1, s
		if d.scales(s.ReplicaSet) {
			wrong = s.Name
		}
	}
	switch {
	case n == 1 && biggest.size() != replicas:
		return fmt.Sprintf("%s, alone, has size %d of %d", biggest.Name, biggest.size(), replicas)
	case n == 0 && replicas > 0 && len(w.setsOf[d.UID]) > 0 && !(recreate && left > 0):
		return "no ReplicaSet has a size"
	case n > 1 && wrong != "" && !recreate:
		return fmt.Sprintf("%s has a share of another number of replicas than %d", wrong, replicas)
	}
	return ""
}

// unsettledSizes says which step of a rollout is possible (DEP-41..44, DEP-48).
func (w *world) unsettledSizes(d *deployment) string {
	current, replicas := w.current(d), ptr.Deref(d.Spec.Replicas, 1)
	old := w.old(d, current)
	oldSize, left := int32(0), 0
	for _, s := range old {
		oldSize += s.size()
		left += s.present
	}
	recreate := d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	switch {
	case recreate && oldSize > 0:
		return fmt.Sprintf("old ReplicaSets have sizes, %d in all", oldSize)
	case recreate && left > 0:
		return "" // it waits
	case current == nil && (w.o.Unhindered || !w.saysWhy(d)):
		return "no ReplicaSet has the present template"
	case current == nil:
		return ""
	case current.size() > replicas || recreate && current.size() != replicas:
		return fmt.Sprintf("%s has size %d of %d", current.Name, current.size(), replicas)
	case recreate:
		return ""
	}
	surge, unavailable := fences(d.Deployment)
	sum, pods := oldSize+current.size(), int32(0)
	for _, s := range append(old, current) {
		pods += max(s.size(), int32(s.active))
	}
	if current.size() < replicas && pods < replicas+surge {
		return fmt.Sprintf("%s has size %d of %d, and there is room for more: %d of %d", current.Name, current.size(), replicas, pods,
			replicas+surge)
	}
	least := replicas - unavailable
	here := w.availableIn(current)
	all := here
	for _, s := range old {
		all += w.availableIn(s)
	}
	if sum-least-(current.size()-here) <= 0 {
		return ""
	}
	for _, s := range old {
		if s.size() > w.availableIn(s) || s.size() > 0 && all > least {
			return fmt.Sprintf("%s has size %d, %d available, and could be lowered: %d are available in all, and %d must be", s.Name,
				s.size(), w.availableIn(s), all, least)
		}
	}
	return ""
}

func (w *world) availableIn(s *set) (n int32) {
	for _, p := range w.podsOf[s.UID] {
		if p.counted && available(p.Pod, s.Spec.MinReadySeconds, w.now) {
			n++
		}
	}
	return min(n, s.size())
}

// saysWhy reports whether a Deployment has a condition that says that it cannot go on.
func (w *world) saysWhy(d *deployment) bool {
	p, f := condition(d.Deployment, appsv1.DeploymentProgressing), condition(d.Deployment, appsv1.DeploymentReplicaFailure)
	return p != nil && p.Status == corev1.ConditionFalse || f != nil && f.Status == corev1.ConditionTrue
}

// incomplete says what a Deployment lacks to be complete (DEP-71); empty if nothing.
func (w *world) incomplete(d *deployment) string {
	current, replicas, s := w.current(d), ptr.Deref(d.Spec.Replicas, 1), d.Status
	switch {
	case s.ObservedGeneration < d.Generation:
		return "its generation is not observed"
	case current == nil:
		return "no ReplicaSet has the present template"
	case s.Replicas != replicas || s.UpdatedReplicas != replicas || s.AvailableReplicas != replicas:
		return fmt.Sprintf("of %d replicas %d are there, %d updated, %d available", replicas, s.Replicas, s.UpdatedReplicas,
			s.AvailableReplicas)
	}
	for _, old := range w.old(d, current) {
		if old.size() > 0 {
			return fmt.Sprintf("%s has size %d", old.Name, old.size())
		}
	}
	return ""
}

// DeploymentsComplete is L3: at the end of a settled history each Deployment is complete and says so, or is paused, or has a true condition
// that says why it is not: timed out, unable to create, still within its deadline, or, when a finished rollout has lost pods, fewer
// available than replicas (DEP-67..76).
func DeploymentsComplete() Oracle {
	return Oracle{"L3", "each Deployment is complete, paused, or says why not", func(j *judge) hooks {
		return hooks{end: func() {
			if !j.o.Settled {
				return
			}
			for _, d := range j.deployments {
				if d.gone != nil || !d.deleting.IsZero() || d.Spec.Paused || !selectable(selector(d.Spec.Selector)) {
					continue
				}
				j.judges(false)
				if problem := j.unexplained(d); problem != "" {
					j.reportEnd(Deployment, keyOf(d), j.family(d), "%s; its conditions are %s", problem, conditions(d.Deployment))
				}
			}
		}}
	}}
}

func conditions(d *appsv1.Deployment) string {
	var all []string
	for _, c := range d.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (j *judge) unexplained(d *deployment) string {
	missing := j.incomplete(d)
	deadline := ptr.Deref(d.Spec.ProgressDeadlineSeconds, math.MaxInt32)
	progressing := condition(d.Deployment, appsv1.DeploymentProgressing)
	failure := condition(d.Deployment, appsv1.DeploymentReplicaFailure)
	failed := slices.ContainsFunc(j.old(d, nil), func(s *set) bool { return failing(s.ReplicaSet) })
	switch {
	case failure != nil && failure.Status == corev1.ConditionTrue:
		if !failed {
			return "it says ReplicaFailure, and no ReplicaSet does"
		}
		return ""
	case missing == "" && deadline == math.MaxInt32:
		return ""
	case missing == "" &&
		(progressing == nil || progressing.Status != corev1.ConditionTrue || progressing.Reason != "NewReplicaSetAvailable"):
		return "complete, and does not say so"
	case missing == "" || progressing != nil && progressing.Status == corev1.ConditionFalse:
		return ""
	case deadline == math.MaxInt32:
		return "" // its counts have to do
	case progressing == nil:
		return missing + ", and it says nothing about progress"
	case progressing.Reason == "NewReplicaSetAvailable":
		if current := j.current(d); current == nil || current.size() != ptr.Deref(d.Spec.Replicas, 1) || len(j.sized(d)) > 1 {
			return missing + ", and it says that the rollout is done"
		}
		return "" // it was done, and has lost pods since (DEP-75)
	case j.now.After(progressing.LastUpdateTime.Add(time.Duration(deadline)*time.Second + j.o.Lag)):
		return missing + ", its deadline has passed, and it does not say so"
	}
	return ""
}

// sized are the ReplicaSets of a Deployment that have a size.
func (w *world) sized(d *deployment) []*set {
	return slices.DeleteFunc(w.old(d, nil), func(s *set) bool { return s.size() == 0 })
}
