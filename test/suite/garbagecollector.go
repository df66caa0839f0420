package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// familyLabel is that of ConfigMaps that own one another, keptLabel of dependents whose owner is deleted without them.
const familyLabel, keptLabel = "family", "kept"

func garbageCollectorEntry() Entry {
	return Entry{
		Controller: "garbage-collector-controller",
		Operations: map[string]Operation{
			"mirror": mirror, // NAME do=end: an aggregated API server shows an object with the uid of a ConfigMap
			// NAME n=: a ConfigMap that owns n others; second=true: beside another one; gone=true: it never was; hold=true: a finalizer
			// holds the others; do=delete policy=
			"family": family,
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			name := fmt.Sprintf("%s-%d", app, g.IntN(3))
			g.Add(at, "family %s n=%d%s", name, 1+g.IntN(4), workload.Pick(g, "", "", " second=true", " gone=true"))
			g.Add(soon, "family %s do=delete policy=%s", name, workload.Pick(g, "Background", "Background", "Foreground", "Orphan"))
		}}},
		Settled: garbageSettled,
		Scenarios: []Scenario{{Name: "owners are deleted in the background, in the foreground, and without their dependents",
			Play: func(u *User) {
				for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
					metav1.DeletePropagationOrphan} {
					name := "owner-" + strings.ToLower(string(policy))
					u.createFamily(name, 3)
					Remove[*corev1.ConfigMap](u, name, propagation(policy))
					u.waitCollected(name, policy, 3)
				}
			}}},
		Malformed: map[string]string{
			"configmaps/absurd-owners": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"finalizers":["","orphan","foregroundDeletion"],"ownerReferences":[
				{"apiVersion":"","kind":"","name":"","uid":""},{"apiVersion":"a/b/c","kind":"X","name":"y","uid":"1","controller":true,"blockOwnerDeletion":true},
				{"apiVersion":"v1","kind":"Pod","name":"../x","uid":"2"}],${META}}}`,
		},
		Mutants: garbageCollectorMutants,
		Budgets: []Budget{{
			Name: "50 owners of two ConfigMaps are deleted", Floor: floor.Writes{Other: 100},
			Do: func(u *User) {
				for i := range 50 {
					name := fmt.Sprint("owner-", i)
					u.createFamily(name, 2)
					Remove[*corev1.ConfigMap](u, name, propagation(metav1.DeletePropagationBackground))
				}
				for i := range 50 {
					u.waitCollected(fmt.Sprint("owner-", i), metav1.DeletePropagationBackground, 2)
				}
			},
		}},
	}
}

// member is a ConfigMap of a family.
func member(family, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{familyLabel: family},
		OwnerReferences: owners}}
}

func ownedBy(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid, BlockOwnerDeletion: ptr.To(true)}
}

// family makes a ConfigMap and others that it owns, or deletes it.
func family(u *User, l script.Line) error {
	name := l.Arg(0)
	if do, _ := l.Get("do"); do == "delete" {
		return deleteOwner(u, name, l)
	}
	var owners []metav1.OwnerReference
	parents := []string{name}
	if _, second := l.Get("second"); second {
		parents = append(parents, name+"-second")
	}
	if _, gone := l.Get("gone"); gone {
		owners, parents = append(owners, ownedBy(name, types.UID("never-"+name))), nil
	}
	for _, parent := range parents {
		if err := create(u, member(name, parent)); err != nil {
			return err
		}
		made, err := get[*corev1.ConfigMap](u, parent)
		if err != nil {
			return err
		}
		owners = append(owners, ownedBy(parent, made.UID))
	}
	n, _ := l.Int("n")
	for i := range n {
		m := member(name, fmt.Sprintf("%s-of-%d", name, i), owners...)
		if _, hold := l.Get("hold"); hold {
			m.Finalizers = []string{"example.com/hold"}
		}
		if err := create(u, m); err != nil {
			return err
		}
	}
	return nil
}

func mirror(u *User, l script.Line) error {
	o, err := get[*corev1.ConfigMap](u, l.Arg(0))
	if err != nil {
		return err
	}
	do, _ := l.Get("do")
	return u.machines().Mirror(o, do != "end")
}

// deleteOwner deletes the ConfigMap that owns others. If they are to stay, they are marked first. A later deletion of the owner with
// another policy, while they are still its dependents, takes that back.
func deleteOwner(u *User, name string, l script.Line) error {
	owner, err := get[*corev1.ConfigMap](u, name)
	if err != nil {
		return err
	}
	labels := map[string]string{familyLabel: name}
	policy, _ := l.Get("policy")
	switch deleting := owner.DeletionTimestamp != nil; {
	case policy == string(metav1.DeletePropagationOrphan) && !deleting:
		labels[keptLabel] = "true"
	case policy == "" || policy == string(metav1.DeletePropagationOrphan) || !deleting:
		return removeAsToldBy[*corev1.ConfigMap](u, name, l)
	}
	all, err := list[*corev1.ConfigMap](u)
	if err != nil {
		return err
	}
	for _, m := range all {
		if !slices.ContainsFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.UID }) {
			continue
		}
		if err := ignoreNotFound(edit(u, m.Name, func(m *corev1.ConfigMap) { m.Labels = labels })); err != nil {
			return err
		}
	}
	return removeAsToldBy[*corev1.ConfigMap](u, name, l)
}

// garbageSettled says which garbage is left, and what was taken for garbage and was not (GC-33, GC-44, GC-47).
func garbageSettled(s *View) (wrong []string) {
	exists := map[types.UID]bool{}
	all := s.Everything()
	s.Looked += len(all)
	for _, o := range all {
		exists[o.GetUID()] = true
	}
	for _, o := range all {
		refs, finalizers := o.GetOwnerReferences(), o.GetFinalizers()
		waits := slices.Contains(finalizers, metav1.FinalizerDeleteDependents) ||
			slices.Contains(finalizers, metav1.FinalizerOrphanDependents)
		switch {
		case o.GetDeletionTimestamp() != nil && waits && !heldByClaim(s, o):
			wrong = append(wrong, fmt.Sprintf("%s %s waits for its dependents", o.Resource, o.GetName()))
		case o.GetDeletionTimestamp() == nil && len(refs) > 0 &&
			!slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return exists[r.UID] }):
			wrong = append(wrong, fmt.Sprintf("%s %s has no owner any more", o.Resource, o.GetName()))
		}
	}
	for _, e := range s.Changes("configmaps") {
		if !beginsDeletion(e) || e.Before.GetLabels()[familyLabel] == "" {
			continue
		}
		if e.Before.GetLabels()[keptLabel] != "" {
			wrong = append(wrong,
				fmt.Sprintf("the ConfigMap %s was deleted with an owner that was to be deleted without it", e.Object.GetName()))
		}
		for _, o := range s.past("configmaps", e.Version-1) {
			waits := o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents)
			if !waits &&
				slices.ContainsFunc(e.Before.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == o.GetUID() }) {
				wrong = append(wrong,
					fmt.Sprintf("the ConfigMap %s was deleted, though its owner %s existed", e.Object.GetName(), o.GetName()))
			}
		}
	}
	return wrong
}

// heldByClaim reports whether an object waits for one of its claims, which is being deleted and is protected: a pod that was taken away
// from a StatefulSet still uses it. claimsSettled checks that there is such a pod.
func heldByClaim(s *View, owner metav1.Object) bool {
	return slices.ContainsFunc(all[*corev1.PersistentVolumeClaim](s), func(c *corev1.PersistentVolumeClaim) bool {
		return c.DeletionTimestamp != nil && slices.Contains(c.Finalizers, claimProtection) &&
			slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
	})
}

// beginsDeletion reports whether a manager has deleted an object that nobody else had deleted before.
func beginsDeletion(e Change) bool {
	return e.Managed && e.Before != nil && e.Before.GetDeletionTimestamp() == nil && (e.Deleted || e.Object.GetDeletionTimestamp() != nil)
}

// withoutActors is the beginning of scripts in which only the manager collects garbage and empties namespaces.
const withoutActors = withoutElection + `
			set garbage 0`

const (
	collectorPlan     = "pkg/controllers/garbagecollector/plan.go"
	collectorSnapshot = "pkg/controllers/garbagecollector/snapshot.go"
	collectorGraph    = "pkg/controllers/garbagecollector/graph.go"
)

var garbageCollectorMutants = []Mutant{
	{
		Name: "dependents stay when their only owner is gone",
		Edits: []Edit{{collectorPlan, "case len(by[ownerAbsent])+len(by[ownerWaits]) == 0:",
			"case len(by[ownerAbsent])+len(by[ownerWaits]) < 2:"}},
		Script: withoutActors + "\n\t\t\tat 10s  family a n=2\n\t\t\tat 20s  family a do=delete",
		Oracle: SettledOracle,
	},
	{
		Name:   "dependents are deleted while one of their owners exists",
		Edits:  []Edit{{collectorPlan, "case len(by[ownerExists]) > 0:", "case len(by[ownerExists]) > 1:"}},
		Script: withoutActors + "\n\t\t\tat 10s  family a n=2 second=true\n\t\t\tat 20s  family a do=delete",
		Oracle: "S16",
	},
	{
		Name: "what a group had that vanishes from discovery is taken for deleted",
		Edits: []Edit{{"pkg/controllers/garbagecollector/runner.go", "\tr.term.watched = wanted\n", `
	for resource := range r.term.watched.Difference(wanted) {
		for n := range r.term.graph.all() {
			if n.kind == r.term.kinds[resource] {
				r.term.follow(r.term.graph.forget(n, true))
			}
		}
	}
	r.term.watched = wanted
