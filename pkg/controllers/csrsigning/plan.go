package csrsigning

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a request has observed. The object belongs to a shared cache.
type snapshot struct {
	Request     *csrutil.Request
	Certificate []byte // that was signed for the request, in PEM; nil if it may not be signed
}

// planCertificate writes the certificate that was signed, or gives up a request that can never be signed.
func planCertificate(now time.Time, s snapshot) plan.Plan {
	if s.Request == nil || !candidate(s.Request) {
		return plan.Plan{Why: "there is nothing to sign"}
	}
	_, violation := read(s.Request)
	after := s.Request.DeepCopy()
	var why string
	switch {
	case violation != "": // CSR-16
		why = "give the request up: " + violation
		after.Status.Conditions = append(after.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: violation,
			LastUpdateTime: metav1.NewTime(now),
		})
	case len(s.Certificate) > 0: // CSR-17
		why = "issue the certificate"
		after.Status.Certificate = s.Certificate
	default:
		return plan.Plan{Why: "no certificate was signed"}
	}
	return plan.Plan{Why: why, Steps: []plan.Step{plan.Change{Old: s.Request, New: after, Subresource: plan.Status, Why: why}}}
}
