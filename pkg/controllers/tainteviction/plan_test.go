package tainteviction

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is so many seconds after epoch.
func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// tolerates is a toleration of a key for so many seconds; negative: without end.
func tolerates(key string, seconds int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if seconds >= 0 {
		t.TolerationSeconds = &seconds
	}
	return t
}

// pod is one that was bound at epoch - 1000 s.
func pod(tolerations ...corev1.Toleration) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", Generation: 3,
		CreationTimestamp: metav1.NewTime(at(-2000))}}
	p.Spec.NodeName, p.Spec.Tolerations = "n", tolerations
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(at(-1000))}}
	return p
}

func edited(p *corev1.Pod, edit func(*corev1.Pod)) *corev1.Pod {
	edit(p)
	return p
}

// taint is NoExecute, added so many seconds after epoch.
func taint(key string, added int) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: at(added)}}
}

func unknownTime(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

func node(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints}}
}

// said is a plan as text.
func said(p plan.Plan) (all []string) {
	for _, ref := range p.Proof {
		all = append(all, "if "+ref.String()+" bears it out")
	}
	for _, s := range p.Steps {
		switch s := s.(type) {
		case plan.RecordEvent:
			if s.Object.GetUID() != "u" {
				all = append(all, "an event without uid")
			}
			all = append(all, s.Event.Type+" "+s.Event.Reason+" "+s.Event.Message)
		case plan.Change:
			for _, c := range s.New.(*corev1.Pod).Status.Conditions {
				if c.Type == corev1.DisruptionTarget {
					all = append(all,
						fmt.Sprintf("%s %s %s %s %d %s", s.Subresource, c.Type, c.Status, c.Reason, c.ObservedGeneration,
							c.LastTransitionTime.Sub(epoch)))
				}
			}
		case plan.Delete:
			all = append(all, fmt.Sprintf("delete %s grace=%v", s.Objects[0].GetName(), s.Grace))
		}
	}
	if p.Requeue > 0 {
		all = append(all, "again in "+p.Requeue.String())
	}
	return all
}

const (
	notReady    = corev1.TaintNodeNotReady
	unreachable = corev1.TaintNodeUnreachable
)

var evicted = []string{
	"if Node n bears it out", "Normal TaintManagerEviction Marking for deletion Pod shop/web",
	"status DisruptionTarget True DeletionByTaintManager 3 0s", "delete web grace=<nil>",
}

