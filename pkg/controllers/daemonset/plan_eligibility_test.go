package daemonset

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

func selects(key, value string) edit {
	return template(func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{key: value} })
}

// requires sets the required node affinity: one term for each requirement.
func requires(requirements ...corev1.NodeSelectorRequirement) edit {
	return template(func(spec *corev1.PodSpec) {
		selector := &corev1.NodeSelector{}
		for _, r := range requirements {
			term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}}
			if r.Key == "metadata.name" {
				term = corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{r}}
			}
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
		}
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
	})
}

func requirement(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func tolerates(t corev1.Toleration) edit {
	return template(func(spec *corev1.PodSpec) { spec.Tolerations = append(spec.Tolerations, t) })
}

func hostNetwork(d *appsv1.DaemonSet) { d.Spec.Template.Spec.HostNetwork = true }

func TestEligibility(t *testing.T) {
	const noSchedule, noExecute, prefer = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule
	for _, c := range []struct {
		name string
		d    *appsv1.DaemonSet
		n    *corev1.Node
		want eligibility
	}{
		{"DS-20 a node without anything", agent(), worker("n1"), eligible},
		{"DS-20 the template names the node", agent(template(func(s *corev1.PodSpec) { s.NodeName = "n1" })), worker("n1"), eligible},
		{"DS-22 the template names another node", agent(template(func(s *corev1.PodSpec) { s.NodeName = "n2" })), worker("n1"), excluded},
		{"DS-20 the node selector matches", agent(selects("disk", "ssd")), worker("n1", label("disk", "ssd")), eligible},
		{"DS-22 the node selector does not match", agent(selects("disk", "ssd")), worker("n1", label("disk", "hdd")), excluded},
		{"DS-22 the label is missing", agent(selects("disk", "")), worker("n1"), excluded},
		{"DS-20 the affinity matches", agent(requires(requirement("disk", "In", "ssd", "nvme"))), worker("n1", label("disk", "nvme")),
			eligible},
		{"DS-22 the affinity does not match", agent(requires(requirement("disk", "In", "ssd"))), worker("n1"), excluded},
		{"DS-20 one of the terms matches", agent(requires(requirement("disk", "Exists"), requirement("gpu", "DoesNotExist"))), worker("n1"),
			eligible},
		{"DS-20 the field of a term matches", agent(requires(requirement("metadata.name", "In", "n1"))), worker("n1"), eligible},
		{"DS-22 the field of a term does not match", agent(requires(requirement("metadata.name", "NotIn", "n1"))), worker("n1"), excluded},
		{"DS-20 a term that makes no sense matches nothing", agent(requires(requirement("disk", "Near", "ssd"))),
			worker("n1", label("disk", "ssd")), excluded},
		{"DS-20 beside one that makes no sense another may match",
			agent(requires(requirement("disk", "Near", "ssd"), requirement("disk", "Exists"))), worker("n1", label("disk", "ssd")),
			eligible},
		{"DS-21 a taint that is not tolerated", agent(), worker("n1", taint("dedicated", noSchedule)), tolerated},
		{"DS-20 a taint that is tolerated", agent(tolerates(corev1.Toleration{Key: "dedicated", Operator: "Exists"})),
			worker("n1", taint("dedicated", noSchedule)), eligible},
		{"DS-22 a taint that evicts", agent(), worker("n1", taint("broken", noExecute)), excluded},
		{"DS-21 of two taints the one that evicts is tolerated",
			agent(tolerates(corev1.Toleration{Key: "broken", Operator: "Exists", Effect: noExecute})),
			worker("n1", taint("broken", noExecute), taint("dedicated", noSchedule)), tolerated},
		{"DS-22 neither taints nor labels suit", agent(selects("disk", "ssd")), worker("n1", taint("dedicated", noSchedule)), excluded},
		{"DS-23 a preference", agent(), worker("n1", taint("dedicated", prefer)), eligible},
		{"DS-23 cordoned, but without the taint", agent(), worker("n1", func(n *corev1.Node) { n.Spec.Unschedulable = true }), eligible},
		{"DS-23 full", agent(), worker("n1", func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{} }), eligible},
		{"DS-24 not ready", agent(), worker("n1", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}), eligible},
		{"DS-27 not ready, with the taint", agent(), worker("n1", taint("node.kubernetes.io/not-ready", noExecute)), eligible},
		{"DS-27 unreachable", agent(), worker("n1", taint("node.kubernetes.io/unreachable", noExecute)), eligible},
		{"DS-27 not ready is only tolerated where it evicts", agent(), worker("n1", taint("node.kubernetes.io/not-ready", noSchedule)),
			tolerated},
		{"DS-27 under pressure", agent(), worker("n1", taint("node.kubernetes.io/disk-pressure", noSchedule),
			taint("node.kubernetes.io/memory-pressure", noSchedule), taint("node.kubernetes.io/pid-pressure", noSchedule)), eligible},
		{"DS-27 cordoned", agent(), worker("n1", taint("node.kubernetes.io/unschedulable", noSchedule)), eligible},
		{"DS-27 without a network", agent(), worker("n1", taint("node.kubernetes.io/network-unavailable", noSchedule)), tolerated},
		{"DS-27 without a network, which the pod does not need", agent(hostNetwork),
			worker("n1", taint("node.kubernetes.io/network-unavailable", noSchedule)), eligible},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newNodeRules(c.d, false)
			if got := r.evaluate(c.n); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// DS-24: tolerations that compare numbers count only if the feature gate is on.
func TestTolerationsThatCompare(t *testing.T) {
	d := agent(tolerates(corev1.Toleration{Key: "load", Operator: "Lt", Value: "5", Effect: "NoSchedule"}))
	n := worker("n1", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "load", Value: "3", Effect: "NoSchedule"}} })
	if off, on := newNodeRules(d, false).evaluate(n), newNodeRules(d, true).evaluate(n); off != tolerated || on != eligible {
		t.Errorf("off: %q, on: %q", off, on)
	}
}

