package statefulset

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// setKind is that of StatefulSets.
func setKind() schema.GroupVersionKind { return appsv1.SchemeGroupVersion.WithKind("StatefulSet") }

// podKind is that of pods.
func podKind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Pod") }

// deletedWith says what happens to claims: whether they are deleted with their pod when the set is scaled down, and
// with the set (STS-24).
func deletedWith(set *appsv1.StatefulSet) (scaled, deleted bool) {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil {
		return false, false
	}
	return policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}

// claimOwner is the owner that a claim should have, nil for none. Condemned is its pod, if that is beyond the wanted
// ordinals (STS-24).
func claimOwner(set *appsv1.StatefulSet, condemned *corev1.Pod) *metav1.OwnerReference {
	scaled, deleted := deletedWith(set)
	switch {
	case scaled && condemned != nil:
		return metav1.NewControllerRef(condemned, podKind())
	case deleted:
		return metav1.NewControllerRef(set, setKind())
	}
	return nil
}

// claimRefs are the references of a claim that concern its set and its pod.
type claimRefs struct {
	own     []metav1.OwnerReference // to the set or to the pod
	stale   []metav1.OwnerReference // to an earlier set or pod of that name (STS-26)
	others  []metav1.OwnerReference
	foreign bool // somebody else controls it (STS-27)
}

// refsOf sorts the references of a claim. The pod may be missing; then its uid is empty.
func refsOf(set *appsv1.StatefulSet, pod string, uid types.UID, claim *corev1.PersistentVolumeClaim) (refs claimRefs) {
	for _, ref := range claim.OwnerReferences {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		ofSet := kind == setKind().GroupKind() && ref.Name == set.Name
		ofPod := kind == podKind().GroupKind() && ref.Name == pod
		switch {
		case ref.UID == set.UID, uid != "" && ref.UID == uid:
			refs.own = append(refs.own, ref)
		case ofSet, ofPod:
			refs.stale = append(refs.stale, ref)
		default:
			refs.others = append(refs.others, ref)
			refs.foreign = refs.foreign || ref.Controller != nil && *ref.Controller
		}
	}
	return refs
}

// deletedWithPod reports whether the claim is deleted with an earlier pod of its name, so that no new pod may use it
// (STS-26).
func (r claimRefs) deletedWithPod() bool {
	return slices.ContainsFunc(r.stale, func(ref metav1.OwnerReference) bool { return ref.Kind == podKind().Kind })
}

// own brings the owner references of a pod's claims in line with the retention policy (STS-25).
func (r *rollout) claimOwnerSteps(pod *corev1.Pod, ordinal int, condemned bool) (steps []plan.Step) {
	var owner *corev1.Pod
	if condemned {
		owner = pod
	}
	for i := range r.Set.Spec.VolumeClaimTemplates {
		claim := r.Claims[claimName(r.Set, &r.Set.Spec.VolumeClaimTemplates[i], ordinal)]
		if claim == nil {
			continue
		}
		refs := refsOf(r.Set, pod.Name, pod.UID, claim)
		if len(refs.stale) > 0 {
			r.say("claim %s goes with an earlier owner", claim.Name)
			continue
		}
		wanted := claimOwner(r.Set, owner)
		if scaled, deleted := deletedWith(r.Set); refs.foreign && (scaled || deleted) { // STS-27: with any such policy
			steps = append(steps, r.conflict(claim)...)
			wanted = nil
		}
		if step := replaceOwner(claim, refs, wanted); step != nil {
			steps = append(steps, step)
		}
	}
	return steps
}

// replaceOwner replaces the claim's own references by the wanted one. It returns nil if there is nothing to do.
func replaceOwner(claim *corev1.PersistentVolumeClaim, refs claimRefs, wanted *metav1.OwnerReference) plan.Step {
	var all []metav1.OwnerReference
	if wanted != nil {
		all = []metav1.OwnerReference{*wanted}
	}
	if equality.Semantic.DeepEqual(refs.own, all) || len(refs.own) == 0 && wanted == nil {
		return nil
	}
	changed := claim.DeepCopy()
	changed.OwnerReferences = append(slices.Clone(refs.others), all...)
	return plan.Change{Old: claim, New: changed, Unowned: true, Why: "the retention policy of the claim"}
}

// told returns the claims of which was already said that another owner controls them, as far as one still does and the
// retention policy would have an effect. It is nil if that has none.
func told(s snapshot) map[types.UID]bool {
	scaled, deleted := deletedWith(s.Set)
	if !scaled && !deleted {
		return nil
	}
	all := map[types.UID]bool{}
	for _, claim := range s.Claims {
		ref := metav1.GetControllerOfNoCopy(claim)
		if ref != nil && ref.UID != s.Set.UID && s.Reported[claim.UID] {
			all[claim.UID] = true
		}
	}
	return all
}

// conflict reports, once for each claim, that the retention policy is without effect (STS-27).
func (r *rollout) conflict(claim *corev1.PersistentVolumeClaim) []plan.Step {
	r.say("claim %s is controlled by another owner, the retention policy has no effect on it", claim.Name)
	if r.told[claim.UID] {
		return nil
	}
	r.told[claim.UID] = true
	return []plan.Step{plan.RecordEvent{Object: r.Set, Event: conflictEvent(r.Set, claim.Name)}}
}

// missingClaims creates the claims that a pod lacks. It returns why the pod cannot be created yet, if it cannot: what
// is retried with an event (failed), or what only has to be waited for (waits).
func (r *rollout) missingClaims(ordinal int) (create plan.Each, failed, waits string) {
	name := podName(r.Set, ordinal)
	for i := range r.Set.Spec.VolumeClaimTemplates {
		template := &r.Set.Spec.VolumeClaimTemplates[i]
		claim := r.Claims[claimName(r.Set, template, ordinal)]
		if claim == nil {
			create.Sequences = append(create.Sequences, []plan.Step{plan.Create{
				Object: newClaim(r.Set, template, ordinal), Unowned: true, Events: claimEvents(r.Set, name),
				Why: "a pod needs the claim",
			}})
			continue
		}
		if f, w := r.obstacle(claim, ordinal); f != "" {
			failed = f
		} else if w != "" {
			waits = w
		}
	}
	return create, failed, waits
}

// obstacle returns why a pod cannot be created with a claim that is there, in the terms of missingClaims.
func (r *rollout) obstacle(claim *corev1.PersistentVolumeClaim, ordinal int) (failed, waits string) {
	scaled, _ := deletedWith(r.Set)
	uid := types.UID("")
	if pod := r.replicas[ordinal]; pod != nil {
		uid = pod.UID
	}
	switch {
	case scaled && refsOf(r.Set, podName(r.Set, ordinal), uid, claim).deletedWithPod():
		waits = fmt.Sprintf("claim %s is deleted with an earlier pod", claim.Name)
	case claim.DeletionTimestamp != nil:
		failed = fmt.Sprintf("pvc %s is being deleted", claim.Name)
	}
	return failed, waits
}
