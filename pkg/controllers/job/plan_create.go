package job

import (
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/jobutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// createMissing plans the creation of pods, as many as are missing and may start now.
func createMissing(now time.Time, s snapshot, missing int) plan.Plan {
	n := min(missing, burst)
	if perIndex(s.Job) {
		return createIndexes(now, s, n)
	}
	if until, failures := backoff(now, s); until.After(now) {
		wait := until.Sub(now)
		return plan.Plan{Requeue: wait, Why: fmt.Sprintf("%d pods are missing; pods have failed %d times in a row, the next may start in %v",
			missing, failures, wait.Round(time.Second))}
	}
	if indexed(s.Job) {
		return createIndexes(now, s, n)
	}
	return plan.Plan{Steps: []plan.Step{create(newPod(s.Job), n)}, Why: fmt.Sprintf("create %d of %d missing pods", n, missing)}
}

// createIndexes plans pods for the lowest indexes that may start now. Those in back-off leave their places to later ones.
func createIndexes(now time.Time, s snapshot, n int) plan.Plan {
	last := lastFailures(s)
	picked, next := pickIndexes(now, s, last, n)
	if len(picked) == 0 {
		p := plan.Plan{Why: "no index is left to start"}
		if !next.IsZero() {
			p.Requeue = next.Sub(now)
			p.Why = fmt.Sprintf("all indexes that are left have failed lately; the next may start in %v", p.Requeue.Round(time.Second))
		}
		return p
	}
	p := plan.Plan{Why: fmt.Sprintf("create pods for %d indexes", len(picked))}
	if !next.IsZero() {
		p.Requeue = next.Sub(now)
	}
	for size := 1; len(picked) > 0; size *= 2 { // slow start (JOB-24)
		batch := picked[:min(size, len(picked))]
		picked = picked[len(batch):]
		var each plan.Each
		for _, index := range batch {
			each.Sequences = append(each.Sequences, []plan.Step{create(newIndexedPod(s.Job, index, last[index]), 1)})
		}
		p.Steps = append(p.Steps, each)
	}
	return p
}

// pickIndexes returns the n lowest indexes that may start now (JOB-66), and when the first of those may that are in back-off.
func pickIndexes(now time.Time, s snapshot, last map[int]*corev1.Pod, n int) (picked []int, next time.Time) {
	busy := s.busy(s.Job)
	for index := 0; index < completions(s.Job) && len(picked) < n; index++ {
		if done, ok := s.completed.find(index); ok {
			index = done.last
			continue
		}
		if done, ok := s.failedIndexes.find(index); ok {
			index = done.last
			continue
		}
		if busy[index] {
			continue
		}
		if perIndex(s.Job) {
			if until := indexBackoff(now, last[index]); until.After(now) {
				if next.IsZero() || until.Before(next) {
					next = until
				}
				continue
			}
		}
		picked = append(picked, index)
	}
	return picked, next
}

// lastFailures returns by index the pod whose annotations say most about the failures of the index. Usually it is held for that.
func lastFailures(s snapshot) map[int]*corev1.Pod {
	last := map[int]*corev1.Pod{}
	if !perIndex(s.Job) {
		return last
	}
	for _, p := range s.mine {
		index, ok := indexOf(p)
		if !ok || p.Status.Phase == corev1.PodSucceeded || !jobutil.Tracked(p) && !ownFailure(p) || !hasFailed(s.Job, p) {
			continue
		}
		if before := last[index]; before == nil || laterFailure(before, p) {
			last[index] = p
		}
	}
	return last
}

func create(p *corev1.Pod, n int) plan.Step {
	return plan.Create{Object: p, Count: n, Why: "pods are missing", Events: plan.Events{
		Done:   plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulCreate", Message: "Created pod: {name}"},  // JOB-90
		Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedCreate", Message: "Error creating: {error}"}, // JOB-90
	}}
}

// newPod is what the Job's template makes (JOB-25).
func newPod(j *batchv1.Job) *corev1.Pod {
	template := j.Spec.Template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       j.Namespace,
			GenerateName:    j.Name + "-",
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			Finalizers:      append(template.Finalizers, batchv1.JobTrackingFinalizer),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, jobKind)},
		},
		Spec: template.Spec,
	}
}

// Names of pods of an index begin with at most so many characters; the API server adds five.
const longestPrefix = 58

// newIndexedPod is the same for an index (JOB-65). If the last pod of the index has failed, the new one knows how often that was
// (JOB-67).
func newIndexedPod(j *batchv1.Job, index int, failed *corev1.Pod) *corev1.Pod {
	p := newPod(j)
	i := strconv.Itoa(index)
	suffix := "-" + i + "-"
	p.GenerateName = j.Name[:min(len(j.Name), longestPrefix-len(suffix))] + suffix
	p.Spec.Hostname = j.Name + "-" + i
	p.Labels = with(p.Labels, batchv1.JobCompletionIndexAnnotation, i)
	p.Annotations = with(p.Annotations, batchv1.JobCompletionIndexAnnotation, i)
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for c := range containers {
			addIndexVariable(&containers[c])
		}
	}
	if !perIndex(j) {
		return p
	}
	var f failures
	if failed != nil {
		f = failuresOf(failed)
		if rule(j, failed).action == batchv1.PodFailurePolicyActionIgnore {
			f.ignored++
		} else {
			f.counted++
		}
	}
	p.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(f.counted)
	if f.ignored > 0 {
		p.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(f.ignored)
	}
	return p
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// indexVariable is the environment variable by which containers know their index.
const indexVariable = "JOB_COMPLETION_INDEX"

func addIndexVariable(c *corev1.Container) {
	for _, e := range c.Env {
		if e.Name == indexVariable {
			return
		}
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']",
	}}})
}
