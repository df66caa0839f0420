package namespace

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// drawSnapshot is what a round may have found, as Observe makes it or not.
func drawSnapshot(t *rapid.T) snapshot {
	s := snapshot{
		Namespace: ending(finalizers(rapid.SliceOfN(rapid.SampledFrom(ending().Spec.Finalizers), 0, 2).Draw(t, "finalizers")...)),
		SettledAt: now.Add(time.Duration(rapid.IntRange(-10, 10).Draw(t, "settled")) * time.Second),
		Complete:  rapid.Bool().Draw(t, "complete"),
		Rounds:    rapid.IntRange(0, 30).Draw(t, "rounds"),
		Longest:   time.Duration(rapid.IntRange(0, 300).Draw(t, "longest")) * time.Second,
	}
	if rapid.Bool().Draw(t, "held by others") {
		s.Namespace.Finalizers = []string{"example.com/hold"}
	}
	if rapid.Bool().Draw(t, "discovery fails") {
		s.Discovery = &failure{Groups: 1, Message: "503"}
	}
	for range rapid.IntRange(0, 3).Draw(t, "contents") {
		s.Contents = append(s.Contents, rapid.SampledFrom([]content{
			has(secrets, "secrets", object("a")), has(secrets, "secrets", deleted("a", "x")), unmoved(deployments, "deployments"),
			has(client.KindFor[*corev1.Pod](), "pods", graceful("web-0", 30)), {Kind: secrets, Resource: "secrets", Error: "list secrets: 500"},
		}).Draw(t, "content"))
	}
	return s
}

// Whatever a round has found, the namespace is released only if that was everything and nothing was left (NS-28, NS-36); what is not
// being deleted yet is deleted (NS-16); and a namespace that is not released is looked at again, within a minute (NS-5).
func TestAnyRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		p := planContent(now, plantest.Restored(t, s))
		released, deletes := false, 0
		for _, step := range p.Steps {
			switch step := step.(type) {
			case plan.Change:
				released = released || step.Subresource == finalize
			case plan.Each:
				deletes += len(step.Sequences)
			}
		}
		if released && (!s.Complete || len(s.Contents) > 0 || s.Discovery != nil) {
			t.Errorf("released: %+v", s)
		}
		undeleted := 0
		for _, c := range s.Contents {
			if c.Undeleted && s.held() {
				undeleted++
			}
		}
		if deletes != undeleted {
			t.Errorf("deletes %d of %d collections: %s", deletes, undeleted, p.Why)
		}
		if s.held() && !released && (p.Requeue <= 0 || p.Requeue > longestWait) {
			t.Errorf("it is looked at again after %v: %s", p.Requeue, p.Why)
		}
	})
}
