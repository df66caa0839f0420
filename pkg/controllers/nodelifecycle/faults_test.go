package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// says has a kubelet report a status, at the time of its own clock.
func (b *bench) says(name string, status corev1.ConditionStatus, clock time.Time) {
	b.Helper()
	n := b.node(name)
	c := &n.Status.Conditions[0]
	c.Status, c.LastHeartbeatTime, c.LastTransitionTime = status, metav1.NewTime(clock), metav1.NewTime(clock)
	b.put(n)
}

// A node that can get no taint keeps no other node of its zone waiting.
func TestTheLineOfAZoneGoesOn(t *testing.T) {
	for what, prepare := range map[string]func(*bench){
		"a node that may be cut off": func(b *bench) {
			n := b.node("a-0")
			n.Annotations = map[string]string{cutOff: "true"}
			b.put(n)
			b.kill("a-0")
			time.Sleep(5 * time.Minute)
		},
		"a node whose taints are refused": func(b *bench) {
			b.BeforeWrite(func(w clienttest.Write) error {
				if w.Kind == "Node" && w.Options.Subresource == "" && w.Key.Name == "a-0" {
					return errors.New("a webhook")
				}
				return nil
			})
			b.kill("a-0")
			time.Sleep(3 * time.Minute)
			b.is("a-0", "Unknown 0") // its pods are marked all the same
		},
		"a status that there is not": func(b *bench) { b.says("a-9", "Maybe", time.Now()) },
		"nodes that flap": func(b *bench) {
			b.says("a-8", "False", time.Now())
			b.says("a-9", "False", time.Now())
			time.Sleep(time.Minute)
			b.kill("a-1")
			for i := range 60 {
				status := map[bool]corev1.ConditionStatus{true: "False", false: "Unknown"}[i%2 == 1]
				for _, name := range []string{"a-8", "a-9"} {
					b.says(name, status, time.Now())
					time.Sleep(5 * time.Second)
				}
			}
			b.is("a-1", lost)
			b.revive("a-1")
		},
	} {
		t.Run(what, func(t *testing.T) {
			run(t, Options{}, map[string]int{"a": 10}, func(b *bench) {
				prepare(b)
				b.kill("a-1")
				time.Sleep(95 * time.Second) // 50 until it is Unknown, and two turns
				if what != "nodes that flap" {
					b.is("a-1", lost)
				}
			})
		})
	}
}

// NL-13: the clock of a node may be set back, and says nothing about whether it lives.
func TestClockThatIsSetBack(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 5}, func(b *bench) {
		b.mu.Lock()
		b.dead["a-0"] = true // this test is its kubelet
		b.mu.Unlock()
		began, unready := time.Now(), 0
		for i := range 60 { // every ten seconds; for five minutes the clock is an hour ahead
			clock := time.Now()
			if ahead := time.Since(began) < 5*time.Minute; ahead || ready(b.node("a-0")).Status != corev1.ConditionTrue {
				if ahead {
					clock = clock.Add(time.Hour)
				}
				b.says("a-0", corev1.ConditionTrue, clock)
			}
			renewed := metav1.NewMicroTime(clock)
			b.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "a-0"},
				Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}})
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if i >= 30 && ready(b.node("a-0")).Status != corev1.ConditionTrue {
				unready++
			}
			time.Sleep(5 * time.Second)
		}
		if unready > 0 {
			t.Errorf("not Ready at %d of 30 looks", unready)
		}
	})
}

// The rate of a zone holds without a monitor period.
func TestNoMonitorPeriod(t *testing.T) {
	run(t, Options{MonitorPeriod: -1}, map[string]int{"a": 20}, func(b *bench) {
		b.kill("a-0", "a-1", "a-2", "a-3", "a-4", "a-5")
		time.Sleep(52 * time.Second)
		if n := b.evicted(); n > 1 {
			t.Errorf("%d nodes have a NoExecute taint at once", n)
		}
	})
}

// What the recovery of a zone costs grows with its nodes, and not with their square.
func TestRecoveryOfAZoneCosts(t *testing.T) {
	const n = 5000
	var nodes []*corev1.Node
	for i := range n {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n-", i)}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
			LastTransitionTime: metav1.NewTime(moment.Add(time.Duration(i*7919%n) * time.Second))}}
		nodes = append(nodes, node)
	}
	z := firstZones(nodes)
	if took := costs.CPU(func() {
		for _, node := range nodes {
			z.of(moment, node)
			after := node.DeepCopy()
			after.Status.Conditions[0].Status = corev1.ConditionTrue
			is := z.next(node, after)
			if is.concerns(z, Options{EvictionRate: 1, UnhealthyThreshold: 0.55}) != (is.allDown() != z.allDown() ||
				is[""].state(Options{UnhealthyThreshold: 0.55}) != z[""].state(Options{UnhealthyThreshold: 0.55})) {
				t.Fatal("a recovery concerns all others, and no rate has changed")
			}
			z = is
		}
	}); costs.Exceeds(took, 5*time.Second) {
		t.Errorf("%d nodes take %s of CPU", n, took)
	}
}

