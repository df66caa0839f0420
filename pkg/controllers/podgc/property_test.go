package podgc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// world is a random snapshot with all that a full pod and node carry.
func world(t *rapid.T) snapshot {
	age := rapid.SampledFrom([]string{"age=1s", "age=1h", "age=1h", "age=3h", "age=200h ended=10m"})
	phase := rapid.SampledFrom([]string{"", "pending", "unknown", "phaseless", "succeeded", "failed", "evicted", "failed tracked",
		"succeeded tracked"})
	fate := rapid.SampledFrom([]string{"", "", "deleting", "forced", "disrupted", "undisrupted"})
	place := rapid.SampledFrom([]string{"", "on=n0", "on=n1", "on=n2", "on=gone0", "on=gone1", "in=bar on=n0", "in=bar"})
	s := snapshot{
		Rule: rapid.SampledFrom([]string{terminated, outOfService, orphaned, unscheduled}).Draw(t, "rule"),
		Policy: policy{
			Threshold:    rapid.IntRange(-1, 8).Draw(t, "threshold"),
			PerNamespace: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "threshold per namespace"),
			MaxAge:       rapid.SampledFrom([]time.Duration{0, 0, time.Hour, 2 * time.Hour}).Draw(t, "max age"),
		},
		Nodes: map[string]*corev1.Node{},
		Gone:  map[string]bool{"gone0": true, "gone1": rapid.Bool().Draw(t, "gone1 was read")},
		Held:  held{Kind: holdKind(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "held"))},
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		words := fmt.Sprint(age.Draw(t, "age"), " ", phase.Draw(t, "phase"), " ", fate.Draw(t, "fate"), " ", place.Draw(t, "place"))
		p := pod(fmt.Sprint("p", i), words)
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		p.Annotations = map[string]string{"some": "thing"}
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "image"}}
		p.Status.HostIP, p.Status.Message = "10.0.0.1", "message"
		s.Pods = append(s.Pods, p)
	}
	if s.Rule == terminated {
		s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool { return p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed" })
	}
	for i := range 3 {
		taint := rapid.SampledFrom([]string{"node.kubernetes.io/out-of-service", "node.kubernetes.io/unreachable"}).Draw(t, "taint")
		ready := rapid.SampledFrom([]corev1.ConditionStatus{"", "True", "False", "Unknown"}).Draw(t, "ready")
		s.Nodes[fmt.Sprint("n", i)] = node(fmt.Sprint("n", i), ready, taint)
	}
	return s
}

// victims are the pods that a plan deletes.
func victims(p plan.Plan) (all []*corev1.Pod) {
	for _, step := range p.Steps {
		for _, sequence := range step.(plan.Each).Sequences {
			for _, step := range sequence {
				if d, ok := step.(plan.Delete); ok {
					for _, o := range d.Objects {
						all = append(all, o.(*corev1.Pod))
					}
				}
			}
		}
	}
	return all
}

// named says in the words of the contract whether a rule other than the threshold names the pod.
func named(s snapshot, p *corev1.Pod) bool {
	switch s.Rule {
	case outOfService:
		n := s.Nodes[p.Spec.NodeName]
		return p.DeletionTimestamp != nil && n != nil && n.Spec.Taints[0].Key == "node.kubernetes.io/out-of-service" &&
			(len(n.Status.Conditions) == 0 || n.Status.Conditions[1].Status != "True")
	case orphaned:
		return s.Held.Kind == free && p.Spec.NodeName != "" && s.Gone[p.Spec.NodeName]
	case unscheduled:
		return p.DeletionTimestamp != nil && p.Spec.NodeName == ""
	}
	return false
}

func TestNeverPicksAPodThatNoRuleNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := world(t)
		seen := map[string]bool{}
		for _, v := range victims(planPods(epoch, s)) {
			if seen[v.Name] {
				t.Errorf("%s is deleted twice", v.Name)
			}
			seen[v.Name] = true
			switch {
			case s.Rule != terminated:
				if !named(s, v) {
					t.Errorf("%s: rule %s does not name %v", v.Name, s.Rule, v)
				}
			case s.Policy.Threshold <= 0 && slices.Contains(v.Finalizers, "batch.kubernetes.io/job-tracking"):
				t.Errorf("%s belongs to an unfinished Job", v.Name)
			case s.Policy.Threshold <= 0 && s.Policy.MaxAge <= 0 && s.Policy.PerNamespace <= 0:
				t.Errorf("%s goes, and no rule is on", v.Name)
			}
		}
		if s.Rule == terminated {
			return
		}
		for _, p := range s.Pods {
			if named(s, p) && !seen[p.Name] && !slices.Contains(p.Finalizers, "example.com/hold") {
				t.Errorf("%s stays, though rule %s names it", p.Name, s.Rule)
			}
		}
	})
}

func TestNeverMoreThanAboveThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := world(t)
		s.Rule = terminated
		s.Pods = slices.DeleteFunc(s.Pods, func(p *corev1.Pod) bool {
			return !slices.Contains([]corev1.PodPhase{"Succeeded", "Failed"}, p.Status.Phase)
		})
		s.Policy.PerNamespace, s.Policy.MaxAge = 0, 0
		n, above := len(victims(planPods(epoch, s))), max(0, len(s.Pods)-s.Policy.Threshold)
		held := 0
		for _, p := range s.Pods {
			if slices.Contains(p.Finalizers, "example.com/hold") {
				held++
			}
		}
		if s.Policy.Threshold <= 0 {
			above = 0
		}
		if n > above || n < above-held {
			t.Errorf("%d of %d pods go, %d are above the threshold, %d are held", n, len(s.Pods), above, held)
		}
	})
}

// A snapshot is data: stored and read back, it leads to the same decision.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := world(t)
		before, after := planPods(epoch, s), planPods(epoch, plantest.Restored(t, s))
		if writes(before) != writes(after) || before.Why != after.Why || before.Requeue != after.Requeue {
			t.Errorf("%q, and %q after it was stored", writes(before), writes(after))
		}
	})
}

// projected is what the caches keep if there is no other controller.
func projected(t interface{ Fatal(...any) }) informers.Projection {
	p, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := world(t)
		full := planPods(epoch, s)
		thin := s
		thin.Pods, thin.Nodes = nil, map[string]*corev1.Node{}
		for _, p := range s.Pods {
			o, _ := projected(t).Transform(p.DeepCopy())
			thin.Pods = append(thin.Pods, o.(*corev1.Pod))
		}
		for name, n := range s.Nodes {
			o, _ := projected(t).Project(n)
			thin.Nodes[name] = o.(*corev1.Node)
		}
		slim := planPods(epoch, thin)
		if writes(full) != writes(slim) || full.Why != slim.Why || full.Requeue != slim.Requeue {
			t.Errorf("%q with all fields, %q with the cached ones", writes(full), writes(slim))
		}
	})
}

func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := world(t)
		before := strings.Split(writes(planPods(epoch, s)), ", ")
		s.Pods = rapid.Permutation(s.Pods).Draw(t, "order")
		after := strings.Split(writes(planPods(epoch, s)), ", ")
		if s.Rule == orphaned || s.Rule == unscheduled { // in no order
			slices.Sort(before)
			slices.Sort(after)
		}
		if !slices.Equal(before, after) {
			t.Errorf("%v, %v", before, after)
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := world(t)
		before := []*corev1.Pod{}
		for _, p := range s.Pods {
			before = append(before, p.DeepCopy())
		}
		planPods(epoch, s)
		if diff := cmp.Diff(before, append([]*corev1.Pod{}, s.Pods...)); diff != "" {
			t.Error(diff)
		}
	})
}

// A second plan over what the first has left finds nothing to do: deleted pods are gone, or finalizers hold them.
func TestRepeatedPlanIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := world(t)
		first := planPods(epoch, s)
		hit := map[string]bool{}
		for _, v := range victims(first) {
			hit[v.Name] = true
		}
		var left []*corev1.Pod
		for _, p := range s.Pods {
			switch {
			case !hit[p.Name]:
				left = append(left, p)
			case len(p.Finalizers) > 0:
				p = p.DeepCopy()
				if p.Status.Phase != "Succeeded" {
					p.Status.Phase = "Failed"
				}
				p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: epoch}, new(int64)
				left = append(left, p)
			}
		}
		s.Pods = left
		if again := planPods(epoch, s); !again.Empty() {
			t.Errorf("first %s, again %s", writes(first), writes(again))
		}
	})
}

