package csrapproving

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/internal/testing/csrtest"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// draw is any snapshot.
func draw(t *rapid.T) snapshot {
	r := csrtest.Kubelet()
	if rapid.Bool().Draw(t, "anything") {
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(r)
	}
	for _, kind := range rapid.SliceOfN(rapid.SampledFrom([]string{"Approved", "Denied", "Failed", "x"}), 0, 2).Draw(t, "conditions") {
		csrtest.Condition(certificatesv1.RequestConditionType(kind), epoch)(r)
	}
	return snapshot{
		Request: r, Allowed: rapid.Bool().Draw(t, "allowed"), Message: "m",
		Next: epoch.Add(time.Duration(rapid.IntRange(-10, 10).Draw(t, "next")) * time.Second),
	}
}

// Whatever the request is: planning does not panic or change it.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		before := s.Request.DeepCopy()
		p := planApproval(epoch, s)
		if diff := cmp.Diff(before, s.Request); diff != "" || p.Requeue < 0 {
			t.Errorf("requeue %v, changed: %s", p.Requeue, diff)
		}
	})
}

// Only what was allowed, is undecided and looks like a kubelet's is approved. When the plan was carried out, nothing is left to do.
func TestApprovesOnlyKubelets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		p := planApproval(epoch, s)
		if p.Empty() {
			return
		}
		_, violation := questions(s.Request)
		if !s.Allowed || csrutil.Decided(s.Request) || violation != "" ||
			s.Request.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
			t.Errorf("%s: %+v", p.Why, s.Request)
		}
		s.Request = p.Steps[0].(plan.Change).New.(*csrutil.Request)
		if again := planApproval(epoch, s); !again.Empty() {
			t.Errorf("it is not done: %s", again.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if diff := cmp.Diff(planApproval(epoch, s).Why, planApproval(epoch, plantest.Restored(t, s)).Why); diff != "" {
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
		o, err := kept.Project(s.Request.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		whole := planApproval(epoch, s)
		s.Request = o.(*csrutil.Request)
		if p := planApproval(epoch, s); p.Why != whole.Why {
			t.Errorf("%s, and with what is cached: %s", whole.Why, p.Why)
		}
	})
}

// BenchmarkPlan plans an approval.
func BenchmarkPlan(b *testing.B) {
	s := snapshot{Request: csrtest.Kubelet(), Allowed: true}
	for b.Loop() {
		if p := planApproval(epoch, s); p.Empty() {
			b.Fatal(p.Why)
		}
	}
}
