package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

const keptBy = "example.com/keep" // a finalizer, so that the test can see what was done to a pod

// node makes a node that nobody plays.
func (b *bench) node(name string) {
	b.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := b.Client.CoreV1().Nodes().Create(b.Context(), n, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) bound(name, node string, finalizers ...string) {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
	p.Spec.NodeName, p.Spec.SchedulerName = node, "nobody"
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // no other controller evicts it
	if _, err := b.Client.CoreV1().Pods(b.ns).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) pod(name string) *corev1.Pod {
	b.Helper()
	p, err := b.Client.CoreV1().Pods(b.ns).Get(b.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func TestPodGCOfTerminatedPods(t *testing.T) {
	b := alone(t)
	for i := range 50 {
		b.bound(fmt.Sprintf("ended-%02d", i), "")
		if err := b.podStatus(t.Context(), fmt.Sprintf("ended-%02d", i), corev1.PodStatus{Phase: corev1.PodFailed}); err != nil {
			t.Fatal(err)
		}
	}
	b.Manager(t, "--controllers=podgc", "--terminated-pod-gc-threshold=10")
	b.wait("PGC-4: ten of the terminated pods are left", func() error {
		left, err := b.Client.CoreV1().Pods(b.ns).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(left.Items) != 10 {
			err = fmt.Errorf("%d are left", len(left.Items))
		}
		return err
	})
}

// TestPodGC has a manager of its own, whose first cycle begins at once, beside the shared one: two of them do no harm.
func TestPodGC(t *testing.T) {
	b := share(t)
	for _, name := range []string{"gone", "out"} {
		b.node(name)
	}
	t.Cleanup(func() { // the test's own context is over then
		if err := b.Client.CoreV1().Nodes().Delete(context.Background(), "out", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	b.bound("orphan", "gone", keptBy)
	b.bound("stays", "out")
	b.bound("stuck", "out")
	b.bound("unscheduled", "", keptBy)
	b.Kubectl(t, "taint", "node", "out", "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	b.Kubectl(t, "-n", b.ns, "delete", "pod", "stuck", "unscheduled", "--wait=false", "--grace-period=300")

	lost := time.Now() // from here on either manager may notice
	b.Kubectl(t, "delete", "node", "gone")
	b.Manager(t, "--controllers=podgc")
	b.wait("PGC-7: the pod that terminates on the node out of service is gone", func() error {
		if b.pod("stuck") != nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	b.wait("PGC-12, PGC-13: the unscheduled pod has failed", func() error {
		if p := b.pod("unscheduled"); p.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("its phase is %s", p.Status.Phase)
		}
		return nil
	})
	cluster.Eventually(t, 2*patience, "PGC-8: the orphan is deleted", func() error {
		if p := b.pod("orphan"); p.DeletionTimestamp == nil {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	if waited := time.Since(lost); waited < 38*time.Second { // and at the latest when? TestOrphanGoesAfterGracePeriodAndLiveRead says it
		t.Errorf("PGC-9: the orphan went after %v, without the grace period", waited)
	}
	p := b.pod("orphan")
	if p.Status.Phase != corev1.PodFailed || !hasDisruption(p) {
		t.Errorf("PGC-14, PGC-15: %+v", p.Status)
	}
	if b.pod("stays") == nil {
		t.Error("PGC-7: a pod that does not terminate was deleted")
	}
	for _, name := range []string{"orphan", "unscheduled"} {
		b.patchMeta("pod", name, `{"metadata":{"finalizers":null}}`)
	}
}

func hasDisruption(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByPodGC" &&
			c.Message == "PodGC: node no longer exists" {
			return true
		}
	}
	return false
}
