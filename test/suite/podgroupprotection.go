package suite

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const (
	podGroupProtection  = "scheduling.k8s.io/podgroup-protection"
	compositeProtection = "scheduling.k8s.io/compositepodgroup-protection"
	// CompositePodGroups are in no version of client-go yet. Only the server of the simulation has them.
	compositeGroups = "compositepodgroups.scheduling.k8s.io"
)

func podGroupProtectionEntry() Entry {
	return Entry{
		Controller: "podgroup-protection-controller",
		Operations: map[string]Operation{
			"podgroup":  podGroupOfUsers,  // NAME parent=: a PodGroup, in a CompositePodGroup; do=delete
			"grouped":   groupedPod,       // NAME group= image= idle=true: a pod of a PodGroup, which nobody schedules; do=delete
			"composite": compositeOfUsers, // NAME parent=: a CompositePodGroup; do=delete
		},
		Choices: []workload.Choice{{Weight: 2, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			group := fmt.Sprintf("gang-%s-%d", app, g.IntN(2))
			root, parent := "fleet-"+app, ""
			if g.IntN(2) == 0 {
				parent = "part-" + app
				g.Add(at, "composite %s", root)
				g.Add(at, "composite %s parent=%s", parent, root)
				for _, name := range []string{root, parent} {
					if g.IntN(4) > 0 {
						g.Add(soon+g.Early(), "composite %s do=delete", name)
					}
				}
			}
			g.Add(at, "podgroup %s parent=%s", group, parent)
			pods := 1 + g.IntN(3)
			for i := range pods {
				g.Add(at+g.Early(), "grouped %s-%d group=%s image=%s:1 idle=%t", group, i, group,
					workload.Pick(g, actors.Good, actors.Done, actors.Slow), g.IntN(4) == 0)
			}
			if g.IntN(4) == 0 { // what the controller sees of pods is late
				g.Add(soon-time.Second, "fault m* delay pods %ds for=20s", 1+g.IntN(5))
				g.Add(soon, "grouped %s-late group=%s image=%s:1", group, group, actors.Good)
			}
			g.Add(soon+g.Early(), "podgroup %s do=delete", group)
			for i := range pods {
				if g.IntN(3) > 0 {
					g.Add(soon+2*g.Early(), "grouped %s-%d do=delete", group, i)
				}
			}
		}}},
		Settled: podGroupsSettled,
		Scenarios: []Scenario{{Name: "PodGroups are deleted while their pods run", Play: func(u *User) {
			u.createPodGroups(3)
			u.deletePodGroups(3)
		}}},
		Malformed: map[string]string{
			"podgroups/absurd": `{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"PodGroup","metadata":{"finalizers":["",""],${META}},
				"spec":{"parentCompositePodGroupName":"../x","schedulingPolicy":{"basic":{},"gang":{"minCount":-1}}}}`,
			"pods/odd-group": `{"apiVersion":"v1","kind":"Pod","metadata":${META},"spec":{"schedulingGroup":{"podGroupName":"../x"}},
				"status":{"phase":"Odd"}}`,
		},
		Mutants: podGroupProtectionMutants,
		Budgets: []Budget{{
			// each finalizer that admission has added
			Name: "50 PodGroups are deleted, and then their pods", Floor: floor.Writes{Other: 50},
			Prepare: func(u *User) { u.createPodGroups(50) },
			Do:      func(u *User) { u.deletePodGroups(50) },
		}},
	}
}

func newPodGroup(name, parent string) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	if parent != "" {
		g.Spec.ParentCompositePodGroupName = &parent
	}
	return g
}

// inGroup puts a pod into a PodGroup.
func inGroup(p *corev1.Pod, group string) *corev1.Pod {
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

func podGroupOfUsers(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*schedulingv1beta1.PodGroup](u, l.Arg(0))
	}
	parent, _ := l.Get("parent")
	return create(u, newPodGroup(l.Arg(0), parent))
}

func groupedPod(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*corev1.Pod](u, l.Arg(0))
	}
	group, _ := l.Get("group")
	image, _ := l.Get("image")
	p := inGroup(newPod(l.Arg(0), l.Arg(0), image), group)
	if says(l, "idle") {
		p.Spec.SchedulerName = "nobody"
	}
	return create(u, p)
}

// compositeOfUsers makes a CompositePodGroup as an API server with its admission does, or deletes it.
func compositeOfUsers(u *User, l script.Line) error {
	path := fmt.Sprintf("/apis/scheduling.k8s.io/v1beta1/namespaces/%s/compositepodgroups", u.Namespace)
	if do, _ := l.Get("do"); do == "delete" {
		return u.raw(http.MethodDelete, path+"/"+l.Arg(0), "").Do(ctx()).Error()
	}
	spec := `"schedulingPolicy":{"basic":{}},"workloadRef":{"workloadName":"fleet","templateName":"part"}`
	if parent, _ := l.Get("parent"); parent != "" {
		spec += fmt.Sprintf(`,"parentCompositePodGroupName":%q`, parent)
	}
	return u.raw(http.MethodPost, path, fmt.Sprintf(`{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"CompositePodGroup",
		"metadata":{"name":%q,"finalizers":[%q]},"spec":{%s}}`, l.Arg(0), compositeProtection, spec)).Do(ctx()).Error()
}

