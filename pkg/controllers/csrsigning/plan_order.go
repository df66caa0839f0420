package csrsigning

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
)

const (
	backdate = 5 * time.Minute  // so that a certificate is valid where the clock is a little late (CSR-20)
	least    = 10 * time.Minute // the shortest lifetime (CSR-19)
	short    = 8 * time.Hour    // certificates of a shorter lifetime end as late as they were asked for (CSR-20)
)

// order is what a request asks for, when nothing is wrong with it. The function read makes it; the plan needs
// only to know that there is one, and sign makes the certificate of it.
type order struct {
	// Request is what the request has in PEM, read.
	Request *x509.CertificateRequest
	// Usage and Purposes are what the certificate may be used for.
	Usage    x509.KeyUsage
	Purposes []x509.ExtKeyUsage
	// Asked is the lifetime that the request names, in seconds; nil if it names none.
	Asked *int32
}

// read returns what the request asks for, or why it can never be signed: what is wrong with it does not change
// (CSR-16, CSR-52).
func read(r *csrutil.Request) (o *order, violation string) {
	parsed, err := csrutil.Parse(r.Spec.Request)
	if err != nil {
		return nil, err.Error()
	}
	if violation := csrutil.Violation(r.Spec.SignerName, r.Spec.Usages, parsed); violation != "" {
		return nil, violation
	}
	usage, purposes, err := csrutil.Usages(r.Spec.Usages)
	if err != nil {
		return nil, err.Error()
	}
	return &order{parsed, usage, purposes, r.Spec.ExpirationSeconds}, ""
}

// lifetime returns for how long the certificate is to be valid (CSR-19).
func (o *order) lifetime(longest time.Duration) time.Duration {
	if o.Asked == nil {
		return longest
	}
	switch asked := workloads.Seconds(*o.Asked); {
	case asked > longest:
		return longest
	case asked < least:
		return least
	default:
		return asked
	}
}

// template returns the certificate without its serial number (CSR-18, CSR-20). It takes the subject as it was
// understood, and not its bytes: nobody may understand it in another way than who has allowed it.
func (o *order) template(now time.Time, longest time.Duration, end time.Time) *x509.Certificate {
	lifetime := o.lifetime(longest)
	from, until := now.Add(-backdate), now.Add(lifetime)
	if lifetime >= short {
		until = until.Add(-backdate)
	}
	if until.After(end) {
		until = end
	}
	return &x509.Certificate{
		Subject: o.Request.Subject, DNSNames: o.Request.DNSNames, IPAddresses: o.Request.IPAddresses,
		EmailAddresses: o.Request.EmailAddresses, URIs: o.Request.URIs,
		NotBefore: from.UTC(), NotAfter: until.UTC(),
		KeyUsage: o.Usage, ExtKeyUsage: o.Purposes, BasicConstraintsValid: true,
	}
}

// candidate reports whether a certificate is to be issued for the request (CSR-4, CSR-15). The requests of other
// signers than those of Kubernetes are left alone (CSR-26).
func candidate(r *csrutil.Request) bool {
	return len(r.Status.Certificate) == 0 && csrutil.Approved(r) && !csrutil.Failed(r) &&
		slices.Contains(csrutil.Signers(), r.Spec.SignerName)
}