`}},
		Script: withoutActors + "\n\t\t\tat 1s   create web replicas=1 image=good:1\n\t\t\tat 40s  fault m0 vanish apps for=35s",
		Oracle: "S16",
	},
	{
		Name: "a resource that has vanished is forgotten under the lock of the graph",
		Edits: []Edit{{"pkg/controllers/garbagecollector/runner.go",
			"\tr.mu.Unlock()\n\tfor _, resource := range vanished {\n\t\tsub.Forget(resource) // takes locks under which handlers are " +
				"called\n\t}\n",
			"\tfor _, resource := range vanished {\n\t\tsub.Forget(resource)\n\t}\n\tr.mu.Unlock()\n"}},
		Script: withoutActors + "\n\t\t\tat 1s   create web replicas=1 image=good:1\n\t\t\tat 40s  fault m0 vanish apps for=150s",
		Oracle: "Locks",
	},
	{
		Name: "the end of another object with the uid of an owner is taken for that of the owner",
		Edits: []Edit{
			{collectorGraph, "if d.refersTo(n) && !yield(d) {", "if !yield(d) {"},
			{collectorGraph, "if !n.matches(d, ref) || g.ownerOf(d, ref) != nil {", "if ref.UID != n.uid {"},
			{collectorSnapshot, "case found != nil:\n",
				"case found != nil && (g.owners[ref.UID].stated[g.statedBy(n, ref)] == nil || g.owners[ref.UID].stated[g.statedBy(n, " +
					"ref)].ownerState != absent):\n"},
		},
		Script: withoutActors + "\n\t\t\tat 10s  family a n=2\n\t\t\tat 20s  mirror a\n\t\t\tat 30s  mirror a do=end",
		Oracle: "S16",
	},
	{
		Name:   "what is being deleted is deleted once more",
		Edits:  []Edit{{collectorPlan, "case s.deleting:", "case s.deleting && s.attempt == nil:"}},
		Script: withoutActors + "\n\t\t\tat 10s  family a n=2 hold=true\n\t\t\tat 20s  family a do=delete",
		Oracle: "S16",
	},
	{
		Name:   "an owner goes before the dependents that block it",
		Edits:  []Edit{{collectorPlan, "if len(s.blocking) == 0 {", "if len(s.blocking) < 9 {"}},
		Script: withoutActors + "\n\t\t\tseed 3\n\t\t\tat 10s  family a n=8\n\t\t\tat 20s  family a do=delete policy=Foreground",
		Oracle: "S16",
	},
	{
		Name:   "a deletion in the foreground does not end",
		Edits:  []Edit{{collectorPlan, "if len(s.blocking) == 0 {", "if len(s.blocking) == 0 && !s.deleting {"}},
		Script: withoutActors + "\n\t\t\tat 10s  family a n=2\n\t\t\tat 20s  family a do=delete policy=Foreground",
		Oracle: SettledOracle,
	},
	{
		Name:   "dependents are not orphaned",
		Edits:  []Edit{{collectorPlan, "if len(drops.Sequences) > 0 {", "if len(drops.Sequences) > 9 {"}},
		Script: withoutActors + "\n\t\t\tat 10s  family a n=2\n\t\t\tat 20s  family a do=delete policy=Orphan",
		Oracle: "S16",
	},
	{
		Name: "dependents of owners that never existed stay",
		Edits: []Edit{{"pkg/controllers/garbagecollector/runner_verify.go", "case client.IsAbsent(err), err == nil && found.UID != c.uid:",
			"case err == nil && found.UID != c.uid:"}},
		Script: withoutActors + "\n\t\t\tat 10s  family a n=2 gone=true",
		Oracle: SettledOracle,
	},
}

// createFamily makes a ConfigMap and so many others that it owns.
func (u *User) createFamily(name string, n int) {
	u.Helper()
	u.Create(member(name, name))
	var owner *corev1.ConfigMap
	u.Try("read the ConfigMap "+name, func() (err error) {
		owner, err = get[*corev1.ConfigMap](u, name)
		return err
	})
	for i := range n {
		u.Create(member(name, fmt.Sprintf("%s-of-%d", name, i), ownedBy(name, owner.UID)))
	}
}

// waitCollected waits until an owner is gone, and its dependents with it, or all of them are there without an owner.
func (u *User) waitCollected(name string, policy metav1.DeletionPropagation, dependents int) {
	u.Helper()
	want := 0
	if policy == metav1.DeletePropagationOrphan {
		want = dependents
	}
	u.Wait(fmt.Sprintf("of the family %s %d are left", name, want), Patience, func() error {
		all, err := list[*corev1.ConfigMap](u, familyLabel+"="+name)
		if err != nil {
			return err
		}
		for _, m := range all {
			if m.Name == name || len(m.OwnerReferences) > 0 {
				return fmt.Errorf("%s is there, with the owners %v", m.Name, m.OwnerReferences)
			}
		}
		return unless(len(all) == want, len(all))
	})
}
