package tokencleaner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Whatever a Secret is, nothing panics, and one that is no bootstrap token is not asked about.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &corev1.Secret{}
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(s)
		if rapid.Bool().Draw(t, "of the namespace") {
			s.Namespace = "kube-system"
		}
		if keys := enqueuedBySecret(nil, s); len(keys) > 0 && s.Type != "bootstrap.kubernetes.io/token" {
			t.Errorf("%v", keys)
		}
		p := planDeletion(epoch, observed(t, s))
		applied(t.Context(), observed(t, s), struct{}{}, plan.Outcome{Results: []plan.Result{{Verb: plan.Deleted, Object: s}}},
			plan.Outcome{})
		if p.Requeue < 0 || p.Why == "" {
			t.Errorf("%+v", p)
		}
	})
}