// createPodGroups makes PodGroups with a pod each.
func (u *User) createPodGroups(n int) {
	u.Helper()
	u.Each(n, func(i int) error {
		u.Create(newPodGroup(fmt.Sprint("gang-", i), ""))
		u.Create(inGroup(newPod(fmt.Sprint("rank-", i), "ranks", actors.Good+":1"), fmt.Sprint("gang-", i)))
		return nil
	})
}

// deletePodGroups deletes PodGroups, which stay until their pods are deleted.
func (u *User) deletePodGroups(n int) {
	u.Helper()
	for i := range n {
		Remove[*schedulingv1beta1.PodGroup](u, fmt.Sprint("gang-", i))
	}
	AwaitAll(u, n, func(g *schedulingv1beta1.PodGroup) error {
		return unless(g.DeletionTimestamp != nil, "it was not deleted")
	})
	for i := range n {
		Remove[*corev1.Pod](u, fmt.Sprint("rank-", i))
	}
	for i := range n {
		AwaitGone[*schedulingv1beta1.PodGroup](u, fmt.Sprint("gang-", i))
	}
}

// podGroupsSettled says which PodGroups should be gone, and which have lost the finalizer while a pod might run
// that was there before their deletion.
func podGroupsSettled(s *View) (wrong []string) {
	pods := all[*corev1.Pod](s)
	for _, g := range subjects[*schedulingv1beta1.PodGroup](s) {
		kept := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return keepsPodGroup(p, g) })
		if slices.Contains(g.Finalizers, podGroupProtection) && g.DeletionTimestamp != nil && !kept { // PGP-3
			wrong = append(wrong, fmt.Sprintf("the PodGroup %s is still there, and no pod of it may run", g.Name))
		}
	}
	for _, e := range s.writes("podgroups") {
		if lostFinalizer(e, podGroupProtection) {
			wrong = append(wrong, keptBefore(s, e, "pods", keepsPodGroup)...) // PGP-3
		}
	}
	return append(wrong, compositesSettled(s)...)
}

// keptBefore says which objects of a resource kept a group when it lost its finalizer, and were there before its deletion.
func keptBefore(s *View, e Change, resource string, keeps func(o, group Object) bool) (wrong []string) {
	doomed := e.Version
	for _, c := range s.Changes(resourceOf(e.Object)) {
		if c.Object.GetUID() == e.Object.GetUID() && c.Object.GetDeletionTimestamp() != nil {
			doomed = min(doomed, c.Version)
		}
	}
	before := map[string]bool{}
	for _, o := range s.past(resource, doomed) {
		before[string(o.GetUID())] = true
	}
	for _, o := range s.past(resource, e.Version-1) {
		if before[string(o.GetUID())] && keeps(o, e.Object) {
			wrong = append(wrong, fmt.Sprintf("the group %s has lost its finalizer at version %d, while %s of %s kept it",
				e.Object.GetName(), e.Version, o.GetName(), resource))
		}
	}
	return wrong
}

// resourceOf is the name of the resource of a group, as changes are recorded.
func resourceOf(group Object) string {
	if _, ok := group.(*schedulingv1beta1.PodGroup); ok {
		return "podgroups"
	}
	return compositeGroups
}

// keepsPodGroup reports whether a pod is in a PodGroup and may run.
func keepsPodGroup(o, group Object) bool {
	p, ok := o.(*corev1.Pod)
	return ok && p.Namespace == group.GetNamespace() && p.Spec.SchedulingGroup != nil &&
		ptr.Deref(p.Spec.SchedulingGroup.PodGroupName, "") == group.GetName() && !ended(p)
}

// keepsComposite reports whether a group is in a CompositePodGroup.
func keepsComposite(o, group Object) bool {
	parent := ""
	switch o := o.(type) {
	case *schedulingv1beta1.PodGroup:
		parent = ptr.Deref(o.Spec.ParentCompositePodGroupName, "")
	case *unstructured.Unstructured:
		parent, _, _ = unstructured.NestedString(o.Object, "spec", "parentCompositePodGroupName")
	}
	return o.GetNamespace() == group.GetNamespace() && parent == group.GetName()
}

