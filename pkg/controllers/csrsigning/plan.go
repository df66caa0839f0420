package csrsigning

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is a request that is approved and not signed. Observe fills it, and planCertificate reads it. The
// object belongs to a shared cache.
type snapshot struct {
	Request *csrutil.Request
}

// certificate is what is put in when a request is signed.
const certificate = "certificate"

// planCertificate has the request signed, or gives up a request that can never be signed.
func planCertificate(now time.Time, s snapshot) plan.Plan {
	if s.Request == nil || !candidate(s.Request) {
		return plan.Plan{Why: "there is nothing to sign"}
	}
	_, violation := read(s.Request)
	if violation == "" {
		const why = "issue the certificate"
		return plan.Plan{Why: why, Steps: []plan.Step{plan.Change{
			Old: s.Request, New: s.Request, Sign: []string{certificate}, Subresource: plan.Status, Why: why,
		}}}
	}
	after := s.Request.DeepCopy()
	why := "give the request up: " + violation
	after.Status.Conditions = append(after.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure",
		Message:        violation,
		LastUpdateTime: metav1.NewTime(now),
	})
	return plan.Plan{Why: why,
		Steps: []plan.Step{plan.Change{Old: s.Request, New: after, Subresource: plan.Status, Why: why}}}
}
