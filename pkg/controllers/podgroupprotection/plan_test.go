package podgroupprotection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	planGroup     = planFinalizer[*podGroup](planner{podGroupProtection, []member{pods()}})
	planComposite = planFinalizer[*compositePodGroup](planner{compositeProtection, []member{podGroups(), composites()}})
)

// seen is a snapshot of a PodGroup of which nothing is proved, and which has been looked at long enough.
type seen = snapshot[*podGroup]

// A row is a sentence. want are the finalizers that are written; nil for no write.
func TestPlan(t *testing.T) {
	doomed := newGroup("gang", leaving, with("x", finalizer))
	rank := members{1, "the Pod rank-0"}
	for _, c := range []struct {
		name    string
		seen    seen
		want    []string
		why     string // nothing is written
		requeue time.Duration
	}{
		{"PGP-2 a PodGroup that lacks the finalizer does not get it", seen{Group: newGroup("gang", with("x"))}, nil, "there is nothing to do", 0},
		{"PGP-1 a PodGroup that has it", seen{Group: newGroup("gang", with(finalizer))}, nil, "there is nothing to do", 0},
		{"one that is being deleted and lacks it", seen{Group: newGroup("gang", leaving, with("x")), Proved: true}, nil,
			"there is nothing to do", 0},
		{"PGP-1 PGP-3 nobody keeps it", seen{Group: doomed, Proved: true}, []string{"x"}, "", 0},
		{"PGP-3 a pod keeps it", seen{Group: doomed, Members: rank, Proved: true}, nil,
			"the group is being deleted, and stays because of the Pod rank-0", 0},
		{"PGP-3 many pods keep it", seen{Group: doomed, Members: members{3, rank.First}}, nil,
			"the group is being deleted, and stays because of the Pod rank-0 and 2 others", 0},
		{"a pod that only a live list has shown is looked at again", seen{Group: doomed, Members: rank, Proved: true, Listed: true}, nil,
			"the group is being deleted, and stays because of the Pod rank-0", listAgain},
		{"caches may be older than the deletion", seen{Group: doomed, Wait: time.Millisecond}, nil,
			"the group is being deleted, and waits until the caches show a state that is later", lookAgain},
		{"they have had their time", seen{Group: doomed}, nil,
			"the group is being deleted, and waits for live lists of what may keep it", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.seen.Group.DeepCopy()
			p := planGroup(epoch, c.seen)
			if p.Why == "" || c.why != "" && p.Why != c.why || p.Requeue != c.requeue {
				t.Errorf("%s: again after %v", p.Why, p.Requeue)
			}
			if diff := cmp.Diff(c.want, written(t, p)); diff != "" {
				t.Errorf("%s: %s", p.Why, diff)
			}
			if diff := cmp.Diff(before, c.seen.Group); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

// What a plan asks for are all objects that may keep the group, as they were no longer than a second ago.
func TestProof(t *testing.T) { // PGP-3
	doomed := newGroup("gang", leaving, with(finalizer))
	running := plan.Ref{Kind: pods().kind, Namespace: "shop", All: true, Shared: true,
		Fields: "status.phase!=Succeeded,status.phase!=Failed"}
	if diff := cmp.Diff([]plan.Ref{running}, planGroup(epoch, seen{Group: doomed}).Proof); diff != "" {
		t.Error(diff)
	}
	groups := plan.Ref{Kind: schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"), Namespace: "shop", All: true, Shared: true}
	composites := groups
	composites.Kind = compositeKind()
	fleet := newComposite("fleet", leaving, with(compositeFinalizer))
	if diff := cmp.Diff([]plan.Ref{groups, composites}, planComposite(epoch, snapshot[*compositePodGroup]{Group: fleet}).Proof); diff != "" {
		t.Errorf("PGP-7: %s", diff)
	}
}

// A CompositePodGroup has a finalizer of its own.
func TestPGP7CompositeFinalizer(t *testing.T) {
	s := snapshot[*compositePodGroup]{Group: newComposite("fleet", leaving, with(compositeFinalizer, finalizer)), Proved: true}
	if diff := cmp.Diff([]string{finalizer}, written(t, planComposite(epoch, s))); diff != "" {
		t.Error(diff)
	}
}

// written returns the finalizers that a plan writes, and checks that it changes nothing else.
func written(t interface{ Errorf(string, ...any) }, p plan.Plan) []string {
	if p.Empty() {
		return nil
	}
	step := p.Steps[0].(plan.Change)
	before, after := step.Old.DeepCopyObject().(plan.Object), step.New
	before.SetFinalizers(after.GetFinalizers())
	if diff := cmp.Diff(before, after); diff != "" || len(p.Steps) != 1 || p.Requeue != 0 || len(p.Proof) > 0 {
		t.Errorf("more is changed than finalizers: %s", diff)
	}
	return after.GetFinalizers()
}
