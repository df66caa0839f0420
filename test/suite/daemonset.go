package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func daemonSetEntry() Entry {
	return Entry{
		Controller: "daemonset-controller",
		Operations: map[string]Operation{
			"daemon": daemonSet, // NAME image= disk= surge= unavailable= strategy= history= minready=; again: edits it; delete=true policy=
			"mark":   markNode,  // NODE disk= taint=EFFECT, in place of what it has
		},
		Begin: func(g *workload.Generator, app string) {
			if g.IntN(3) == 0 {
				g.Add(g.Early(), "daemon ds-%s image=%s %s", app, daemonImage(g), daemonStrategy(g))
			}
		},
		Choices:   daemonSetChoices,
		Settled:   settledDaemonSets,
		Scenarios: daemonSetScenarios,
		Malformed: daemonSetMalformed,
		Mutants:   daemonSetMutants,
		Budgets:   daemonSetBudgets,
	}
}

// daemonImage draws an image whose pods do not fail: how long those wait would be longer than a world takes to come to rest.
func daemonImage(g *workload.Generator) string {
	return fmt.Sprintf("%s:%d", workload.Pick(g, actors.Good, actors.Good, actors.Good, actors.Slow, actors.Bad, actors.Flaky), g.IntN(3))
}

func daemonStrategy(g *workload.Generator) string {
	return workload.Pick(g, "unavailable=1", "unavailable=1", "unavailable=50%", "surge=1", "surge=100%", "strategy=OnDelete")
}

var daemonSetChoices = []workload.Choice{
	{Weight: 2, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
		g.Add(at, "daemon ds-%s image=%s", app, daemonImage(g))
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
		g.Add(at, "daemon ds-%s %s", app, workload.Pick(g, daemonStrategy(g), "disk=ssd", "disk=", "history=0", "minready=3"))
	}},
	{Weight: 1, Add: func(g *workload.Generator, _ string, at, soon time.Duration) {
		node := fmt.Sprintf("node-%d", g.IntN(2))
		g.Add(at, "mark %s %s", node, workload.Pick(g, "disk=ssd", "taint=NoSchedule", "taint=NoExecute", "disk=hdd"))
		if g.IntN(2) == 0 {
			g.Add(soon, "mark %s disk=%s", node, workload.Pick(g, "ssd", "hdd"))
		}
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
		g.Add(at, "pod ds-%s n=%d do=%s", app, g.IntN(6), workload.Pick(g, "delete", "evict"))
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
		g.Add(at, "daemon ds-%s delete=true policy=%s", app, workload.Pick(g, "Background", "Orphan"))
		g.Add(soon, "daemon ds-%s image=good:1", app)
	}},
}

// daemonSet makes, edits or deletes a DaemonSet.
func daemonSet(u *User, l script.Line) error {
	name := l.Arg(0)
	if says(l, "delete") {
		return removeAsToldBy[*appsv1.DaemonSet](u, name, l)
	}
	return apply(u, newDaemonSet(name, "good:1"), func(d *appsv1.DaemonSet) { configureDaemonSet(d, l) })
}

func newDaemonSet(name, image string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labelsOf(name)}, Template: Template(name, image),
	}}
}

// configureDaemonSet sets what a line says of a DaemonSet.
func configureDaemonSet(d *appsv1.DaemonSet, l script.Line) {
	if image, ok := l.Get("image"); ok {
		d.Spec.Template.Spec.Containers[0].Image = image
	}
	if disk, ok := l.Get("disk"); ok {
		d.Spec.Template.Spec.NodeSelector = nil
		if disk != "" {
			d.Spec.Template.Spec.NodeSelector = map[string]string{"disk": disk}
		}
	}
	if n, ok := l.Int("history"); ok {
		d.Spec.RevisionHistoryLimit = ptr.To(int32(n))
	}
	if n, ok := l.Int("minready"); ok {
		d.Spec.MinReadySeconds = int32(n)
	}
	if s, ok := l.Get("strategy"); ok {
		d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.DaemonSetUpdateStrategyType(s)}
	}
	none := intstr.FromInt(0)
	if s, ok := l.Get("unavailable"); ok {
		d.Spec.UpdateStrategy = rollingDaemonSet(&none, ptr.To(intstr.Parse(s)))
	}
	if s, ok := l.Get("surge"); ok {
		d.Spec.UpdateStrategy = rollingDaemonSet(ptr.To(intstr.Parse(s)), &none)
	}
}

