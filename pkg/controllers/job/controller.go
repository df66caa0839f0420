package job

import (
	"cmp"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var (
	jobKind = batchv1.SchemeGroupVersion.WithKind("Job")
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
)

// New returns the job controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:      "job-controller",
		Alias:     "job",
		Account:   "job-controller",
		Beside:    true,
		Flags:     &o,
		Rights:    Rights,
		GatedUses: map[string][]schema.GroupVersionResource{gate: groupAPIs()},
		Init:      o.init,
	}
}

// podFields are what the controller reads of pods. Jobs are written back whole.
func podFields() informers.PodFields {
	paths := []string{
		"metadata.annotations[" + batchv1.JobCompletionIndexAnnotation + "]",
		"metadata.annotations[" + batchv1.JobIndexFailureCountAnnotation + "]",
		"metadata.annotations[" + batchv1.JobIndexIgnoredFailureCountAnnotation + "]",
		"spec.schedulingGroup.podGroupName",
		"spec.nodeName", "spec.initContainers.name", "spec.initContainers.restartPolicy", // restarts of sidecars count
		"status.phase", "status.conditions",
	}
	for _, statuses := range []string{"status.initContainerStatuses.", "status.containerStatuses."} {
		for _, field := range []string{"name", "restartCount", "state.terminated.exitCode",
			"state.terminated.finishedAt"} {
			paths = append(paths, statuses+field)
		}
	}
	return informers.PodFields{
		Paths: paths,
		// Policies may name any condition of a failed pod (JOB-73), but most pods have only those of the kubelet.
		Condition: func(p *corev1.Pod, t corev1.PodConditionType) bool {
			switch t {
			case corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers:
				return p.Status.Phase == corev1.PodFailed
			}
			return true
		},
	}
}

// init asks for the caches and says how the two queues work: one counts the pods of Jobs, the other takes
// finalizers off pods without a Job.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	jobs, err1 := informers.Objects[*batchv1.Job](c.Informers)
	pods, err2 := informers.Pods(c.Informers, podFields())
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	own := newCollectors()
	c.RegisterMetrics(own.all()...)
	k := newCaches(jobs, pods)
	if c.Enabled(gate) {
		if k.groups, err1 = newGroupCaches(c.Informers); err1 != nil {
			return nil, err1
		}
	}
	owners := informers.Owners[*batchv1.Job]{
		Kind: jobKind.Kind, Get: jobs.Get, In: jobs.In,
		Selector: func(j *batchv1.Job) *metav1.LabelSelector { return j.Spec.Selector },
	}
	counting := reconcile.New(c.Shared, c.Access.OnStale(own.countStale),
		reconcile.Controller[snapshot, decision, memory]{
			Name:      "job",
			Workers:   int(o.Workers),
			Explained: []string{jobKind.Kind},
			Watches: append(k.groupWatches(),
				jobs.Watch(own.itself, informers.WithResync), pods.Watch(own.counting(owners.Enqueues))),
			Observe:  k.observe,
			Remember: reconcile.RememberOutcome(remember),
			Owner:    func(s snapshot) plan.Object { return s.Job },
			Subject:  func(s snapshot) types.UID { return s.Job.UID },
			Plan:     planJob,
			Report:   reportJob,
			Applied:  own.applied,
			Live:     live,
		})
	orphans := reconcile.New(c.Shared, c.Access, reconcile.Controller[orphanSnapshot, struct{}, struct{}]{
		Name:      "job_orphan_pod",
		Workers:   int(o.Workers),
		Explained: []string{podKind.Kind},
		Watches: []reconcile.Watch{
			pods.Watch(k.orphansByPod, informers.WithResync),
			jobs.Watch(k.orphansByJob),
		},
		Observe: k.observeOrphan,
		Plan:    reconcile.PlanOnly(planOrphan),
		Prove:   proveOrphan,
		Live:    liveOrphan,
		Applied: k.rememberGone,
		Term:    k.gone,
	})
	return reconcile.Together(counting, orphans), nil
}
