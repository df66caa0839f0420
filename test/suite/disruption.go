package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

var disruptionChoices = []workload.Choice{
	{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
		g.Add(at, "budget %s app=%s %s", app, g.App(),
			workload.Pick(g, "max=0", "max=1", "max=50%", "min=2", "min=50%", "max=1 delete=true"))
		g.Add(soon, "evict %s all=true", app)
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
		for range 1 + g.IntN(3) {
			g.Add(at, "evict %s n=%d", app, g.IntN(10))
		}
		g.Add(soon, "evict %s all=true", app)
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) { // pods come into a budget, and leave it
		g.Add(at, "budget lost app=%s min=1", quarantine)
		g.Add(at+g.Early(), "pod %s n=%d do=relabel", app, g.IntN(10))
		if g.IntN(3) > 0 {
			g.Add(soon+5*time.Second, "pod %s n=0 do=restore", app)
		}
	}},
	// a workload does not have the size that it should
	{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
		g.Add(at, "quota pods=%d", 2+g.IntN(4))
		g.Add(at+time.Second, "edit %s replicas=%d", app, 3+g.IntN(4))
		g.Add(soon+time.Second, "evict %s n=%d", app, g.IntN(10))
		g.Add(soon+g.While(), "quota pods=-1")
	}},
	{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
		g.Add(at, "disrupt %s n=%d", app, g.IntN(10))
		g.Add(at+130*time.Second, "evict %s n=%d", app, g.IntN(10))
	}},
}

func disruptionEntry() Entry {
	return Entry{
		Controller: "disruption-controller",
		Needs:      []string{"deployment-controller"},
		Operations: map[string]Operation{
			"budget":  budget,  // NAME app=, of that name by default; min= or max=; delete=true
			"evict":   evict,   // NAME n=, or all=true: through the API, at the same moment
			"disrupt": disrupt, // NAME n=: says that a pod is about to be disrupted, but it is not
		},
		Begin: func(g *workload.Generator, app string) {
			if g.IntN(2) == 0 {
				g.Add(g.Early(), "budget %s %s", app, workload.Pick(g, "max=1", "max=1", "max=34%", "min=1", "min=50%", "min=0"))
			}
		},
		Choices:   disruptionChoices,
		Settled:   settledBudgets,
		Scenarios: disruptionScenarios,
		Malformed: map[string]string{
			"poddisruptionbudgets/empty": `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":${META}}`,
			"poddisruptionbudgets/absurd": `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":${META},
				"spec":{"minAvailable":"many","maxUnavailable":-3,"selector":{"matchExpressions":[{"key":"","operator":"Perhaps"}]},"unhealthyPodEvictionPolicy":"X"},
				"status":{"disruptionsAllowed":-2,"currentHealthy":-1,"desiredHealthy":0,"expectedPods":0,"observedGeneration":-1,
					"disruptedPods":{"":null,"x":"1970-01-01T00:00:00Z"},"conditions":[{"type":"DisruptionAllowed"},{"type":"DisruptionAllowed","status":"Perhaps"}]}}`,
		},
		Mutants: disruptionMutants,
		Budgets: []Budget{{
			Name: "100 budgets for the pods of a Deployment each", Floor: floor.Writes{Status: 100},
			Prepare: func(u *User) {
				u.createDeployments(100, 2)
				AwaitAll(u, 100, Complete)
			},
			Do: func(u *User) {
				u.Each(100, func(i int) error {
					app := fmt.Sprint("web-", i)
					return create(u, newBudget(app, app, "50%"))
				})
				u.waitBudgets(100, 1)
			},
		}},
	}
}

// budget makes, changes or deletes a budget.
func budget(u *User, l script.Line) error {
	name := l.Arg(0)
	if says(l, "delete") {
		return removeAsToldBy[*policyv1.PodDisruptionBudget](u, name, l)
	}
	app := name
	if s, ok := l.Get("app"); ok {
		app = s
	}
	return apply(u, newBudget(name, app, ""), func(b *policyv1.PodDisruptionBudget) {
		b.Spec = policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labelsOf(app)}}
		if s, ok := l.Get("min"); ok {
			b.Spec.MinAvailable = ptr.To(intstr.Parse(s))
		} else if s, ok := l.Get("max"); ok {
			b.Spec.MaxUnavailable = ptr.To(intstr.Parse(s))
		}
	})
}

// evict evicts a pod, or all pods, as kubectl drain does.
func evict(u *User, l script.Line) error {
	if !says(l, "all") {
		p, err := choose(u, l, living)
		if err != nil {
			return err
		}
		return evictPod(u, p.Name)
	}
	pods, err := list[*corev1.Pod](u)
	for _, p := range pods {
		if strings.HasPrefix(p.Name, l.Arg(0)+"-") && living(p) {
			err = errors.Join(err, evictPod(u, p.Name))
		}
	}
	return err
}

func living(p *corev1.Pod) bool { return p.DeletionTimestamp == nil }