// compositesSettled says which CompositePodGroups should be gone, and which have lost the finalizer while a group was in them that was
// there before their deletion (PGP-7). It looks at changes, and there are none of a real control plane.
func compositesSettled(s *View) (wrong []string) {
	last := s.past(compositeGroups, 1<<62)
	for _, c := range last {
		s.Looked++
		in := func(o Object) bool { return keepsComposite(o, c) }
		if slices.Contains(c.GetFinalizers(), compositeProtection) && c.GetDeletionTimestamp() != nil && !slices.ContainsFunc(last, in) &&
			!slices.ContainsFunc(s.past("podgroups", 1<<62), in) {
			wrong = append(wrong, fmt.Sprintf("the CompositePodGroup %s is still there, and no group is in it", c.GetName()))
		}
	}
	for _, e := range s.writes(compositeGroups) {
		if lostFinalizer(e, compositeProtection) {
			wrong = append(wrong, keptBefore(s, e, "podgroups", keepsComposite)...)
			wrong = append(wrong, keptBefore(s, e, compositeGroups, keepsComposite)...)
		}
	}
	return wrong
}

const (
	podGroupFolder = "pkg/controllers/podgroupprotection/"
	gangOf         = withoutElection + `
			at 5s   podgroup gang
			at 10s  grouped rank group=gang image=`
	deletedGang = "\n\t\t\tat 40s  podgroup gang do=delete"
	fleet       = withoutElection + `
			at 5s   composite fleet`
	deletedFleet = "\n\t\t\tat 40s  composite fleet do=delete"
)

var podGroupProtectionMutants = []Mutant{
	{
		Name:   "a PodGroup goes while one pod of it runs",
		Edits:  []Edit{{podGroupFolder + "plan.go", "case s.Members.Count > 0:", "case s.Members.Count > 1:"}},
		Script: gangOf + actors.Good + ":1" + deletedGang,
		Oracle: "S41",
	},
	{
		Name: "a PodGroup goes while a pod of it waits for a node",
		Edits: []Edit{{podGroupFolder + "plan.go", "p.Spec.SchedulingGroup == nil || podutil.Finished(p)",
			"p.Spec.SchedulingGroup == nil || podutil.Finished(p) || p.Status.Phase == corev1.PodPending"}},
		Script: gangOf + actors.Good + ":1 idle=true" + deletedGang,
		Oracle: "S41",
	},
	{
		Name: "pods that have ended keep their PodGroup",
		Edits: []Edit{{podGroupFolder + "plan.go", "p.Spec.SchedulingGroup == nil || podutil.Finished(p)",
			"p.Spec.SchedulingGroup == nil || podutil.Finished(p) && p.Name == \"\""}},
		Script: gangOf + actors.Done + ":1" + deletedGang,
		Oracle: SettledOracle,
	},
	{
		Name:  "a PodGroup goes on the word of a cache that is older than its deletion",
		Edits: []Edit{{podGroupFolder + "plan.go", "case !s.Proved:", "case !s.Proved && s.Listed:"}},
		Script: withoutElection + `
			at 5s   podgroup gang
			at 8s   fault m0 freeze pods for=60s
			at 10s  grouped rank group=gang image=` + actors.Good + `:1
			at 40s  podgroup gang do=delete`,
		Oracle: SettledOracle,
	},
	{
		Name: "the end of a pod does not let its PodGroup go",
		Edits: []Edit{{podGroupFolder + "observe.go", "g != none && g.GetDeletionTimestamp() != nil {",
			"g != none && g.GetDeletionTimestamp() == nil {"}},
		Script: gangOf + actors.Good + ":1" + deletedGang + "\n\t\t\tat 90s  grouped rank do=delete",
		Oracle: SettledOracle,
	},
	{
		Name: "a CompositePodGroup goes while a PodGroup is in it",
		Edits: []Edit{{podGroupFolder + "plan.go", "case *podGroup:\n\t\treturn ptr.Deref(g.Spec.ParentCompositePodGroupName, \"\")",
			"case *podGroup:\n\t\treturn ptr.Deref(g.Spec.ParentCompositePodGroupName, \"\")[:0]"}},
		Script: fleet + "\n\t\t\tat 10s  podgroup gang parent=fleet" + deletedFleet,
		Oracle: SettledOracle,
	},
	{
		Name: "a CompositePodGroup goes while another one is in it",
		Edits: []Edit{
			{podGroupFolder + "plan.go", "case *compositePodGroup:\n\t\treturn ptr.Deref(g.Spec.ParentCompositePodGroupName, \"\")",
				"case *compositePodGroup:\n\t\treturn ptr.Deref(g.Spec.ParentCompositePodGroupName, \"\")[:0]"},
			{podGroupFolder + "plan.go", "return name\n", "return name[:0]\n"},
		},
		Script: fleet + "\n\t\t\tat 10s  composite part parent=fleet" + deletedFleet,
		Oracle: SettledOracle,
	},
}
