package disruption

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/internal/workloads/scale"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	// largeBudget is how many pods have to be looked at for a budget of which it is remembered what they added up to.
	largeBudget = 100
	// mostRemembered bounds what budgets remember of their pods, some 60 bytes for each pod and budget: a budget does
	// so only if its pods, times all budgets of the namespace, are no more. Else all are counted each time.
	mostRemembered = 1 << 21
)

// caches are what the controller reads.
type caches struct {
	budgets   informers.BudgetCache
	pods      informers.LabeledPodCache
	workloads scale.Caches
	mapper    mapper
	verifier  client.Reader // reads pods live, as whoever fills the caches; nil if they are trusted
	large     int           // pods that are looked at, from which on a budget counts as large
	most      int           // see mostRemembered
}

// memory is what is remembered of a budget from one reconcile to the next: what was seen and said. Observe
// reads it and makes the next one, to which remember adds what was said.
type memory struct {
	Selected *selection // of a large budget
	// Scales are what the API server has answered about owners that no cache has, by their uids.
	Scales map[types.UID]liveScale
	// Doubts are the pods that may be gone although a cache shows them.
	Doubts   *doubts
	Reported notes
	// Retries are reconciles in a row that could not calculate the status.
	Retries int
}

type (
	// request and observation are those of the queue of budgets.
	request     = reconcile.Request[memory]
	observation = reconcile.Observation[snapshot, memory]
)

// observe finds the budget, what its pods add up to, and what their owners are meant to have.
func (k *caches) observe(ctx context.Context, r request) (observation, error) {
	b := k.budgets.Get(r.Key.Namespace, r.Key.Name)
	if b == nil {
		return observation{}, nil
	}
	before := memory{Reported: impliedNotes(b)}
	if r.Memory != nil {
		before = *r.Memory
	}
	s := snapshot{Budget: b, Reported: before.Reported, Retries: before.Retries}
	if r.Failure != nil {
		s.WriteError = r.Failure.Error()
	}
	if r.Missed {
		before.Selected = nil // which pods have changed is not known
	}
	pods, large, err := k.selectPods(&s, before.Selected, r.Changes)
	after := &memory{}
	if err != nil {
		s.SelectorError = err.Error()
	} else {
		s.Counts = pods.Counts
		after.Doubts = k.doubt(ctx, r, &s, before.Doubts)
		if needsScale(&b.Spec) {
			of := scaling{caches: k, request: r, namespace: b.Namespace, memory: before.Scales,
				read: map[types.UID]liveScale{}}
			s.Scale = of.observe(ctx, pods)
			after.Scales = of.read
		}
	}
	if large && pods.Counts.Pods*k.budgets.CountIn(b.Namespace) <= k.most {
		after.Selected = pods
	}
	return observation{Exists: true, Snapshot: s, Memory: after}, nil
}

// remember is what was seen, and what was said of it.
func remember(_ time.Time, s snapshot, reported notes, seen *memory, _, _ plan.Outcome) (*memory, bool) {
	after := *seen
	if after.Reported = reported; reported.Failure != "" {
		after.Retries = s.Retries + 1
	}
	return &after, true
}

// selectPods counts the pods of the budget. Of a large one only those are looked at that have changed, and those that
// the status names as disrupted: what is counted of a pod must not be older than what is seen of it.
func (k *caches) selectPods(s *snapshot, before *selection, changes []reconcile.Change) (after *selection, large bool,
	err error) {
	b := s.Budget
	s.Disrupted = map[string]*corev1.Pod{}
	identity := fmt.Sprint(b.UID, " ", b.Generation)
	if before == nil || before.Budget != identity {
		pods, looked, err := k.pods.SelectedBy(b.Namespace, b.Spec.Selector)
		if err != nil {
			return nil, false, err
		}
		for _, p := range pods {
			_, named := b.Status.DisruptedPods[p.Name]
			if named && s.Disrupted[p.Name] == nil { // the same that newSelection counts
				s.Disrupted[p.Name] = p
			}
		}
		return newSelection(identity, pods), looked >= k.large, nil
	}
	selects, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil, false, err
	}
	changed := map[string]*corev1.Pod{}
	look := func(name string) {
		if p := k.pods.Get(b.Namespace, name); p != nil && selects.Matches(labels.Set(p.Labels)) {
			changed[name] = p
		} else {
			changed[name] = nil
		}
	}
	for _, c := range changes {
		look(named(c))
	}
	for name := range b.Status.DisruptedPods {
		if look(name); changed[name] != nil {
			s.Disrupted[name] = changed[name]
		}
	}
	return before.with(changed), true, nil
}

// doubts are the pods whose deletion is overdue and that the server did not show to be alive when it was asked last.
type doubts struct {
	Pods map[types.UID]bool
	Wait time.Duration // until it is asked again, which doubles each time
	Next time.Time     // when it is asked again
}

