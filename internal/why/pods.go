package why

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// first returns the first item that is as wanted; nil if none is.
func first[T any](all []T, is func(T) bool) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return &all[i]
	}
	return nil
}

func podCondition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	return first(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
}

func (w *world) pod(ctx context.Context, p *corev1.Pod) *verdict {
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		return fine(p, "all its containers have ended well")
	case p.Status.Phase == corev1.PodFailed:
		return w.failedPod(ctx, p)
	case p.Spec.NodeName == "":
		return w.unscheduled(ctx, p)
	}
	// A node that is not ready explains all that its kubelet does not do.
	if v := w.nodeOf(ctx, p); v != nil {
		return v
	}
	if v := w.containers(ctx, p); v != nil {
		return v
	}
	if v := sidecar(p); v != nil {
		return v
	}
	if podutil.Ready(p) {
		return fine(p, "it is ready")
	}
	if v := w.mounts(ctx, p); v != nil {
		return v
	}
	return w.unready(ctx, p)
}

// failedPod is a verdict on a pod that has ended badly.
func (w *world) failedPod(ctx context.Context, p *corev1.Pod) *verdict {
	why := fails(p, p.Status.Reason, "it has failed: %s: %s", p.Status.Reason, p.Status.Message)
	if p.Status.Reason == "Evicted" && strings.Contains(p.Status.Message, "node was low on resource") {
		return why.through(w.wasLow(ctx, p))
	}
	if c := podCondition(p, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return fails(p, c.Reason, "it was ended: %s", c.Message)
	}
	if p.Status.Reason != "" {
		return why
	}
	for _, s := range allStatuses(p) {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return fails(p, t.Reason, "it has failed: %s", endOf(s.Name, t))
		}
	}
	return fails(p, "Failed", "it has failed")
}

// wasLow is a verdict on a node whose kubelet has evicted a pod.
func (w *world) wasLow(ctx context.Context, p *corev1.Pod) *verdict {
	n, is := get[*corev1.Node](ctx, w, "", p.Spec.NodeName)
	if is != present {
		return nil
	}
	if v := w.node(ctx, n); v.state == Failing {
		return v.adding(p.Status.Message)
	}
	return fails(n, "WasLow", "its kubelet has evicted pods: %s", p.Status.Message)
}

// sidecar is a verdict on a pod of which a container has ended well, and another one runs on; nil if that is as wanted.
func sidecar(p *corev1.Pod) *verdict {
	if p.Spec.RestartPolicy == corev1.RestartPolicyAlways || p.Status.Phase != corev1.PodRunning {
		return nil
	}
	done, running := "", ""
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0:
			done = s.Name
		case s.State.Running != nil:
			running = s.Name
		}
	}
	if done == "" || running == "" {
		return nil
	}
	return fails(p, "SidecarRuns", "container %s has ended, and container %s runs on, so the pod never ends", done,
		running).
		inferred().until("container %s ends, or is an init container with restartPolicy Always", running)
}