// history is what happens to nodes, the cache and the server, step by step.
type history struct {
	collecting
	names   []string             // of nodes
	now     time.Time            // of the latest step
	missing map[string]time.Time // nodes that the cache lacks, since the first step at which it did
	lost    map[string]bool      // reads of the node fail
	changes []reconcile.Change   // of the latest step
}

// newHistory begins with one pod for each node, and no node.
func newHistory(t *rapid.T) *history {
	share := rapid.SampledFrom([]float64{-1, 0.5}).Draw(t, "brake")
	c, _ := build(t, newServer(), config{Share: share})
	h := &history{c, []string{"a", "b", "c", "d", "e", "f", "g"}, epoch, map[string]time.Time{}, map[string]bool{}, nil}
	for i, name := range h.names {
		if err := c.caches.pods.Informer().GetIndexer().Add(pod(fmt.Sprint("p", i), "on="+name)); err != nil {
			t.Fatal(err)
		}
	}
	c.on(func(verb, name string) error {
		if h.lost[name] {
			return errors.New("no answer")
		}
		return nil
	})
	return h
}

func (h *history) step(t *rapid.T) {
	h.now = h.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
	h.changes = nil
	cached := h.caches.nodes.Informer().GetIndexer()
	for _, name := range h.names {
		n := node(name, corev1.ConditionTrue)
		switch rapid.IntRange(0, 20).Draw(t, name) {
		case 0: // the node comes
			h.put(n)
		case 1, 2: // it goes
			if h.exists(name) {
				h.remove("Node", plan.Key{Name: name})
			}
		case 3: // the cache drops it, rightly or wrongly
			_ = cached.Delete(n)
		case 4: // or shows it
			_ = cached.Add(n)
		case 5:
			h.lost[name] = !h.lost[name]
		case 6: // it was there for a moment, which only a watch has seen
			h.changes = append(h.changes, reconcile.Change{After: n}, reconcile.Change{Before: n})
		}
		if h.caches.nodes.Get(name) != nil {
			delete(h.missing, name)
		} else if _, ok := h.missing[name]; !ok {
			h.missing[name] = h.now
		}
	}
}

func (h *history) exists(name string) bool { return h.objects["Node"][plan.Key{Name: name}] != nil }

func (h *history) observe(t *rapid.T, m *memory) observation {
	o, err := h.caches.observe(context.Background(), reconcile.Request[memory]{
		Key: plan.Key{Name: orphaned}, Now: h.now, Memory: m, Changes: h.changes,
	})
	if err == nil {
		decide := func(s snapshot) plan.Plan { return planPods(h.now, s) }
		o, _, err = managertest.Prove(t.Context(), h.server, h.now, o, h.caches.prove, decide)
	}
	if err != nil || !o.Exists {
		t.Fatal(err, o.Exists)
	}
	return o
}

// Whatever happens to nodes, pods, the cache and the server: a pod is never taken for an orphan unless its node has been
// missing from the cache in every reconcile for 40 s and the server does not know it (PGC-28).
func TestPGC28OrphanOnlyAfterGracePeriodAndLive404(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		var m *memory
		for range rapid.IntRange(1, 40).Draw(t, "reconciles") {
			h.step(t)
			o := h.observe(t, m)
			m = o.Memory
			for _, v := range victims(planPods(h.now, o.Snapshot)) {
				name := v.Spec.NodeName
				since, ok := h.missing[name]
				if !ok || h.now.Sub(since) < 40*time.Second || h.exists(name) || h.lost[name] {
					t.Fatalf("%s: missing %v since %s, now %s", name, ok, since, h.now)
				}
			}
		}
	})
}

// To observe has no side effects: it leaves the memory that it is given alone, and when it is repeated, the result is the
// same.
func TestObserveHasNoSideEffects(t *testing.T) {
	all := cmp.AllowUnexported(snapshot{}, policy{}, nodeCounts{}, held{})
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		var m *memory
		for range rapid.IntRange(1, 20).Draw(t, "reconciles") {
			h.step(t)
			var before *memory
			if m != nil {
				c := *m
				c.Missing, c.Seen = maps.Clone(m.Missing), maps.Clone(m.Seen)
				before = &c
			}
			first := h.observe(t, m)
			if diff := cmp.Diff(before, m); diff != "" {
				t.Fatalf("the memory has changed: %s", diff)
			}
			if diff := cmp.Diff(first, h.observe(t, m), all); diff != "" {
				t.Fatalf("observed again: %s", diff)
			}
			m = first.Memory
		}
	})
}
