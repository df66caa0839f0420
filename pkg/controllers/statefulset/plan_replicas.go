package statefulset

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// burst is how many pods one reconcile creates at most, or deletes to create them anew; the rest follows in the next.
const burst = 500

// planReplicas plans the set's pods: those that are wanted first, then those that are too many, then those that are
// outdated (STS-48). A claim whose owner cannot be changed holds up the deletion of its pod, and nothing else.
func (r *rollout) planReplicas() (steps []plan.Step) {
	r.setClaimOwners()
	var goOn bool
	switch earlier := r.earlier(); {
	case len(earlier) > 0:
		steps = r.clear(earlier)
	case ordered(r.Set):
		steps, goOn = r.scaleInOrder()
	default:
		steps, goOn = r.scaleInParallel()
	}
	if goOn && !r.identifying { // no reconcile writes an object twice
		steps = append(steps, r.replaceOutdated()...)
	}
	if len(r.why) == 0 {
		r.say("all %d pods are available and up to date", len(r.replicas))
	}
	sequences := r.independent
	for _, p := range r.mine {
		sequences = append(sequences, r.ownerChanges[p]...)
	}
	if len(steps) > 0 {
		sequences = append(sequences, steps)
	}
	return together(sequences)
}

// together returns sequences as steps that do not stop one another.
func together(sequences [][]plan.Step) []plan.Step {
	switch len(sequences) {
	case 0:
		return nil
	case 1:
		return sequences[0]
	}
	return []plan.Step{plan.Each{Sequences: sequences}}
}