func evictPod(u *User, name string) error {
	return u.Client.PolicyV1().Evictions(u.Namespace).Evict(ctx(),
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: name}})
}

// disrupt sets the condition of a pod that is about to be disrupted.
func disrupt(u *User, l script.Line) error {
	p, err := choose(u, l, living)
	if err != nil {
		return err
	}
	return edit(u, p.Name, func(p *corev1.Pod) {
		p.Status.Conditions = append(slices.DeleteFunc(p.Status.Conditions, isDisruption),
			corev1.PodCondition{Type: corev1.DisruptionTarget,
				Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", LastTransitionTime: metav1.Now().Rfc3339Copy()})
	}, "status")
}

func isDisruption(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }

// settledBudgets checks that the status of each budget is that of its pods (DIS-17 to DIS-26f), and that no pod has said for long that
// it is about to be disrupted (DIS-33).
func settledBudgets(s *View) (wrong []string) {
	for _, b := range subjects[*policyv1.PodDisruptionBudget](s) {
		want, known := budgetOf(s, b)
		if got := b.Status; known && (fmt.Sprint(got.DisruptionsAllowed, got.CurrentHealthy, got.DesiredHealthy, got.ExpectedPods) !=
			fmt.Sprint(want.DisruptionsAllowed, want.CurrentHealthy, want.DesiredHealthy, want.ExpectedPods) ||
			got.ObservedGeneration != b.Generation || len(got.DisruptedPods) > 0) {
			wrong = append(wrong, fmt.Sprintf("PodDisruptionBudget %s, generation %d, says %+v, want %+v", b.Name, b.Generation, got, want))
		}
	}
	for _, p := range all[*corev1.Pod](s) {
		i := slices.IndexFunc(p.Status.Conditions, isDisruption)
		if i >= 0 && living(p) && !ended(p) && p.Status.Conditions[i].Status == corev1.ConditionTrue &&
			time.Since(p.Status.Conditions[i].LastTransitionTime.Time) > 3*time.Minute {
			wrong = append(wrong, fmt.Sprintf("Pod %s is still about to be disrupted", p.Name))
		}
	}
	return wrong
}

// budgetOf is the status that a budget should have. It is not known if pods have owners that no longer exist.
func budgetOf(s *View, b *policyv1.PodDisruptionBudget) (want policyv1.PodDisruptionBudgetStatus, known bool) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return want, false
	}
	scales, pods := map[types.UID]int32{}, int32(0)
	for _, p := range all[*corev1.Pod](s) {
		if p.Namespace != b.Namespace || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		pods++
		if living(p) && ready(p) {
			want.CurrentHealthy++
		}
		if ref := metav1.GetControllerOf(p); ref != nil && !addScale(s, p.Namespace, ref, scales) {
			return want, false
		}
	}
	expected := int32(0)
	for _, n := range scales {
		expected += n
	}
	switch {
	case b.Spec.MaxUnavailable != nil:
		most, _ := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, int(expected), true)
		want.ExpectedPods, want.DesiredHealthy = expected, max(0, expected-int32(most))
	case b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type == intstr.String:
		least, _ := intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, int(expected), true)
		want.ExpectedPods, want.DesiredHealthy = expected, int32(least)
	case b.Spec.MinAvailable != nil:
		want.ExpectedPods, want.DesiredHealthy = pods, b.Spec.MinAvailable.IntVal
	}
	if want.ExpectedPods > 0 {
		want.DisruptionsAllowed = max(0, want.CurrentHealthy-want.DesiredHealthy)
	}
	return want, true
}

// addScale adds the size of an owner, or of its own owner, once.
func addScale(s *View, namespace string, ref *metav1.OwnerReference, to map[types.UID]int32) bool {
	switch ref.Kind {
	case "ReplicationController":
		rc := one[*corev1.ReplicationController](s, namespace, ref.Name)
		if rc == nil || rc.UID != ref.UID {
			return false
		}
		to[rc.UID] = *rc.Spec.Replicas
	case "ReplicaSet":
		rs := one[*appsv1.ReplicaSet](s, namespace, ref.Name)
		if rs == nil || rs.UID != ref.UID {
			return false
		}
		if up := metav1.GetControllerOf(rs); up != nil {
			return addScale(s, namespace, up, to)
		}
		to[rs.UID] = *rs.Spec.Replicas
	case "Deployment":
		d := one[*appsv1.Deployment](s, namespace, ref.Name)
		if d == nil || d.UID != ref.UID {
			return false
		}
		to[d.UID] = *d.Spec.Replicas
	default:
		return false
	}
	return true
}

