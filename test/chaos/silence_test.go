package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

const (
	silenceGrace = 25 * time.Second // more than twice as long as kwok takes to renew Leases
	silenceBeat  = 2 * time.Second
)

// silenceFaults are the scripts of TestSilentNodes.
var silenceFaults = []struct {
	name, script string
	always       bool // in the gate, too
}{
	{"no faults", "", false},
	{"the watch of Leases is frozen", "freeze leases for=10m", true},
	{"the watch of nodes is late", "delay nodes 2s", false},
	{"killed at the first writes", "crash writes=1 after=true back=0s\ncrash writes=3 after=true back=0s\ncrash writes=6 back=0s", true},
	{"answers of writes are lost", "refuse each=2 code=504 after=true resource=nodes\nrefuse each=2 code=504 after=true resource=pods", false},
}

// kubelets are the nodes of a run that nobody plays but the test.
type kubelets struct {
	*run
	mu   sync.Mutex
	dead map[string]bool
}

// TestSilentNodes lets nodes die one after the other, among others that work. Only those may be declared Unknown (S28), and none of their pods
// may stay ready.
func TestSilentNodes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	some := silenceFaults
	if !full {
		some = nil
		for _, f := range silenceFaults {
			if f.always {
				some = append(some, f)
			}
		}
	}
	tally := newTally(t, "nodes that die", len(some), "S28")
	for _, f := range some {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, c, tally, "--node-monitor-grace-period="+silenceGrace.String(), "--node-startup-grace-period="+silenceGrace.String())
			t.Cleanup(func() { r.replayBy(environment()) })
			k := &kubelets{run: r, dead: map[string]bool{}}
			k.register(20)
			stop := make(chan struct{})
			var renewing sync.WaitGroup
			renewing.Go(func() { k.renew(stop) })
			t.Cleanup(renewing.Wait)
			t.Cleanup(func() { close(stop) })
			r.start()
			r.wait("the manager has seen the nodes", time.Minute, k.registered)
			r.disturbs()
			if f.script != "" {
				r.playAll(f.script)
			}
			for i := range 5 {
				k.kill(i)
				time.Sleep(silenceBeat)
			}
			r.wait("the dead nodes are Unknown, and their pods are not ready", 3*time.Minute, func() error { return k.noticed(5) })
			r.calm()
			h := r.end()
			if f.script == "" {
				k.marksAtOnce(h)
			}
			r.judge(h, oracle.Options{NodeGrace: silenceGrace, NodeStartupGrace: silenceGrace})
		})
	}
}

// register creates nodes that are ready, and two pods on each.
func (k *kubelets) register(n int) {
	k.Helper()
	for i := range n {
		k.try(k.hold(i))
	}
	k.nodes(0, n)
	for i := range n {
		k.try(k.reportReady(i))
		for j := range 2 {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d-%d", i, j)}, Spec: suite.Template("silent", "web:1").Spec}
			p.Spec.NodeName, p.Spec.Tolerations = k.nodeName(i), []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			_, err := k.Client.CoreV1().Pods(k.ns).Create(k.Context(), p, metav1.CreateOptions{})
			k.try(err)
			_, err = k.Client.CoreV1().Pods(k.ns).Patch(k.Context(), p.Name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
			k.try(err)
		}
	}
}

// hold creates the Lease of a node, so that it is not kwok that gets it, which plays the nodes whose Leases it holds.
func (k *kubelets) hold(i int) error {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.nodeName(i)}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("test"), LeaseDurationSeconds: ptr.To[int32](1 << 30), RenewTime: &now,
	}}
	leases := k.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err := leases.Create(k.Context(), lease, metav1.CreateOptions{})
	k.Cleanup(func() { _ = leases.Delete(context.Background(), lease.Name, metav1.DeleteOptions{}) })
	return err
}

func (k *kubelets) try(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

func (k *kubelets) reportReady(i int) error {
	now := time.Now().UTC().Format(time.RFC3339)
	status := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q,"lastTransitionTime":%[1]q}]}}`, now)
	_, err := k.Client.CoreV1().Nodes().Patch(k.Context(), k.nodeName(i), types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status")
	return err
}

// renew renews the Leases of nodes that live, until stop is closed.
func (k *kubelets) renew(stop <-chan struct{}) {
	leases := k.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for {
		for i := range 20 {
			k.mu.Lock()
			dead := k.dead[k.nodeName(i)]
			k.mu.Unlock()
			if dead {
				continue
			}
			renewed := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
			if _, err := leases.Patch(k.Context(), k.nodeName(i), types.MergePatchType, renewed, metav1.PatchOptions{}); err != nil && k.Context().Err() == nil {
				k.Error(err)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(silenceBeat):
		}
	}
}

// registered returns an error while the manager has not said of the first node that it knows it (NL-55).
func (k *kubelets) registered() error {
	of := fields.SelectorFromSet(fields.Set{"involvedObject.name": k.nodeName(0), "reason": "RegisteredNode"})
	events, err := k.Client.CoreV1().Events(metav1.NamespaceDefault).List(k.Context(), metav1.ListOptions{FieldSelector: of.String()})
	if err == nil && len(events.Items) == 0 {
		err = fmt.Errorf("there is no event RegisteredNode of %s", k.nodeName(0))
	}
	return err
}

func (k *kubelets) kill(i int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead[k.nodeName(i)] = true
}

// noticed returns an error while nodes from 0 to n are not Unknown, or pods of them are ready.
func (k *kubelets) noticed(n int) error {
	for i := range n {
		node, err := k.Client.CoreV1().Nodes().Get(k.Context(), k.nodeName(i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
		}) {
			return fmt.Errorf("%s is not Unknown: %+v", node.Name, node.Status.Conditions)
		}
		for j := range 2 {
			p, err := k.Client.CoreV1().Pods(k.ns).Get(k.Context(), fmt.Sprintf("pod-%d-%d", i, j), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if ready := podutil.ReadyCondition(p); ready == nil || ready.Status != corev1.ConditionFalse {
				return fmt.Errorf("%s is not marked, and %s is Unknown: %+v", p.Name, node.Name, p.Status.Conditions)
			}
		}
	}
	return nil
}

// marksAtOnce checks that pods are marked within two seconds after their node was declared Unknown.
func (k *kubelets) marksAtOnce(h *oracle.History) {
	k.Helper()
	unknown := map[string]time.Time{}
	marked := 0
	for _, r := range h.Revisions {
		switch o := r.Object.(type) {
		case *corev1.Node:
			for _, c := range o.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown && unknown[o.Name].IsZero() {
					unknown[o.Name] = r.When
				}
			}
		case *corev1.Pod:
			when := unknown[o.Spec.NodeName]
			if ready := podutil.ReadyCondition(o); when.IsZero() || ready == nil || ready.Status != corev1.ConditionFalse {
				continue
			}
			marked++
			if took := r.When.Sub(when); took > 2*time.Second {
				k.Errorf("%s was marked %v after its node was declared Unknown", o.Name, took)
			}
		}
	}
	if marked == 0 {
		k.Error("no pod was marked")
	}
}
