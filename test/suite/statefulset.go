package suite

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func statefulSetEntry() Entry {
	return Entry{
		Controller: "statefulset-controller",
		Needs:      []string{"persistentvolumeclaim-protection-controller"},
		Operations: map[string]Operation{
			// NAME replicas= image= pods=Parallel strategy=Recreate partition= unavailable= scaled=Delete deleted=Delete: makes or edits
			// it; delete=true policy=
			"sts":   statefulSet,
			"claim": disturbClaims, // NAME do=delete, own: to the claims of the StatefulSet
		},
		Begin: func(g *workload.Generator, app string) {
			if g.IntN(3) == 0 {
				g.Add(g.Early(), "sts sts-%s replicas=%d image=good:1 pods=%s scaled=%s deleted=%s", app, g.IntN(5),
					workload.Pick(g, "OrderedReady", "Parallel"), retention(g), retention(g))
			}
		},
		Choices: []workload.Choice{
			{Weight: 2, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
				g.Add(at, "sts sts-%s replicas=%d image=%s:%d partition=%d unavailable=%d scaled=%s deleted=%s", app, g.IntN(6),
					workload.Pick(g, "good", "good", "good", "slow", "flaky"), g.IntN(3), workload.Pick(g, 0, 0, 0, 2), 1+g.IntN(3),
					retention(g), retention(g))
				g.Add(soon, "pod sts-%s n=%d do=%s", app, g.IntN(6), workload.Pick(g, "delete", "evict", "relabel", "restore"))
			}},
			{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
				g.Add(at, "sts sts-%s delete=true policy=%s", app, workload.Pick(g, "Background", "Foreground", "Orphan"))
				g.Add(soon, "sts sts-%s replicas=%d image=good:1", app, g.IntN(4))
			}},
			{Weight: 1, Add: func(g *workload.Generator, app string, at, _ time.Duration) {
				g.Add(at, "claim sts-%s do=%s", app, workload.Pick(g, "delete", "own"))
			}},
		},
		Settled:   settledStatefulSets,
		Scenarios: statefulSetScenarios,
		Malformed: statefulSetMalformed,
		Mutants:   statefulSetMutants,
		Budgets: []Budget{{
			// the names of the revisions, and the end
			Name: "create 20 StatefulSets of 3 replicas with a claim each", Floor: floor.Writes{Other: 140, Status: 40},
			Do: func(u *User) {
				u.Each(20, func(i int) error { return create(u, newStatefulSet(fmt.Sprint("db-", i), "web:1", 3)) })
				u.waitStatefulSets(20)
			},
		}},
	}
}

func retention(g *workload.Generator) string { return workload.Pick(g, "Retain", "Delete") }

// statefulSet makes, edits or deletes a StatefulSet. What a line does not say stays.
func statefulSet(u *User, l script.Line) error {
	if says(l, "delete") {
		return removeAsToldBy[*appsv1.StatefulSet](u, l.Arg(0), l)
	}
	change := func(set *appsv1.StatefulSet) {
		if n, ok := l.Int("replicas"); ok {
			set.Spec.Replicas = ptr.To(int32(n))
		}
		if image, ok := l.Get("image"); ok {
			set.Spec.Template = Template(l.Arg(0), image)
		}
		if strategy, ok := l.Get("strategy"); ok {
			set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.StatefulSetUpdateStrategyType(strategy)}
		}
		if n, ok := l.Int("partition"); ok {
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(int32(n))}
		}
		if n, ok := l.Int("unavailable"); ok && set.Spec.UpdateStrategy.RollingUpdate != nil {
			set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt(n))
		}
		scaled, ok1 := l.Get("scaled")
		deleted, ok2 := l.Get("deleted")
		if ok1 && ok2 {
			set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenScaled:  appsv1.PersistentVolumeClaimRetentionPolicyType(scaled),
				WhenDeleted: appsv1.PersistentVolumeClaimRetentionPolicyType(deleted),
			}
		}
	}
	set := newStatefulSet(l.Arg(0), "good:1", 1)
	pods, _ := l.Get("pods")
	set.Spec.PodManagementPolicy = appsv1.PodManagementPolicyType(pods)
	return apply(u, set, change)
}

// disturbClaims deletes a claim of a StatefulSet, or makes somebody else its owner.
func disturbClaims(u *User, l script.Line) error {
	name := "data-" + l.Arg(0) + "-0"
	if do, _ := l.Get("do"); do == "delete" {
		return removeAsToldBy[*corev1.PersistentVolumeClaim](u, name, l)
	}
	node, err := get[*corev1.Node](u, u.unique("node-1"))
	if err != nil {
		return err
	}
	return edit(u, name, func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(node, corev1.SchemeGroupVersion.WithKind("Node"))}
	})
}

// settledStatefulSets checks that each has its pods and says so in its status. A pod that is not ready may hold up all that comes after it.
func settledStatefulSets(s *View) (wrong []string) {
	for _, set := range subjects[*appsv1.StatefulSet](s) {
		if set.DeletionTimestamp != nil {
			continue
		}
		if problem := unsettledStatefulSet(s, set); problem != "" {
			wrong = append(wrong,
				fmt.Sprintf("StatefulSet %s, generation %d: %s; its status is %+v", set.Name, set.Generation, problem, set.Status))
		}
	}
	return wrong
}