var disruptionMutants = []Mutant{
	{
		Name: "a pod that is being evicted counts as healthy",
		Edits: []Edit{{"pkg/controllers/disruption/report.go", "		if healthy(p) {\n			d.Shielded++",
			"		if healthy(p) && d.Kept == nil {\n			d.Shielded++"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 1s   budget web max=1
			at 20s  fault m0 delay pods 5s for=20s
			at 21s  evict web n=0
			at 22s  evict web n=1
			at 23s  evict web n=2`,
		Oracle: "S24",
	},
	{
		Name: "an entry goes before the pod is seen to be deleted",
		Edits: []Edit{{"pkg/controllers/disruption/report.go",
			"		if p == nil || p.DeletionTimestamp != nil {",
			"		if p == nil || p.DeletionTimestamp != nil || since.Add(time.Second).Before(now) {"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 1s   budget web max=1
			at 20s  fault m0 delay pods 9s for=20s
			at 21s  evict web n=0
			at 23s  budget web max=1 app=web min=2
			at 25s  evict web n=1
			at 26s  evict web n=2`,
		Oracle: "S24",
	},
	{
		Name:  "an overdue eviction is forgotten without a live look at its pod",
		Edits: []Edit{{"pkg/controllers/disruption/observe.go", "if !alive[p.UID] {", "if alive == nil {"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 1s   budget web max=1
			at 20s  fault m0 freeze pods for=200s
			at 21s  evict web n=0
			at 150s evict web n=1
			at 151s evict web n=2`,
		Oracle: "S24",
	},
	{
		Name: "the ReplicaSets of a rollout count one by one",
		Edits: []Edit{{"pkg/controllers/disruption/observe_scale.go", "return w.Object.GetUID(), w.Replicas, nil",
			"return o.Ref.UID, w.Replicas, nil"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 1s   budget web max=1
			at 20s  image web bad:2`,
		Oracle: SettledOracle,
	},
	{
		Name: "the budget that a pod leaves is not told",
		Edits: []Edit{{"pkg/controllers/disruption/observe.go",
			"	if was != nil {\n		budgets",
			"	if was != nil && (is == nil || maps.Equal(was.Labels, is.Labels)) {\n		budgets"}},
		Script: withoutElection + `
			at 1s   bare web-1 replicas=2 image=good:1
			at 1s   budget lost app=Quarantine min=1
			at 20s  pod web-1 n=0 do=relabel
			at 40s  pod web-1 n=0 do=restore`,
		Oracle: SettledOracle,
	},
	{
		Name:  "the size of a workload is not looked at",
		Edits: []Edit{{"pkg/controllers/disruption/observe.go", "was.replicas == w.replicas && was.by == w.by {", "was.by == w.by {"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 1s   budget web max=1
			at 20s  quota pods=3
			at 21s  edit web replicas=5
			at 40s  evict web n=0`,
		Oracle: "S24",
	},
	{
		Name:  "what has changed in a large budget is not looked at",
		Edits: []Edit{{"pkg/controllers/disruption/observe.go", "		look(named(c))\n", "		_ = c\n"}},
		Script: withoutElection + `
			at 1s   bare web-1 replicas=110 image=good:1
			at 20s  budget web-1 min=100
			at 40s  bare web-1 replicas=105`,
		Oracle: SettledOracle,
	},
	{
		Name: "shares are rounded down",
		Edits: []Edit{{"pkg/controllers/disruption/plan.go",
			"least, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(pods), true)",
			"least, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(pods), false)"}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 1s   budget web min=50%`,
		Oracle: SettledOracle,
	},
	{
		Name:  "a pod is about to be disrupted for ever",
		Edits: []Edit{{"pkg/controllers/disruption/plan_pods.go", "p.Requeue, p.Why = left,", "p.Why ="}},
		Script: withoutElection + `
			at 1s   create web replicas=3 image=good:1
			at 20s  disrupt web n=0
			at 220s service web`,
		Oracle: SettledOracle,
	},
}

var disruptionScenarios = []Scenario{
	{Name: "pods are evicted one after the other", Play: func(u *User) {
		u.Create(Deployment("web", 3))
		u.Create(newBudget("web", "web", "1"))
		u.WaitComplete("web")
		for _, p := range u.Pods() {
			u.Evict(p.Name)
		}
		u.WaitComplete("web")
		u.waitBudgets(1, 1)
	}},
}

// newBudget is a budget for the pods of an app.
func newBudget(name, app, maxUnavailable string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: ptr.To(intstr.Parse(maxUnavailable)), Selector: &metav1.LabelSelector{MatchLabels: labelsOf(app)},
	}}
}

// Evict evicts a pod, as soon as its budget allows it.
func (u *User) Evict(name string) {
	u.Helper()
	u.Try("evict "+name, func() error { return ignoreNotFound(evictPod(u, name)) })
}

// waitBudgets waits until there are so many budgets, each of which allows so many disruptions.
func (u *User) waitBudgets(n int, allowed int32) {
	u.Helper()
	AwaitAll(u, n, func(b *policyv1.PodDisruptionBudget) error {
		s := b.Status
		return unless(s.ObservedGeneration == b.Generation && s.DisruptionsAllowed == allowed && len(s.DisruptedPods) == 0, s)
	})
}
