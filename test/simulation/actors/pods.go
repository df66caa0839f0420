package actors

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// What becomes of a pod is in the name of its image, before the colon.
const (
	Good    = "good"    // becomes ready
	Slow    = "slow"    // becomes ready after half a minute or so
	Bad     = "bad"     // runs, but never becomes ready
	Failing = "failing" // some of its pods fail soon, the others become ready
	Flaky   = "flaky"   // is ready, is not, is again
	Done    = "done"    // succeeds after a while
	Flop    = "flop"    // some of its pods fail, the others succeed
)

func (c *Cluster) note(resource string, e *apiserver.Event) {
	switch resource {
	case "pods":
		c.notePod(e)
		c.noteUse(e)
	case "volumeattachments":
		c.noteAttachment(e)
	case "nodes":
		c.noteNewNode(e)
	case "jobs":
		c.noteJob(e)
	case "persistentvolumeclaims":
		c.noteClaim(e)
	case "persistentvolumes":
		c.noteVolume(e)
	case "namespaces":
		if e.Object.GetDeletionTimestamp() != nil && !c.LeaveGarbage {
			name, uid := e.Object.GetName(), e.Object.GetUID()
			c.after(c.delay("empty", name, 5*time.Second, 10*time.Second), func() { c.emptyNamespace(name, uid) })
		}
	}
	c.noteOwnership(e)
}

// notePod makes appointments for a pod that is new, was bound to a node, or is to end.
func (c *Cluster) notePod(e *apiserver.Event) {
	p := e.Object.(*corev1.Pod)
	if e.Type == watch.Deleted {
		return
	}
	before, _ := e.Before.(*corev1.Pod)
	switch {
	case c.Pace > 0:
		c.notePaced(p, before)
	case p.DeletionTimestamp != nil &&
		(before == nil || before.DeletionTimestamp == nil || p.DeletionTimestamp.Before(before.DeletionTimestamp)):
		c.noteEnd(p)
	case p.Spec.NodeName == "" && before == nil && scheduled(p):
		c.after(c.delay("bind", p.Name, 0, 500*time.Millisecond), func() { c.bind(p) })
	case p.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == ""):
		c.after(c.delay("start", p.Name, 50*time.Millisecond, time.Second), func() { c.start(p) })
	}
}

// bind is the scheduler.
func (c *Cluster) bind(p *corev1.Pod) {
	var usable []string
	for _, n := range apiserver.All[*corev1.Node](c.server) {
		if target := podutil.TargetNode(p); target == n.Name || target == "" && schedulable(n, p) {
			usable = append(usable, n.Name)
		}
	}
	if len(usable) == 0 || !c.allocate(p) {
		if live := apiserver.One[*corev1.Pod](c.server, p.Namespace, p.Name); live != nil && live.UID == p.UID && !finished(live) {
			c.after(5*time.Second, func() { c.bind(p) })
		}
		return
	}
	node := usable[c.draw("node", p.Name, uint64(len(usable)))]
	c.editPod("scheduler", p, "", func(p *corev1.Pod) {
		if p.DeletionTimestamp == nil {
			p.Spec.NodeName = node
		}
	})
}

// schedulable says whether a node takes new pods like this one, that name none.
func schedulable(n *corev1.Node, p *corev1.Pod) bool {
	_, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, p.Spec.Tolerations,
		func(t *corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		}, false)
	return n.DeletionTimestamp == nil && ready(n.Status.Conditions) && !n.Spec.Unschedulable && !untolerated
}

// start is the kubelet that has got a pod.
func (c *Cluster) start(p *corev1.Pod) {
	if c.lost[p.Spec.NodeName] {
		c.after(time.Second, func() { c.start(p) })
		return
	}
	c.addresses++
	ip := fmt.Sprintf("10.1.%d.%d", c.addresses/250, 1+c.addresses%250)
	alive := c.editPod("kubelet", p, "status", func(p *corev1.Pod) {
		if finished(p) {
			return
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		p.Status.StartTime = ptr.To(metav1.Now().Rfc3339Copy())
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  p.Spec.Containers[0].Name,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now().Rfc3339Copy()}},
		}}
		setReady(p, false)
	})
	if !alive {
		return
	}
	switch character := Character(p); {
	case c.told(p):
	case character == Bad:
		c.restart(p, 0)
	case character == Failing && c.chance("fails", p.Name, 40):
		c.after(c.delay("fail", p.Name, 100*time.Millisecond, 5*time.Second), func() { c.finish(p, corev1.PodFailed, "") })
	case character == Done, character == Flop:
		phase := corev1.PodSucceeded
		if character == Flop && c.chance("fails", p.Name, 40) {
			phase = corev1.PodFailed
		}
		c.after(c.delay("done", p.Name, 100*time.Millisecond, 10*time.Second), func() { c.finish(p, phase, "") })
	case character == Slow:
		c.after(c.delay("ready", p.Name, 10*time.Second, 40*time.Second), func() { c.become(p, true) })
	default:
		c.after(c.delay("ready", p.Name, 50*time.Millisecond, 3*time.Second), func() { c.become(p, true) })
	}
}

