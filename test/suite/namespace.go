package suite

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const (
	tenantLabel = "tenant" // of what tenants have in their namespaces
	holdsName   = "held"   // a ConfigMap with a finalizer
	holds       = "example.com/hold"
)

func namespaceEntry() Entry {
	return Entry{
		Controller: "namespace-controller",
		Operations: map[string]Operation{
			"tenant": tenant, // NAME: a namespace with content; held=true: some of which has a finalizer; do=delete, release
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			name := "tenant-" + app
			g.Add(at, "tenant %s%s", name, workload.Pick(g, "", "", " held=true"))
			g.Add(soon, "tenant %s do=delete", name)
			g.Add(soon+g.Early(), "tenant %s do=release", name)
		}}},
		Settled:   namespacesSettled,
		Scenarios: []Scenario{{Name: "a namespace with content is deleted", Play: (*User).leave}},
		Malformed: map[string]string{
			"limitranges/absurd": `{"apiVersion":"v1","kind":"LimitRange","metadata":{"finalizers":["","/"],"deletionTimestamp":"2020-01-01T00:00:00Z",
				"deletionGracePeriodSeconds":-1,${META}},"spec":{"limits":[{}]}}`,
		},
		Mutants: namespaceMutants,
		Budgets: []Budget{{
			// A ServiceAccount and a ConfigMap come; two collections, and then the finalizer, go.
			Name: "20 namespaces come and go", Floor: floor.Writes{Other: 100},
			Do: func(u *User) {
				for _, do := range []func(string){
					func(name string) { u.Create(newNamespace(name)) }, u.waitNamespaceUsable,
					func(name string) { Remove[*corev1.Namespace](u, name) }, func(name string) { AwaitGone[*corev1.Namespace](u, name) },
				} {
					for i := range 20 {
						do(fmt.Sprint(u.Namespace, "-", i))
					}
				}
			},
		}},
	}
}

// tenant makes a namespace with content, deletes it, or takes the finalizers off its content.
func tenant(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	inside := u.in(name)
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*corev1.Namespace](u, name)
	case "release":
		return edit(inside, holdsName, func(m *corev1.ConfigMap) { m.Finalizers = nil })
	}
	if err := create(u, newNamespace(name)); err != nil {
		return err
	}
	if _, held := l.Get("held"); held {
		if err := create(inside, content(holdsName, holds)); err != nil {
			return err
		}
	}
	if err := create(inside, content("free")); err != nil {
		return err
	}
	return create(inside, newPod("web", name, actors.Good+":1"))
}

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// newPod is a pod that nobody owns.
func newPod(name, app, image string) *corev1.Pod {
	template := Template(app, image)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels}, Spec: template.Spec}
}

// content is a ConfigMap of a tenant.
func content(name string, finalizers ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{tenantLabel: "true"},
		Finalizers: finalizers}}
}

// namespacesSettled says which namespaces should be gone, what is left of those that are, and what was deleted too early (NS-10, NS-18,
// NS-28, NS-36).
func namespacesSettled(s *View) (wrong []string) {
	held := map[string]bool{}
	everything := s.Everything()
	for _, o := range everything {
		held[o.GetNamespace()] = held[o.GetNamespace()] || len(o.GetFinalizers()) > 0
	}
	there := map[string]bool{"": true}
	for _, n := range subjects[*corev1.Namespace](s) {
		if there[n.Name] = true; n.DeletionTimestamp != nil && !held[n.Name] {
			wrong = append(wrong, fmt.Sprintf("the namespace %s is still there, and nothing holds it", n.Name))
		}
	}
	for _, o := range everything {
		if !there[o.GetNamespace()] {
			wrong = append(wrong,
				fmt.Sprintf("of the namespace %s, which is gone, %s %s is left", o.GetNamespace(), o.Resource, o.GetName()))
		}
	}
	for _, e := range s.Changes("configmaps") {
		if !beginsDeletion(e) || e.Before.GetLabels()[tenantLabel] == "" {
			continue
		}
		namespace := e.Object.GetNamespace()
		for _, n := range s.past("namespaces", e.Version-1) {
			if n.GetName() == namespace && n.GetDeletionTimestamp() == nil {
				wrong = append(wrong, fmt.Sprintf("the namespace %s was emptied, and it was not to be deleted", namespace))
			}
		}
		for _, p := range s.past("pods", e.Version-1) {
			if p.GetNamespace() == namespace {
				wrong = append(wrong,
					fmt.Sprintf("the ConfigMap %s of %s was deleted before the pod %s", e.Object.GetName(), namespace, p.GetName()))
			}
		}
	}
	return wrong
}

