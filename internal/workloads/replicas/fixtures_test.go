package replicas

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// now is when the sets and pods of the tests are looked at. They are hours old by then.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// web is a ReplicaSet without owner, as a server would default it, whose status has not been written yet.
func web(size int32, edits ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	app := map[string]string{"app": "web"}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "set", Generation: 1, ResourceVersion: "1", CreationTimestamp: ago(3 * time.Hour),
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &size,
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
	for _, edit := range edits {
		edit(set)
	}
	return set
}

type setEdit = func(*appsv1.ReplicaSet)

func minReady(seconds int32) setEdit {
	return func(set *appsv1.ReplicaSet) { set.Spec.MinReadySeconds = seconds }
}

func beingDeleted(set *appsv1.ReplicaSet) { set.DeletionTimestamp = ptr.To(ago(time.Second)) }

// rolledOut makes the set one of a Deployment that wants so many replicas in all.
func rolledOut(desired string) setEdit {
	return func(set *appsv1.ReplicaSet) {
		set.Annotations = map[string]string{desiredAnnotation: desired}
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(
			&metav1.ObjectMeta{Name: "web", UID: "deployment"}, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
}

// told gives the set the status that it has written last: so many pods, all of them ready and available.
func told(pods int32, conditions ...appsv1.ReplicaSetCondition) setEdit {
	return func(set *appsv1.ReplicaSet) {
		set.Status = appsv1.ReplicaSetStatus{
			Replicas: pods, FullyLabeledReplicas: pods, ReadyReplicas: pods, AvailableReplicas: pods,
			TerminatingReplicas: ptr.To[int32](0), ObservedGeneration: set.Generation, Conditions: conditions,
		}
	}
}

func failing(reason, message string) appsv1.ReplicaSetCondition {
	return appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		LastTransitionTime: ago(time.Minute), Reason: reason, Message: message}
}

type podEdit = func(*corev1.Pod)

// pod is one of web's pods: it has been running and ready for an hour. Its uid is its name.
func pod(name string, edits ...podEdit) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1", CreationTimestamp: ago(2 * time.Hour),
			Labels:          map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(web(0), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	ready(time.Hour)(p)
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// pods are n pods that all edits are made to.
func pods(n int, edits ...podEdit) (all []*corev1.Pod) {
	for i := range n {
		all = append(all, pod(fmt.Sprintf("p%d", i), edits...))
	}
	return all
}

func ready(since time.Duration) podEdit { return readySince(ago(since)) }

func readySince(t metav1.Time) podEdit {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: t}}
	}
}

func unready(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(time.Hour)}}
}

func created(age time.Duration) podEdit { return createdAt(ago(age)) }

func createdAt(t metav1.Time) podEdit { return func(p *corev1.Pod) { p.CreationTimestamp = t } }

func phase(phase corev1.PodPhase) podEdit { return func(p *corev1.Pod) { p.Status.Phase = phase } }

func node(name string) podEdit { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

func uid(u types.UID) podEdit { return func(p *corev1.Pod) { p.UID = u } }

func cost(c string) podEdit {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: c} }
}

func labeled(labels ...string) podEdit {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{}
		for _, l := range labels {
			k, v, _ := strings.Cut(l, "=")
			p.Labels[k] = v
		}
	}
}

func terminatingPod(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(time.Second)) }

func orphan(p *corev1.Pod) { p.OwnerReferences = nil }

// controlledBy makes another object the pod's controller.
func controlledBy(owner types.UID) podEdit {
	return func(p *corev1.Pod) { p.OwnerReferences[0].UID = owner }
}

// restarted sets the restart counts of regular containers.
func restarted(counts ...int32) podEdit {
	return func(p *corev1.Pod) {
		for i, n := range counts {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
				corev1.ContainerStatus{Name: fmt.Sprint("c", i), RestartCount: n})
		}
	}
}

// initRestarted adds an init container with a restart count.
func initRestarted(name string, policy *corev1.ContainerRestartPolicy, n int32) podEdit {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, RestartPolicy: policy})
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name, RestartCount: n})
	}
}

// newSnapshot is a set and its pods, and what they mean.
func newSnapshot(set *Set, pods []*corev1.Pod) view { return newView(snapshot{Set: set, Pods: pods}) }

func snapshotOf(set *appsv1.ReplicaSet, lists ...[]*corev1.Pod) view {
	return newSnapshot(OfReplicaSet(set), slices.Concat(lists...))
}

func list(pods ...*corev1.Pod) []*corev1.Pod { return pods }

// lines renders what a plan does, a line for each object: "create 2", "delete p0", "adopt p1".
func lines(steps []plan.Step) (out []string) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Create:
			out = append(out, fmt.Sprint("create ", max(1, s.Count)))
		case plan.Change:
			verb := "release"
			if s.Adopt {
				verb = "adopt"
			}
			if s.Subresource == plan.Status {
				verb = "status"
			}
			out = append(out, verb+" "+s.New.GetName())
		case plan.Delete:
			for _, o := range s.Objects {
				out = append(out, "delete "+o.GetName())
			}
		case plan.Each:
			for _, sequence := range s.Sequences {
				out = append(out, lines(sequence)...)
			}
		}
	}
	return out
}

// names are the names of pods.
func names(pods []*corev1.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

// outcome is that of a plan whose writes of the given verb all ended with err.
func outcome(verb plan.Verb, err error, objects ...plan.Object) plan.Outcome {
	did := plan.Outcome{Err: err}
	for _, o := range objects {
		did.Results = append(did.Results, plan.Result{Verb: verb, Object: o, Err: err})
	}
	return did
}