func rollingDaemonSet(surge, unavailable *intstr.IntOrString) appsv1.DaemonSetUpdateStrategy {
	return appsv1.DaemonSetUpdateStrategy{
		Type:          appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: surge, MaxUnavailable: unavailable},
	}
}

// markNode gives a node a label and a taint, in place of those that it has.
func markNode(u *User, l script.Line) error {
	return edit(u.as("admin"), u.unique(l.Arg(0)), func(n *corev1.Node) {
		n.Labels, n.Spec.Taints = nil, nil
		if disk, ok := l.Get("disk"); ok {
			n.Labels = map[string]string{"disk": disk}
		}
		if effect, ok := l.Get("taint"); ok {
			n.Spec.Taints = []corev1.Taint{{Key: "example.com/mark", Effect: corev1.TaintEffect(effect)}}
		}
	})
}

// settledDaemonSets checks that each node has the pod that it should have and no other, that all pods have the present template when
// nothing keeps them from it, that there is one revision of the present template, which is the newest, and that the status is right.
func settledDaemonSets(s *View) (wrong []string) {
	for _, d := range subjects[*appsv1.DaemonSet](s) {
		if d.DeletionTimestamp == nil {
			for _, problem := range unsettledDaemonSet(s, d) {
				wrong = append(wrong, fmt.Sprintf("DaemonSet %s: %s", d.Name, problem))
			}
		}
	}
	return wrong
}

func unsettledDaemonSet(s *View, d *appsv1.DaemonSet) []string {
	pods := map[string][]*corev1.Pod{}
	for _, p := range all[*corev1.Pod](s) {
		if metav1.IsControlledBy(p, d) && p.DeletionTimestamp == nil {
			pods[p.Spec.NodeName] = append(pods[p.Spec.NodeName], p)
		}
	}
	var desired, usable, updated int32
	waits := false // for a pod that has ended, or that surges and is not available
	generation := d.Annotations["deprecated.daemonset.template.generation"]
	newest, wrong := revisionsOf(s, d)
	for _, n := range all[*corev1.Node](s) {
		runs, may := runsDaemon(d, n)
		on := pods[n.Name]
		if len(on) > 1 && d.Spec.UpdateStrategy.RollingUpdate != nil && d.Spec.UpdateStrategy.RollingUpdate.MaxSurge.String() == "0" ||
			len(on) > 2 {
			wrong = append(wrong, fmt.Sprintf("%d pods on %s", len(on), n.Name))
		}
		if !may && len(on) > 0 {
			wrong = append(wrong, fmt.Sprintf("a pod on %s, which must not run any", n.Name))
		}
		if !runs {
			continue
		}
		desired++
		if len(on) == 0 {
			if !terminatingOn(s, d, n.Name) {
				wrong = append(wrong, "no pod on "+n.Name)
			}
			continue
		}
		is := func(p *corev1.Pod) bool { return available(p, d.Spec.MinReadySeconds) }
		waits = waits || slices.ContainsFunc(on, ended) || len(on) > 1 && !(is(on[0]) && is(on[1]))
		if is(on[0]) {
			usable++
		}
		// DS-56
		if on[0].Labels["pod-template-generation"] == generation || newest != nil && on[0].Labels[hashLabel] == newest.Labels[hashLabel] {
			updated++
		}
	}
	st := d.Status
	if st.DesiredNumberScheduled != desired || st.ObservedGeneration != d.Generation {
		wrong = append(wrong, fmt.Sprintf("generation %d, %d nodes are to run a pod, and the status says %+v", d.Generation, desired, st))
	}
	if rolls := d.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType; rolls && !waits && usable == desired &&
		(updated != desired || st.UpdatedNumberScheduled != desired || st.NumberAvailable != desired) {
		wrong = append(wrong, fmt.Sprintf("%d of %d pods are updated, and the status says %+v", updated, desired, st))
	}
	return wrong
}

