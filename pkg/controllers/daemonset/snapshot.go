package daemonset

import (
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a DaemonSet has observed. Observe fills it, and newView sorts it out for
// plan and report. The objects belong to shared caches.
type snapshot struct {
	Set *appsv1.DaemonSet
	// Pods are those that the set controls, by its uid, and the orphans of its namespace. Others do no harm.
	Pods []*corev1.Pod
	// Revisions are the ControllerRevisions that the set controls, and the orphans of its namespace.
	Revisions []*appsv1.ControllerRevision
	// Nodes are those that run pods of the set, that may keep them, or that have some.
	Nodes []node
	// Uncached are names of nodes that exist although the cache does not show them yet: those that unassigned pods
	// are meant for.
	Uncached map[string]bool
	// Taken is the ControllerRevision, whoever it belongs to, that has the name which a new one would get; nil if
	// there is none.
	Taken *appsv1.ControllerRevision
	// Failed says that the last reconcile has failed. Then it is not always the same pods that are tried first.
	Failed bool
	// Memory is what is remembered of the set from before; nil for nothing.
	Memory *memory
}

// decision is what the plan has worked out: the set's pods and revisions sorted out, for the report, and what
// is to be remembered. planSet makes it.
type decision struct {
	derived
	// Backoff says until when the failed pods of a node are left alone, for nodes where they are.
	Backoff    map[string]time.Time
	Remembered *memory // from now on; nil for nothing
}

// view is a snapshot and what it means. Planner and report are methods of it or hold one.
type view struct {
	snapshot
	decision
}

// node is a node, as far as the DaemonSet is concerned.
type node struct {
	Name        string
	Eligibility eligibility
}

// derived are the set's own pods and revisions, and the steps that make them so. Plan and report want the same, and
// with many pods to find them is most of the work.
type derived struct {
	invalid error // the selector makes no sense; then there is nothing else
	// selectsAll says that the selector is empty. The DaemonSet then does nothing.
	selectsAll bool
	selector   labels.Selector
	ownership  []plan.Step              // that make pods and revisions the set's own
	on         map[string][]*corev1.Pod // own pods by node, in order; without those that are gone
	usedHashes map[string]bool          // hashes that own pods have, whatever became of the pods
	// revisions are the own ones, by what they are for the set.
	revisions revisions
	// present is the present template, as pods refer to it.
	present present
}

// newView finds out what a snapshot means.
func newView(now time.Time, of snapshot) view {
	s := view{snapshot: of}
	if s.derive(); s.invalid == nil {
		s.Backoff, s.Remembered = s.Memory.see(now, s)
	}
	return s
}

// derive sorts out pods and revisions. If the selector makes no sense, it finds nothing but that.
func (s *view) derive() {
	s.derived = derived{}
	selector, err := plan.Selector(s.Set.Spec.Selector)
	if err != nil {
		s.invalid, s.selectsAll = err, s.Set.Spec.Selector != nil && errors.Is(err, plan.ErrSelectsAll)
		return
	}
	s.selector = selector
	pods, forPods := plan.Claim(plan.Object(s.Set), kind(), selector, s.Pods)
	own, forRevisions := plan.Claim(plan.Object(s.Set), kind(), selector, s.Revisions)
	s.ownership = slices.Clip(append(forPods, forRevisions...)) // who appends makes a copy
	s.on = byNode(pods)
	s.usedHashes = map[string]bool{}
	for _, p := range pods {
		s.usedHashes[p.Labels[hashLabel]] = true
	}
	for _, on := range s.on {
		if len(on) > 1 {
			slices.SortFunc(on, byRank)
		}
	}
	s.revisions = findRevisions(s.Set, own)
	s.present = presentOf(s.Set, s.revisions)
	// The server compares the selector with the template only. Pods that it does not match would be released as soon as
	// they are made, and others made in their place, without end.
	if !selector.Matches(podLabels(s.Set, s.present)) {
		s.derived = derived{invalid: errors.New("left alone, the selector does not match the labels that its pods get")}
	}
}

// byNode returns the pods by the nodes that they are on or meant for, without those that are gone.
func byNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
	on := make(map[string][]*corev1.Pod, len(pods))
	for _, p := range pods {
		if name := podutil.TargetNode(p); name != "" && !gone(p) {
			on[name] = append(on[name], p)
		}
	}
	return on
}

// desired counts the nodes that run pods of the set.
func (s *snapshot) desired() (n int) {
	for _, node := range s.Nodes {
		if node.Eligibility == eligible {
			n++
		}
	}
	return n
}