func runs(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && ready(p) }

func unsettledStatefulSet(s *View, set *appsv1.StatefulSet) string {
	status := set.Status
	var mine []*corev1.Pod
	ready := 0
	for _, p := range all[*corev1.Pod](s) {
		if !metav1.IsControlledBy(p, set) {
			continue
		}
		mine = append(mine, p)
		if runs(p) {
			ready++
		}
	}
	if status.ObservedGeneration != set.Generation || int(status.Replicas) != len(mine) || int(status.ReadyReplicas) != ready {
		return fmt.Sprintf("it has %d pods, %d ready", len(mine), ready)
	}
	replicas, partition := int(*set.Spec.Replicas), 0
	if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		partition = int(*u.Partition)
	}
	for ordinal := range replicas {
		name := fmt.Sprint(set.Name, "-", ordinal)
		at := slices.IndexFunc(mine, func(p *corev1.Pod) bool { return p.Name == name })
		switch {
		case at < 0 && one[*corev1.Pod](s, set.Namespace, name) != nil:
			return "" // another pod has the name
		case at < 0:
			return name + " is missing"
		case ended(mine[at]):
			return name + " has finished and is still there"
		case !runs(mine[at]):
			return ""
		case one[*corev1.PersistentVolumeClaim](s, set.Namespace, "data-"+name) == nil && mine[at].Status.Phase == corev1.PodPending:
			return name + " has no claim"
		}
	}
	if haltsScalingDown(set, mine) {
		return ""
	}
	if len(mine) != replicas {
		return fmt.Sprintf("it has %d pods of %d", len(mine), replicas)
	}
	for _, p := range mine {
		var ordinal int
		_, _ = fmt.Sscanf(p.Name[len(set.Name):], "-%d", &ordinal)
		if got := p.Labels[appsv1.StatefulSetRevisionLabel]; ordinal >= partition && got != status.UpdateRevision {
			return p.Name + " has the revision " + got
		}
	}
	return ""
}

// haltsScalingDown reports whether an ordered StatefulSet deletes none of the pods that are too many, because two are not ready, the
// highest among them (STS-47).
func haltsScalingDown(set *appsv1.StatefulSet, mine []*corev1.Pod) bool {
	if set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return false
	}
	highest, of := -1, map[int]*corev1.Pod{}
	for _, p := range mine {
		var ordinal int
		_, _ = fmt.Sscanf(p.Name[len(set.Name):], "-%d", &ordinal)
		highest, of[ordinal] = max(highest, ordinal), p
	}
	waiting := func(ordinal int) bool { return of[ordinal] != nil && !runs(of[ordinal]) && !ended(of[ordinal]) }
	lower := false
	for ordinal := int(*set.Spec.Replicas); ordinal < highest; ordinal++ {
		lower = lower || waiting(ordinal)
	}
	return lower && waiting(highest)
}

var statefulSetScenarios = []Scenario{
	{Name: "roll a StatefulSet out", Play: func(u *User) {
		u.Create(newStatefulSet("db", "web:1", 2))
		u.waitStatefulSets(1)
		for _, patch := range []string{`{"spec":{"replicas":3}}`, `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`,
			`{"spec":{"replicas":1}}`} {
			Patch[*appsv1.StatefulSet](u, "db", patch)
			u.waitStatefulSets(1)
		}
	}},
}