const hashLabel = "controller-revision-hash"

// revisionsOf returns the newest revision of a DaemonSet, and what is wrong with its history: the newest must have the present template,
// and no two the same number or data.
func revisionsOf(s *View, d *appsv1.DaemonSet) (newest *appsv1.ControllerRevision, wrong []string) {
	numbers, data := map[int64]bool{}, map[string]bool{}
	for _, r := range all[*appsv1.ControllerRevision](s) {
		if !metav1.IsControlledBy(r, d) {
			continue
		}
		if numbers[r.Revision] || data[string(r.Data.Raw)] {
			wrong = append(wrong, "a second revision like "+r.Name)
		}
		numbers[r.Revision], data[string(r.Data.Raw)] = true, true
		if newest == nil || r.Revision > newest.Revision {
			newest = r
		}
	}
	image := fmt.Sprintf(`"image":%q`, d.Spec.Template.Spec.Containers[0].Image)
	if newest == nil || !strings.Contains(string(newest.Data.Raw), image) {
		wrong = append(wrong, "the newest revision does not have the present template")
	}
	return newest, wrong
}

// runsDaemon reports whether a node runs a pod of a DaemonSet, and whether it may keep one.
func runsDaemon(d *appsv1.DaemonSet, n *corev1.Node) (runs, may bool) {
	for key, value := range d.Spec.Template.Spec.NodeSelector {
		if n.Labels[key] != value {
			return false, false
		}
	}
	has := func(effect corev1.TaintEffect) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Effect == effect && !toleratedByDaemons[t.Key+":"+string(effect)] &&
				!slices.Contains(d.Spec.Template.Spec.Tolerations, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists})
		})
	}
	may = !has(corev1.TaintEffectNoExecute)
	return may && !has(corev1.TaintEffectNoSchedule), may
}

// toleratedByDaemons are the taints that all pods of DaemonSets tolerate, as KEY:EFFECT (DS-27).
var toleratedByDaemons = map[string]bool{
	corev1.TaintNodeNotReady + ":NoExecute": true, corev1.TaintNodeUnreachable + ":NoExecute": true,
	corev1.TaintNodeDiskPressure + ":NoSchedule": true, corev1.TaintNodeMemoryPressure + ":NoSchedule": true,
	corev1.TaintNodePIDPressure + ":NoSchedule": true, corev1.TaintNodeUnschedulable + ":NoSchedule": true,
}

// terminatingOn reports whether a pod of a DaemonSet is still being deleted on a node.
func terminatingOn(s *View, d *appsv1.DaemonSet, node string) bool {
	return slices.ContainsFunc(all[*corev1.Pod](s), func(p *corev1.Pod) bool {
		return metav1.IsControlledBy(p, d) && p.DeletionTimestamp != nil && p.Spec.NodeName == node
	})
}

