package nodelifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var moment = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// anyNode draws a node, sensible or not.
func anyNode(t *rapid.T, names ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: rapid.SampledFrom(names).Draw(t, "name"), Labels: map[string]string{}}}
	if zone := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"); zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	if rapid.IntRange(0, 4).Draw(t, "excluded") == 0 {
		n.Labels[excluded] = ""
	}
	n.Spec.Unschedulable = rapid.Bool().Draw(t, "unschedulable")
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: rapid.SampledFrom([]corev1.NodeConditionType{corev1.NodeReady, corev1.NodeReady, corev1.NodeMemoryPressure,
				corev1.NodeNetworkUnavailable, "Odd"}).Draw(t, "type"),
			Status: rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse,
				corev1.ConditionUnknown, "Perhaps"}).Draw(t, "status"),
			LastTransitionTime: metav1.NewTime(moment.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "since")) * time.Second)),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "taints") {
		taint := corev1.Taint{
			Key: rapid.SampledFrom([]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeDiskPressure,
				corev1.TaintNodeUnschedulable, "example.com/own"}).Draw(t, "key"),
			Effect: rapid.SampledFrom([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
				corev1.TaintEffectPreferNoSchedule}).Draw(t, "effect"),
			Value: rapid.SampledFrom([]string{"", "x"}).Draw(t, "value"),
		}
		if !has(n.Spec.Taints, taint.Key, taint.Effect) {
			n.Spec.Taints = append(n.Spec.Taints, taint)
		}
	}
	return n
}

// The value that follows changes is that which all nodes make, and values of before stay as they were.
func TestZonesFollowNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, z := map[string]*corev1.Node{}, firstZones(nil)
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			n := anyNode(t, "n0", "n1", "n2", "n3")
			before, was := nodes[n.Name], z
			frozen := text(was)
			if before != nil && rapid.IntRange(0, 3).Draw(t, "goes") == 0 {
				delete(nodes, n.Name)
				z = z.next(before, nil)
			} else {
				nodes[n.Name] = n
				z = z.next(object(before), n)
				z = z.next(object(before), n) // told twice
			}
			if text(was) != frozen {
				t.Errorf("a change of %s has changed the value of before", n.Name)
			}
			if want := firstZones(slices.Collect(maps.Values(nodes))); text(z) != text(want) {
				t.Errorf("the zones are\n%s, want\n%s", text(z), text(want))
			}
		}
	})
}

// object is nil for no node.
func object(n *corev1.Node) plan.Object {
	if n == nil {
		return nil
	}
	return n
}

// Taints of others stay as they are, whatever is planned, and what is planned leaves nothing to do.
func TestNL22NL23TaintsOfOthersStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyNode(t, "n0")
		s := snapshot{Name: "n0", Node: n, Memory: memory{First: moment},
			Zone: firstZones([]*corev1.Node{n,
				{ObjectMeta: metav1.ObjectMeta{Name: "well"},
					Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
						Status: corev1.ConditionTrue}}}}}).of(moment, n)}
		o := Options{}
		o.setDefaults()
		s.Limits = o
		now := moment.Add(time.Minute)
		var d decision
		after, wait, _ := withTaints(now, s, n, &d)
		if after == nil {
			return
		}
		others := func(n *corev1.Node) (all []corev1.Taint) {
			for _, taint := range n.Spec.Taints {
				ours := owned(taint) ||
					taint.Effect == corev1.TaintEffectNoExecute &&
						(taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable)
				if !ours {
					all = append(all, taint)
				}
			}
			return all
		}
		if was, is := others(n), others(after); !slices.EqualFunc(was, is, func(a, b corev1.Taint) bool { return a == b }) {
			t.Errorf("the taints of others were %v, and are %v", was, is)
		}
		s.Node = after
		if again, _, why := withTaints(now, s, after, &d); again != nil && wait == 0 {
			t.Errorf("after %v there is still to do: %v, %s", after.Spec.Taints, again.Spec.Taints, why)
		}
	})
}

