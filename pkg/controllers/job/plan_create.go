package job

import (
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// createMissing plans the creation of pods, as many as are missing and may start now.
func createMissing(now time.Time, s view, missing int) plan.Plan {
	n := min(missing, burst)
	if workloads.HasLimitPerIndex(s.Job) {
		return createIndexes(now, s, n)
	}
	if until, failures := backoff(now, s); until.After(now) {
		wait := until.Sub(now)
		return plan.Plan{Requeue: wait,
			Why: fmt.Sprintf("%d pods are missing; pods have failed %d times in a row, the next may start in %v",
				missing, failures, wait.Round(time.Second))}
	}
	if workloads.Indexed(s.Job) {
		return createIndexes(now, s, n)
	}
	step := plan.Create{Object: newPod(s), Count: n, Selector: s.Job.Spec.Selector, Why: missingPods,
		Events: creationEvents()}
	return plan.Plan{Steps: []plan.Step{step}, Why: fmt.Sprintf("create %d of %d missing pods", n, missing)}
}

// createIndexes plans pods for the lowest indexes that may start now. Those in back-off leave their places to later
// ones.
func createIndexes(now time.Time, s view, n int) plan.Plan {
	last := lastFailures(s)
	picked, next := pickIndexes(now, s, last, n)
	var p plan.Plan
	if !next.IsZero() {
		p.Requeue = next.Sub(now)
	}
	switch {
	case len(picked) > 0:
		p.Why = fmt.Sprintf("create pods for %d indexes", len(picked))
	case !next.IsZero():
		p.Why = fmt.Sprintf("all indexes that are left have failed lately; the next may start in %v",
			p.Requeue.Round(time.Second))
		return p
	default:
		p.Why = "no index is left to start"
		return p
	}
	pods := make([]plan.Object, len(picked))
	for i, index := range picked {
		pods[i] = newIndexedPod(s, index, last[index])
	}
	p.Steps = []plan.Step{plan.CreateAll{Objects: pods, Selector: s.Job.Spec.Selector, Why: missingPods,
		Events: creationEvents()}}
	return p
}

// pickIndexes returns the n lowest indexes that may start now (JOB-66), and when the first of those may that are in
// back-off.
func pickIndexes(now time.Time, s view, last map[int]*corev1.Pod, n int) (picked []int, next time.Time) {
	busy := s.busy(s.Job)
	for index := 0; index < workloads.Completions(s.Job) && len(picked) < n; index++ {
		if done, ok := s.completed.find(index); ok {
			index = done.last
			continue
		}
		if done, ok := s.failedIndexes.find(index); ok {
			index = done.last
			continue
		}
		until := indexBackoff(now, last[index])
		switch {
		case busy[index]:
		case !until.After(now):
			picked = append(picked, index)
		case next.IsZero() || until.Before(next):
			next = until
		}
	}
	return picked, next
}

// missingPods is why pods are created.
const missingPods = "pods are missing"

// creationEvents are those about pods that are created, or cannot be.
func creationEvents() plan.Events {
	return plan.Events{
		Done:   plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulCreate", Message: "Created pod: {name}"},
		Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedCreate", Message: "Error creating: {error}"},
	}
}

// newPod is what the Job's template makes (JOB-25), as a part of the Job's PodGroup if it has one.
func newPod(s view) *corev1.Pod {
	j := s.Job
	template := j.Spec.Template.DeepCopy()
	if s.group.name != "" {
		template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &s.group.name}
	}
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

// newIndexedPod is the same for an index (JOB-65). If the last pod of the index has failed, the new one knows how
// often that was (JOB-67).
func newIndexedPod(s view, index int, failed *corev1.Pod) *corev1.Pod {
	j, p := s.Job, newPod(s)
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
	if !workloads.HasLimitPerIndex(j) {
		return p
	}
	var f failures
	if failed != nil {
		f = failuresOf(failed)
		if matchPolicy(j, failed).action == batchv1.PodFailurePolicyActionIgnore {
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

// with returns the map with one more entry. It changes the map.
func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// indexVariable is the environment variable by which containers know their index.
const indexVariable = "JOB_COMPLETION_INDEX"

// addIndexVariable lets a container know its index, unless its template has such a variable.
func addIndexVariable(c *corev1.Container) {
	for _, e := range c.Env {
		if e.Name == indexVariable {
			return
		}
	}
	c.Env = append(c.Env,
		corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']",
		}}})
}