var daemonSetMutants = []Mutant{
	{
		Name: "a pod of a DaemonSet is replaced before it is gone",
		Edits: []Edit{{"pkg/controllers/daemonset/plan_placement.go", "if len(pods) == 0 {",
			"if podutil.Count(pods, 0, w.now).Active == 0 {"}},
		Script: withoutElection + `
			at 1s   daemon ds image=good:1
			at 20s  pod ds n=0 do=delete
			at 22s  pod ds n=1 do=delete
			at 24s  pod ds n=2 do=delete`,
		Oracle: "S20",
	},
	{
		Name: "a rolling update deletes one pod too many",
		Edits: []Edit{{"pkg/controllers/daemonset/plan_rolling.go", "first(candidates, w.budget.unavailable-taken.unavailable)",
			"first(candidates, w.budget.unavailable-taken.unavailable+1)"}},
		Script: withoutElection + `
			at 1s   daemon ds image=good:1
			at 30s  daemon ds image=good:2`,
		Oracle: "S21",
	},
	{
		Name: "an unavailable new pod does not count",
		Edits: []Edit{{"pkg/controllers/daemonset/plan_rolling.go", "case at.old == nil && !w.available(at.current):",
			"case at.old == nil && at.current == nil:"}},
		Script: withoutElection + `
			at 1s   daemon ds image=good:1
			at 30s  daemon ds image=bad:2`,
		Oracle: "S21",
	},
	{
		Name: "with a surge the old pod goes before the new one is available",
		Edits: []Edit{{"pkg/controllers/daemonset/plan_placement.go",
			"if !podutil.Ready(old) || podutil.Available(current, w.Set.Spec.MinReadySeconds, w.now) {",
			"if !podutil.Ready(old) || podutil.Active(current) {"}},
		Script: withoutElection + `
			at 1s   daemon ds image=good:1 surge=1
			at 30s  daemon ds image=slow:2`,
		Oracle: "S21",
	},
	{
		Name:   "taints do not count",
		Edits:  []Edit{{"pkg/controllers/daemonset/plan_eligibility.go", "if len(n.Spec.Taints) == 0 {", "if len(n.Spec.Taints) >= 0 {"}},
		Script: withoutElection + "\n\t\t\tat 1s   daemon ds image=good:1\n\t\t\tat 20s  mark node-1 taint=NoExecute",
		Oracle: "L1", // the pod is evicted and made again without end
	},
	{
		Name: "a change of labels enqueues nothing",
		Edits: []Edit{{"pkg/controllers/daemonset/observe_nodes.go", "if !retainted && !cached.reads(relabeled) {",
			"if !retainted && len(relabeled) > 0 {"}},
		Script: withoutElection + "\n\t\t\tat 1s   daemon ds image=good:1 disk=ssd\n\t\t\tat 20s  mark node-1 disk=ssd",
		Oracle: SettledOracle,
	},
	{
		Name: "a new node gets no pod",
		Edits: []Edit{{"pkg/controllers/daemonset/observe_nodes.go",
			"if cached.eligibility(was) != cached.eligibility(is) || owners[d.UID] {",
			"if was != nil && cached.eligibility(was) != cached.eligibility(is) || owners[d.UID] {"}},
		Script: withoutElection + "\n\t\t\tat 1s   daemon ds image=good:1\n\t\t\tat 20s  node node-9 do=start",
		Oracle: SettledOracle,
	},
	{
		Name:  "a rollback does not make the revision the newest",
		Edits: []Edit{{"pkg/controllers/daemonset/plan_revisions.go", "number < next {", "number > next {"}},
		Script: withoutElection + `
			at 1s   daemon ds image=good:1
			at 30s  daemon ds image=good:2
			at 60s  daemon ds image=good:1`,
		Oracle: SettledOracle,
	},
	{
		Name: "the status of a DaemonSet is that of another generation",
		Edits: []Edit{{"pkg/controllers/daemonset/report.go", "ObservedGeneration:     s.Set.Generation,",
			"ObservedGeneration:     s.Set.Generation - 1,"}},
		Script: withoutElection + "\n\t\t\tat 1s   daemon ds image=good:1",
		Oracle: SettledOracle,
	},
}

var daemonSetMalformed = map[string]string{
	"daemonsets/empty": `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":${META}}`,
	"daemonsets/all":   `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":${META},"spec":{"selector":{},"template":{"metadata":{"labels":{"app":"all"}}}}}`,
	"daemonsets/absurd": `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"annotations":{"deprecated.daemonset.template.generation":"-1000000000"},${META}},
		"spec":{"selector":{"matchLabels":{"app":"absurd-daemon"}},"minReadySeconds":-1,"revisionHistoryLimit":-3,
			"template":{"metadata":{"labels":{"app":"absurd-daemon"}},"spec":{"nodeName":"nowhere","tolerations":[{"operator":"Near"}],
				"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{},{"matchFields":[{"key":"metadata.name","operator":"In"}]}]}}}}},
			"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"many","maxSurge":-2}}},
		"status":{"desiredNumberScheduled":-2,"observedGeneration":-1,"collisionCount":-1,"conditions":[{"type":"","status":"Perhaps"}]}}`,
	"controllerrevisions/nothing": `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"labels":{"app":"absurd-daemon"},${META}},"revision":-7}`,
}

