package podcertificaterequestcleaner

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// draw is any request.
func draw(t *rapid.T) *certificatesv1.PodCertificateRequest {
	r := newRequest(time.Duration(rapid.IntRange(-10, 40).Draw(t, "age")) * time.Minute)
	if rapid.Bool().Draw(t, "anything") {
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(r)
	}
	if r.ManagedFields, r.GenerateName = nil, ""; rapid.Bool().Draw(t, "stays") { // no cache has these fields
		r.DeletionTimestamp = nil
	}
	rapid.SampledFrom([]edit{is("Issued"), is("Denied"), is("Failed"), undated, func(*certificatesv1.PodCertificateRequest) {}}).Draw(t, "state")(r)
	return r
}

// CSR-43: nothing is deleted before its time, and the next look is when it is deleted.
func TestDeletedWhenDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot{draw(t)}
		p := planDeletion(epoch, s)
		if age := epoch.Sub(s.Request.CreationTimestamp.Time); age < 15*time.Minute && !p.Empty() {
			t.Errorf("%s: %v old", p.Why, age)
		}
		if p.Requeue <= 0 {
			return
		}
		if early := planDeletion(epoch.Add(p.Requeue-1), s); !early.Empty() {
			t.Error("deleted early:", early.Why)
		}
		if due := planDeletion(epoch.Add(p.Requeue), s); due.Empty() {
			t.Error("not deleted when it is due:", due.Why)
		}
	})
}

// PCC-1: what became of a request, and what it asks for, does not matter.
func TestOnlyTheAgeCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t)
		bare := newRequest(0)
		bare.ObjectMeta = r.ObjectMeta
		plantest.Same(t, planDeletion(epoch, snapshot{r}), planDeletion(epoch, snapshot{bare}))
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot{draw(t)}
		plantest.Same(t, planDeletion(epoch, s), planDeletion(epoch, plantest.Restored(t, s)))
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t)
		plantest.Same(t, planDeletion(epoch, snapshot{r}), planDeletion(epoch, snapshot{plantest.Kept(t, kept, r)}))
	})
}
