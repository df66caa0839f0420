package csrcleaner

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is a request that is not being deleted. Observe fills it, and planDeletion reads it. The object
// belongs to a shared cache.
type snapshot struct {
	Request *csrutil.Request
}

const (
	decided   = time.Hour      // how long a request stays that was answered, one way or the other (CSR-36..38)
	undecided = 24 * time.Hour // how long one stays that nobody has answered (CSR-39, CSR-40)

	// longestWait is after how long a request that waits is looked at again, so that the timers of requests that are
	// deleted before their time do not add up.
	longestWait = 24 * time.Hour
)

// end is a time at which a request is to be deleted, and why. A request may have several, of which the first
// counts.
type end struct {
	At  time.Time
	Why string
}

// ends returns the times at which the request is to be deleted, if nothing happens to it until then. A time that
// nobody has set is none (CSR-42).
func ends(r *csrutil.Request) (all []end) {
	add := func(from time.Time, after time.Duration, why string) {
		if !from.IsZero() {
			all = append(all, end{from.Add(after), why})
		}
	}
	issued := len(r.Status.Certificate) > 0
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		updated := c.LastUpdateTime.Time
		switch {
		case c.Type == certificatesv1.CertificateApproved && issued:
			add(updated, decided, "it was approved, and the certificate was issued")
		case c.Type == certificatesv1.CertificateApproved:
			add(updated, undecided, "it was approved, but no signer has issued a certificate")
		case c.Type == certificatesv1.CertificateDenied:
			add(updated, decided, "it was denied")
		case c.Type == certificatesv1.CertificateFailed:
			add(updated, decided, "its signer has given it up")
		}
	}
	if len(r.Status.Conditions) == 0 {
		add(r.CreationTimestamp.Time, undecided, "nobody has approved or denied it")
	}
	if issued && csrutil.Has(r, certificatesv1.CertificateApproved) {
		add(expiry(r.Status.Certificate), 0, "the certificate has expired")
	}
	return all
}

// expiry returns when the first of the certificates expires; zero if that is not known.
func expiry(text []byte) time.Time {
	block, _ := pem.Decode(text)
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}

// first returns the first of the times at which the request is to be deleted; false if there is none.
func (s snapshot) first() (soonest end, ok bool) {
	for _, e := range ends(s.Request) {
		if !ok || e.At.Before(soonest.At) {
			soonest, ok = e, true
		}
	}
	return soonest, ok
}

// planDeletion deletes a request that has come to its end. The preconditions are its uid and its version, so that one
// that has changed meanwhile, or was made anew, is looked at again and not deleted.
func planDeletion(now time.Time, s snapshot) plan.Plan {
	if s.Request == nil || s.Request.DeletionTimestamp != nil {
		return plan.Plan{Why: "the request is gone, or is being deleted"}
	}
	e, ok := s.first()
	switch {
	case !ok:
		return plan.Plan{Why: "nothing tells when the request has come to its end"}
	case e.At.After(now):
		return plan.Plan{Why: "is deleted at " + e.At.UTC().Format(time.RFC3339) + ", because " + e.Why,
			Requeue: min(e.At.Sub(now), longestWait)}
	}
	return plan.Plan{Why: "delete the request: " + e.Why, Steps: []plan.Step{
		plan.Delete{Objects: []plan.Object{s.Request}, CheckVersion: true, Why: e.Why},
	}}
}