// doubt reads the pods live whose deletion is overdue (DIS-25): if the cache lags by so much, they may be gone, and
// must not count as healthy again. It returns what to remember: pods that the server does not show to be alive are
// not asked for in every reconcile.
func (k *caches) doubt(ctx context.Context, r request, s *snapshot, before *doubts) *doubts {
	overdue := map[string]*corev1.Pod{}
	asked := before != nil && r.Now.Before(before.Next)
	for name, p := range s.Disrupted {
		if p.DeletionTimestamp == nil && !r.Now.Before(s.Budget.Status.DisruptedPods[name].Add(deletedWithin)) {
			overdue[name] = p
			asked = asked && before.Pods[p.UID]
		}
	}
	if k.verifier == nil || len(overdue) == 0 {
		return nil
	}
	after := before
	if !asked {
		after = before.next(r.Now)
		alive := k.alive(ctx, s.Budget, overdue)
		for _, p := range overdue {
			if !alive[p.UID] {
				after.Pods[p.UID] = true
			}
		}
	}
	s.Doubtful = map[string]bool{}
	for name, p := range overdue {
		if after.Pods[p.UID] {
			s.Doubtful[name] = true
		}
	}
	s.LookAgain = after.Next.Sub(r.Now)
	return after
}

// next returns doubts without pods, and when to ask for them again if the server is asked now. The time stays if it
// has not come yet: then the server is asked because of another pod. Before is nil the first time.
func (before *doubts) next(now time.Time) *doubts {
	after := &doubts{Pods: map[types.UID]bool{}, Wait: firstLook}
	switch {
	case before != nil && now.Before(before.Next):
		after.Wait, after.Next = before.Wait, before.Next
		return after
	case before != nil:
		after.Wait = min(2*before.Wait, lastLook)
	}
	after.Next = now.Add(after.Wait)
	return after
}

// alive returns which pods the server shows, and not that they are being deleted, of some pods of a budget: none if
// it does not answer. However many they are, that is one request.
func (k *caches) alive(ctx context.Context, b *policyv1.PodDisruptionBudget,
	pods map[string]*corev1.Pod) map[types.UID]bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil
	}
	o := metav1.ListOptions{LabelSelector: selector.String()}
	if len(pods) == 1 {
		for name := range pods {
			o = metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
		}
	}
	resource := client.MappingFor[*corev1.Pod]()
	found := &metav1.PartialObjectMetadataList{}
	if err := k.verifier.List(ctx, resource, b.Namespace, o, found); err != nil {
		return nil
	}
	alive := map[types.UID]bool{}
	for i := range found.Items {
		if found.Items[i].DeletionTimestamp == nil {
			alive[found.Items[i].UID] = true
		}
	}
	return alive
}

// named returns the name of the object that has changed.
func named(c reconcile.Change) string {
	if c.After != nil {
		return c.After.GetName()
	}
	return c.Before.GetName()
}

// live are the pods of the budget: a previous leader may have seen that they are being deleted.
func (k *caches) live(s snapshot) []reconcile.Live {
	selector, err := metav1.LabelSelectorAsSelector(s.Budget.Spec.Selector)
	if err != nil || s.Budget.Spec.Selector == nil {
		return nil
	}
	pods, _, _ := k.pods.SelectedBy(s.Budget.Namespace, s.Budget.Spec.Selector)
	return []reconcile.Live{reconcile.LiveOf(s.Budget.Namespace, selector, pods)}
}

// enqueuedByPod returns the budgets that a pod's change concerns: those that select it before or after (DIS-5,
// DIS-46, DIS-47).
func (k *caches) enqueuedByPod(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.Pod)
	is, _ := after.(*corev1.Pod)
	if was != nil && is != nil && countAlike(was, is) {
		return nil
	}
	var budgets []*policyv1.PodDisruptionBudget
	if was != nil {
		budgets = k.budgets.Selecting(was.Namespace, was.Labels)
	}
	if is != nil && (was == nil || !maps.Equal(was.Labels, is.Labels)) {
		budgets = append(budgets, k.budgets.Selecting(is.Namespace, is.Labels)...)
	}
	seen := make(map[string]bool, len(budgets))
	for _, b := range budgets {
		if !seen[b.Name] {
			seen[b.Name] = true
			keys = append(keys, plan.Key{Namespace: b.Namespace, Name: b.Name})
		}
	}
	return keys
}

// countAlike reports whether two versions of a pod are the same to all budgets (DIS-48).
func countAlike(a, b *corev1.Pod) bool {
	return a.UID == b.UID && podutil.Ready(a) == podutil.Ready(b) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		controllerOf(a) == controllerOf(b) && maps.Equal(a.Labels, b.Labels)
}

// enqueuedByWorkload returns the budgets of the pods that a workload makes, if its size has changed (DIS-52), or who
// decides on it.
func (k *caches) enqueuedByWorkload(before, after plan.Object) (keys []plan.Key) {
	o := cmp.Or(after, before)
	w := workloadOf(o)
	if before != nil && after != nil {
		if was := workloadOf(before); was.replicas == w.replicas && was.by == w.by {
			return nil
		}
	}
	for _, b := range k.budgets.Selecting(o.GetNamespace(), w.labels) {
		if needsScale(&b.Spec) {
			keys = append(keys, plan.Key{Namespace: b.Namespace, Name: b.Name})
		}
	}
	return keys
}
