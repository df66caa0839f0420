package disruption

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// A diary tells what happens in the life of a budget, step by step. Whoever changes one should read what has changed.
func TestDiaries(t *testing.T) {
	for name, story := range map[string]func(*diary){
		"DIS-29_evictions":                 tellEvictions,
		"DIS-25_eviction_comes_to_nothing": tellEvictionThatComesToNothing,
		"DIS-20_rollout_and_scale":         tellRollout,
		"DIS-27_owner_without_a_scale":     tellOwnerWithoutScale,
		"DIS-47_overlapping_budgets":       tellOverlap,
	} {
		t.Run(name, func(t *testing.T) {
			d := &diary{t: t, now: now, memories: map[plan.Key]*memory{}, pods: map[plan.Key]*podMemory{},
				changes: map[plan.Key][]reconcile.Change{}}
			d.bench = newBench(t)
			d.large = 1
			story(d)
			plantest.Golden(t, filepath.Join("testdata", name+".txt"), d.text.String())
		})
	}
}

// diary is a bench whose budgets and pods are reconciled after everything that happens.
type diary struct {
	*bench
	t        *testing.T
	now      time.Time
	text     strings.Builder
	memories map[plan.Key]*memory
	pods     map[plan.Key]*podMemory
	changes  map[plan.Key][]reconcile.Change // of which budgets are still to be told
}

// tell notes what happens, after a while, and then what the controller does.
func (d *diary) tell(after time.Duration, what string, do ...func()) {
	d.now = d.now.Add(after)
	for _, f := range do {
		f()
	}
	fmt.Fprintf(&d.text, "%s %s\n", d.now.Format("15:04:05"), what)
	budgets := d.budgets.In("shop")
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
	for _, b := range budgets {
		d.reconcileBudget(plan.Key{Namespace: b.Namespace, Name: b.Name})
	}
	for _, p := range sortedPods(d.caches) {
		d.reconcilePod(p)
	}
}

func sortedPods(k *caches) []*corev1.Pod {
	all := k.pods.In("shop")
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (d *diary) reconcileBudget(key plan.Key) {
	o, err := d.observe(d.t.Context(), request{Key: key, Now: d.now, Reader: d.bench, Memory: d.memories[key], Changes: d.changes[key]})
	if err != nil {
		d.t.Fatal(err)
	}
	d.memories[key], d.changes[key] = remembered(o), nil
	report := reportStatus(d.now, o.Snapshot, plan.Outcome{})
	for _, p := range []plan.Plan{planned(d.now, o.Snapshot), report} {
		if e := events(p); e != "" {
			d.note("event on %s", e)
		}
	}
	if after := written(report); after != nil {
		text := fmt.Sprintf("allowed=%d healthy=%d desired=%d expected=%d %s", after.DisruptionsAllowed, after.CurrentHealthy,
			after.DesiredHealthy,
			after.ExpectedPods, condition(*after))
		if len(after.DisruptedPods) > 0 {
			text += fmt.Sprintf(" disrupted=%v", slices.Sorted(maps.Keys(after.DisruptedPods)))
		}
		d.note("%s: %s", key.Name, text)
		b := o.Snapshot.Budget.DeepCopy()
		b.Status = *after
		d.put(d.t, b)
	}
	if report.Requeue > 0 {
		d.note("%s again after %v", key.Name, report.Requeue)
	}
}

func (d *diary) reconcilePod(p *corev1.Pod) {
	key := plan.Key{Namespace: p.Namespace, Name: p.Name}
	o, err := d.observePod(d.t.Context(), podRequest{Key: key, Memory: d.pods[key]})
	if err != nil {
		d.t.Fatal(err)
	}
	d.pods[key] = o.Memory
	did := planPod(d.now, o.Snapshot)
	if e := events(did); e != "" {
		d.note("event on %s", e)
	}
	for _, s := range did.Steps {
		if c, ok := s.(plan.Change); ok {
			d.note("%s: DisruptionTarget=False", p.Name)
			d.put(d.t, c.New)
		}
	}
}

func (d *diary) note(format string, args ...any) {
	fmt.Fprintf(&d.text, "         "+format+"\n", args...)
}

// pod changes a pod, or makes it.
func (d *diary) pod(p *corev1.Pod, edits ...podEdit) {
	before := d.caches.pods.Get(p.Namespace, p.Name)
	after := p.DeepCopy()
	for _, edit := range edits {
		edit(after)
	}
	c := reconcile.Change{After: after}
	if before != nil {
		c.Before = before
	}
	d.put(d.t, after)
	d.told(c)
}

// gone removes a pod.
func (d *diary) gone(p *corev1.Pod) {
	d.remove(d.t, p)
	d.told(reconcile.Change{Before: p})
}

func (d *diary) told(c reconcile.Change) {
	for _, key := range d.enqueuedByPod(c.Before, c.After) {
		d.changes[key] = append(d.changes[key], c)
	}
}

// evict is what the API server does before it deletes a pod.
func (d *diary) evict(p *corev1.Pod) {
	b := d.budgets.Get("shop", "web").DeepCopy()
	if b.Status.DisruptionsAllowed--; b.Status.DisruptionsAllowed < 0 {
		d.t.Fatal("the budget allows nothing")
	}
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[p.Name] = metav1.NewTime(d.now)
	d.put(d.t, b)
	d.pod(p, func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.NewTime(d.now)})
	})
}

