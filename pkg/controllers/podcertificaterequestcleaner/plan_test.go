package podcertificaterequestcleaner

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*certificatesv1.PodCertificateRequest)

// newRequest is one of the pod web-0 that was made so long before epoch.
func newRequest(ago time.Duration, edits ...edit) *certificatesv1.PodCertificateRequest {
	r := &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0-x", UID: "uid-x", CreationTimestamp: metav1.NewTime(epoch.Add(-ago))},
		Spec:       certificatesv1.PodCertificateRequestSpec{SignerName: "example.com/s", PodName: "web-0"},
	}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

// is has a condition that says what became of a request.
func is(condition string) edit {
	return func(r *certificatesv1.PodCertificateRequest) {
		r.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch)}}
	}
}

func leaving(r *certificatesv1.PodCertificateRequest) {
	r.DeletionTimestamp = &metav1.Time{Time: epoch}
}

func undated(r *certificatesv1.PodCertificateRequest) { r.CreationTimestamp = metav1.Time{} }

func called(name string) edit {
	return func(r *certificatesv1.PodCertificateRequest) { r.Name, r.UID = name, types.UID("uid-"+name) }
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name    string
		request *certificatesv1.PodCertificateRequest
		deletes bool
		next    time.Duration
	}{
		{"CSR-43 made a quarter of an hour ago", newRequest(15 * time.Minute), true, 0},
		{"CSR-43 made long ago", newRequest(1000 * time.Hour), true, 0},
		{"CSR-43 made less than a quarter of an hour ago", newRequest(15*time.Minute - time.Second), false, time.Second},
		{"CSR-43 made just now", newRequest(0), false, 15 * time.Minute},
		{"PCC-1 issued, and as old", newRequest(15*time.Minute, is("Issued")), true, 0},
		{"PCC-1 denied, and as old", newRequest(15*time.Minute, is("Denied")), true, 0},
		{"PCC-1 issued, and younger", newRequest(14*time.Minute, is("Issued")), false, time.Minute},
		{"PCC-1 failed, and younger", newRequest(14*time.Minute, is("Failed")), false, time.Minute},
		{"made by a server whose clock is ahead", newRequest(-time.Minute), false, 16 * time.Minute},
		{"nobody says when it was made", newRequest(time.Hour, undated), false, 0},
		{"it is being deleted", newRequest(time.Hour, leaving), false, 0},
		{"it is gone", nil, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planDeletion(epoch, snapshot{c.request})
			if p.Why == "" || p.Requeue != c.next || p.Empty() == c.deletes {
				t.Fatalf("%+v", p)
			}
			if c.deletes {
				if d := p.Steps[0].(plan.Delete); len(p.Steps) != 1 || len(d.Objects) != 1 || d.Objects[0] != plan.Object(c.request) {
					t.Errorf("%+v", p.Steps)
				}
			}
		})
	}
}