// text is a value as text, the same for the same nodes.
func text(z zones) string {
	type plain struct {
		All, Ailing  map[string]member
		Line, Served []place
		Taints       []time.Time
		Sums         sums
	}
	all := map[string]plain{}
	for name, m := range z {
		all[name] = plain{maps.Collect(m.All.All()), maps.Collect(m.Ailing.All()), slices.Concat(m.Line, []place{}),
			slices.Concat(m.Served, []place{}),
			slices.Concat(m.Taints, []time.Time{}), m.sums}
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// draw is any snapshot of a node and its pods, at any time, with whatever is remembered.
func draw(t *rapid.T) (now time.Time, s snapshot) {
	now = at(rapid.IntRange(0, 200).Draw(t, "now"))
	past := func(name string) time.Time {
		if rapid.IntRange(0, 2).Draw(t, name+" is zero") == 0 {
			return time.Time{}
		}
		return now.Add(-time.Duration(rapid.IntRange(0, 120).Draw(t, name)) * time.Second)
	}
	s.Limits.setDefaults()
	n := anyNode(t, "n0")
	n.UID, n.CreationTimestamp = "u", metav1.NewTime(past("created"))
	if rapid.IntRange(0, 4).Draw(t, "may be cut off") == 0 {
		n.Annotations = map[string]string{cutOff: "true"}
	}
	if rapid.Bool().Draw(t, "has an architecture") {
		n.Labels[corev1.LabelArchStable] = "arm64"
	}
	s.Name, s.Node = n.Name, n
	s.Memory = memory{
		UID: "u", First: past("first seen"), Alive: past("alive"), Proved: rapid.Bool().Draw(t, "proved"), Unready: past("unready"),
		AllDown: rapid.Bool().Draw(t, "all were down"), Recovered: past("recovered"), Announced: rapid.Bool().Draw(t, "announced"),
		Marked: map[types.UID]mark{},
	}
	if !s.Memory.Proved {
		s.Unread = "its Lease cannot be read live"
	}
	if rapid.IntRange(0, 4).Draw(t, "zones are known") > 0 {
		all := []*corev1.Node{n}
		for i := range rapid.IntRange(0, 5).Draw(t, "others") {
			all = append(all, anyNode(t, fmt.Sprint("o", i)))
		}
		s.Zone = firstZones(all).of(now, n)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
		p := podOf(fmt.Sprint("p", i),
			rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, ""}).Draw(t,
				"is ready"))
		if p.Spec.NodeName = n.Name; rapid.IntRange(0, 2).Draw(t, "marked") == 0 {
			s.Memory.Marked[p.UID] = mark{Times: rapid.IntRange(1, 20).Draw(t, "times"),
				Next: now.Add(time.Duration(rapid.IntRange(-20, 20).Draw(t, "next")) * time.Second)}
		}
		s.Pods = append(s.Pods, p)
	}
	return now, s
}

func changes(steps []plan.Step) (all []plan.Change) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Change:
			all = append(all, s)
		case plan.Each:
			for _, sequence := range s.Sequences {
				all = append(all, changes(sequence)...)
			}
		}
	}
	return all
}

// NL-5, NL-6: a node is declared Unknown only when it has given no sign of life for its grace period, and a live read has shown none. A
// node that may yet turn out to be silent is looked at again.
func TestNeverUnknownWithoutProofOfSilence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		d, p := planNode(now, s)
		grace, since := s.Limits.MonitorGracePeriod, s.Memory.First
		if ready(s.Node) == nil {
			grace, since = s.Limits.StartupGracePeriod, s.Node.CreationTimestamp.Time
		}
		silent := now.Sub(since) >= grace && now.Sub(s.Memory.Alive) >= grace
		for _, c := range changes(p.Steps) {
			if n, ok := c.New.(*corev1.Node); ok && c.Subresource == plan.Status &&
				(!silent || !s.Memory.Proved || ready(n).Status != corev1.ConditionUnknown || !c.CheckVersion) {
				t.Errorf("silent %t, proved %t: %v", silent, s.Memory.Proved, plantest.Writes(p))
			}
		}
		if d.Unknown && ready(s.Node).Status != corev1.ConditionTrue {
			t.Error("it was not ready before")
		}
		if (!silent || !s.Memory.Proved) && p.Requeue <= 0 {
			t.Errorf("it is not looked at again: %q", p.Why)
		}
	})
}