// allStatuses are those of all containers, those that run first before others.
func allStatuses(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

// endOf says how a container has ended.
func endOf(name string, t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("container %s ended with exit code %d", name, t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		text += fmt.Sprintf(" (%s)", t.Reason)
	}
	if t.Message != "" {
		text += ": " + strings.TrimSpace(t.Message)
	}
	return text
}

// nodeOf is a verdict on a pod whose node is not there or not ready; nil if the node is as it should be.
func (w *world) nodeOf(ctx context.Context, p *corev1.Pod) *verdict {
	n, is := get[*corev1.Node](ctx, w, "", p.Spec.NodeName)
	switch is {
	case absent:
		v := fails(p, "NodeMissing", "its node does not exist")
		return v.through(lacking[*corev1.Node]("", p.Spec.NodeName, "it does not exist, and pod %s is bound to it",
			p.Name))
	case present:
		if !nodes.Ready(n) && !podutil.Ready(p) {
			return waits(p, "NodeNotReady", "its node is not ready").through(w.node(ctx, n))
		}
	}
	return nil
}

// startsWithin is how long a new pod may take without anybody having to look.
const startsWithin = 20 * time.Second

// unready is a verdict on a pod all of whose containers run, or are not known to.
func (w *world) unready(ctx context.Context, p *corev1.Pod) *verdict {
	for _, gate := range p.Spec.ReadinessGates {
		if c := podCondition(p, gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return waits(p, "ReadinessGate", "its readiness gate %s is not true", gate.ConditionType).
				until("the controller of that gate sets the condition")
		}
	}
	warnings := w.warnings(ctx, p)
	if e := withReason(warnings, "Unhealthy"); e != nil {
		return fails(p, "Unhealthy", "%s%s", e.Message, w.probeAt(p))
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Running != nil && !s.Ready {
			return waits(p, "NotReady", "container %s runs, and is not ready%s", s.Name, w.probeAt(p)).
				until("its readiness probe succeeds")
		}
	}
	if e := withReason(warnings, "FailedCreatePodSandBox", "NetworkNotReady", "Failed", "BackOff",
		"FailedMount"); e != nil {
		return fails(p, e.Reason, "%s", e.Message)
	}
	if c := podCondition(p, corev1.PodReady); c != nil && c.Message != "" {
		return waits(p, c.Reason, "%s", c.Message)
	}
	v := waits(p, "NotStarted", "the kubelet of node %s has not started it yet", p.Spec.NodeName).inferred()
	if w.now.Sub(p.CreationTimestamp.Time) < startsWithin {
		return v.moves()
	}
	return v
}

// probeAt says which readiness probe looks at a port that its container does not name.
func (w *world) probeAt(p *corev1.Pod) string {
	for _, c := range p.Spec.Containers {
		if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet == nil || len(c.Ports) == 0 {
			continue
		}
		port := c.ReadinessProbe.HTTPGet.Port
		if !slices.ContainsFunc(c.Ports, func(own corev1.ContainerPort) bool {
			return own.Name == port.StrVal && port.StrVal != "" || own.ContainerPort == port.IntVal
		}) {
			return fmt.Sprintf(" (the probe of container %s asks port %s, which is none of its ports)", c.Name,
				port.String())
		}
	}
	return ""
}

// unscheduled is a verdict on a pod without a node.
func (w *world) unscheduled(ctx context.Context, p *corev1.Pod) *verdict {
	if len(p.Spec.SchedulingGates) > 0 {
		return waits(p, "SchedulingGated", "its scheduling gate %s is not removed", p.Spec.SchedulingGates[0].Name).
			until("whoever has set the gate removes it")
	}
	c := podCondition(p, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse {
		if e := withReason(w.warnings(ctx, p), "FailedScheduling"); e != nil {
			return w.unschedulable(ctx, p, e.Message)
		}
		v := waits(p, "NotScheduled", "no scheduler has looked at it yet; its scheduler is %s", p.Spec.SchedulerName)
		if p.Spec.SchedulerName == corev1.DefaultSchedulerName && w.now.Sub(p.CreationTimestamp.Time) < startsWithin {
			return v.moves()
		}
		v.state = Failing
		return v.until("the scheduler %s runs", p.Spec.SchedulerName)
	}
	return w.unschedulable(ctx, p, c.Message)
}

// podSuffix is what controllers add to the name of an owner: something random, an ordinal, or an index and something
// random. What else begins with the name is of another owner.
var podSuffix = regexp.MustCompile(`^(?:\d+-)?[a-z0-9]+$`)

// preempted is a verdict on whom pods of an owner have made room for; nil if for nobody.
func (w *world) preempted(ctx context.Context, about plan.Object, owner string) *verdict {
	for _, e := range w.events(ctx, about.GetNamespace(), "reason=Preempted") {
		if rest, its := strings.CutPrefix(e.InvolvedObject.Name, owner+"-"); !its || !podSuffix.MatchString(rest) {
			continue
		}
		by := w.podIn(ctx, e)
		if by == nil {
			return fails(about, "Preempted", "pod %s: %s", e.InvolvedObject.Name, e.Message)
		}
		v := fails(by, "Preempted", "it has the place of pod %s, because its priority is higher (%s)",
			e.InvolvedObject.Name,
			priorityOf(by))
		return v.until("there is room for both")
	}
	return nil
}

// podIn returns the pod that an event names by its uid; nil if none does.
func (w *world) podIn(ctx context.Context, e *corev1.Event) *corev1.Pod {
	if related := e.Related; related != nil {
		p, _ := get[*corev1.Pod](ctx, w, related.Namespace, related.Name)
		return p
	}
	for _, p := range list[*corev1.Pod](ctx, w, "", nil) {
		if p.UID != "" && strings.Contains(e.Message, string(p.UID)) {
			return p
		}
	}
	return nil
}

func priorityOf(p *corev1.Pod) string {
	if p.Spec.Priority == nil {
		return "0"
	}
	if p.Spec.PriorityClassName == "" {
		return fmt.Sprint(*p.Spec.Priority)
	}
	return fmt.Sprintf("%d, %s %s", *p.Spec.Priority, named[*schedulingv1.PriorityClass]("", "").Kind,
		p.Spec.PriorityClassName)
}
