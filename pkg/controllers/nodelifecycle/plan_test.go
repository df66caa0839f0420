package nodelifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func at(seconds int) time.Time { return moment.Add(time.Duration(seconds) * time.Second) }

// aNode is a node of the table with what the functions make of it. It was created long ago, and was not ready since then if it is not
// ready.
func aNode(edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", CreationTimestamp: metav1.NewTime(at(-10000))}}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

// is gives a node a condition.
func is(t corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions,
			corev1.NodeCondition{Type: t, Status: status, LastTransitionTime: metav1.NewTime(at(-1000))})
	}
}

// readyIs gives it the condition Ready.
func readyIs(status corev1.ConditionStatus) func(*corev1.Node) { return is(corev1.NodeReady, status) }

// carries gives a node taints, as KEY:EFFECT.
func carries(taints ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, text := range taints {
			key, effect, _ := strings.Cut(text, ":")
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
		}
	}
}

func labelled(labels ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels = map[string]string{}
		for i := 0; i < len(labels); i += 2 {
			n.Labels[labels[i]] = labels[i+1]
		}
	}
}

// said is a plan as text: each condition and taint that is written, each pod that is marked, and events.
func said(p plan.Plan) (lines []string) {
	for _, step := range p.Steps {
		switch s := step.(type) {
		case plan.RecordEvent:
			lines = append(lines, fmt.Sprintf("%s %s %s", s.Event.Type, s.Event.Reason, s.Event.Message))
		case plan.Change:
			lines = append(lines, saidOfNode(s))
		case plan.Each:
			for _, sequence := range s.Sequences {
				for _, step := range sequence {
					switch s := step.(type) {
					case plan.RecordEvent:
						lines = append(lines, fmt.Sprintf("%s %s %s", s.Event.Type, s.Event.Reason, s.Event.Message))
					case plan.Change:
						pod, ok := s.New.(*corev1.Pod)
						if !ok {
							lines = append(lines, saidOfNode(s))
							continue
						}
						lines = append(lines,
							fmt.Sprintf("%s: %s is %s", pod.Name, pod.Status.Conditions[0].Type, pod.Status.Conditions[0].Status))
					}
				}
			}
		default:
			lines = append(lines, fmt.Sprintf("%T", step))
		}
	}
	return lines
}

func saidOfNode(c plan.Change) string {
	n := c.New.(*corev1.Node)
	var words []string
	if c.Subresource == plan.Status {
		for _, c := range n.Status.Conditions {
			words = append(words,
				fmt.Sprintf("%s=%s %s %q since %v", c.Type, c.Status, c.Reason, c.Message, c.LastTransitionTime.Sub(moment)))
		}
		return strings.Join(words, ", ")
	}
	for _, t := range n.Spec.Taints {
		words = append(words, fmt.Sprintf("%s:%s", strings.TrimPrefix(t.Key, "node.kubernetes.io/"), t.Effect))
	}
	slices.Sort(words)
	for key, value := range n.Labels {
		if strings.HasPrefix(key, "beta.") {
			words = append(words, key+"="+value)
		}
	}
	return fmt.Sprintf("%v", words)
}

func podOf(name string, status corev1.ConditionStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if status != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	}
	return p
}