var statefulSetMalformed = map[string]string{
	"statefulsets/no-selector": `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":${META}}`,
	"statefulsets/absurd": `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":${META},
		"spec":{"replicas":-4,"minReadySeconds":-1,"ordinals":{"start":-3},"revisionHistoryLimit":-7,"podManagementPolicy":"Perhaps",
			"selector":{"matchLabels":{"app":"absurd"}},"template":{"metadata":{"labels":{"app":"absurd"}}},
			"updateStrategy":{"type":"Never","rollingUpdate":{"partition":-5,"maxUnavailable":"x"}},
			"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Burn"},"volumeClaimTemplates":[{},{}]},
		"status":{"replicas":-2,"observedGeneration":-1,"currentReplicas":-9,"collisionCount":-3}}`,
	"controllerrevisions/absurd": `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"labels":{"app":"absurd"},${META}},
		"data":{"spec":[]},"revision":-9223372036854775808}`,
	"persistentvolumeclaims/data-absurd-0": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"ownerReferences":[
		{"apiVersion":"","kind":"","name":"","uid":"","controller":true}],${META}}}`,
}

var statefulSetMutants = []Mutant{
	{
		Name: "pods are created before the lower ones are ready",
		Edits: []Edit{{"pkg/controllers/statefulset/plan_replicas.go", "steps = append(steps, more...)\n\t\tif why != \"\" {",
			"steps = append(steps, more...)\n\t\tif why == \"never\" {"}},
		Script: withoutElection + "\n\t\t\tat 1s   sts db replicas=3 image=slow:1 pods=OrderedReady",
		Oracle: "S22",
	},
	{
		Name: "scaling down begins with the lowest pod",
		Edits: []Edit{{"pkg/controllers/statefulset/plan.go",
			"return ordinalOf(b) - ordinalOf(a) })", "return ordinalOf(a) - ordinalOf(b) })"}},
		Script: withoutElection + "\n\t\t\tat 1s   sts db replicas=4 image=good:1 pods=OrderedReady\n\t\t\tat 60s  sts db replicas=1",
		Oracle: "S22",
	},
	{
		Name:  "a pod that is too many and not ready goes before a lower one", // STS-47
		Edits: []Edit{{"pkg/controllers/statefulset/plan_replicas.go", "lower != highest && !stuck {", "lower == nil && !stuck {"}},
		Script: withoutElection + `
			at 1s   sts db replicas=4 image=good:1 pods=OrderedReady
			at 60s  sts db image=bad:2
			at 80s  pod db n=2 do=delete
			at 130s sts db replicas=1 partition=1`,
		Oracle: "S22",
	},
	{
		Name: "claims are deleted with their StatefulSet whatever its policy says",
		Edits: []Edit{{"pkg/controllers/statefulset/plan_claims.go",
			"\tcase deleted:\n\t\treturn metav1.NewControllerRef(set, setKind())",
			"\tcase deleted || condemned == nil:\n\t\treturn metav1.NewControllerRef(set, setKind())"}},
		Script: withoutElection + "\n\t\t\tat 1s   sts db replicas=2 image=good:1 pods=OrderedReady",
		Oracle: "S23",
	},
	{
		Name: "an update deletes pods below the partition",
		Edits: []Edit{{"pkg/controllers/statefulset/plan_update.go",
			"for ordinal := end(r.Set) - 1; ordinal >= start(r.Set)+r.partition(); ordinal-- {\n\t\tp := r.replicas[ordinal]\n\t\tif p",
			"for ordinal := end(r.Set) - 1; ordinal >= start(r.Set); ordinal-- {\n\t\tp := r.replicas[ordinal]\n\t\tif p"}},
		Script: withoutElection +
			"\n\t\t\tat 1s   sts db replicas=3 image=good:1 pods=OrderedReady\n\t\t\tat 30s  sts db partition=2\n\t\t\tat 60s  sts db " +
			"image=good:2",
		Oracle: "S22",
	},
	{
		Name: "an update does not wait for the pod before",
		Edits: []Edit{{"pkg/controllers/statefulset/plan_update.go",
			"if budget <= 0 || r.waits(p) != \"\" {", "if r.waits(p) != \"\" {"}},
		Script: withoutElection + "\n\t\t\tat 1s   sts db replicas=4 image=good:1 pods=Parallel\n\t\t\tat 60s  sts db image=slow:2",
		Oracle: "S22",
	},
	{
		Name: "pods are created while those that they take the place of are going", // STS-76
		Edits: []Edit{{"pkg/controllers/statefulset/plan_recreate.go",
			"if revisionOf(p) != r.update.Name {", "if revisionOf(p) != r.update.Name && p.DeletionTimestamp == nil {"}},
		Script: withoutElection +
			"\n\t\t\tat 1s   sts db replicas=3 image=slow:1 pods=Parallel strategy=Recreate\n\t\t\tat 60s  sts db image=good:2",
		Oracle: "S22",
	},
	{
		Name: "Recreate waits for pods that nobody deletes", // STS-76
		Edits: []Edit{{"pkg/controllers/statefulset/plan_recreate.go",
			"p.DeletionTimestamp == nil && len(doomed) < burst {", "p.DeletionTimestamp == nil && len(doomed) < 0 {"}},
		Script: withoutElection +
			"\n\t\t\tat 1s   sts db replicas=2 image=good:1 pods=OrderedReady strategy=Recreate\n\t\t\tat 60s  sts db image=good:2",
		Oracle: SettledOracle,
	},
	{
		Name: "the status has another update revision",
		Edits: []Edit{{"pkg/controllers/statefulset/report.go",
			"UpdateRevision:     r.update.Name,", "UpdateRevision:     r.update.Name + \"x\","}},
		Script: withoutElection + "\n\t\t\tat 1s   sts db replicas=2 image=good:1 pods=OrderedReady",
		Oracle: SettledOracle,
	},
}

// newStatefulSet makes one with a claim template.
func newStatefulSet(name, image string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labelsOf(name)},
		Template:             Template(name, image),
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*newClaim("data")},
	}}
}

// waitStatefulSets waits until there are so many StatefulSets, all with their pods, of the newest revision.
func (u *User) waitStatefulSets(n int) {
	u.Helper()
	AwaitAll(u, n, func(set *appsv1.StatefulSet) error {
		s, want := set.Status, *set.Spec.Replicas
		return unless(s.ObservedGeneration == set.Generation && s.AvailableReplicas == want && s.Replicas == want &&
			s.UpdatedReplicas == want, s)
	})
}
