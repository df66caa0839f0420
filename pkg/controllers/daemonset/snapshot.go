package daemonset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a DaemonSet has observed, see newSnapshot. The objects belong to shared caches.
type snapshot struct {
	Set *appsv1.DaemonSet
	// Pods are those that the set controls, by its uid, and the orphans of its namespace. Others do no harm.
	Pods []*corev1.Pod
	// Revisions are the ControllerRevisions that the set controls, and the orphans of its namespace.
	Revisions []*appsv1.ControllerRevision
	// Nodes are those that run pods of the set, that may keep them, or that have some.
	Nodes []node
	// Uncached are names of nodes that exist although the cache does not show them yet: those that unassigned pods are meant for.
	Uncached map[string]bool
	// Taken is the ControllerRevision, whoever it belongs to, that has the name of one which is to be created; nil if there is none.
	Taken *appsv1.ControllerRevision
	// Backoff says until when the failed pods of a node are left alone, for nodes where they are.
	Backoff map[string]time.Time
	// Failed says that the last reconcile has failed. Then it is not always the same pods that are tried first.
	Failed bool

	derived // follows from Set, Pods, Revisions and Taken
}

// node is a node, as far as the DaemonSet is concerned.
type node struct {
	Name        string
	Eligibility eligibility
}

// derived are the set's own pods and revisions, and the steps that make them so. Plan and report want the same, and with many pods to
// find them is most of the work.
type derived struct {
	invalid    error // the selector makes no sense; then there is nothing else
	selectsAll bool
	selector   labels.Selector
	claims     []plan.Step              // that make pods and revisions the set's own
	on         map[string][]*corev1.Pod // own pods by node, in order; without those that are gone
	carried    map[string]bool          // hashes that own pods have, whatever became of the pods
	revisions  revisions
	present    present
}

// newSnapshot returns the snapshot of a set, its pods and its revisions, which must not change any more.
func newSnapshot(d *appsv1.DaemonSet, pods []*corev1.Pod, all []*appsv1.ControllerRevision) snapshot {
	s := snapshot{Set: d, Pods: pods, Revisions: all}
	s.derive()
	return s
}

func (s *snapshot) derive() {
	s.derived = derived{}
	selector, err := metav1.LabelSelectorAsSelector(s.Set.Spec.Selector)
	switch {
	case err != nil:
		s.invalid = fmt.Errorf("left alone, selector: %w", err)
		return
	case s.Set.Spec.Selector == nil:
		s.invalid = errors.New("left alone, selector: there is none")
		return
	case selector.Empty():
		s.invalid, s.selectsAll = errors.New("left alone, selector: it selects all pods"), true
		return
	}
	s.selector = selector
	pods, claimPods := plan.Claim(plan.Object(s.Set), kind(), selector, s.Pods)
	own, claimRevisions := plan.Claim(plan.Object(s.Set), kind(), selector, s.Revisions)
	s.claims = slices.Clip(append(claimPods, claimRevisions...)) // who appends makes a copy
	s.on = make(map[string][]*corev1.Pod, len(pods))
	s.carried = map[string]bool{}
	for _, p := range pods {
		s.carried[p.Labels[hashLabel]] = true
		if name := podutil.TargetNode(p); name != "" && !gone(p) {
			s.on[name] = append(s.on[name], p)
		}
	}
	for _, on := range s.on {
		if len(on) > 1 {
			slices.SortFunc(on, byRank)
		}
	}
	s.revisions = sortRevisions(s.Set, own)
	s.present = presentOf(s.Set, s.revisions)
}

// UnmarshalJSON implements json.Unmarshaler. What follows from the objects is not stored.
func (s *snapshot) UnmarshalJSON(data []byte) error {
	type plain snapshot // without this method
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	s.derive()
	return nil
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
