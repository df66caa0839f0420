package reconcile

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// A controller that changes an object and reports the status that follows needs one reconcile for both, without a conflict and without
// waiting for its cache in between.
func TestObjectThenStatusInOneReconcile(t *testing.T) {
	for _, method := range []client.Method{client.MethodPatch, client.MethodUpdate} {
		inBubble(t, func(t *testing.T, w *world) {
			w.access = func(a *Access) { a.Method = func(schema.GroupResource, string) client.Method { return method } }
			w.decide = func(s toy) plan.Plan {
				if s.set.Annotations["seen"] != "" {
					return plan.Plan{}
				}
				seen := s.set.DeepCopy()
				seen.Annotations = map[string]string{"seen": "yes"}
				return plan.Plan{Steps: []plan.Step{plan.Change{Old: s.set, New: seen, CheckVersion: true}}}
			}
			w.adjust = func(c *Controller[toy, struct{}, int]) {
				c.Report = func(_ time.Time, s toy, _ struct{}, did plan.Outcome) plan.Plan {
					set := s.set
					for _, r := range did.Results {
						set = r.Object.(*appsv1.ReplicaSet)
					}
					if set.Status.ObservedGeneration == 7 {
						return plan.Plan{}
					}
					status := set.DeepCopy()
					status.Status.ObservedGeneration = 7
					return plan.Plan{Steps: []plan.Step{plan.Change{Old: set, New: status, Subresource: plan.Status}}}
				}
			}
			w.start()
			w.put("a", 0)
			w.settle()
			set, err := w.get("a")
			if err != nil || set.Annotations["seen"] != "yes" || set.Status.ObservedGeneration != 7 {
				t.Errorf("%s: %+v, %v", method, set, err)
			}
			if n := w.counted(string(Wrote)); n != 1 || w.counted("retry") > 0 || w.counted(string(Failed)) > 0 {
				t.Errorf("%s: %d reconciles that wrote, %v", method, n, w.counts)
			}
			if n := w.counted(string(method) + " replicasets 200"); n != 2 {
				t.Errorf("%s: %d writes, %v", method, n, w.Log())
			}
		})
	}
}