// A read that hangs proves nothing, neither of its node nor of others: nobody could renew a Lease meanwhile.
func TestReadsThatHang(t *testing.T) {
	for what, hangs := range map[string]reconcile.Reading{
		"answers late": {Ended: moment.Add(20 * time.Second)},
		"times out":    {Ended: moment.Add(30 * time.Second), Err: context.DeadlineExceeded},
	} {
		t.Run(what, func(t *testing.T) {
			var proof reconcile.Proof
			proves := func(name string, r reconcile.Reading) bool {
				o := observation{Snapshot: snapshot{
					Name: name, Memory: memory{Renewed: moment}, Limits: Options{MonitorGracePeriod: 50 * time.Second},
				}}
				renewed := metav1.NewMicroTime(moment)
				r.Objects = []plan.Object{&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}}
				proof.Read = map[plan.Ref]reconcile.Reading{leaseOf(name): r}
				return prove(o, proof).Snapshot.Memory.Proved
			}
			at := func(second time.Duration) reconcile.Reading {
				when := hangs.Ended.Add(second * time.Second)
				return reconcile.Reading{Began: when, Ended: when}
			}
			if hangs.Began = moment; hangs.Err != nil {
				proof.Failed = hangs.Ended
			} else {
				proof.Slow = hangs.Ended
			}
			if proves("a", hangs) {
				t.Error("a read that hangs proves that its node is dead")
			}
			if proves("b", at(0)) {
				t.Error("as soon as the API server answers, another node counts as dead")
			}
			if proves("a", at(24)) {
				t.Error("nodes have had no time to renew their Leases")
			}
			if !proves("a", at(25)) || !proves("b", at(25)) {
				t.Error("half of the grace period is over, and dead nodes do not count as dead")
			}
		})
	}
}

// A node is made anew under its name, long after the last sign of life of the one before: it has the time that new nodes have.
func TestMEND23NL83ANodeIsMadeAnew(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 5}, func(b *bench) {
		b.kill("a-0")
		time.Sleep(5 * time.Minute)
		b.is("a-0", lost)
		if err := b.Delete(b.Context(), nodeKind, plan.Key{Name: "a-0"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a-0", UID: "anew", CreationTimestamp: metav1.Now(),
			Labels: map[string]string{corev1.LabelTopologyZone: "a"}}})
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if c := ready(b.node("a-0")); c != nil {
			t.Errorf("before a minute is over it is %s: %s", c.Status, c.Reason)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c := ready(b.node("a-0")); c == nil || c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusNeverUpdated" {
			t.Errorf("after a minute it is %v", c)
		}
	})
}

// That a node is gone is told once (NL-56).
func TestANodeIsRemoved(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 2}, func(b *bench) {
		told := func() (removed []string) {
			for len(b.events.Events) > 0 {
				if e := <-b.events.Events; strings.Contains(e, "RemovingNode") {
					removed = append(removed, e)
				}
			}
			return removed
		}
		time.Sleep(time.Minute)
		if got := told(); len(got) > 0 {
			t.Errorf("%q", got)
		}
		b.kill("a-0")
		if err := b.Delete(t.Context(), nodeKind, plan.Key{Name: "a-0"}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		want := []string{"Normal RemovingNode Node a-0 event: Removing Node a-0 from Controller"}
		if got := told(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A share of nodes that is the threshold counts (NL-44), and a rate next to nothing is a long pause.
func TestThresholdsAndRates(t *testing.T) {
	for share, nodes := range map[float32][]int{0.6: {5, 25, 30, 50, 100}, 0.3: {50, 90, 100}, 0.55: {20, 40, 100}} {
		for _, n := range nodes {
			unready := int(math.Round(float64(share) * float64(n)))
			o := Options{UnhealthyThreshold: share}
			if got := (sums{Nodes: n, Unready: unready}).state(o); got != partial {
				t.Errorf("%d of %d, the threshold is %v: %s", unready, n, share, got)
			}
			if got := (sums{Nodes: n, Unready: unready - 1}).state(o); got != normal {
				t.Errorf("%d of %d, the threshold is %v: %s", unready-1, n, share, got)
			}
		}
	}
	n := aNode(readyIs(corev1.ConditionUnknown))
	for _, rate := range []float32{1e-12, 1e-30, math.SmallestNonzeroFloat32} {
		s := snapshot{Name: "n", Node: n, Limits: Options{EvictionRate: rate, MonitorPeriod: time.Second},
			Zone: zone{Known: true, sums: sums{Nodes: 10, Unready: 1}, Last: moment.Add(-time.Minute)}}
		m := memory{Unready: moment.Add(-time.Hour)}
		if wait, _ := waits(moment, s, n, &m); wait < 24*time.Hour {
			t.Errorf("%v nodes a second: the next one after %v", rate, wait)
		}
	}
}

// What a webhook refuses of one pod says nothing of what was written of the node and of other pods (NL-54, NL-60).
func TestOnePodCannotBeMarked(t *testing.T) {
	n, a, b := aNode(readyIs(corev1.ConditionUnknown)), &corev1.Pod{}, &corev1.Pod{}
	a.UID, b.UID = "a", "b"
	s := snapshot{Node: n, Pods: []*corev1.Pod{a, b}}
	first := mark{Times: 1, Next: moment.Add(firstRemark)}
	refused := errors.New("a webhook")
	did := plan.Outcome{Err: refused, Results: []plan.Result{{Object: n}, {Object: a, Err: refused}, {Object: b}}}
	d := decision{Memory: memory{Marked: map[types.UID]mark{"a": first, "b": first}}}
	m, _ := remember(moment, s, d, nil, did, plan.Outcome{})
	if m.Marked["b"] != first || m.Marked["a"] != (mark{}) {
		t.Errorf("%v", m.Marked)
	}
	if !done(did, n.UID) {
		t.Error("the taint does not count")
	}
}
