package namespace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Between two rounds passes more and more time while nothing gets less.
const (
	soon           = 10 * time.Millisecond
	firstWait      = 250 * time.Millisecond
	longestWait    = time.Minute
	finalizersWait = 15 * time.Second
	finalize       = "finalize"
)

// planContent decides what is deleted, and whether the namespace is released (NS-10 to NS-28, NS-36).
func planContent(now time.Time, s snapshot) plan.Plan {
	switch {
	case !s.hasFinalizers():
		return plan.Plan{Why: waitsForOthers(s)}
	case s.undeleted():
		return deleteContent(now, s)
	case len(s.Contents) > 0 || s.Discovery != nil:
		return plan.Plan{Requeue: s.wait(now), Why: s.whyNotEmpty()}
	case !s.Complete:
		return plan.Plan{Requeue: max(s.SettledAt.Sub(now), soon),
			Why: "nothing is left; waiting for what was admitted before the deletion, and looks once more"}
	case len(s.Unlisted) > 0:
		return deleteUnlisted(s)
	case s.stays() && conditionsChange(now, s, plan.Outcome{}):
		return plan.Plan{Requeue: soon,
			Why: "it is empty: says so in its conditions before it is released"}
	}
	return release(s)
}

// waitsForOthers says whose finalizers an empty namespace has.
func waitsForOthers(s snapshot) string {
	all := slices.Clone(s.Namespace.Finalizers)
	for _, f := range s.Namespace.Spec.Finalizers {
		all = append(all, string(f))
	}
	return "it is empty, and waits for the finalizers of others: " + strings.Join(all, ", ")
}

// deleteContent deletes the collections that have objects which are not being deleted yet. They do not wait for one
// another, and a failure of one does not stop another (NS-20). A server may accept a deletion without effect: then
// the next one waits.
func deleteContent(now time.Time, s snapshot) plan.Plan {
	var all plan.Each
	var names []string
	for _, c := range s.Contents {
		if c.Undeleted {
			names = append(names, c.groupResource().String())
			all.Sequences = append(all.Sequences, []plan.Step{s.deleteAll(c.Kind)})
		}
	}
	p := plan.Plan{Steps: []plan.Step{all}, Requeue: soon, Why: "deletes all " + strings.Join(names, ", ")}
	if !s.deletesMore() {
		p.Requeue = s.wait(now)
		p.Why += " again, because the last deletion had no effect; " + s.whyNotEmpty()
	}
	return p
}

// deleteAll deletes all objects of a kind in the namespace.
func (s snapshot) deleteAll(kind schema.GroupVersionKind) plan.Step {
	return plan.DeleteCollection{
		Kind: kind, Namespace: s.Namespace.Name, Propagation: metav1.DeletePropagationBackground,
		Why: "the namespace is being deleted",
	}
}

// deleteUnlisted deletes what cannot be listed, whether there is any or not (NS-17). The namespace is released in
// another round: a deletion may take so long that what follows it has to be planned anew.
func deleteUnlisted(s snapshot) plan.Plan {
	var all plan.Each
	for _, kind := range s.Unlisted {
		all.Sequences = append(all.Sequences, []plan.Step{s.deleteAll(kind)})
	}
	return plan.Plan{Steps: []plan.Step{all}, Requeue: soon, Why: "nothing is left; deletes what cannot be listed"}
}

// release takes the finalizer of this controller off the namespace. The server then removes it (NS-36, NS-37).
func release(s snapshot) plan.Plan {
	if s.released() {
		return plan.Plan{Why: waitsForOthers(s)}
	}
	p := plan.Plan{Why: "nothing is left in the namespace"}
	released := *s.Namespace
	released.Spec.Finalizers = s.finalizersLeft()
	p.Steps = append(p.Steps, plan.Change{Old: s.Namespace, New: &released, Subresource: finalize, Why: p.Why})
	return p
}

// wait is the time until the next round: longer while nothing gets less, and no longer than half of the time in which
// what is left is expected to be gone (NS-5).
func (s snapshot) wait(now time.Time) time.Duration {
	wait := plan.Doubling(firstWait, longestWait, s.Rounds)
	if estimate := s.estimate(now); estimate > 0 && s.complete() {
		wait = min(wait, estimate/2+time.Second)
	}
	if s.Longest > 0 {
		wait = min(wait, s.Longest)
	}
	return wait
}

// complete reports whether all that was asked was answered.
func (s snapshot) complete() bool {
	return s.Discovery == nil && !slices.ContainsFunc(s.Contents, func(c content) bool { return c.Error != "" })
}

// estimate is in how much time what is left is expected to be gone; zero if nothing says so (NS-22 to NS-27).
func (s snapshot) estimate(now time.Time) (longest time.Duration) {
	for _, c := range s.Contents {
		longest = max(longest, c.estimate(now))
	}
	return longest
}

// estimate is in how much time the objects of one kind are expected to be gone; zero if nothing says so.
func (c content) estimate(now time.Time) time.Duration {
	if left := c.GoneBy.Sub(now); left > 0 {
		return left
	}
	if len(c.Finalizers) > 0 {
		return finalizersWait
	}
	return 0
}

// whyNotEmpty says what is left, of which kind, and whose finalizers hold it.
func (s snapshot) whyNotEmpty() string {
	var parts []string
	for _, c := range s.Contents {
		if c.Error != "" {
			parts = append(parts, c.Error)
			continue
		}
		part := fmt.Sprintf("%d %s (%s", c.Count, c.groupResource(), strings.Join(c.Examples, ", "))
		if c.Count > len(c.Examples) {
			part += ", ..."
		}
		part += ")"
		for _, name := range slices.Sorted(maps.Keys(c.Finalizers)) {
			part += fmt.Sprintf(", %d held by the finalizer %s", c.Finalizers[name], name)
		}
		parts = append(parts, part)
	}
	if s.Discovery != nil {
		parts = append(parts, "unknown resources: "+s.Discovery.Message)
	}
	return "waiting until nothing is left; there are " + strings.Join(parts, "; ")
}
