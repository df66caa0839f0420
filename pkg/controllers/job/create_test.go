package job

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestNewPod(t *testing.T) { // JOB-25
	j := sum(1, func(j *batchv1.Job) {
		j.Spec.Template.Finalizers = []string{"example.com/mine"}
		j.Spec.Template.Annotations = map[string]string{"a": "b"}
	})
	p := newPod(snapshotOf(j))
	ref := metav1.GetControllerOf(p)
	switch {
	case p.GenerateName != "sum-" || p.Name != "" || p.Namespace != "shop":
		t.Errorf("named %q %q in %q", p.Name, p.GenerateName, p.Namespace)
	case ref == nil || ref.UID != j.UID || ref.Kind != "Job" || ref.APIVersion != "batch/v1" || ref.BlockOwnerDeletion == nil ||
		!*ref.BlockOwnerDeletion:
		t.Errorf("owner %+v", ref)
	case len(p.Finalizers) != 2 || !workloads.Tracked(p):
		t.Errorf("finalizers %v", p.Finalizers)
	case p.Labels["job"] != "sum" || p.Annotations["a"] != "b" || p.Spec.Containers[0].Image != "sum:1":
		t.Errorf("%+v", p)
	}
}

func TestJOB65NewIndexedPod(t *testing.T) { // JOB-65
	j := sum(3, byIndex, func(j *batchv1.Job) {
		spec := &j.Spec.Template.Spec
		spec.InitContainers = []corev1.Container{{Name: "init"}}
		spec.Containers = append(spec.Containers, corev1.Container{Name: "own", Env: []corev1.EnvVar{{Name: indexVariable, Value: "mine"}}})
	})
	p := newIndexedPod(snapshotOf(j), 7, nil)
	if p.GenerateName != "sum-7-" || p.Spec.Hostname != "sum-7" {
		t.Errorf("named %q, host %q", p.GenerateName, p.Spec.Hostname)
	}
	if p.Annotations[batchv1.JobCompletionIndexAnnotation] != "7" || p.Labels[batchv1.JobCompletionIndexAnnotation] != "7" {
		t.Errorf("%v %v", p.Annotations, p.Labels)
	}
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers[0]) {
		if len(c.Env) != 1 || c.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']" {
			t.Errorf("%s: %+v", c.Name, c.Env)
		}
	}
	if own := p.Spec.Containers[1].Env; len(own) != 1 || own[0].Value != "mine" {
		t.Errorf("a variable of the user's: %+v", own)
	}
	if _, ok := p.Annotations[batchv1.JobIndexFailureCountAnnotation]; ok {
		t.Error("failures are counted without a limit for each index")
	}
	if len(j.Spec.Template.Annotations) != 0 || len(j.Spec.Template.Spec.Containers[0].Env) != 0 {
		t.Error("the template has changed")
	}
	j.Name = strings.Repeat("x", 63)
	if got := newIndexedPod(snapshotOf(j), 12345, nil).GenerateName; len(got) != longestPrefix || !strings.HasSuffix(got, "x-12345-") {
		t.Errorf("a long name: %q", got)
	}
}

func TestFailuresAreHandedOn(t *testing.T) { // JOB-67
	j := sum(3, limitPerIndex(3), policy(onDisruption(batchv1.PodFailurePolicyActionIgnore)))
	for _, c := range []struct {
		name           string
		failed         *corev1.Pod
		count, ignored string
	}{
		{"the first", nil, "0", ""},
		{"after a failure", pod("a", failed), "1", ""},
		{"after another", pod("a", failed, failedBefore("1")), "2", ""},
		{"after one that is ignored", pod("a", failed, failedBefore("1"), disrupted), "1", "1"},
		{"nonsense counts as none", pod("a", failed, failedBefore("-3")), "1", ""},
	} {
		p := newIndexedPod(snapshotOf(j), 0, c.failed)
		count, skipped := p.Annotations[batchv1.JobIndexFailureCountAnnotation],
			p.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation]
		if count != c.count || skipped != c.ignored {
			t.Errorf("%s: %q and %q, want %q and %q", c.name, count, skipped, c.count, c.ignored)
		}
	}
}

// JOB-46, JOB-67: the policy is asked about the last failed pod also if that was dealt with before.
func TestIgnoredFailuresAreHandedOn(t *testing.T) {
	j := sum(1, limitPerIndex(3), policy(onDisruption(batchv1.PodFailurePolicyActionIgnore)))
	p := planPods(now, snapshotOf(j, pod("a", index("0"), failed, disrupted, untracked)))
	made := p.Steps[0].(plan.CreateAll).Objects[0].GetAnnotations()
	if made[batchv1.JobIndexFailureCountAnnotation] != "0" || made[batchv1.JobIndexIgnoredFailureCountAnnotation] != "1" {
		t.Errorf("%v", made)
	}
}
