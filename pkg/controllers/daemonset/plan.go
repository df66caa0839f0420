package daemonset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// burst is how many pods one reconcile creates at most, and how many it deletes; the rest follows in the next (DS-28).
const burst = 250

// planSet finds out what the snapshot means, once for all parts of the reconcile, and plans.
func planSet(now time.Time, s snapshot) (decision, plan.Plan) {
	v := newView(now, s)
	return v.decision, planDaemonSet(now, v)
}

// planDaemonSet decides what is written for a DaemonSet: which pods and revisions it adopts or releases, its
// revisions, and which pods are created and deleted.
func planDaemonSet(now time.Time, s view) plan.Plan {
	w := &planner{view: s, now: now}
	switch {
	case s.selectsAll:
		w.steps = append(w.steps,
			plan.RecordEvent{Object: s.Set, Event: plan.Event{Type: corev1.EventTypeWarning, Reason: "SelectingAll",
				Message: "This daemon set is selecting all pods. A non-empty selector is required."}})
		w.say("%v", s.invalid)
	case s.invalid != nil:
		w.say("%v", s.invalid)
	case s.Set.DeletionTimestamp != nil:
		w.say("being deleted, pods are left to the garbage collector")
	case len(s.ownership) > 0:
		w.steps = s.ownership
		w.say("adopts or releases objects, the rest follows")
	case w.keepRevisions():
		w.budget = budgetOf(s.Set, s.desired())
		w.placePods()
		w.roll()
		w.movePods()
		w.removeDuplicates()
		w.truncateHistory()
		if len(w.independent) > 0 {
			w.steps = append(w.steps, plan.Each{Sequences: w.independent})
		}
	}
	return plan.Plan{Steps: w.steps, Requeue: w.requeue, Why: w.why()}
}

// planner makes a plan. It is given a view, and gathers steps and reasons from revisions and nodes. It lives
// for one call of planDaemonSet.
type planner struct {
	view
	now time.Time
	// budget is how many pods a rolling update may take or add.
	budget budget

	// steps are carried out in order: revisions first, because pods have their hashes.
	steps       []plan.Step
	independent [][]plan.Step                  // follow the steps, and do not stop one another
	notices     map[types.UID]plan.RecordEvent // events about pods that are to be deleted
	missing     []string                       // nodes where a pod is to be created
	doomed      []*corev1.Pod                  // to be deleted
	placed      map[string]bool                // nodes where pods are to be created or deleted
	reasons     map[string]int                 // for deletions
	// requeue is when to look again; zero for never.
	requeue time.Duration
	// notes are the reasons that people read.
	notes []string
}

// say adds to the reasons that people read.
func (w *planner) say(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// requeueAfter has the DaemonSet reconciled again after that time, or at once if it is over. The soonest wish
// counts.
func (w *planner) requeueAfter(d time.Duration) {
	w.requeue = plan.Sooner(w.requeue, max(0, d))
}

// why says what is planned, or what is waited for if nothing is.
func (w *planner) why() string {
	if len(w.notes) == 0 {
		return w.waiting()
	}
	return strings.Join(w.notes, "; ")
}

// waiting says what a DaemonSet waits for that has nothing to write.
func (w *planner) waiting() string {
	c := w.count(w.now)
	switch {
	case c.available < c.desired:
		return fmt.Sprintf("%d of %d nodes have an available pod", c.available, c.desired)
	case c.updated < c.desired:
		return fmt.Sprintf("all %d nodes have an available pod, %d of them one of the present template", c.desired,
			c.updated)
	}
	return fmt.Sprintf("all %d nodes have an available pod of the present template", c.desired)
}

// create has a pod created on a node.
func (w *planner) create(node string) { w.missing, w.placed[node] = append(w.missing, node), true }

// delete has a pod deleted, for a reason in a word.
func (w *planner) delete(node string, p *corev1.Pod, reason string) {
	w.doomed, w.placed[node] = append(w.doomed, p), true
	w.reasons[reason]++
}

// deletions says which pods are to be deleted: "1 failed, 2 outdated".
func (w *planner) deletions() string {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(w.reasons)) {
		all = append(all, fmt.Sprint(w.reasons[reason], " ", reason))
	}
	return strings.Join(all, ", ")
}

// movePods plans the creations and deletions (DS-28). What exceeds the limit follows in the next reconcile. The
// server may refuse a pod for one node and take it for others, so it is not always the same node that is first; nor
// is it with deletions, once one has failed.
func (w *planner) movePods() {
	if n := len(w.missing); n > 0 {
		slices.Sort(w.missing)
		nodes := rotated(w.missing, w.now)[:min(n, burst)]
		objects := make([]plan.Object, len(nodes))
		for i, node := range nodes {
			objects[i] = newPod(w.Set, w.present, node)
		}
		w.independent = append(w.independent, []plan.Step{plan.CreateAll{Objects: objects,
			Selector: w.Set.Spec.Selector, Why: "nodes lack a pod", Events: plan.Events{
				Done: plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulCreate",
					Message: "Created pod: {name}"},
				Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedCreate",
					Message: "Error creating: {error}"},
			}}})
		w.say("create %d of %d missing pods", len(nodes), n)
	}
	if n := len(w.doomed); n > 0 {
		slices.SortFunc(w.doomed, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
		if w.Failed {
			w.doomed = rotated(w.doomed, w.now)
		}
		w.doomed = w.doomed[:min(n, burst)]
		objects := make([]plan.Object, len(w.doomed))
		for i, p := range w.doomed {
			objects[i] = p
			if notice, ok := w.notices[p.UID]; ok {
				w.steps = append(w.steps, notice)
			}
		}
		w.independent = append(w.independent,
			[]plan.Step{plan.Delete{Objects: objects, Why: w.deletions() + " pods", Events: plan.Events{
				Done: plan.Event{Type: corev1.EventTypeNormal, Reason: "SuccessfulDelete",
					Message: "Deleted pod: {name}"},
				Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "FailedDelete",
					Message: "Error deleting: {error}"},
			}}})
		w.say("delete %d of %d pods (%s)", len(w.doomed), n, w.deletions())
	}
}

// rotated returns all elements, beginning with another one from time to time.
func rotated[T any](all []T, now time.Time) []T {
	if len(all) == 0 {
		return nil
	}
	first := int(uint64(now.UnixMilli()) % uint64(len(all)))
	return slices.Concat(all[first:], all[:first])
}
