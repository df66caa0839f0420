package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// policyMatch is what the rule says that a failed pod matches in the pod failure policy; zero if it matches none.
type policyMatch struct {
	action  batchv1.PodFailurePolicyAction
	message string // of FailJob
}

// matchPolicy finds the first rule that the failed pod matches (JOB-73). Of a pod that has not ended, nobody knows
// that yet.
func matchPolicy(j *batchv1.Job, p *corev1.Pod) policyMatch {
	if j.Spec.PodFailurePolicy == nil || p.Status.Phase != corev1.PodFailed {
		return policyMatch{}
	}
	for i, r := range j.Spec.PodFailurePolicy.Rules {
		what, ok := "", false
		if r.OnExitCodes != nil {
			what, ok = matchExitCode(r.OnExitCodes, p)
		} else {
			what, ok = matchCondition(r.OnPodConditions, p)
		}
		if ok {
			return policyMatch{r.Action, fmt.Sprintf("%s matching %s rule at index %d", what, r.Action, i)}
		}
	}
	return policyMatch{}
}

// failJob returns by which rule the Job fails: the one that the oldest of such pods matches. Failed pods that do not
// count can fail the Job, too: those without a finalizer or a valid index (JOB-52).
func failJob(s view) (first policyMatch) {
	if s.Job.Spec.PodFailurePolicy == nil {
		return first
	}
	var oldest *corev1.Pod
	for _, p := range s.mine {
		if m := matchPolicy(s.Job, p); m.action == batchv1.PodFailurePolicyActionFailJob &&
			(oldest == nil || podutil.ByCreation(p, oldest) < 0) {
			first, oldest = m, p
		}
	}
	return first
}

// matchExitCode finds the first container whose exit code the rule asks for, and says in words which that is.
func matchExitCode(r *batchv1.PodFailurePolicyOnExitCodesRequirement, p *corev1.Pod) (what string, ok bool) {
	for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		if s.State.Terminated == nil || s.State.Terminated.ExitCode == 0 ||
			r.ContainerName != nil && *r.ContainerName != s.Name {
			continue
		}
		code := s.State.Terminated.ExitCode
		in := slices.Contains(r.Values, code)
		if r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && in ||
			r.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn && !in {
			return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", s.Name, p.Namespace, p.Name,
				code), true
		}
	}
	return "", false
}

// matchCondition finds the first condition of the pod that one of the patterns asks for.
func matchCondition(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, p *corev1.Pod) (what string, ok bool) {
	for _, c := range p.Status.Conditions {
		for _, pattern := range patterns {
			status := pattern.Status
			if status == "" {
				status = corev1.ConditionTrue
			}
			if c.Type == pattern.Type && c.Status == status {
				return fmt.Sprintf("Pod %s/%s has condition %s", p.Namespace, p.Name, c.Type), true
			}
		}
	}
	return "", false
}

// metSuccessPolicy returns the first rule of the success policy that holds (JOB-76).
func metSuccessPolicy(j *batchv1.Job, completed indexes) (index int, ok bool) {
	if j.Spec.SuccessPolicy == nil || !workloads.Indexed(j) {
		return 0, false
	}
	for i, r := range j.Spec.SuccessPolicy.Rules {
		wanted, succeeded := workloads.Completions(j), completed.count()
		if r.SucceededIndexes != nil {
			list := parseIndexes(*r.SucceededIndexes, workloads.Completions(j))
			wanted, succeeded = list.count(), list.covered(completed)
		}
		if r.SucceededCount != nil {
			wanted = int(*r.SucceededCount)
		}
		if succeeded >= wanted && (r.SucceededIndexes != nil || r.SucceededCount != nil) {
			return i, true
		}
	}
	return 0, false
}
