package devicetainteviction

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// BenchmarkObserveAndPlan reconciles a pod whose device has a taint, among so many pods with devices, and counts them for a rule.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		k := newTestCaches(b, append(crowd(n), newSlice("s", 1, bad("k", 0)), newRule("r", inPool("p"), bad("k", 0)))...)
		b.Run(fmt.Sprint(n, "-pods"), func(b *testing.B) {
			for b.Loop() {
				o, err := k.observe(b.Context(), reconcile.Request[memory]{Key: plan.Key{Namespace: "shop", Name: "web-50"}, Now: epoch})
				if _, p := planEviction(epoch, o.Snapshot); err != nil || !deletes(p) {
					b.Fatal(p.Why, err)
				}
			}
		})
		b.Run(fmt.Sprint(n, "-counted"), func(b *testing.B) {
			for b.Loop() {
				if c := k.countFor(k.allRules()); c.Rules["r"].Pods != n {
					b.Fatal(c)
				}
			}
		})
	}
}

// BenchmarkPodChanges looks at pods that change, as every change of any pod in the cluster is looked at.
func BenchmarkPodChanges(b *testing.B) {
	k := newTestCaches(b, newRule("r", everything(), bad("k", 0)))
	before, after := newPod("web", unbound), newPod("web")
	for b.Loop() {
		if k.enqueuedByPod(before, after) != nil || k.rulesByPod(before, after) != nil {
			b.Fatal("it enqueues")
		}
	}
}
