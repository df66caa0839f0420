package disruption

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the objects are, nothing panics, nothing below zero is written, and what is written leaves nothing to write.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		budget := &policyv1.PodDisruptionBudget{}
		fill(budget)
		budget.Namespace, budget.Name = webKey.Namespace, webKey.Name
		if rapid.Bool().Draw(t, "selects something") {
			selecting("all")(budget)
		}
		b := newBench(t, budget)
		for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
			p := &corev1.Pod{}
			fill(p)
			p.Namespace, p.Name, p.UID = webKey.Namespace, fmt.Sprint(i), types.UID(fmt.Sprint(i))
			b.put(t, p)
			b.enqueuedByPod(nil, p)
			b.enqueuedPod(nil, p)
			planPod(now, podSnapshot{Pod: p})
		}
		s := b.observed(t)
		planned(now, s)
		after := written(reportStatus(now, s, plan.Outcome{}))
		if after == nil {
			return
		}
		if failure(s) == "" && min(after.DisruptionsAllowed, after.CurrentHealthy, after.DesiredHealthy, after.ExpectedPods) < 0 {
			t.Errorf("%s", numbers(*after))
		}
		again := budget.DeepCopy()
		again.Status = *after
		b.put(t, again)
		if p := reportStatus(now, b.observed(t), plan.Outcome{}); !p.Empty() {
			t.Errorf("there is still something to do: %s", p.Why)
		}
	})
}
