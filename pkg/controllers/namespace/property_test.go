package namespace

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
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
	if rapid.Bool().Draw(t, "has conditions") {
		s.Namespace.Status = statusOf(now.Add(-time.Hour), snapshot{Namespace: s.Namespace}, plan.Outcome{})
	}
	if rapid.Bool().Draw(t, "discovery fails") {
		s.Discovery = &failure{Groups: 1, Message: "503"}
	}
	for range rapid.IntRange(0, 3).Draw(t, "contents") {
		s.Contents = append(s.Contents, rapid.SampledFrom([]content{
			has(secrets, "secrets", object("a")), has(secrets, "secrets", deleted("a", "x")), unmoved(deployments, "deployments"),
			has(client.KindFor[*corev1.Pod](), "pods", graceful("web-0", 30)),
			{Kind: secrets, Resource: "secrets", Error: "list secrets: 500"},
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
			if c.Undeleted && s.hasFinalizers() {
				undeleted++
			}
		}
		if deletes != undeleted {
			t.Errorf("deletes %d of %d collections: %s", deletes, undeleted, p.Why)
		}
		if s.hasFinalizers() && !released && (p.Requeue <= 0 || p.Requeue > longestWait) {
			t.Errorf("it is looked at again after %v: %s", p.Requeue, p.Why)
		}
	})
}

// A snapshot is data: stored and read back, it leads to the same plan and the same conditions.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		restored := plantest.Restored(t, s)
		plantest.Same(t, planContent(now, s), planContent(now, restored))
		plantest.Same(t, reportConditions(now, s, plan.Outcome{}), reportConditions(now, restored, plan.Outcome{}))
	})
}

// Neither plan nor report changes what was found.
func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before := plantest.Restored(t, s)
		planContent(now, s)
		reportConditions(now, s, plan.Outcome{})
		if diff := cmp.Diff(before, plantest.Restored(t, s)); diff != "" {
			t.Error(diff)
		}
	})
}

// The conditions are written once: where they say what was found, nothing is written.
func TestReportIsDoneAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		p := reportConditions(now, s, plan.Outcome{})
		if p.Empty() {
			return
		}
		s.Namespace = p.Steps[0].(plan.Change).New.(*corev1.Namespace)
		if again := reportConditions(now.Add(time.Second), s, plan.Outcome{}); !again.Empty() {
			t.Errorf("still to be written: %v", plantest.Writes(again))
		}
	})
}

// The cache only says which namespaces are being deleted. Whether a key is enqueued and looked at depends on nothing that it does not keep.
func TestIgnoresFieldsNotCached(test *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	must(err)
	rapid.Check(test, func(t *rapid.T) {
		draw := func(name string) *corev1.Namespace {
			ns := ending()
			plantest.Anything(rapid.Int64().Draw(t, "seed"))(ns)
			ns.Namespace, ns.Name = "", "shop"
			if ns.DeletionTimestamp = nil; rapid.Bool().Draw(t, name+" is being deleted") {
				ns.DeletionTimestamp = &metav1.Time{Time: now}
			}
			return ns
		}
		before, after := draw("before"), draw("after")
		if rapid.Bool().Draw(t, "the same") {
			before.UID = after.UID
		}
		thinBefore, thinAfter := plantest.Kept(t, kept, before), plantest.Kept(t, kept, after)
		if diff := cmp.Diff(terminating(before, after), terminating(thinBefore, thinAfter)); diff != "" {
			t.Errorf("other keys are enqueued: %s", diff)
		}
		cached := watch(test, after)
		whole := observe(cached)
		must(cached.observer.cached.Informer().GetStore().Update(thinAfter))
		thin := observe(cached)
		if whole.Exists != thin.Exists || whole.Exists != (after.DeletionTimestamp != nil) {
			t.Fatalf("looked at: %t, and by what is cached %t", whole.Exists, thin.Exists)
		}
		if whole.Exists {
			plantest.Same(t, planContent(now, whole.Snapshot), planContent(now, thin.Snapshot))
		}
	})
}

// observe looks at the namespace once, with nothing remembered.
func observe(w *watching) observation {
	o, err := w.observer.observe(context.Background(), reconcile.Request[memory]{Key: plan.Key{Name: "shop"}, Now: now, Reader: w.server})
	must(err)
	return o
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
