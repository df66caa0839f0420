package nodelifecycle

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
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
			Type:               rapid.SampledFrom([]corev1.NodeConditionType{corev1.NodeReady, corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeNetworkUnavailable, "Odd"}).Draw(t, "type"),
			Status:             rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown, "Perhaps"}).Draw(t, "status"),
			LastTransitionTime: metav1.NewTime(moment.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "since")) * time.Second)),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "taints") {
		taint := corev1.Taint{
			Key:    rapid.SampledFrom([]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeDiskPressure, corev1.TaintNodeUnschedulable, "example.com/own"}).Draw(t, "key"),
			Effect: rapid.SampledFrom([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule}).Draw(t, "effect"),
			Value:  rapid.SampledFrom([]string{"", "x"}).Draw(t, "value"),
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
		s := snapshot{Name: "n0", Node: n, Memory: memory{First: moment}, Zone: firstZones([]*corev1.Node{n, {ObjectMeta: metav1.ObjectMeta{Name: "well"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}}).of(moment, n)}
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
				ours := owned(taint) || taint.Effect == corev1.TaintEffectNoExecute && (taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable)
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
		All, Ailing map[string]member
		Sums        sums
	}
	all := map[string]plain{}
	for name, m := range z {
		all[name] = plain{maps.Collect(m.All.All()), maps.Collect(m.Ailing.All()), m.sums}
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(data)
}