func TestPlanNode(t *testing.T) {
	const notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	well, down := zone{Known: true, sums: sums{Nodes: 4, Unready: 1}}, zone{Known: true, AllDown: true, sums: sums{Nodes: 1, Unready: 1}}
	for _, c := range []struct {
		name  string
		node  *corev1.Node
		alive int // when it last gave a sign of life, in seconds
		zone  zone
		pods  []*corev1.Pod
		want  []string
	}{
		{"NL-16 the four conditions that only a kubelet knows become Unknown, no other",
			aNode(readyIs("True"), is("DiskPressure", "False"), is("NetworkUnavailable", "True"),
				carries("node.kubernetes.io/network-unavailable:NoSchedule", unreachable+":NoSchedule")), -51, zone{}, nil, []string{
				`Ready=Unknown NodeStatusUnknown "Kubelet stopped posting node status." since 0s, DiskPressure=Unknown NodeStatusUnknown "Kubelet stopped posting node status." since 0s, NetworkUnavailable=True  "" since -16m40s, ` +
					`MemoryPressure=Unknown NodeStatusNeverUpdated "Kubelet never posted node status." since 0s, PIDPressure=Unknown NodeStatusNeverUpdated "Kubelet never posted node status." since 0s`,
				"Normal NodeNotReady Node n status is now: NodeNotReady",
			}},
		{"NL-5 nor any within the grace period", aNode(readyIs("True")), -49, well, nil, nil},
		{"NL-15 a node without Ready that renews its Lease", aNode(), -59, well, nil, nil},
		{"NL-15, NL-57 one that does not", aNode(carries(unreachable + ":NoSchedule")), -61, zone{}, nil, []string{
			`Ready=Unknown NodeStatusNeverUpdated "Kubelet never posted node status." since 0s, MemoryPressure=Unknown NodeStatusNeverUpdated "Kubelet never posted node status." since 0s, ` +
				`DiskPressure=Unknown NodeStatusNeverUpdated "Kubelet never posted node status." since 0s, PIDPressure=Unknown NodeStatusNeverUpdated "Kubelet never posted node status." since 0s`,
		}},
		{"NL-18, NL-20a a kubelet that says that it is not ready", aNode(readyIs("False")), 0, well, nil,
			[]string{"[not-ready:NoExecute not-ready:NoSchedule]"}},
		{"NL-20b pressures, and a network that is missing",
			aNode(readyIs("True"), is("MemoryPressure", "True"), is("DiskPressure", "True"), is("PIDPressure", "True"),
				is("NetworkUnavailable", "True")), 0, well, nil, []string{
				"[disk-pressure:NoSchedule memory-pressure:NoSchedule network-unavailable:NoSchedule pid-pressure:NoSchedule]",
			}},
		{"NL-20c it must not be scheduled to", aNode(readyIs("True"), func(n *corev1.Node) { n.Spec.Unschedulable = true }), 0, well, nil,
			[]string{"[unschedulable:NoSchedule]"}},
		{"NL-21 taints without a cause go, those of others stay",
			aNode(readyIs("True"),
				carries("node.kubernetes.io/disk-pressure:NoSchedule", "mine:NoSchedule", "node.kubernetes.io/disk-pressure:NoExecute")), 0,
			well, nil, []string{
				"[disk-pressure:NoExecute mine:NoSchedule]",
			}},
		{"NL-21 nothing is written if they are as they should be",
			aNode(readyIs("False"), carries(notReady+":NoSchedule", notReady+":NoExecute")), 0, well, nil, nil},
		{"NL-84 a node that has said nothing yet keeps the taint of admission", aNode(carries(notReady + ":NoSchedule")), -10, well, nil,
			nil},
		{"NL-25 the old labels", aNode(readyIs("True"), labelled("kubernetes.io/os", "linux")), 0, well, nil,
			[]string{"[beta.kubernetes.io/os=linux]"}},
		{"NL-25 nothing if they are there", aNode(readyIs("True"), labelled("beta.kubernetes.io/os", "linux")), 0, well, nil, nil},
		{"NL-30 Unknown", aNode(readyIs("Unknown"), carries(unreachable+":NoSchedule")), 0, well, nil,
			[]string{"[unreachable:NoExecute unreachable:NoSchedule]"}},
		{"NL-31 ready again", aNode(readyIs("True"), carries(unreachable+":NoSchedule", unreachable+":NoExecute", notReady+":NoExecute")),
			0, well, nil, []string{"[]"}},
		{"NL-32 the other taint is swapped at once, in one write, outside the rate",
			aNode(readyIs("Unknown"), carries(notReady+":NoSchedule", notReady+":NoExecute")), 0,
			zone{Known: true, sums: sums{Nodes: 10, Unready: 9}, Before: 8}, nil, []string{
				"[unreachable:NoExecute unreachable:NoSchedule]",
			}},
		{"NL-33 one that waits for others of its zone", aNode(readyIs("Unknown"), carries(unreachable+":NoSchedule")), 0,
			zone{Known: true, sums: sums{Nodes: 10, Unready: 2}, Before: 1}, nil, nil},
		{"NL-44 a part of a small zone is down", aNode(readyIs("Unknown"), carries(unreachable+":NoSchedule")), 0,
			zone{Known: true, sums: sums{Nodes: 10, Unready: 6}}, nil, nil},
		{"NL-46, NL-47, NL-85 all zones are down: no NoExecute taint, but the others",
			aNode(readyIs("Unknown"), carries(unreachable+":NoExecute")), 0, down, nil, []string{"[unreachable:NoSchedule]"}},
		{"NL-50 ready pods of an Unknown node are marked, with all zones down, too",
			aNode(readyIs("Unknown"), is("MemoryPressure", "Unknown"), is("DiskPressure", "Unknown"), is("PIDPressure", "Unknown"),
				carries(unreachable+":NoSchedule")), -70, down, []*corev1.Pod{podOf("a", "True"), podOf("b", "False"), podOf("c", "")},
			[]string{
				"Warning NodeNotReady Node is not ready", "a: Ready is False",
			}},
		{"NL-52 those of a node that says that it is not ready are not",
			aNode(readyIs("False"), carries(notReady+":NoSchedule", notReady+":NoExecute")), 0, well, []*corev1.Pod{podOf("a", "True")},
			nil},
		{"NL-54, NL-96 nor those of a node that has given a sign of life since",
			aNode(readyIs("Unknown"), carries(unreachable+":NoSchedule", unreachable+":NoExecute")), -1, well,
			[]*corev1.Pod{podOf("a", "True")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshot{Name: "n", Node: c.node, Zone: c.zone, Pods: c.pods,
				Memory: memory{UID: "u", First: at(-5000), Alive: at(c.alive), Announced: true, Proved: true}}
			if c.alive == -70 { // Unknown for a time, with a sign of life before that
				s.Memory.Alive = at(-2000)
			}
			s.Limits.setDefaults()
			before := c.node.DeepCopy()
			_, p := planNode(moment, s)
			if diff := cmp.Diff(c.want, said(p)); diff != "" {
				t.Errorf("%s\n%s", p.Why, diff)
			}
			if diff := cmp.Diff(before, c.node); diff != "" {
				t.Errorf("the cache was changed: %s", diff)
			}
		})
	}
}