func (d *diary) begin(b *policyv1.PodDisruptionBudget, pods ...*corev1.Pod) {
	d.put(d.t, b)
	for _, p := range pods {
		d.pod(p)
	}
}

func tellEvictions(d *diary) {
	three := set("web-a", 3)
	d.put(d.t, three)
	pods := podsOf(three, 4)
	d.tell(0, "a budget of one pod is made, and three pods are ready", func() { d.begin(web(), pods[:3]...) })
	d.tell(time.Second, "the API server lets web-a-0 be evicted", func() { d.evict(pods[0]) })
	d.tell(time.Second, "it is being deleted", func() { d.pod(pods[0], terminating) })
	d.tell(time.Second, "it is gone, and web-a-3 takes its place", func() { d.gone(pods[0]); d.pod(pods[3], unready) })
	d.tell(time.Second, "which is ready", func() { d.pod(pods[3]) })
}

func tellEvictionThatComesToNothing(d *diary) {
	three := set("web-a", 3)
	d.put(d.t, three)
	pods := podsOf(three, 3)
	d.tell(0, "a budget of one pod is made, and three pods are ready", func() { d.begin(web(), pods...) })
	d.tell(time.Second, "the API server lets web-a-0 be evicted, and does not delete it", func() { d.evict(pods[0]) })
	d.tell(time.Minute, "nothing happens")
	d.tell(time.Minute, "nothing happens")
	d.tell(time.Minute, "nothing happens")
}

func tellRollout(d *diary) {
	deployment := plantest.Deployment("web", 2)
	before, after := set("web-a", 2, plantest.OwnedBy(deployment)), set("web-b", 1, plantest.OwnedBy(deployment))
	d.put(d.t, deployment, before, after)
	pods := append(podsOf(before, 2), podsOf(after, 2)...)
	d.tell(0, "a budget of half of the pods is made, and two pods are ready", func() { d.begin(web(minAvailable("50%")), pods[:2]...) })
	d.tell(time.Second, "a rollout makes a pod of a new ReplicaSet", func() { d.pod(pods[2], unready) })
	d.tell(time.Second, "which is ready", func() { d.pod(pods[2]) })
	d.tell(time.Second, "a pod of the old ReplicaSet is being deleted", func() { d.pod(pods[0], terminating) })
	d.tell(time.Second, "the Deployment is scaled to six", func() { d.put(d.t, plantest.Deployment("web", 6)) })
	d.tell(time.Second, "maxUnavailable takes the place of minAvailable", func() {
		d.put(d.t, web(maxUnavailable("5"), func(b *policyv1.PodDisruptionBudget) {
			b.Generation, b.Status = 3, d.budgets.Get("shop", "web").Status
		}))
	})
}

func tellOwnerWithoutScale(d *diary) {
	pods := podsOf(set("web-a", 1), 2, ownedBy("apps/v1", "DaemonSet", "agent"))
	d.tell(0, "a budget is made for two pods of a DaemonSet", func() { d.begin(web(), pods...) })
	d.tell(time.Second, "one of them is not ready", func() { d.pod(pods[0], unready) })
	d.tell(time.Second, "the budget gets an integer as minAvailable", func() {
		d.put(d.t, web(minAvailable("1"), func(b *policyv1.PodDisruptionBudget) {
			b.Generation, b.Status = 3, d.budgets.Get("shop", "web").Status
		}))
	})
	d.tell(time.Second, "the pod is ready again", func() { d.pod(pods[0]) })
}

func tellOverlap(d *diary) {
	one := set("web-a", 1)
	d.put(d.t, one)
	pods := podsOf(one, 1)
	d.tell(0, "a budget is made, and a pod is ready", func() { d.begin(web(minAvailable("0")), pods...) })
	d.tell(time.Second, "the pod gets the labels of another one", func() {
		d.pod(pods[0], labeled("x"))
	})
	d.tell(time.Second, "it has its labels again", func() { d.pod(pods[0]) })
	d.tell(time.Second, "there is a second budget", func() { d.put(d.t, web(called("x"), minAvailable("0"))) })
}
