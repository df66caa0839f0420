package job

import (
	"errors"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// world is a Job and its pods in a server in memory, with a kubelet that does what it is told to.
type world struct {
	*plantest.World
	memory *memory
	groups bool // pods are scheduled as groups
}

func newWorld(j *batchv1.Job, pods ...*corev1.Pod) *world {
	objects := []plan.Object{j}
	for _, p := range pods {
		objects = append(objects, p)
	}
	return &world{World: plantest.NewWorld(objects...)}
}

func (w *world) job() *batchv1.Job { return plantest.One[*batchv1.Job](w.World, "sum") }

func (w *world) pods() []*corev1.Pod { return plantest.All[*corev1.Pod](w.World) }

func (w *world) snapshot() view {
	s := snapshot{Job: w.job(), Pods: slices.Clone(w.pods())}
	if w.groups {
		s.Scheduling = &scheduling{
			Workload: plantest.One[*schedulingv1beta1.Workload](w.World, sumWorkload),
			PodGroup: plantest.One[*schedulingv1beta1.PodGroup](w.World, sumGroup),
		}
	}
	return newView(now, s)
}

// pass is one reconcile. The report is written at once, however long it could wait.
func (w *world) pass() (planned, reported plan.Plan, err error) {
	s := w.snapshot()
	w.memory = w.memory.see(w.Now(), s)
	s.Remembered = w.memory
	planned = planPods(w.Now(), s)
	did := w.Apply(planned)
	if did.Err != nil && errors.Is(did.Err, errDied) {
		return planned, reported, did.Err
	}
	reported = reportStatus(w.Now(), s, did)
	told := w.Apply(reported)
	w.reap()
	return planned, reported, errors.Join(did.Err, told.Err)
}

// errDied is the death of the process before or after a write.
var errDied = errors.New("the process has died")

// settle reconciles until nothing is written any more, and returns what was.
func (w *world) settle() (diary []string) {
	for range 50 {
		planned, reported, err := w.pass()
		diary = append(diary, lines(planned.Steps)...)
		diary = append(diary, lines(reported.Steps)...)
		if err != nil {
			return append(diary, "error "+err.Error())
		}
		if planned.Empty() && reported.Empty() {
			return diary
		}
	}
	return append(diary, "does not settle")
}

// edit changes the status of a pod, if it is there.
func (w *world) edit(name string, edit func(*corev1.Pod)) {
	if plantest.One[*corev1.Pod](w.World, name) != nil {
		plantest.EditStatus(w.World, name, edit)
	}
}

func (w *world) running() (active []*corev1.Pod) {
	for _, p := range w.pods() {
		if p.DeletionTimestamp == nil &&
			(p.Status.Phase == "" || p.Status.Phase == corev1.PodPending || p.Status.Phase == corev1.PodRunning) {
			active = append(active, p)
		}
	}
	return active
}

// run starts all pods: assigned to a node, and running.
func (w *world) run() {
	for _, p := range w.running() {
		plantest.Edit(w.World, p.Name, func(p *corev1.Pod) { p.Spec.NodeName = "node-1" })
		w.edit(p.Name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	}
}

// end ends a pod that runs.
func (w *world) end(name string, phase corev1.PodPhase, code int32) {
	w.edit(name, func(p *corev1.Pod) {
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sum", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(w.Now())},
		}}}
	})
}

// kill ends the pods that are being deleted, as a kubelet does: they fail.
func (w *world) kill() {
	for _, p := range w.pods() {
		if p.DeletionTimestamp != nil && p.Status.Phase == corev1.PodRunning {
			w.end(p.Name, corev1.PodFailed, 137)
		}
	}
}

// reap removes the pods that are being deleted, have ended, or were never assigned, and have no finalizer.
func (w *world) reap() {
	for _, p := range w.pods() {
		ended := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded || p.Spec.NodeName == ""
		if p.DeletionTimestamp != nil && ended && len(p.Finalizers) == 0 {
			w.Remove(p)
		}
	}
}

func planOf(steps ...plan.Step) plan.Plan { return plan.Plan{Steps: steps} }
