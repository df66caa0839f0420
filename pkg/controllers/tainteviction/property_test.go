package tainteviction

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var keys = []string{"a", "b", notReady, unreachable}

func drawTaints(t *rapid.T) (taints []corev1.Taint) {
	effect := rapid.SampledFrom([]corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute,
		corev1.TaintEffectNoSchedule})
	for _, key := range keys {
		if !rapid.Bool().Draw(t, "has "+key) {
			continue
		}
		one := corev1.Taint{Key: key, Value: rapid.SampledFrom([]string{"", "v"}).Draw(t, "value"), Effect: effect.Draw(t, "effect")}
		if rapid.Bool().Draw(t, "has a time") {
			one.TimeAdded = &metav1.Time{Time: at(rapid.IntRange(-500, 100).Draw(t, "added"))}
		}
		taints = append(taints, one)
	}
	return taints
}

func drawTolerations(t *rapid.T) (all []corev1.Toleration) {
	for range rapid.IntRange(0, 5).Draw(t, "tolerations") {
		one := corev1.Toleration{
			Key: rapid.SampledFrom(append(keys, "")).Draw(t, "key"),
			Operator: rapid.SampledFrom([]corev1.TolerationOperator{corev1.TolerationOpExists, corev1.TolerationOpExists,
				corev1.TolerationOpEqual, ""}).Draw(t, "operator"),
			Value: rapid.SampledFrom([]string{"", "v"}).Draw(t, "tolerated"),
			Effect: rapid.SampledFrom([]corev1.TaintEffect{corev1.TaintEffectNoExecute, "",
				corev1.TaintEffectNoSchedule}).Draw(t, "of effect"),
			TolerationSeconds: rapid.SampledFrom([]*int64{nil, ptr.To[int64](-5), ptr.To[int64](0), ptr.To[int64](60), ptr.To[int64](300),
				ptr.To[int64](700)}).Draw(t, "seconds"),
		}
		if one.Key == "" {
			one.Operator = corev1.TolerationOpExists // or no server accepts it
		}
		if one.Operator == corev1.TolerationOpExists {
			one.Value = ""
		}
		all = append(all, one)
	}
	return all
}

// draw is any snapshot of a pod on a node.
func draw(t *rapid.T) snapshot {
	s := snapshot{
		Pod: pod(drawTolerations(t)...), Node: node(drawTaints(t)...), Comparison: rapid.Bool().Draw(t, "comparison"),
		Respect: rapid.Bool().Draw(t, "respect"),
		Read:    rapid.Bool().Draw(t, "read"), Freed: rapid.IntRange(0, 5).Draw(t, "freed") == 0,
	}
	if !s.Read && rapid.Bool().Draw(t, "unread") {
		s.Unread = "a timeout"
	}
	switch rapid.IntRange(0, 9).Draw(t, "fate") {
	case 0:
		s.Pod.DeletionTimestamp = &metav1.Time{Time: epoch}
	case 1:
		s.Pod.Status.Phase = corev1.PodFailed
	case 2:
		s.Node = nil
	case 3:
		s.Pod.Status.Conditions = append(s.Pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(-7))})
	case 4: // nobody says when it was bound
		s.Pod.Status.Conditions = nil
	}
	if rapid.Bool().Draw(t, "remembered") {
		s.Memory = memory{UID: "u", LastEvent: rapid.SampledFrom([]string{"", pending, evicting}).Draw(t, "told"),
			Began: map[string]time.Time{}}
		for _, key := range []string{"a", "b", notReady} {
			if rapid.Bool().Draw(t, key) {
				s.Memory.Began[key] = at(rapid.IntRange(-400, 0).Draw(t, "began"))
			}
		}
	}
	return s
}

// tolerated says in the words of the contract for how long the pod tolerates a taint (TE-12..15); negative: without end.
func tolerated(p *corev1.Pod, t corev1.Taint) time.Duration {
	for _, o := range p.Spec.Tolerations {
		key := o.Key == t.Key || o.Key == ""
		value := o.Operator == corev1.TolerationOpExists || o.Value == t.Value
		if !key || !value || o.Effect != "" && o.Effect != t.Effect {
			continue
		}
		if o.TolerationSeconds == nil {
			return -1
		}
		return time.Duration(max(0, *o.TolerationSeconds)) * time.Second
	}
	return 0
}