// NL-50: only pods of a node that is Unknown, has given no sign of life since and is not expected to be cut off are marked as not
// ready: those that are ready, once in a while, and nothing else of them changes.
func TestMarksOnlyReadyPodsOfSilentNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		d, p := planNode(now, s)
		node, marked := s.Node, 0
		for _, c := range changes(p.Steps) {
			if n, ok := c.New.(*corev1.Node); ok {
				node = n
				continue
			}
			marked++
			was, is := c.Old.(*corev1.Pod).DeepCopy(), c.New.(*corev1.Pod).DeepCopy()
			r := ready(node)
			if r == nil || r.Status != corev1.ConditionUnknown || node.Annotations[cutOff] != "" ||
				s.Memory.Alive.After(r.LastTransitionTime.Time) {
				t.Errorf("%s is marked, and its node is %+v", was.Name, r)
			}
			if before := s.Memory.Marked[was.UID]; before.Next.After(now) || !d.Memory.Marked[was.UID].Next.After(now) {
				t.Errorf("%s is marked again after %v, and may be after %v", was.Name, before, d.Memory.Marked[was.UID])
			}
			if was.Status.Conditions[0].Status != corev1.ConditionTrue || is.Status.Conditions[0].Status != corev1.ConditionFalse ||
				c.Subresource != plan.Status {
				t.Errorf("not a mark: %v", plantest.Writes(p))
			}
			is.Status.Conditions[0] = was.Status.Conditions[0]
			if diff := cmp.Diff(was, is); diff != "" {
				t.Errorf("something else has changed: %s", diff)
			}
		}
		if d.Marked != marked {
			t.Errorf("%d are marked, counted are %d", marked, d.Marked)
		}
	})
}

// The order of the pods says nothing about what becomes of each.
func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		d, p := planNode(now, s)
		s.Pods = rapid.Permutation(s.Pods).Draw(t, "order")
		again, other := planNode(now, s)
		if diff := cmp.Diff(d, again); diff != "" || p.Requeue != other.Requeue || p.Why != other.Why {
			t.Errorf("%q, and in another order %q: %s", p.Why, other.Why, diff)
		}
		if a, b := slices.Sorted(slices.Values(plantest.Writes(p))),
			slices.Sorted(slices.Values(plantest.Writes(other))); !slices.Equal(a, b) {
			t.Error(cmp.Diff(a, b))
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		before := s
		before.Node, before.Pods, before.Memory.Marked = s.Node.DeepCopy(), plantest.Copies(s.Pods), maps.Clone(s.Memory.Marked)
		d, _ := planNode(now, s)
		remember(now, s, d, nil, plan.Outcome{}, plan.Outcome{})
		if diff := cmp.Diff(before, s, cmp.AllowUnexported(zone{})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		d, p := planNode(now, s)
		again, other := planNode(now, plantest.Restored(t, s))
		plantest.Same(t, p, other)
		if diff := cmp.Diff(d, again); diff != "" {
			t.Error(diff)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		now, s := draw(t)
		if rapid.Bool().Draw(t, "anything") { // besides what is drawn
			n := &corev1.Node{}
			plantest.Anything(rapid.Int64().Draw(t, "seed"))(n)
			n.ObjectMeta, n.Spec.Taints, n.Spec.Unschedulable, n.Status.Conditions = s.Node.ObjectMeta, s.Node.Spec.Taints,
				s.Node.Spec.Unschedulable, s.Node.Status.Conditions
			s.Node = n
		}
		thin := s
		thin.Node, thin.Pods = plantest.Kept(t, kept, s.Node), nil
		for _, p := range s.Pods {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
			p.Spec.Containers = []corev1.Container{{Name: "web"}}
			thin.Pods = append(thin.Pods, plantest.Kept(t, kept, p))
			if p.Spec.NodeName != thin.Pods[len(thin.Pods)-1].Spec.NodeName {
				t.Error("the cache does not know the node of a pod")
			}
		}
		d, p := planNode(now, s)
		again, other := planNode(now, thin)
		plantest.Same(t, p, other)
		if diff := cmp.Diff(d, again); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(text(firstZones([]*corev1.Node{s.Node})), text(firstZones([]*corev1.Node{thin.Node}))); diff != "" {
			t.Errorf("the zones differ: %s", diff)
		}
	})
}