var daemonSetScenarios = []Scenario{
	{Name: "DaemonSet", Prepare: func(u *User) { u.AddNodes(3) }, Play: func(u *User) {
		u.CreateDaemonSet("agent", 1)
		u.WaitDaemonSet("agent", 3)
		u.Try("update agent", func() error {
			return edit(u, "agent", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "web:2" })
		})
		u.WaitDaemonSet("agent", 3)
	}},
}

var daemonSetBudgets = []Budget{
	{
		Name: "create a DaemonSet on 100 nodes", Floor: floor.Writes{Other: 101, Status: 2},
		Prepare: func(u *User) { u.AddNodes(100) },
		Do: func(u *User) {
			u.CreateDaemonSet("agent", 10)
			u.WaitDaemonSet("agent", 100)
		},
	},
}

// AddNodes makes nodes that run only the DaemonSets of the user's namespace.
func (u *User) AddNodes(n int) {
	u.Helper()
	u.Each(n, func(i int) error { return ignoreExists(create(u, u.newNode(i))) })
	u.Cleanup(func() {
		u.Each(n, func(i int) error { return ignoreNotFound(remove[*corev1.Node](u, u.nodeName(i))) })
	})
}

func (u *User) nodeName(i int) string { return fmt.Sprintf("%s-%03d", u.Namespace, i) }

// newNode is a node that kwok plays.
func (u *User) newNode(i int) *corev1.Node {
	name := u.nodeName(i)
	room := corev1.ResourceList{"cpu": resource.MustParse("10"), "memory": resource.MustParse("10Gi"), "pods": resource.MustParse("100")}
	// Of --cluster-cidr, since kube-controller-manager does not start beside a node with another range (IPAM-62).
	podCIDRs := []string{fmt.Sprintf("10.%d.%d.0/24", 200+i/250, i%250), fmt.Sprintf("fd00:64:0:%x::/64", 0x8000+i)}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				"runs": u.Namespace, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", // kubelets set both
			},
		},
		Spec: corev1.NodeSpec{
			PodCIDR: podCIDRs[0], PodCIDRs: podCIDRs,
			Taints: []corev1.Taint{{Key: "runs", Value: u.Namespace, Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room, Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "localhost"}, {Type: corev1.NodeInternalIP, Address: fmt.Sprintf("198.18.1.%d", i%250+1)},
		}},
	}
}

// CreateDaemonSet makes a DaemonSet for the nodes of the user's namespace, of which so many may be unavailable in an update.
func (u *User) CreateDaemonSet(name string, unavailable int) {
	u.Helper()
	none, some := intstr.FromInt(0), intstr.FromInt(unavailable)
	d := newDaemonSet(name, "web:1")
	d.Spec.UpdateStrategy = rollingDaemonSet(&none, &some)
	d.Spec.Template.Spec.Containers[0].Name = "web"
	d.Spec.Template.Spec.NodeSelector = map[string]string{"runs": u.Namespace}
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "runs", Operator: corev1.TolerationOpExists}}
	u.Create(d)
}

// WaitDaemonSet waits until so many nodes have an available pod of the present template.
func (u *User) WaitDaemonSet(name string, n int32) {
	u.Helper()
	Await(u, name, func(d *appsv1.DaemonSet) error {
		s := d.Status
		return unless(s.ObservedGeneration == d.Generation && s.DesiredNumberScheduled == n && s.UpdatedNumberScheduled == n &&
			s.NumberAvailable == n, s)
	})
}