// deadline is when a pod of which nothing was known before is to go, as the taints are seen at epoch; zero for never.
func deadline(s snapshot) (first time.Time) {
	began := map[string]time.Time{} // the two taints of nodes that are down have one time (TE-18)
	id := func(t corev1.Taint) string {
		if t.Key == notReady || t.Key == unreachable {
			return "down"
		}
		return t.Key
	}
	for _, t := range s.Node.Spec.Taints {
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		when := epoch
		if t.TimeAdded != nil && t.TimeAdded.Time.Before(when) {
			when = t.TimeAdded.Time
		}
		if bound := at(-1000); when.Before(bound) {
			when = bound
		}
		if before, ok := began[id(t)]; !ok || when.Before(before) {
			began[id(t)] = when
		}
	}
	for _, t := range s.Node.Spec.Taints {
		if t.Effect != corev1.TaintEffectNoExecute || tolerated(s.Pod, t) < 0 {
			continue
		}
		if at := began[id(t)].Add(tolerated(s.Pod, t)); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

func deletes(p plan.Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s plan.Step) bool { _, ok := s.(plan.Delete); return ok })
}

// TE-15: whatever is remembered and read, a pod that tolerates all taints without end stays, and is not waited for.
func TestNeverEvictsWhatTolerates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if s.Node == nil || slices.ContainsFunc(s.Node.Spec.Taints, func(one corev1.Taint) bool {
			return one.Effect == corev1.TaintEffectNoExecute && tolerated(s.Pod, one) >= 0
		}) {
			return
		}
		d, p := planEviction(epoch, s)
		if d.Evict || deletes(p) || p.Requeue != 0 || !d.Due.IsZero() {
			t.Errorf("%+v: %q, again in %v", d, p.Why, p.Requeue)
		}
	})
}

// TE-13..15, TE-40, TE-61, TE-81: whoever looks at a pod when it is asked to, and remembers what it is given, deletes it at the first
// time at which a taint is no longer tolerated: never before, and no later than a live read takes. In whatever order the taints are.
func TestEvictsAtTheEarliestDeadline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		s.Node = node(drawTaints(t)...)
		s.Pod = pod(s.Pod.Spec.Tolerations...)
		s.Memory, s.Comparison, s.Freed, s.Unread = memory{}, false, false, ""
		want, now := deadline(s), epoch
		for range 10 {
			s.Node.Spec.Taints = rapid.Permutation(s.Node.Spec.Taints).Draw(t, "order")
			d, p := planEviction(now, s)
			if d.Evict != deletes(p) {
				t.Fatalf("%+v: %q", d, p.Why)
			}
			if d.Evict {
				if late := now.Sub(want); want.IsZero() || late < 0 || late > time.Second && now.After(at(1)) {
					t.Fatalf("deleted at %v, due at %v: %s", now.Sub(epoch), want.Sub(epoch), p.Why)
				}
				return
			}
			if p.Requeue == 0 {
				break
			}
			s.Memory = ptr.Deref(remember(now, s, d, plan.Outcome{}), memory{})
			now = now.Add(p.Requeue)
		}
		if !want.IsZero() {
			t.Fatalf("it stays; due at %v", want.Sub(epoch))
		}
	})
}

// TE-31, TE-40: a pod that waits for its deletion is told when the last taint that it does not tolerate goes, once, and nothing is written.
func TestCancelsWhenTheTaintGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		d, p := planEviction(epoch, s)
		m := remember(epoch, s, d, plan.Outcome{})
		if m == nil || exempt(s) != "" {
			return
		}
		s.Node, s.Memory = node(), *m
		d, p = planEviction(at(1), s)
		if reported := len(p.Steps) == 1; d.Evict || deletes(p) || p.Requeue != 0 || reported != (m.LastEvent == pending) {
			t.Errorf("%v: %q, again in %v, told %q before", plantest.Writes(p), p.Why, p.Requeue, m.LastEvent)
		}
		s.Memory = ptr.Deref(remember(at(1), s, d, plan.Outcome{}), memory{})
		if _, p = planEviction(at(2), s); len(p.Steps) > 0 {
			t.Errorf("told twice: %v", plantest.Writes(p))
		}
	})
}