// become turns readiness on or off.
func (c *Cluster) become(p *corev1.Pod, to bool) {
	if c.lost[p.Spec.NodeName] {
		c.after(time.Second, func() { c.become(p, to) })
		return
	}
	alive := c.editPod("kubelet", p, "status", func(p *corev1.Pod) {
		if p.DeletionTimestamp == nil && !finished(p) {
			setReady(p, to)
		}
	})
	if alive && Character(p) == Flaky && c.draws("flips", p.Name) {
		c.after(c.delay(fmt.Sprint("flip", to), p.Name, time.Second, 20*time.Second), func() { c.become(p, !to) })
	}
}

// draws lets something happen again with a falling chance, so that it ends.
func (c *Cluster) draws(what, object string) bool {
	c.order++
	return c.chance(fmt.Sprint(what, time.Now().Unix()), object, 60)
}

// restart lets a container crash again and again, ever more rarely.
func (c *Cluster) restart(p *corev1.Pod, times int32) {
	if times >= 4 || c.lost[p.Spec.NodeName] {
		return
	}
	c.after(10*time.Second<<times, func() {
		if c.editPod("kubelet", p, "status", func(p *corev1.Pod) {
			if len(p.Status.ContainerStatuses) > 0 && !finished(p) {
				p.Status.ContainerStatuses[0].RestartCount = times + 1
			}
		}) {
			c.restart(p, times+1)
		}
	})
}

// finish ends a pod that stays.
func (c *Cluster) finish(p *corev1.Pod, phase corev1.PodPhase, reason string) {
	c.editPod("kubelet", p, "status", func(p *corev1.Pod) {
		if p.DeletionTimestamp == nil && !finished(p) {
			p.Status.Phase, p.Status.Reason = phase, reason
			setReady(p, false)
		}
	})
}

// noteEnd: the kubelet of a pod that is to end lets it end, and then takes it away.
func (c *Cluster) noteEnd(p *corev1.Pod) {
	if p.Spec.NodeName == "" {
		return
	}
	grace := time.Duration(ptr.Deref(p.DeletionGracePeriodSeconds, 0)) * time.Second
	took := min(c.delay("end", p.Name, 20*time.Millisecond, 2*time.Second), grace)
	if c.chance("ends slowly", p.Name, 10) {
		took = grace
	}
	if after, err := time.ParseDuration(p.Annotations[cluster.TerminateAfter]); err == nil {
		took = after
	}
	c.after(took/2, func() { c.end(p, false) })
	c.after(took, func() { c.end(p, true) })
}

func (c *Cluster) end(p *corev1.Pod, gone bool) {
	if c.lost[p.Spec.NodeName] {
		c.after(time.Second, func() { c.end(p, gone) })
		return
	}
	if gone {
		c.remove("kubelet", "pods", p, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		return
	}
	c.editPod("kubelet", p, "status", func(p *corev1.Pod) {
		setReady(p, false)
		if len(p.Finalizers) > 0 && !finished(p) { // who holds it back sees how it ended
			p.Status.Phase = corev1.PodFailed
		}
	})
}

// editPod changes a pod if it is still the same, and reports whether it is.
func (c *Cluster) editPod(by string, p *corev1.Pod, subresource string, edit func(*corev1.Pod)) bool {
	same := false
	_, _ = Edit(c.server, by, p.Namespace, p.Name, subresource, func(now *corev1.Pod) {
		if same = now.UID == p.UID; same {
			edit(now)
		}
	})
	return same
}

// Character is what a pod's image says about it.
func Character(p *corev1.Pod) string {
	name, _, _ := strings.Cut(p.Spec.Containers[0].Image, ":")
	return name
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// setReady sets the condition Ready of a pod.
func setReady(p *corev1.Pod, to bool) {
	status := corev1.ConditionFalse
	if to {
		status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i < 0 {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady})
		i = len(p.Status.Conditions) - 1
	}
	if ready := &p.Status.Conditions[i]; ready.Status != status {
		ready.Status, ready.LastTransitionTime = status, metav1.Now().Rfc3339Copy()
	}
}

func ready(conditions []corev1.NodeCondition) bool {
	return slices.ContainsFunc(conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