// Nodes of one class have the same eligibility, whatever the template asks for: what was decided about one holds for the others.
func TestClassesDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newNodeRules(drawDaemonSet(t), rapid.Bool().Draw(t, "comparisons"))
		a, b := drawNode(t, "a"), drawNode(t, "b")
		if string(r.appendClass(nil, a)) == string(r.appendClass(nil, b)) && r.evaluate(a) != r.evaluate(b) {
			t.Fatalf("%q and %q", r.evaluate(a), r.evaluate(b))
		}
	})
}

// What is remembered of a set is what would be decided anew, and a change of a node enqueues exactly the sets that it concerns.
func TestRememberedEligibility(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, cached := drawDaemonSet(t), newEligibilityCache(false, nil)
		for i := range 5 {
			n := drawNode(t, fmt.Sprint(i))
			if rapid.Bool().Draw(t, "edited") {
				d = drawDaemonSet(t)
				d.Generation = int64(i + 10)
			}
			if got, want := cached.of(d).eligibility(n), newNodeRules(d, false).evaluate(n); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	})
}

// A DaemonSet may ask for thousands of labels: of each node little is remembered.
func TestManyLabelsTakeLittleMemory(t *testing.T) {
	var all []corev1.NodeSelectorRequirement
	for i := range 10_000 {
		all = append(all, requirement(fmt.Sprint("l", i), "Exists"))
	}
	d, cached := agent(requires(all...)), newEligibilityCache(false, nil)
	for i := range 10 {
		if got := cached.of(d).eligibility(worker(fmt.Sprint("n", i), label("l1", fmt.Sprint(i%5)))); got != eligible {
			t.Errorf("%q", got)
		}
	}
	known := cached.of(d).known
	if len(known) != 5 {
		t.Errorf("%d classes", len(known))
	}
	for class := range known {
		if len(class) > longestClass {
			t.Errorf("a class of %d bytes", len(class))
		}
	}
}

// drawDaemonSet draws a DaemonSet that asks something of nodes.
func drawDaemonSet(t *rapid.T) *appsv1.DaemonSet {
	asks := []edit{
		selects("disk", "ssd"), requires(requirement("disk", "In", "ssd")),
		requires(requirement("disk", "Exists"), requirement("gpu", "DoesNotExist")),
		requires(requirement("metadata.name", "In", "n1")), requires(requirement("disk", "Near", "x")), hostNetwork,
		template(func(s *corev1.PodSpec) { s.NodeName = "n1" }),
		tolerates(corev1.Toleration{Key: "dedicated", Operator: "Exists"}),
		tolerates(corev1.Toleration{Key: "load", Operator: "Gt", Value: "2"}),
		tolerates(corev1.Toleration{Key: "dedicated", Value: "x", Effect: "NoSchedule"}),
	}
	return agent(rapid.SliceOfN(rapid.SampledFrom(asks), 0, 3).Draw(t, "asks")...)
}

// drawNode draws a node with labels and taints.
func drawNode(t *rapid.T, what string) *corev1.Node {
	n := worker(rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, what+" name"))
	for _, key := range []string{"disk", "gpu"} {
		if value := rapid.SampledFrom([]string{"-", "", "ssd"}).Draw(t, what+" "+key); value != "-" {
			label(key, value)(n)
		}
	}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"dedicated", "load", "node.kubernetes.io/network-unavailable"}),
		0, 2, rapid.ID).Draw(t, what+" taints") {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
			Key: key, Value: rapid.SampledFrom([]string{"", "x", "3"}).Draw(t, "value"),
			Effect: rapid.SampledFrom([]corev1.TaintEffect{"NoSchedule", "NoExecute", "PreferNoSchedule"}).Draw(t, "effect"),
		})
	}
	return n
}