// A row is a sentence. The time is epoch.
func TestPlan(t *testing.T) {
	remembered := func(reported string, began map[string]time.Time) memory {
		return memory{UID: "u", Began: began, LastEvent: reported}
	}
	for _, c := range []struct {
		name string
		snapshot
		want []string
	}{
		{"TE-14, TE-20..22 a pod that does not tolerate the taint is deleted, its condition comes first",
			snapshot{Pod: pod(), Node: node(taint("k", 0)), Read: true}, evicted},
		{"TE-83 but not before its node was read", snapshot{Pod: pod(), Node: node(taint("k", 0))}, evicted},
		{"nor if it cannot be read", snapshot{Pod: pod(), Node: node(taint("k", 0)), Unread: "a timeout"}, []string{"again in 5s"}},
		{"but when the brake was released", snapshot{Pod: pod(), Node: node(taint("k", 0)), Unread: "a timeout", Freed: true}, evicted[1:]},
		{"TE-83 but then, too, its node is read if it can be", snapshot{Pod: pod(), Node: node(taint("k", 0)), Freed: true}, evicted},
		{"TE-11 other effects do not count",
			snapshot{Pod: pod(), Node: node(corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule}), Read: true}, nil},
		{"TE-12 an equal value tolerates",
			snapshot{Pod: pod(corev1.Toleration{Key: "k", Value: "v"}),
				Node: node(corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}), Read: true}, nil},
		{"TE-12 another one does not",
			snapshot{Pod: pod(corev1.Toleration{Key: "k", Value: "w"}),
				Node: node(corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}), Read: true}, evicted},
		{"TE-3 numbers are compared if the gate is on",
			snapshot{Comparison: true, Pod: pod(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpGt, Value: "5"}),
				Node: node(corev1.Taint{Key: "k", Value: "7", Effect: corev1.TaintEffectNoExecute}), Read: true}, nil},
		{"TE-3 and not without",
			snapshot{Pod: pod(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpGt, Value: "5"}),
				Node: node(corev1.Taint{Key: "k", Value: "7", Effect: corev1.TaintEffectNoExecute}), Read: true}, evicted},
		{"TE-15 a toleration without end", snapshot{Pod: pod(tolerates("", -1)), Node: node(taint("k", 0)), Read: true}, nil},
		{"TE-15, TE-40 the pod stays for the time of its toleration", snapshot{Pod: pod(tolerates("k", 300)), Node: node(taint("k", -100))},
			[]string{"again in 3m20s"}},
		{"TE-15 zero and less is at once",
			snapshot{Pod: pod(corev1.Toleration{Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](-5)}),
				Node: node(taint("k", 0)), Read: true}, evicted},
		{"TE-15, TE-40 the shortest time of several taints counts",
			snapshot{Pod: pod(tolerates("a", 300), tolerates("b", 60)), Node: node(taint("a", 0), taint("b", 0))},
			[]string{"again in 1m0s"}},
		{"TE-13 the first toleration of a taint counts, not the longest",
			snapshot{Pod: pod(tolerates("k", 10), tolerates("k", -1)), Node: node(taint("k", 0))}, []string{"again in 10s"}},
		{"TE-61 a taint that has the time when it was added",
			snapshot{Pod: pod(tolerates("k", 300)), Node: node(taint("k", -400)), Read: true}, evicted},
		{"TE-81 a taint without it begins when it is first seen", snapshot{Pod: pod(tolerates("k", 300)), Node: node(unknownTime("k"))},
			[]string{"again in 5m0s"}},
		{"TE-81 which is remembered",
			snapshot{Pod: pod(tolerates("k", 300)), Node: node(unknownTime("k")),
				Memory: remembered(pending, map[string]time.Time{"k": at(-200)})}, []string{"again in 1m40s"}},
		{"TE-63 but not of another pod of the name",
			snapshot{Pod: edited(pod(tolerates("k", 300)), func(p *corev1.Pod) { p.UID = "v" }), Node: node(unknownTime("k")),
				Memory: remembered(pending, map[string]time.Time{"k": at(-200)})}, []string{"again in 5m0s"}},
		{"TE-81 a taint is not of the future", snapshot{Pod: pod(tolerates("k", 300)), Node: node(taint("k", 500))},
			[]string{"again in 5m0s"}},
		{"TE-81 nor of a time before the pod was bound", snapshot{Pod: pod(tolerates("k", 1300)), Node: node(taint("k", -5000))},
			[]string{"again in 5m0s"}},
		{"TE-18, TE-50 one of two taints of nodes that are down takes the place of the other",
			snapshot{Pod: pod(tolerates(notReady, 300), tolerates(unreachable, 300)), Node: node(taint(unreachable, 0)),
				Memory: remembered(pending, map[string]time.Time{notReady: at(-100)})}, []string{"again in 3m20s"}},
		{"TE-18 while there are both, the time of both is that of the first",
			snapshot{Pod: pod(tolerates(notReady, 300), tolerates(unreachable, 150)),
				Node: node(taint(notReady, -100), taint(unreachable, -10))}, []string{"again in 50s"}},
		{"TE-18 in either order",
			snapshot{Pod: pod(tolerates(notReady, 300), tolerates(unreachable, 150)),
				Node: node(taint(unreachable, -10), taint(notReady, -100))}, []string{"again in 50s"}},
		{"TE-62 a shorter time is obeyed at once",
			snapshot{Pod: pod(tolerates("k", 100)), Node: node(taint("k", -150)), Read: true,
				Memory: remembered(pending, map[string]time.Time{"k": at(-150)})}, evicted},
		{"TE-31, TE-40 a taint that is gone in time",
			snapshot{Pod: pod(tolerates("k", 300)), Node: node(), Memory: remembered(pending, map[string]time.Time{"k": at(-100)})},
			[]string{"Normal TaintManagerEviction Cancelling deletion of Pod shop/web"}},
		{"TE-52 another taint that is not tolerated",
			snapshot{Pod: pod(tolerates("a", 300)), Node: node(taint("a", 0), taint("b", 0)), Read: true,
				Memory: remembered(pending, map[string]time.Time{"a": at(0)})}, evicted},
		{"TE-32 the event has the uid of the pod, and the old reason and text", snapshot{Pod: pod(), Node: node(taint("k", 0)), Read: true},
			evicted},
		{"TE-43, TE-68 a taint that is gone when the node is read", snapshot{Pod: pod(), Node: node(), Read: true}, nil},
		{"TE-60 an eviction is tried again, and told of once", snapshot{
			Pod: pod(), Node: node(taint("k", -9)), Read: true, Memory: remembered(evicting, map[string]time.Time{"k": at(-9)}),
		}, slices.Delete(slices.Clone(evicted), 1, 2)},
		{"TE-21 a condition that is True already keeps its time", snapshot{Pod: edited(pod(), func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(at(-7))})
		}), Node: node(taint("k", 0)), Read: true}, []string{evicted[0], evicted[1],
			"status DisruptionTarget True DeletionByTaintManager 3 -7s", evicted[3]}},
		{"TE-67 a pod that has finished stays",
			snapshot{Pod: edited(pod(), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), Node: node(taint("k", 0)),
				Read: true}, nil},
		{"TE-67, TE-70 a pod that is being deleted is left alone",
			snapshot{Pod: edited(pod(), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }), Node: node(taint("k", 0)),
				Read:   true,
				Memory: remembered(pending, nil)}, nil},
		{"TE-66 a pod whose node is gone is left to podgc", snapshot{Pod: pod(), Memory: remembered(pending, nil)}, nil},
		{"TE-71 a time that is too long is without end", snapshot{Pod: pod(tolerates("k", 1<<62)), Node: node(taint("k", 0)), Read: true},
			nil},
		{"a pod that is gone", snapshot{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, p := planEviction(epoch, c.snapshot)
			if diff := cmp.Diff(c.want, said(p)); diff != "" {
				t.Error(diff)
			}
			if p.Why == "" || d.Evict != (len(c.want) > 1) {
				t.Errorf("%+v: %q", d, p.Why)
			}
		})
	}
}

// What is held is part of the plan, and so is why it is not held any more.
func TestPodsAreHeld(t *testing.T) {
	for _, c := range []struct {
		name string
		snapshot
		want plan.Hold
	}{
		{"its node cannot be read", snapshot{Pod: pod(), Node: node(taint("k", 0)), Unread: "a timeout"},
			plan.Hold{What: "pods of the node n", Why: "their node cannot be read: a timeout"}},
		{"its node can be read", snapshot{Pod: pod(), Node: node(taint("k", 0)), Read: true}, plan.Hold{Ended: plan.ByProof}},
		{"its node, read live, has no taint", snapshot{Pod: pod(), Node: node(), Read: true}, plan.Hold{Ended: plan.ByProof}},
		{"the taint is gone", snapshot{Pod: pod(), Node: node()}, plan.Hold{Ended: plan.NothingLeft}},
		{"somebody else deletes it",
			snapshot{Pod: edited(pod(), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), Node: node(taint("k", 0))},
			plan.Hold{Ended: plan.NothingLeft}},
	} {
		if _, p := planEviction(epoch, c.snapshot); p.Hold != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, p.Hold, c.want)
		}
	}
}