// ordered reports whether pods come and go one after the other.
func ordered(set *appsv1.StatefulSet) bool {
	return set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

// setClaimOwners brings the owners of all claims in line with the retention policy (STS-25, STS-28). What a pod's
// claims need is done before the pod is deleted.
func (r *rollout) setClaimOwners() {
	r.ownerChanges = map[*corev1.Pod][][]plan.Step{}
	for _, p := range r.mine {
		for _, step := range r.claimOwnerSteps(p, ordinalOf(p), r.replicas[ordinalOf(p)] != p) {
			r.ownerChanges[p] = append(r.ownerChanges[p], []plan.Step{step})
		}
	}
}

// planOrdinal plans the pod with one of the wanted ordinals. Go on says that the pod is there and not about to be
// replaced (STS-45 a, b).
func (r *rollout) planOrdinal(ordinal int) (steps []plan.Step, goOn bool) {
	p := r.replicas[ordinal]
	switch {
	case p == nil:
		return r.create(ordinal), false
	case podutil.Finished(p) && p.DeletionTimestamp == nil:
		r.say("delete pod %s, which has finished, to create it anew", p.Name)
		return r.remove("it has finished", p), false
	// its claims may have been deleted since it was created
	case p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil:
		create, _, _ := r.missingClaims(ordinal)
		steps = asSteps(create)
	}
	return append(steps, r.identify(p, ordinal)...), true
}

// blocked reports whether nothing can be created for a missing pod: another pod has its name, or its claims are all
// there and one of them is about to go (STS-21, STS-26, STS-53).
func (r *rollout) blocked(ordinal int) bool {
	if r.Named[podName(r.Set, ordinal)] != nil {
		return true
	}
	blocked := false
	for i := range r.Set.Spec.VolumeClaimTemplates {
		claim := r.Claims[claimName(r.Set, &r.Set.Spec.VolumeClaimTemplates[i], ordinal)]
		if claim == nil {
			return false
		}
		failed, waits := r.obstacle(claim, ordinal)
		blocked = blocked || failed != "" || waits != ""
	}
	return blocked
}

// identify gives a pod back the label that distinguishes it from the others (STS-15).
func (r *rollout) identify(p *corev1.Pod, ordinal int) []plan.Step {
	if p.DeletionTimestamp != nil || p.Labels[appsv1.StatefulSetPodNameLabel] == p.Name {
		return nil
	}
	r.identifying = true
	changed := p.DeepCopy()
	changed.Labels = withLabels(p.Labels, identityLabels(r.Set, ordinal))
	return []plan.Step{plan.Change{Old: p, New: changed, Events: podEvents(r.Set, change),
		Why: "the pod lacks the labels of its identity"}}
}

// scaleInOrder creates what is missing, and then deletes what is too many.
func (r *rollout) scaleInOrder() (steps []plan.Step, goOn bool) {
	steps, goOn = r.scaleUpInOrder()
	if !goOn {
		return steps, false
	}
	more, goOn := r.scaleDownInOrder()
	return append(steps, more...), goOn
}

// scaleUpInOrder goes through the wanted ordinals. The first pod that is missing or not available ends it (STS-45,
// STS-46).
func (r *rollout) scaleUpInOrder() (steps []plan.Step, goOn bool) {
	for ordinal := start(r.Set); ordinal < end(r.Set); ordinal++ {
		more, there := r.planOrdinal(ordinal)
		if !there {
			return append(steps, more...), false
		}
		p := r.replicas[ordinal]
		why := r.waits(p)
		if why != "" && r.replacesStuck(p, ordinal, why) {
			return append(steps, r.remove("it is stuck at an outdated revision", p)...), false
		}
		steps = append(steps, more...)
		if why != "" {
			return steps, false
		}
	}
	return steps, true
}

// replacesStuck says what the pod waits for that holds the set up, and reports whether the pod is to be replaced. If
// it has never been ready and is outdated, it may never become ready although the template has been corrected since
// (STS-100).
func (r *rollout) replacesStuck(p *corev1.Pod, ordinal int, why string) bool {
	stuck := p.DeletionTimestamp == nil && revisionOf(p) != r.revisionFor(ordinal).Name && neverReady(p) && rolls(r.Set)
	switch {
	case !stuck:
		r.say("pod %s %s, the others wait for it", p.Name, why)
	case !r.ReplaceStuckPods:
		r.say("pod %s has an outdated revision and has never been ready; the rollout is stuck until it becomes ready "+
			"or is deleted "+
			"(see --statefulset-replace-stuck-pods)", p.Name)
	default:
		r.say("replace pod %s, which has an outdated revision and has never been ready", p.Name)
		return true
	}
	return false
}

// readyAtOnce is how soon after the start of a pod the time of its Ready condition may be for it to be the time of
// the first status. Both are in whole seconds.
const readyAtOnce = 2 * time.Second

// neverReady reports whether the pod has never been ready: its Ready condition has not changed since it was started.
func neverReady(p *corev1.Pod) bool {
	c := podutil.ReadyCondition(p)
	switch {
	case c == nil || p.Status.Phase == corev1.PodPending && p.Status.StartTime == nil:
		return true
	case c.Status == corev1.ConditionTrue || p.Status.StartTime == nil:
		return false
	}
	return c.LastTransitionTime.Sub(p.Status.StartTime.Time) <= readyAtOnce
}

// scaleDownInOrder deletes the pod with the highest ordinal of those that are too many, unless it and a lower one of
// them are not available (STS-47).
func (r *rollout) scaleDownInOrder() (steps []plan.Step, goOn bool) {
	if len(r.condemned) == 0 {
		return nil, true
	}
	highest := r.condemned[0]
	if highest.DeletionTimestamp != nil {
		r.say("pod %s is being deleted, scaling down waits for it", highest.Name)
		return nil, false
	}
	if why := r.waits(highest); why != "" && !podutil.Finished(highest) {
		lower := r.lowestUnavailable()
		if stuck := r.ReplaceStuckPods && neverReady(highest); lower != highest && !stuck {
			r.say("pod %s, which is too many, %s, nor is %s available, which is too many, too; scaling down waits for "+
				"one of them, or for somebody to delete one", highest.Name, why, lower.Name)
			return nil, false
		}
	}
	r.say("delete pod %s, which is too many", highest.Name)
	return r.remove("it is too many", highest), false
}

// lowestUnavailable is the pod with the lowest ordinal of those that are too many and not available. One that has ended
// will never be, and holds up no other one (STS-101).
func (r *rollout) lowestUnavailable() (lowest *corev1.Pod) {
	for _, p := range r.condemned {
		if r.waits(p) != "" && !podutil.Finished(p) {
			lowest = p
		}
	}
	return lowest
}

// scaleInParallel creates what is missing and deletes what is too many, all at once (STS-52). Neither waits for the
// other: a quota may refuse what is missing until those are gone that are too many (MEND-3), and a webhook to delete
// these.
func (r *rollout) scaleInParallel() (steps []plan.Step, goOn bool) {
	r.removeSurplus()
	slots := map[int][]plan.Step{}
	created := 0
	for ordinal := start(r.Set); ordinal < end(r.Set) && created < burst; ordinal++ {
		more, there := r.planOrdinal(ordinal)
		if !there && (r.replicas[ordinal] != nil || !r.blocked(ordinal)) {
			created++
		}
		if len(more) > 0 {
			slots[ordinal] = more
		}
	}
	return inBatches(r.refusedLast(slots)), created < burst
}

// removeSurplus deletes all pods that are too many.
func (r *rollout) removeSurplus() {
	var doomed []*corev1.Pod
	for _, p := range r.condemned {
		if p.DeletionTimestamp == nil {
			doomed = append(doomed, p)
		}
	}
	if len(doomed) == 0 {
		return
	}
	r.say("delete %d pods that are too many", len(doomed))
	if steps := r.remove("they are too many", doomed...); len(steps) > 0 {
		r.independent = append(r.independent, steps)
	}
}

// refusedLast orders what is to be done by ordinal. What the server has refused comes last, the latest refusal at the
// very end: a batch with a failure is the last one, and one ordinal that is refused keeps no other one waiting.
func (r *rollout) refusedLast(slots map[int][]plan.Step) (sequences [][]plan.Step) {
	refused := map[int]bool{}
	for _, ordinal := range r.Refused {
		refused[ordinal] = true
	}
	for _, ordinal := range slices.Sorted(maps.Keys(slots)) {
		if !refused[ordinal] {
			sequences = append(sequences, slots[ordinal])
		}
	}
	for _, ordinal := range r.Refused {
		if slots[ordinal] != nil {
			sequences = append(sequences, slots[ordinal])
		}
	}
	return sequences
}

// refusals returns the ordinals of which something has been refused, the latest refusal last: those that were known
// and that are missing still, and what the last plan has met.
func (r *rollout) refusals(did plan.Outcome) []int {
	known := slices.Clone(r.Refused)
	var latest []int
	for _, result := range did.Results {
		switch result.Object.(type) {
		case *corev1.Pod, *corev1.PersistentVolumeClaim:
		default:
			continue
		}
		_, ordinal, ok := splitName(result.Object.GetName())
		if !ok || ordinal < start(r.Set) || ordinal >= end(r.Set) {
			continue
		}
		known = slices.DeleteFunc(known, func(other int) bool { return other == ordinal })
		if result.Err != nil && !slices.Contains(latest, ordinal) {
			latest = append(latest, ordinal)
		}
	}
	known = slices.DeleteFunc(known, func(ordinal int) bool {
		return r.replicas[ordinal] != nil || ordinal < start(r.Set) || ordinal >= end(r.Set) ||
			slices.Contains(latest, ordinal)
	})
	return append(known, latest...)
}

// inBatches does 1, 2, 4, ... sequences at a time. A batch with a failure is the last one (STS-52).
func inBatches(sequences [][]plan.Step) (steps []plan.Step) {
	for size := 1; len(sequences) > 0; size *= 2 {
		n := min(size, len(sequences))
		steps = append(steps, plan.Each{Sequences: sequences[:n]})
		sequences = sequences[n:]
	}
	return steps
}

// asSteps returns sequences as steps, none if there are no sequences.
func asSteps(each plan.Each) []plan.Step {
	if len(each.Sequences) == 0 {
		return nil
	}
	return []plan.Step{each}
}

// create plans a missing pod, after its claims (STS-21).
func (r *rollout) create(ordinal int) []plan.Step {
	name := podName(r.Set, ordinal)
	if other := r.Named[name]; other != nil {
		r.say("pod %s is missing, but another pod has its name", name)
		return nil
	}
	revision := r.revisionFor(ordinal)
	template, err := r.templateOf(revision)
	if err != nil {
		r.say("pod %s is missing: %v", name, err)
		return []plan.Step{r.failure(name, err.Error())}
	}
	each, failed, waits := r.missingClaims(ordinal)
	steps := asSteps(each)
	switch {
	case failed != "":
		r.say("pod %s is missing: %s", name, failed)
		return append(steps, r.failure(name, failed))
	case waits != "":
		r.say("pod %s is missing: %s", name, waits)
		return steps
	}
	r.say("create pod %s of revision %s", name, revision.Name)
	return append(steps, plan.Create{
		Object: newPod(r.Set, ordinal, template, revision.Name), Selector: r.Set.Spec.Selector,
		Events: podEvents(r.Set, creation), Why: "the pod is missing",
	})
}

// failure records that a pod cannot be created.
func (r *rollout) failure(pod, why string) plan.Step {
	return plan.RecordEvent{Object: r.Set, Event: podNotCreated(r.Set, pod, why)}
}

// remove deletes pods, without another grace period than their own (STS-49). One whose claims need another owner is
// deleted after that is done, and with parallel pods independently of the others.
func (r *rollout) remove(why string, pods ...*corev1.Pod) []plan.Step {
	var sequences [][]plan.Step
	var rest []plan.Object
	for _, p := range pods {
		if r.ownerChanges[p] == nil {
			rest = append(rest, p)
			continue
		}
		sequences = append(sequences, append(together(r.ownerChanges[p]), r.deletion(why, p)))
		delete(r.ownerChanges, p)
	}
	if !ordered(r.Set) {
		r.independent, sequences = append(r.independent, sequences...), nil
	}
	if len(rest) > 0 {
		sequences = append(sequences, []plan.Step{r.deletion(why, rest...)})
	}
	return together(sequences)
}

// deletion is the step that deletes pods.
func (r *rollout) deletion(why string, pods ...plan.Object) plan.Step {
	return plan.Delete{Objects: pods, Events: podEvents(r.Set, deletion), Why: why}
}
