package integration

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// workOfNodes has nodes get their ranges of addresses, and pods on them that are evicted, or are not.
func (b *bench) workOfNodes() {
	b.Helper()
	b.tainted("tainted")
	b.spared("spared")
	b.silent("silent")
	b.wait("the node has ranges of addresses", func() error {
		n, err := b.Client.CoreV1().Nodes().Get(b.Context(), b.ns+"-tainted", metav1.GetOptions{})
		if err == nil && len(n.Spec.PodCIDRs) != 2 {
			err = fmt.Errorf("it has %v", n.Spec.PodCIDRs)
		}
		return err
	})
}

// tainted makes a node, and a pod on it, which a taint then evicts.
func (b *bench) tainted(name string) {
	b.Helper()
	node := b.nodeWith(name, nil)
	b.taint(node, drainTaint)
	b.wait("the pod "+name+" is evicted", func() error {
		if p := b.pod(name); p != nil && p.DeletionTimestamp == nil {
			return fmt.Errorf("it is not: %v", p.Status.Conditions)
		}
		return nil
	})
}

const drainTaint = `{"key":"example.com/drain","effect":"NoExecute"}`

// spared makes a node, and a pod on it that is spared again and again, because a taint goes before its time is over: the second event of
// that is a patch of the first.
func (b *bench) spared(name string) {
	b.Helper()
	node := b.nodeWith(name,
		[]corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To[int64](300)}})
	b.wait("two events say that the pod stays", func() error {
		b.taint(node, drainTaint)
		b.taint(node, "")
		events, err := b.Client.CoreV1().Events(b.ns).List(b.Context(),
			metav1.ListOptions{FieldSelector: "reason=TaintManagerEviction,involvedObject.name=" + name})
		if err == nil && (len(events.Items) == 0 || events.Items[0].Count < 2) {
			err = fmt.Errorf("%d events", len(events.Items))
		}
		return err
	})
}

// silent makes a node whose kubelet never starts, and a pod on it that seems to be ready.
func (b *bench) silent(name string) {
	b.Helper()
	b.nodeWith(name, []corev1.Toleration{{Operator: corev1.TolerationOpExists}})
	status := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	if _, err := b.Client.CoreV1().Pods(b.ns).Patch(b.Context(), name, types.StrategicMergePatchType, status, metav1.PatchOptions{},
		"status"); err != nil {
		b.Fatal(err)
	}
	b.wait("the pod is not ready", func() error {
		p := b.pod(name)
		if p == nil || podutil.ReadyCondition(p) == nil || podutil.ReadyCondition(p).Status != corev1.ConditionFalse {
			return fmt.Errorf("the pod is %+v", p)
		}
		return nil
	})
}

// nodeWith makes a node, and a pod on it, both of which nobody runs.
func (b *bench) nodeWith(name string, tolerations []corev1.Toleration) (node string) {
	b.Helper()
	nodes := b.Client.CoreV1().Nodes()
	n, err := nodes.Create(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.ns + "-" + name}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := nodes.Delete(context.Background(), n.Name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: suite.Template(name, "web:1").Spec}
	p.Spec.NodeName, p.Spec.Tolerations = n.Name, tolerations
	if _, err := b.Client.CoreV1().Pods(b.ns).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	return n.Name
}

// taint gives a node a taint, in JSON, in place of those that it has; empty: none.
func (b *bench) taint(node, taint string) {
	b.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"taints":[%s]}}`, taint)
	if _, err := b.Client.CoreV1().Nodes().Patch(b.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
}
