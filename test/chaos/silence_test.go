package chaos

import (
	"cmp"
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
	atOnce       bool // nothing keeps a process from marking pods as soon as it sees that their node is Unknown
}{
	{"no faults", "", false, true},
	{"the watch of Leases is frozen", "freeze leases for=10m", true, true},
	{"the watch of nodes is late", "delay nodes 2s", false, false},
	{"killed at the first writes", "crash writes=1 after=true back=0s\ncrash writes=3 after=true back=0s\ncrash writes=6 back=0s", true,
		true},
	{"answers of writes are lost", "refuse each=2 code=504 after=true resource=nodes\nrefuse each=2 code=504 after=true resource=pods",
		false, false},
}

// kubelets are the nodes of a run that nobody plays but the test.
type kubelets struct {
	*run
	mu   sync.Mutex
	dead map[string]bool
}

// TestSilentNodes lets nodes die one after the other, among others that work. Only those may be declared Unknown (S28), and none of
// their pods may stay ready.
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
	tally := newTally(t, "nodes that die", len(some))
	for _, f := range some {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, c, tally, "--node-monitor-grace-period="+silenceGrace.String(),
				"--node-startup-grace-period="+silenceGrace.String())
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
			k.untouched()
			h := r.end()
			if f.atOnce {
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
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d-%d", i, j)},
				Spec: suite.Template("silent", "web:1").Spec}
			p.Annotations = map[string]string{notPlayed: "true"}
			p.Spec.NodeName, p.Spec.Tolerations = k.nodeName(i), []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			_, err := k.Client.CoreV1().Pods(k.ns).Create(k.Context(), p, metav1.CreateOptions{})
			k.try(err)
			_, err = k.Client.CoreV1().Pods(k.ns).Patch(k.Context(), p.Name, types.StrategicMergePatchType,
				[]byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
			k.try(err)
		}
	}
}

// notPlayed keeps kwok from pods. It plays the nodes whose Leases it holds, but their pods alone only if it has happened to start its
// part for nodes before the one for pods: otherwise, in one of eight processes, it says that pods of all nodes are ready, as soon as a
// manager says that they are not.
const notPlayed = "localcluster.standalone-kcm.io/stopped"

// hold creates the Lease of a node, so that it is not kwok that gets it.
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
	status := fmt.Appendf(nil,
		`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q,"lastTransitionTime":%[1]q}]}}`, now)
	_, err := k.Client.CoreV1().Nodes().Patch(k.Context(), k.nodeName(i), types.StrategicMergePatchType, status, metav1.PatchOptions{},
		"status")
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
			if _, err := leases.Patch(k.Context(), k.nodeName(i), types.MergePatchType, renewed, metav1.PatchOptions{}); err != nil &&
				k.Context().Err() == nil {
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

// untouched checks that nobody but the test and the manager has written statuses of pods: they have the condition that the test has
// given them alone.
func (k *kubelets) untouched() {
	k.Helper()
	pods, err := k.Client.CoreV1().Pods(k.ns).List(k.Context(), metav1.ListOptions{})
	k.try(err)
	for _, p := range pods.Items {
		if len(p.Status.Conditions) != 1 {
			k.Errorf("somebody else plays the pod %s: %+v", p.Name, p.Status)
		}
	}
}

// marksAtOnce checks that pods are marked within two seconds after their node was declared Unknown, or after the next process has asked
// for pods and nodes.
func (k *kubelets) marksAtOnce(h *oracle.History) {
	k.Helper()
	k.run.mu.Lock()
	asked := slices.Concat(k.looks["pods"], k.looks["nodes"])
	k.run.mu.Unlock()
	late, marked, longest := lateMarks(h, asked, 2*time.Second)
	for _, text := range late {
		k.Error(text)
	}
	if k.Logf("%d pods were marked, the last one %v after its node was Unknown", marked, longest); marked < 10 {
		k.Errorf("%d pods were marked, and there are ten on dead nodes", marked)
	}
}

// lateMarks says which pods were marked too long after a process could know that their node was Unknown: since that was so, and since
// it asked for what it needs. The first mark of each pod counts.
func lateMarks(h *oracle.History, asked []time.Time, most time.Duration) (late []string, marked int, longest time.Duration) {
	unknown, done := map[string]time.Time{}, map[types.UID]bool{}
	inOrder := slices.SortedStableFunc(slices.Values(h.Revisions),
		func(a, b oracle.Revision) int { return cmp.Compare(a.Version, b.Version) })
	for _, r := range inOrder {
		switch o := r.Object.(type) {
		case *corev1.Node:
			for _, c := range o.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown && unknown[o.Name].IsZero() {
					unknown[o.Name] = r.When
				}
			}
		case *corev1.Pod:
			since := unknown[o.Spec.NodeName]
			if ready := podutil.ReadyCondition(o); since.IsZero() || done[o.UID] || ready == nil || ready.Status != corev1.ConditionFalse {
				continue
			}
			for _, at := range asked {
				if at.After(since) && at.Before(r.When) {
					since = at
				}
			}
			took := r.When.Sub(since)
			done[o.UID], longest = true, max(longest, took)
			if marked++; took > most {
				late = append(late, fmt.Sprintf("%s was marked %v after a process could know that its node was Unknown", o.Name, took))
			}
		}
	}
	return late, marked, longest
}

func TestLateMarksAreSeen(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		asked []time.Duration // after the node was Unknown
		late  bool
	}{
		{"at once", time.Second, nil, false},
		{"late", 3 * time.Second, nil, true},
		{"soon after the next process has asked", 5 * time.Second, []time.Duration{-time.Second, 4 * time.Second}, false},
		{"late all the same", 8 * time.Second, []time.Duration{4 * time.Second}, true},
		{"a process that asks later explains nothing", 8 * time.Second, []time.Duration{9 * time.Second}, true},
	} {
		s := oracle.NewScript()
		n := s.User().Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		p := s.User().Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}})
		s.Manager().Edit(n, func(o oracle.Object) {
			o.(*corev1.Node).Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		})
		var asked []time.Time
		for _, d := range c.asked {
			asked = append(asked, s.Now.Add(d))
		}
		s.Wait(c.after)
		s.Manager().Edit(p, func(o oracle.Object) {
			o.(*corev1.Pod).Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		})
		if late, marked, _ := lateMarks(&s.History, asked, 2*time.Second); marked != 1 || (len(late) > 0) != c.late {
			t.Errorf("%s: %d marks, of which are late: %v", c.name, marked, late)
		}
	}
}
