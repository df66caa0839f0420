package why

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
)

func (w *world) node(ctx context.Context, n *corev1.Node) *verdict {
	c := nodes.Condition(n, corev1.NodeReady)
	switch {
	case c == nil:
		return fails(n, "NotReady", "its kubelet has never said that it is ready").until("its kubelet runs")
	case c.Status == corev1.ConditionUnknown:
		return fails(n, "NodeStatusUnknown", "its kubelet is silent: %s%s", c.Message,
			w.renewed(ctx, n)).until("its kubelet runs")
	case c.Status == corev1.ConditionFalse:
		return fails(n, c.Reason, "its kubelet is not ready: %s", c.Message)
	}
	for _, t := range []corev1.NodeConditionType{
		corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable,
	} {
		if c := nodes.Condition(n, t); c != nil && c.Status == corev1.ConditionTrue {
			return fails(n, string(t), "condition %s is true: %s", t, c.Message)
		}
	}
	if n.Spec.Unschedulable {
		return fails(n, "Cordoned",
			"it is ready and cordoned (spec.unschedulable): no new pods come").until("somebody uncordons it")
	}
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			return fails(n, "Tainted", "it is ready, and its taint %s evicts pods", t.ToString())
		}
	}
	return fine(n, "it is ready%s", taintsText(n))
}

func taintsText(n *corev1.Node) string {
	var all []string
	for _, t := range n.Spec.Taints {
		all = append(all, t.ToString())
	}
	if len(all) == 0 {
		return ""
	}
	return ", and has taints: " + strings.Join(all, ", ")
}

// renewed says when the kubelet of a node has last renewed its Lease.
func (w *world) renewed(ctx context.Context, n *corev1.Node) string {
	l, is := get[*coordinationv1.Lease](ctx, w, corev1.NamespaceNodeLease, n.Name)
	if is != present || l.Spec.RenewTime == nil {
		return ""
	}
	return fmt.Sprintf(" (its Lease was renewed %s ago)", short(w.now.Sub(l.Spec.RenewTime.Time)))
}

// leader is a verdict on the controller manager; nil if one leads, or that cannot be known.
func (w *world) leader(ctx context.Context) *verdict {
	l, is := get[*coordinationv1.Lease](ctx, w, metav1.NamespaceSystem, "kube-controller-manager")
	if is != present || l.Spec.RenewTime == nil { // a manager may lead by another lease, or by none
		return nil
	}
	lasts := workloads.Seconds(ptr.Deref(l.Spec.LeaseDurationSeconds, 15))
	if since := w.now.Sub(l.Spec.RenewTime.Time); since > lasts {
		return fails(l, "NoLeader", "no controller manager has renewed it for %s",
			short(since)).until("a controller manager runs")
	}
	return nil
}