// A kubelet that contradicts is contradicted less and less often.
func TestPodsThatSomebodyMakesReady(t *testing.T) {
	n := aNode(readyIs("Unknown"), is("MemoryPressure", "Unknown"), is("DiskPressure", "Unknown"), is("PIDPressure", "Unknown"),
		carries(corev1.TaintNodeUnreachable+":NoSchedule", corev1.TaintNodeUnreachable+":NoExecute"))
	s := snapshot{Name: "n", Node: n, Zone: zone{Known: true, sums: sums{Nodes: 4, Unready: 1}},
		Memory: memory{UID: "u", First: at(-5000), Alive: at(-2000), Announced: true, Proved: true}}
	s.Limits.setDefaults()
	pod := podOf("a", "True")
	s.Pods = []*corev1.Pod{pod}
	var marked []int
	for now := 0; now < 3600; now++ {
		d, p := planNode(at(now), s)
		if s.Memory = d.Memory; d.Marked > 0 {
			marked = append(marked, now)
		} else if p.Requeue <= 0 || p.Requeue > lastRemark {
			t.Fatalf("after %d s it is looked at again after %v", now, p.Requeue)
		}
	}
	if len(marked) != 16 || marked[1] != 10 || marked[15]-marked[14] != 300 {
		t.Errorf("marked after %v seconds", marked)
	}
}

// A new leader does not know whether the Lease that it finds was renewed a moment before.
func TestLeasesThatAreFoundCount(t *testing.T) { // NL-14, NL-15
	for _, c := range []struct {
		name           string
		renewed, first time.Time // renewed is zero for a node without a Lease
		silent         bool
	}{
		{"NL-15 a new leader finds a Lease", at(-5), at(0), false},
		{"NL-15 a new leader finds none", time.Time{}, at(0), true},
		{"NL-15 one was found, and not renewed since", at(-5), at(-61), true},
	} {
		s := snapshot{Name: "n", Node: aNode(), Memory: memory{UID: "u", First: c.first, Renewed: c.renewed}}
		s.Limits.setDefaults()
		if _, left := silence(at(0), s); (left <= 0) != c.silent {
			t.Errorf("%s: %v left", c.name, left)
		}
	}
}

// A condition Ready that somebody writes without a time is a sign of life when it appears, and not when a process begins, or when this
// controller has written it.
func TestAConditionWithoutATime(t *testing.T) { // NL-14
	without, with := aNode(), aNode(readyIs(corev1.ConditionTrue))
	for name, c := range map[string]struct {
		before, after *corev1.Node
		alive         time.Time
	}{
		"it appears":                 {without, with, at(0)},
		"it was there":               {with, with, time.Time{}},
		"it is written over Unknown": {aNode(readyIs(corev1.ConditionUnknown)), with, at(0)},
		"this controller writes it":  {without, aNode(readyIs(corev1.ConditionUnknown)), time.Time{}},
	} {
		m := memory{UID: "u", First: at(-55)}.seeing(c.before, nil, at(-55), nil)
		if m = m.seeing(c.after, nil, at(0), nil); !m.Alive.Equal(c.alive) {
			t.Errorf("%s: alive at %v", name, m.Alive)
		}
	}
}

// Excluded nodes are not counted, and get taints nevertheless.
func TestNL40NL41Zones(t *testing.T) {
	nodes := []*corev1.Node{
		aNode(readyIs("True"), labelled("topology.kubernetes.io/region", "r", "topology.kubernetes.io/zone", "a", excluded, "")),
		aNode(readyIs("Unknown"), labelled("topology.kubernetes.io/region", "r", "topology.kubernetes.io/zone", "a")),
		aNode(labelled("failure-domain.beta.kubernetes.io/zone", "a", "failure-domain.beta.kubernetes.io/region", "r",
			"topology.kubernetes.io/zone", "b")),
		aNode(readyIs("True")),
	}
	for i, n := range nodes {
		n.Name = fmt.Sprint("n", i)
	}
	all := firstZones(nodes)
	if z := all.of(moment, nodes[0]); z.Name != "r:\x00:a" || z.Nodes != 2 || z.Unready != 2 || z.AllDown {
		t.Errorf("%+v", z)
	}
	if z := all.of(moment, nodes[3]); z.Name != "" || z.Nodes != 1 || z.Unready != 0 {
		t.Errorf("%+v", z)
	}
}

func TestNL1Entry(t *testing.T) {
	c := New(Options{})
	if c.Name != "node-lifecycle-controller" || c.Alias != "nodelifecycle" || c.Account != "node-controller" || c.EventSource != "" ||
		c.OffByDefault {
		t.Errorf("%+v", c)
	}
}
