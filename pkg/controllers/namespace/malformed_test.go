package namespace

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever the namespace and the objects in it are, neither plan nor report panics. A namespace in which something is left is not
// released, and all that is not being deleted yet is deleted.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		s := drawSnapshot(t)
		finalizers := s.Namespace.Spec.Finalizers
		fill(s.Namespace)
		if rapid.Bool().Draw(t, "own finalizers") {
			s.Namespace.Spec.Finalizers, s.Namespace.Finalizers = finalizers, nil
		}
		s.Contents = nil
		undeleted, all := 0, 0
		for range rapid.IntRange(0, 3).Draw(t, "kinds") {
			c := content{}
			fill(&c.Kind)
			if rapid.Bool().Draw(t, "is known") {
				c.Kind, c.Resource = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "secrets"
			}
			for range rapid.IntRange(0, 4).Draw(t, "objects") {
				o := &metav1.PartialObjectMetadata{}
				fill(o)
				if rapid.IntRange(0, 5).Draw(t, "is left alone") < 4 {
					o.DeletionTimestamp = &metav1.Time{Time: now}
				}
				c.add(o)
				all++
			}
			if c.Undeleted {
				undeleted++
			}
			s.Contents = append(s.Contents, c)
		}
		p := planContent(now, s)
		if p.Requeue < 0 || p.Why == "" {
			t.Errorf("again in %v: %q", p.Requeue, p.Why)
		}
		deletes := 0
		for _, step := range p.Steps {
			switch step := step.(type) {
			case plan.Each:
				deletes += len(step.Sequences)
			case plan.Change:
				if all > 0 {
					t.Errorf("released with %d objects: %v", all, plantest.Writes(p))
				}
			}
		}
		if s.hasFinalizers() && deletes != undeleted {
			t.Errorf("of %d collections %d are deleted: %s", undeleted, deletes, p.Why)
		}
		reportConditions(now, s, plan.Outcome{})
	})
}

// A namespace without anything is no reason to panic either.
func TestEmptyNamespace(t *testing.T) {
	s := snapshot{Namespace: &corev1.Namespace{}}
	if p := planContent(now, s); !p.Empty() || !reportConditions(now, s, plan.Outcome{}).Empty() {
		t.Errorf("%+v", p)
	}
}
