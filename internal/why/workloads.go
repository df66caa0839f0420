package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// revision is the annotation by which Deployments and their ReplicaSets are told apart.
const revision = "deployment.kubernetes.io/revision"

// podsOf returns the pods that an object controls, among those that its selector matches.
func (w *world) podsOf(ctx context.Context, owner plan.Object, selector *metav1.LabelSelector) []*corev1.Pod {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	return controlledBy(owner, list[*corev1.Pod](ctx, w, owner.GetNamespace(), s))
}

func controlledBy(owner plan.Object, pods []*corev1.Pod) (own []*corev1.Pod) {
	for _, p := range pods {
		if metav1.IsControlledBy(p, owner) {
			own = append(own, p)
		}
	}
	return own
}

// worstOf returns the verdict on the pod of an object that needs people most; nil if all are as wanted. Of many pods it
// reads the first ones, and the others if these are as wanted. Pods that have ended stay beside those that have taken
// their place: they count if they were made lately and no other one is at fault.
func (w *world) worstOf(ctx context.Context, owner plan.Object, selector *metav1.LabelSelector) *verdict {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	some, all := w.firstPods(ctx, owner.GetNamespace(), s)
	own := controlledBy(owner, some)
	v := w.worst(ctx, slices.DeleteFunc(slices.Clone(own), podutil.Finished))
	if v == nil && !all {
		own = w.podsOf(ctx, owner, selector)
		v = w.worst(ctx, slices.DeleteFunc(slices.Clone(own), podutil.Finished))
	}
	if v != nil && !v.last().moving {
		return v
	}
	ended := w.worst(ctx, slices.DeleteFunc(own, func(p *corev1.Pod) bool {
		return !podutil.Finished(p) || w.now.Sub(p.CreationTimestamp.Time) > quietFor
	}))
	if ended != nil {
		return ended
	}
	return v
}

// worst returns the verdict on the pod that needs people most; nil if all are as wanted.
func (w *world) worst(ctx context.Context, pods []*corev1.Pod) (worst *verdict) {
	const enough = 50 // pods of one template have the same cause; the first say it
	looked := 0
	for _, p := range pods {
		if looked == enough || p.DeletionTimestamp == nil && podutil.Ready(p) {
			continue
		}
		looked++
		if v := w.explain(ctx, p); v != nil && v.state != AsWanted && v.worse(worst) {
			worst = v
		}
	}
	return worst
}

// unseen adds to a verdict, which has found no cause, that no controller has seen the latest generation of the object.
func (w *world) unseen(ctx context.Context, o plan.Object, observed int64, v *verdict) *verdict {
	if observed >= o.GetGeneration() || v.because != nil {
		return v
	}
	v.state, v.reason = Waiting, "NotObserved"
	return v.adding(fmt.Sprintf("no controller has seen its generation %d yet", o.GetGeneration())).inferred().
		through(w.leader(ctx))
}

// scaledToZero is the reason of a workload that asks for no pods.
const scaledToZero = "ScaledToZero"

// zero is a verdict on a workload that asks for no pods.
func (w *world) zero(o plan.Object) *verdict {
	return waits(o, scaledToZero, "it asks for no pods: spec.replicas is 0").until("somebody scales it up")
}

func (w *world) deployment(ctx context.Context, d *appsv1.Deployment) *verdict {
	return w.unseen(ctx, d, d.Status.ObservedGeneration, w.rollout(ctx, d))
}

// rollout is the verdict on a Deployment, as if its status was of the latest generation.
func (w *world) rollout(ctx context.Context, d *appsv1.Deployment) *verdict {
	wanted, s := ptr.Deref(d.Spec.Replicas, 1), d.Status
	switch {
	case wanted == 0 && s.Replicas == 0:
		return w.zero(d)
	case s.UpdatedReplicas == wanted && s.Replicas == wanted && s.AvailableReplicas == wanted:
		return fine(d, "all %d pods are of the latest template and available", wanted)
	}
	v := waits(d, "RollingOut", "%d of %d pods are of the latest template, %d are available", s.UpdatedReplicas, wanted,
		s.AvailableReplicas)
	if d.Spec.Paused && s.UpdatedReplicas < wanted {
		v.reason, v.state = "Paused", Failing
		v.says += "; it is paused"
		return v.until("somebody resumes it")
	}
	newest, others := w.replicaSetsOf(ctx, d)
	if newest == nil {
		return w.noReplicaSet(ctx, d, v)
	}
	if below := w.replicaSet(ctx, newest); below.state != AsWanted {
		return w.unavailableAtOnce(d, v.through(below))
	}
	for _, rs := range append(others, newest) { // whose own status may be older than that of its pods
		if below := w.worstOf(ctx, rs, rs.Spec.Selector); below != nil {
			return v.through(below)
		}
	}
	if c := deploymentCondition(d, appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionFalse {
		return fails(d, c.Reason, "%s; %s", v.says, c.Message)
	}
	if d.Spec.MinReadySeconds > 0 {
		v.says += fmt.Sprintf("; a pod counts %d seconds after it is ready", d.Spec.MinReadySeconds)
	}
	return v.moves()
}

// noReplicaSet is the verdict on a Deployment whose ReplicaSet is not there.
func (w *world) noReplicaSet(ctx context.Context, d *appsv1.Deployment, v *verdict) *verdict {
	if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		return v.through(w.refused(ctx, d, c.Message))
	}
	if c := deploymentCondition(d, appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionFalse {
		return v.through(w.refused(ctx, d, c.Message))
	}
	if w.unlisted(client.KindFor[*appsv1.ReplicaSet](), d.Namespace) {
		return v.adding("its ReplicaSets could not be read").inferred()
	}
	v.says += "; its ReplicaSet is not there yet"
	return v.through(w.leader(ctx))
}

// unavailableAtOnce adds that a Deployment gives up all its old pods at once, which is why none is available while the
// new ones are not.
func (w *world) unavailableAtOnce(d *appsv1.Deployment, v *verdict) *verdict {
	rolling := d.Spec.Strategy.RollingUpdate
	if d.Status.AvailableReplicas > 0 || rolling == nil || rolling.MaxUnavailable == nil ||
		d.Annotations[revision] == "1" {
		return v
	}
	wanted := int(ptr.Deref(d.Spec.Replicas, 1))
	if most, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, wanted, false); err == nil &&
		most >= wanted {
		v.says += fmt.Sprintf("; maxUnavailable is %s, so the old pods went before the new ones were ready",
			rolling.MaxUnavailable)
	}
	return v
}

