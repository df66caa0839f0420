package csrutil

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request is what the controllers work on.
type Request = certificatesv1.CertificateSigningRequest

// Kind is that of requests.
func Kind() schema.GroupVersionKind {
	return certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest")
}

// Parse reads the one PEM block of a request (CSR-7), and checks that who asks has the private key (CSR-18). Other
// text may stand before and after the block: the API server and kube-controller-manager accept that, too.
func Parse(request []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("the request is not a PEM block of the type CERTIFICATE REQUEST")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("the request has more than one PEM block")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the request is not signed with its own key: %w", err)
	}
	return parsed, nil
}

// Has reports whether the request has a condition of the type. Its status is not looked at: the API server admits no
// other than True for approvals and denials (CSR-6).
func Has(r *Request, kind certificatesv1.RequestConditionType) bool {
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == kind {
			return true
		}
	}
	return false
}

// Approved reports whether a certificate may be issued (CSR-6).
func Approved(r *Request) bool {
	return Has(r, certificatesv1.CertificateApproved) && !Has(r, certificatesv1.CertificateDenied)
}

// Decided reports whether somebody has approved or denied the request.
func Decided(r *Request) bool {
	return Has(r, certificatesv1.CertificateApproved) || Has(r, certificatesv1.CertificateDenied)
}

// Failed reports whether a signer has given the request up (CSR-15).
func Failed(r *Request) bool {
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.Type == certificatesv1.CertificateFailed && (c.Status == corev1.ConditionTrue || c.Status == "") {
			return true
		}
	}
	return false
}
