package disruption

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// BenchmarkPodChange is what one change of a pod costs, with all that follows: to find its budgets, to count their pods, to add up
// the scales of their owners, and to report. All pods and budgets are in one namespace; each budget selects the pods of an app, and
// the last row has budgets that select all pods besides. Each change is another pod's readiness.
func BenchmarkPodChange(b *testing.B) {
	for _, c := range []struct {
		name                     string
		pods, budgets, selectAll int
	}{
		{"1-budget-of-100-pods", 100, 1, 0},
		{"10-budgets-of-100-pods", 1000, 10, 0},
		{"500-budgets-of-20-pods", 10_000, 500, 0},
		{"1-budget-of-10000-pods", 10_000, 1, 0},
		{"500-budgets-of-20-pods-and-3-of-10000", 10_000, 500, 3},
	} {
		b.Run(c.name, func(b *testing.B) {
			k := crowd(b, c.pods, c.budgets, c.selectAll)
			memories := map[plan.Key]*memory{}
			changes := 0
			change := func() {
				before := k.pods.Get("shop", fmt.Sprint("p", (changes/2)%c.pods))
				after := before.DeepCopy()
				if changes++; changes%2 == 1 {
					unready(after)
				} else {
					after.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				}
				k.put(b, after)
				keys := k.enqueuedByPod(before, after)
				if len(keys) != 1+c.selectAll {
					b.Fatal(keys)
				}
				for _, key := range keys {
					o, err := k.observe(b.Context(), request{Key: key, Now: now, Reader: k, Memory: memories[key],
						Changes: []reconcile.Change{{Before: before, After: after}}})
					if err != nil || reportStatus(now, o.Snapshot, plan.Outcome{}).Empty() {
						b.Fatal("nothing to do")
					}
					memories[key] = remembered(o)
				}
			}
			change() // large budgets are counted once
			b.ReportAllocs()
			for b.Loop() {
				change()
			}
		})
	}
}

// crowd is a namespace of so many pods and budgets, and others that select all pods.
func crowd(b *testing.B, pods, budgets, selectAll int) *bench {
	k := newBench(b)
	for i := range budgets {
		k.put(b, web(called(fmt.Sprint("b", i)), selecting(fmt.Sprint("app=a", i))), set(fmt.Sprint("web-", i), int32(pods/budgets)))
	}
	for i := range selectAll {
		k.put(b, web(called(fmt.Sprint("all", i)), selecting("all")))
	}
	for i := range pods {
		app := i % budgets
		k.put(b, podsOf(set(fmt.Sprint("web-", app), 1), 1, labeled(fmt.Sprint("a", app)), func(p *corev1.Pod) {
			p.Name = fmt.Sprint("p", i)
			p.UID = types.UID(p.Name)
		})[0])
	}
	return k
}