func deploymentCondition(d *appsv1.Deployment, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	return first(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == t })
}

// replicaSetsOf returns the ReplicaSet of the latest template, and the others that have pods.
func (w *world) replicaSetsOf(ctx context.Context, d *appsv1.Deployment) (newest *appsv1.ReplicaSet,
	others []*appsv1.ReplicaSet) {
	s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, nil
	}
	for _, rs := range list[*appsv1.ReplicaSet](ctx, w, d.Namespace, s) {
		switch {
		case !metav1.IsControlledBy(rs, d):
		case rs.Annotations[revision] == d.Annotations[revision] || d.Annotations[revision] == "":
			newest = rs
		case rs.Status.Replicas > 0:
			others = append(others, rs)
		}
	}
	return newest, others
}

func (w *world) replicaSet(ctx context.Context, rs *appsv1.ReplicaSet) *verdict {
	failure := ""
	if c := first(rs.Status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
		return c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue
	}); c != nil {
		failure = c.Message
	}
	return w.replicas(ctx, rs, replicas{
		wanted: ptr.Deref(rs.Spec.Replicas, 1), ready: rs.Status.ReadyReplicas, there: rs.Status.Replicas,
		available: rs.Status.AvailableReplicas, observed: rs.Status.ObservedGeneration, failure: failure,
		selector: rs.Spec.Selector,
	})
}

func (w *world) replicationController(ctx context.Context, rc *corev1.ReplicationController) *verdict {
	failure := ""
	if c := first(rc.Status.Conditions, func(c corev1.ReplicationControllerCondition) bool {
		return c.Type == corev1.ReplicationControllerReplicaFailure && c.Status == corev1.ConditionTrue
	}); c != nil {
		failure = c.Message
	}
	return w.replicas(ctx, rc, replicas{
		wanted: ptr.Deref(rc.Spec.Replicas, 1), ready: rc.Status.ReadyReplicas, there: rc.Status.Replicas,
		available: rc.Status.AvailableReplicas, observed: rc.Status.ObservedGeneration, failure: failure,
		selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector},
	})
}

// replicas is what ReplicaSets and ReplicationControllers have in common.
type replicas struct {
	wanted, ready, available, there int32
	observed                        int64
	failure                         string // to create or delete a pod
	selector                        *metav1.LabelSelector
}

func (w *world) replicas(ctx context.Context, o plan.Object, r replicas) *verdict {
	return w.unseen(ctx, o, r.observed, w.available(ctx, o, r))
}

// available is the verdict on replicas, as if the status was of the latest generation.
func (w *world) available(ctx context.Context, o plan.Object, r replicas) *verdict {
	switch {
	case r.wanted == 0 && r.there == 0 && metav1.GetControllerOfNoCopy(o) == nil:
		return w.zero(o)
	case r.there == r.wanted && r.available == r.wanted:
		return fine(o, "all %d pods are available", r.wanted)
	}
	v := waits(o, "NotAvailable", "%d of %d pods are there, %d are ready", r.there, r.wanted, r.ready)
	if r.there < r.wanted {
		if r.failure == "" {
			r.failure = w.failedCreate(ctx, o, r.selector)
		}
		if r.failure != "" {
			return v.through(w.refused(ctx, o, r.failure))
		}
	}
	if below := w.worstOf(ctx, o, r.selector); below != nil {
		return v.through(below)
	}
	if below := w.preempted(ctx, o, o.GetName()); below != nil && r.ready < r.wanted {
		return v.through(below)
	}
	if r.ready > r.available {
		v.says += fmt.Sprintf(", %d are available", r.available)
	}
	return v.moves()
}

// quietFor is for how long no event may tell of what goes on happening: of many events, clients send one in five
// minutes.
const quietFor = 5 * time.Minute