// TE-63: what is remembered of a pod says nothing about another one of its name.
func TestNothingByAnOldUID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		s.Memory.UID = "old"
		d, p := planEviction(epoch, s)
		s.Memory = memory{}
		fresh, other := planEviction(epoch, s)
		plantest.Same(t, other, p)
		if diff := cmp.Diff(fresh, d); diff != "" {
			t.Error(diff)
		}
	})
}

// The order of the taints says nothing: neither what is done, nor when, nor what is remembered.
func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if s.Node == nil {
			return
		}
		d, p := planEviction(epoch, s)
		s.Node.Spec.Taints = rapid.Permutation(s.Node.Spec.Taints).Draw(t, "order")
		again, other := planEviction(epoch, s)
		other.Why, again.Taint = p.Why, d.Taint // which of two taints of one time it is due for
		plantest.Same(t, p, other)
		if diff := cmp.Diff(d, again); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		before := s
		before.Pod, before.Node, before.Memory.Began = s.Pod.DeepCopy(), s.Node.DeepCopy(), maps.Clone(s.Memory.Began)
		d, _ := planEviction(epoch, s)
		remember(epoch, s, d, plan.Outcome{})
		if diff := cmp.Diff(before, s); diff != "" {
			t.Error(diff)
		}
	})
}

// What others have said about a pod stays: its conditions, but for the one that is set.
func TestWritesNothingButTheCondition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		_, p := planEviction(epoch, s)
		for _, step := range p.Steps {
			c, ok := step.(plan.Change)
			if !ok {
				continue
			}
			isSet := func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }
			was, is := c.Old.(*corev1.Pod).DeepCopy(), c.New.(*corev1.Pod).DeepCopy()
			if !slices.ContainsFunc(is.Status.Conditions, isSet) || c.Subresource != plan.Status {
				t.Errorf("not the condition: %v", plantest.Writes(p))
			}
			was.Status.Conditions, is.Status.Conditions = slices.DeleteFunc(was.Status.Conditions, isSet),
				slices.DeleteFunc(is.Status.Conditions, isSet)
			if len(was.Status.Conditions)+len(is.Status.Conditions) == 0 {
				was.Status.Conditions, is.Status.Conditions = nil, nil
			}
			if diff := cmp.Diff(was, is); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		d, p := planEviction(epoch, s)
		again, other := planEviction(epoch, plantest.Restored(t, s))
		plantest.Same(t, p, other)
		if diff := cmp.Diff(d, again); diff != "" {
			t.Error(diff)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		full := s
		if fill := plantest.Anything(rapid.Int64().Draw(t, "seed")); rapid.Bool().Draw(t, "anything") { // whatever is not drawn
			p, n := &corev1.Pod{}, &corev1.Node{}
			fill(p)
			fill(n)
			p.ObjectMeta, p.Spec.NodeName, p.Spec.Tolerations = s.Pod.ObjectMeta, s.Pod.Spec.NodeName, s.Pod.Spec.Tolerations
			p.Status.Phase, p.Status.Conditions = s.Pod.Status.Phase, append(p.Status.Conditions, s.Pod.Status.Conditions...)
			full.Pod = p
			if s.Node != nil {
				n.ObjectMeta, n.Spec.Taints = s.Node.ObjectMeta, s.Node.Spec.Taints
				full.Node = n
			}
		}
		thin := full
		thin.Pod, thin.Node = plantest.Kept(t, kept, full.Pod), plantest.Kept(t, kept, full.Node)
		d, p := planEviction(epoch, full)
		again, other := planEviction(epoch, thin)
		plantest.Same(t, p, other)
		if diff := cmp.Diff(d, again); diff != "" {
			t.Error(diff)
		}
	})
}