const (
	namespacePlan    = "pkg/controllers/namespace/plan.go"
	namespaceObserve = "pkg/controllers/namespace/observe.go"

	tenantEnds      = withoutActors + "\n\t\t\tat 10s  tenant web\n\t\t\tat 20s  tenant web do=delete"
	heldTenantEnds  = withoutActors + "\n\t\t\tat 10s  tenant web held=true\n\t\t\tat 20s  tenant web do=delete"
	heldTenantGoes  = heldTenantEnds + "\n\t\t\tat 60s  tenant web do=release"
	tenantWithDelay = withoutActors +
		"\n\t\t\tat 9s  fault m0 webhook 4s for=30s\n\t\t\tat 10s  tenant web\n\t\t\tat 10100ms  tenant web do=delete"
)

var namespaceMutants = []Mutant{
	{
		Name: "a namespace is released though something is left in it",
		Edits: []Edit{
			{namespacePlan, "case len(s.Contents) > 0 || s.Discovery != nil:", "case len(s.Contents) > 9 || s.Discovery != nil:"},
			{namespaceObserve, "	if len(s.Contents) == 0 && settled && err == nil {",
				"	if len(s.Contents) < 9 && settled && err == nil {"},
			{namespaceObserve, "s.Complete = len(s.Contents) == 0", "s.Complete = len(s.Contents) < 9"},
		},
		Script: heldTenantEnds, Oracle: "S17",
	},
	{
		Name:   "a namespace is released before what was admitted has come",
		Edits:  []Edit{{namespaceObserve, "m.Seen.Add(settling)", "m.Seen.Add(settling / 20)"}},
		Script: tenantWithDelay, Oracle: "S17",
	},
	{
		Name:   "the last round does not look at what was empty before",
		Edits:  []Edit{{namespaceObserve, "		clear(m.Empty)\n", ""}},
		Script: heldTenantGoes, Oracle: "S17",
	},
	{
		Name:   "a kind that cannot be listed is taken for empty",
		Edits:  []Edit{{namespaceObserve, `case c.Count > 0 || c.Error != "":`, "case c.Count > 0:"}},
		Script: heldTenantEnds + "\n\t\t\tat 19s  fault m0 refuse code=500 verb=list resource=configmaps for=60s", Oracle: "S17",
	},
	{
		Name:   "each round forgets when the deletion was seen",
		Edits:  []Edit{{namespaceObserve, "r.Memory == nil || r.Memory.UID != uid", "r.Memory == nil || r.Memory.UID == uid"}},
		Script: tenantEnds, Oracle: SettledOracle,
	},
	{
		Name: "a namespace that is not empty at once is not looked at again",
		Edits: []Edit{{namespacePlan, "return plan.Plan{Requeue: s.wait(now), Why: s.whyNotEmpty()}",
			"return plan.Plan{Why: s.whyNotEmpty() + s.wait(now).String()}"}},
		Script: heldTenantGoes, Oracle: SettledOracle,
	},
	{
		Name: "the deletion of a namespace is not noticed",
		Edits: []Edit{{"pkg/controllers/namespace/controller.go",
			"before.GetUID() == after.GetUID() && before.GetDeletionTimestamp() != nil", "before.GetUID() == after.GetUID()"}},
		Script: tenantEnds, Oracle: SettledOracle,
	},
	{
		Name:   "pods do not go before all else",
		Edits:  []Edit{{namespaceObserve, "[]client.Mapping{pods}); len(found) > 0 {", "[]client.Mapping{pods}); len(found) > 9 {"}},
		Script: tenantEnds, Oracle: SettledOracle,
	},
}

// leave deletes the user's own namespace, in which something has a finalizer for a while.
func (u *User) leave() {
	u.Helper()
	u.Create(Deployment("web", 2))
	u.WaitComplete("web")
	u.Create(content(holdsName, holds))
	Remove[*corev1.Namespace](u, u.Namespace)
	Await(u, u.Namespace, func(n *corev1.Namespace) error { // only the ConfigMap with a finalizer is left
		return unless(slices.ContainsFunc(n.Status.Conditions, func(c corev1.NamespaceCondition) bool {
			return c.Type == corev1.NamespaceContentRemaining &&
				c.Message == "Some resources are remaining: configmaps. has 1 resource instances"
		}), n.Status)
	})
	u.Try("take the finalizer off", func() error {
		return ignoreNotFound(patch[*corev1.ConfigMap](u, holdsName, `{"metadata":{"finalizers":null}}`))
	})
	AwaitGone[*corev1.Namespace](u, u.Namespace)
}

// waitNamespaceUsable waits until pods can be created in a namespace, and started.
func (u *User) waitNamespaceUsable(name string) {
	u.Helper()
	u.Wait("the namespace "+name+" has its ServiceAccount and the authorities", Patience, func() error {
		_, err1 := get[*corev1.ServiceAccount](u.in(name), "default")
		_, err2 := get[*corev1.ConfigMap](u.in(name), rootCA)
		return errors.Join(err1, err2)
	})
}