// failedCreate is what the latest event says of a pod or a claim that was refused; empty if nothing was refused, or a
// pod has been created since.
func (w *world) failedCreate(ctx context.Context, owner plan.Object, selector *metav1.LabelSelector) string {
	e := withReason(w.warnings(ctx, owner), "FailedCreate")
	if e == nil {
		return ""
	}
	for _, p := range w.podsOf(ctx, owner, selector) {
		if timeOf(e).Add(quietFor).Before(p.CreationTimestamp.Time) {
			return ""
		}
	}
	return e.Message
}

func (w *world) statefulSet(ctx context.Context, s *appsv1.StatefulSet) *verdict {
	return w.unseen(ctx, s, s.Status.ObservedGeneration, w.ordered(ctx, s))
}

// ordered is the verdict on a StatefulSet, as if its status was of the latest generation.
func (w *world) ordered(ctx context.Context, s *appsv1.StatefulSet) *verdict {
	wanted, st := ptr.Deref(s.Spec.Replicas, 1), s.Status
	if wanted == 0 && st.Replicas == 0 {
		return w.zero(s)
	}
	updated := st.UpdatedReplicas
	if st.CurrentRevision == st.UpdateRevision {
		updated = wanted
	} else if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		updated = max(updated, min(wanted, st.UpdatedReplicas+*r.Partition))
	}
	if st.Replicas == wanted && st.ReadyReplicas == wanted && st.AvailableReplicas == wanted && updated == wanted {
		return fine(s, "all %d pods are available", wanted)
	}
	v := waits(s, "RollingOut", "%d of %d pods are there, %d are ready, %d are of the latest revision", st.Replicas,
		wanted,
		st.ReadyReplicas, updated)
	pods := w.podsOf(ctx, s, s.Spec.Selector)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { // by ordinal
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	if below := w.worst(ctx, pods); below != nil {
		return w.brokenRevision(s, pods, v.through(below))
	}
	if message := w.failedCreate(ctx, s, s.Spec.Selector); message != "" && st.Replicas < wanted {
		return v.through(w.refused(ctx, s, message))
	}
	if below := w.preempted(ctx, s, s.Name); below != nil {
		return v.through(below)
	}
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType && updated < wanted {
		return onDelete(v)
	}
	return v.moves()
}

// onDelete adds that old pods stay until somebody deletes them.
func onDelete(v *verdict) *verdict {
	v.reason = "OnDelete"
	return v.adding("updateStrategy is OnDelete").until("somebody deletes the pods of the old template")
}

// brokenRevision adds that a pod of an old revision is not replaced before it is ready, which it will not be.
func (w *world) brokenRevision(s *appsv1.StatefulSet, pods []*corev1.Pod, v *verdict) *verdict {
	if s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement ||
		s.Status.CurrentRevision == s.Status.UpdateRevision {
		return v
	}
	for _, p := range pods {
		if !podutil.Ready(p) && p.Labels[appsv1.StatefulSetRevisionLabel] != s.Status.UpdateRevision {
			v.last().ends = fmt.Sprintf("somebody deletes pod %s, which the StatefulSet replaces only when it is ready",
				p.Name)
			return v
		}
	}
	return v
}

func (w *world) daemonSet(ctx context.Context, d *appsv1.DaemonSet) *verdict {
	return w.unseen(ctx, d, d.Status.ObservedGeneration, w.onNodes(ctx, d))
}

// onNodes is the verdict on a DaemonSet, as if its status was of the latest generation.
func (w *world) onNodes(ctx context.Context, d *appsv1.DaemonSet) *verdict {
	st := d.Status
	updated := st.UpdatedNumberScheduled
	all := st.NumberAvailable >= st.DesiredNumberScheduled && st.CurrentNumberScheduled >= st.DesiredNumberScheduled &&
		updated >= st.DesiredNumberScheduled
	switch {
	case st.DesiredNumberScheduled == 0:
		return waits(d, "NoNode", "no node fits: its node selector is %s, and taints count",
			selectorText(d.Spec.Template.Spec)).inferred()
	case all:
		return fine(d, "all %d pods are available", st.DesiredNumberScheduled)
	}
	v := waits(d, "RollingOut", "%d of %d nodes have their pod, %d are available, %d are of the latest template",
		st.CurrentNumberScheduled, st.DesiredNumberScheduled, st.NumberAvailable, updated)
	if below := w.worstOf(ctx, d, d.Spec.Selector); below != nil {
		return v.through(below)
	}
	if message := w.failedCreate(ctx, d, d.Spec.Selector); message != "" &&
		st.CurrentNumberScheduled < st.DesiredNumberScheduled {
		return v.through(w.refused(ctx, d, message))
	}
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType && updated < st.DesiredNumberScheduled {
		return onDelete(v)
	}
	return v.moves()
}

// selectorText is where a template wants its pods to be.
func selectorText(s corev1.PodSpec) string {
	text := labels.Set(s.NodeSelector).String()
	if s.Affinity != nil && s.Affinity.NodeAffinity != nil {
		text += " with node affinity"
	}
	if text == "" {
		return "empty"
	}
	return text
}