func TestDS25CreatedPods(t *testing.T) {
	d := agent(func(d *appsv1.DaemonSet) {
		d.Spec.Template.Annotations = map[string]string{"note": "x"}
		d.Spec.Template.Finalizers = []string{"example.com/f"}
	})
	p := newPod(d, present{hash: "h", generation: "2"}, "n1")
	if p.GenerateName != "agent-" || p.Name != "" || p.Annotations["note"] != "x" || len(p.Finalizers) != 1 {
		t.Errorf("metadata: %+v", p.ObjectMeta)
	}
	if diff := cmp.Diff(map[string]string{"app": "agent", "controller-revision-hash": "h", "pod-template-generation": "2"},
		p.Labels); diff != "" {
		t.Error(diff)
	}
	ref := p.OwnerReferences[0]
	if ref.APIVersion != "apps/v1" || ref.Kind != "DaemonSet" || ref.UID != d.UID || !*ref.Controller || !*ref.BlockOwnerDeletion {
		t.Errorf("owner: %+v", ref)
	}
	if len(d.Spec.Template.Labels) != 1 || d.Spec.Template.Spec.Affinity != nil {
		t.Error("the template was changed")
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = "two"
	if labels := newPod(d, presentOf(d, revisions{}), "n1").Labels; labels[templateGeneration] != "" {
		t.Errorf("a generation that is no number: %v", labels)
	}
}

func TestDS26NodeBinding(t *testing.T) {
	d := agent(requires(requirement("disk", "Exists"), requirement("gpu", "Exists")), selects("disk", "ssd"))
	d.Spec.Template.Spec.Affinity.PodAffinity = &corev1.PodAffinity{}
	d.Spec.Template.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
		{Weight: 3}}
	spec := newPod(d, present{hash: "h"}, "n1").Spec
	want := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: "In", Values: []string{"n1"}},
	}}}}
	if diff := cmp.Diff(want, spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution); diff != "" {
		t.Error(diff)
	}
	if spec.NodeName != "" || spec.NodeSelector["disk"] != "ssd" || spec.Affinity.PodAffinity == nil ||
		len(spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Errorf("the rest stays: %+v", spec)
	}
}

func TestDS27AddedTolerations(t *testing.T) {
	seconds := int64(30)
	given := []corev1.Toleration{
		{Key: "mine", Operator: "Exists"},
		{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
		{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoSchedule"},
	}
	want := []corev1.Toleration{
		{Key: "mine", Operator: "Exists"},
		{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute"},
		{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoSchedule"},
		{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"},
		{Key: "node.kubernetes.io/disk-pressure", Operator: "Exists", Effect: "NoSchedule"},
		{Key: "node.kubernetes.io/memory-pressure", Operator: "Exists", Effect: "NoSchedule"},
		{Key: "node.kubernetes.io/pid-pressure", Operator: "Exists", Effect: "NoSchedule"},
		{Key: "node.kubernetes.io/unschedulable", Operator: "Exists", Effect: "NoSchedule"},
	}
	if diff := cmp.Diff(want, withTolerations(given, false)); diff != "" {
		t.Error(diff)
	}
	want = append(want, corev1.Toleration{Key: "node.kubernetes.io/network-unavailable", Operator: "Exists", Effect: "NoSchedule"})
	if diff := cmp.Diff(want, withTolerations(given, true)); diff != "" {
		t.Error(diff)
	}
	if given[1].TolerationSeconds == nil {
		t.Error("the template was changed")
	}
}

func TestDS16TargetNode(t *testing.T) {
	for _, c := range []struct {
		name string
		p    *corev1.Pod
		want string
	}{
		{"assigned", pod("a", "n1"), "n1"},
		{"meant for a node", pod("a", "n1", pending), "n1"},
		{"neither", pod("a", "n1", pending, func(p *corev1.Pod) { p.Spec.Affinity = nil }), ""},
		{"one of two nodes", pod("a", "n1", pending, func(p *corev1.Pod) {
			podutil.RequiredNodeTerms(&p.Spec)[0].MatchFields[0].Values = []string{"n1", "n2"}
		}), ""},
		{"any node but one",
			pod("a", "n1", pending, func(p *corev1.Pod) { podutil.RequiredNodeTerms(&p.Spec)[0].MatchFields[0].Operator = "NotIn" }), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := podutil.TargetNode(c.p); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
