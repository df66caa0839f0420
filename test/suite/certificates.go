package suite

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// The controllers of requests for certificates share these operations and checks.

type signingRequest = certificatesv1.CertificateSigningRequest

// requestKind is the label that says which of these a request is.
const (
	requestKind = "request-kind"
	kubelet     = "kubelet" // one for the client certificate of a kubelet
	serving     = "serving" // one for a certificate with which a kubelet serves, which people approve
	stranger    = "strange" // like that of a kubelet, but of another organization
	purposes    = "purpose" // like that of a kubelet, for another purpose
	foreign     = "foreign" // one for a signer that is not one of Kubernetes
)

var requestKinds = []string{kubelet, serving, stranger, purposes, foreign}

// pemRequests are requests for each kind, in PEM. They are the same for all simulations of a process.
var pemRequests = sync.OnceValue(func() map[string][]byte {
	all := map[string][]byte{}
	for _, kind := range requestKinds {
		template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}
		switch kind {
		case serving:
			template.DNSNames = []string{"n"}
		case stranger:
			template.Subject.Organization = []string{"system:masters"}
		}
		key, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		der, err2 := x509.CreateCertificateRequest(rand.Reader, template, key)
		if err := errors.Join(err1, err2); err != nil {
			panic(err) // no test can go on without
		}
		all[kind] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	return all
})

// newRequest returns a request of a kind.
func (u *User) newRequest(name, kind string) *signingRequest {
	r := &signingRequest{ObjectMeta: metav1.ObjectMeta{Name: u.unique(name), Labels: map[string]string{requestKind: kind}}}
	u.mark(r)
	r.Spec.Request = pemRequests()[kind]
	r.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	switch kind {
	case serving:
		r.Spec.SignerName = certificatesv1.KubeletServingSignerName
		r.Spec.Usages[1] = certificatesv1.UsageServerAuth
	case purposes:
		r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageCertSign)
	case foreign:
		r.Spec.SignerName = "example.com/signer"
	}
	return r
}

// request makes a request, changes its labels or deletes it.
func request(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*signingRequest](u, name)
	case "label":
		return edit(u, name, func(r *signingRequest) { r.Labels["edited"] = time.Now().Format("150405") })
	}
	kind, _ := l.Get("kind")
	r := u.newRequest(l.Arg(0), kind)
	if seconds, ok := l.Int("seconds"); ok {
		asked := int32(seconds)
		r.Spec.ExpirationSeconds = &asked
	}
	return create(u, r)
}

// decide approves or denies a request, as if that was some time ago.
func decide(u *User, l script.Line) error {
	ago, _ := l.Int("ago")
	do, _ := l.Get("do")
	return u.decide(l.Arg(0), do, ago)
}

// decide approves or denies a request, as if that was so many seconds ago.
func (u *User) decide(name, do string, ago int) error {
	return edit(u, u.unique(name), func(r *signingRequest) { decideRequest(r, do, ago) }, "approval")
}

// decideRequest adds the condition by which a request is approved or denied, unless it was decided.
func decideRequest(r *signingRequest, do string, ago int) {
	if len(r.Status.Conditions) > 0 {
		return
	}
	kind := certificatesv1.CertificateApproved
	if do == "deny" {
		kind = certificatesv1.CertificateDenied
	}
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		// as it is sent
		Type: kind, Status: corev1.ConditionTrue, Reason: "People",
		LastUpdateTime: metav1.NewTime(time.Now().Truncate(time.Second).Add(-time.Duration(ago) * time.Second)),
	})
}

// refusal is the ConfigMap that says that nobody may have a certificate, while it is there. It stands for the roles that are missing.
const refusal = "no-certificates"

// permission grants or revokes the right to get certificates.
func permission(u *User, l script.Line) error {
	system := u.in(metav1.NamespaceSystem)
	err := u.machines().Authorize(func() bool {
		_, err := get[*corev1.ConfigMap](system, refusal)
		return err != nil
	})
	if err != nil {
		return err
	}
	if do, _ := l.Get("do"); do == "grant" {
		return remove[*corev1.ConfigMap](system, refusal)
	}
	return create(system, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: refusal}})
}

func requestCondition(r *signingRequest, kind certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	i := slices.IndexFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &r.Status.Conditions[i]
}

// approvalsSettled says which requests should have been approved, and which should not (CSR-29, CSR-31, CSR-33).
func approvalsSettled(s *View) (wrong []string) {
	refused := one[*corev1.ConfigMap](s, metav1.NamespaceSystem, refusal) != nil
	for _, r := range subjects[*signingRequest](s) {
		if !refused && r.Labels[requestKind] == kubelet && len(r.Status.Conditions) == 0 {
			wrong = append(wrong, fmt.Sprintf("the request %s was not approved", r.Name))
		}
	}
	for _, e := range s.writes("certificatesigningrequests") {
		before, _ := e.Before.(*signingRequest)
		after, _ := e.Object.(*signingRequest)
		if e.Deleted || before == nil || after == nil || requestCondition(after, certificatesv1.CertificateApproved) == nil {
			continue
		}
		if requestCondition(before, certificatesv1.CertificateApproved) != nil {
			continue
		}
		if after.Labels[requestKind] != kubelet || len(before.Status.Conditions) > 0 {
			wrong = append(wrong, fmt.Sprintf("the request %s (%s) was approved", after.Name, after.Labels[requestKind]))
		}
		for _, o := range s.past("configmaps", e.Version) {
			if o.GetName() == refusal && e.Time.Sub(o.GetCreationTimestamp().Time) > time.Minute {
				wrong = append(wrong, fmt.Sprintf("the request %s was approved, though nobody may have certificates", after.Name))
			}
		}
	}
	return wrong
}

// certificatesSettled says which certificates should have been issued, which should not, and what is wrong with them (CSR-15..20).
func certificatesSettled(s *View) (wrong []string) {
	for _, r := range subjects[*signingRequest](s) {
		kind := r.Labels[requestKind]
		failed, issued := requestCondition(r, certificatesv1.CertificateFailed), len(r.Status.Certificate) > 0
		approved := requestCondition(r, certificatesv1.CertificateApproved) != nil
		signable := kind == kubelet || kind == serving
		if kind == "" {
			continue
		}
		if want := approved && signable; issued != want {
			wrong = append(wrong, fmt.Sprintf("the request %s (%s), approved: %t, has a certificate: %t", r.Name, kind, approved, issued))
		}
		if want := approved && !signable && kind != foreign; want != (failed != nil) {
			wrong = append(wrong, fmt.Sprintf("the request %s (%s), approved: %t, was given up: %t", r.Name, kind, approved, failed != nil))
		}
		if issued {
			wrong = append(wrong, certificateWrong(s, r)...)
		}
	}
	return wrong
}

// certificateWrong says what is wrong with the certificate of a request.
func certificateWrong(s *View, r *signingRequest) (wrong []string) {
	tell := func(format string, values ...any) {
		wrong = append(wrong, "the certificate of "+r.Name+" "+fmt.Sprintf(format, values...))
	}
	authority, err := os.ReadFile(s.Authority())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	block, rest := pem.Decode(r.Status.Certificate)
	if block == nil || len(rest) > 0 || err != nil {
		return []string{"the certificate of " + r.Name + " is not one block of PEM"}
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return []string{err.Error()}
	}
	purpose := x509.ExtKeyUsageClientAuth
	if r.Labels[requestKind] == serving {
		purpose = x509.ExtKeyUsageServerAuth
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{purpose},
		CurrentTime: c.NotBefore.Add(time.Minute)}); err != nil {
		tell("cannot be verified: %v", err)
	}
	if !slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{purpose}) || c.IsCA || !strings.HasPrefix(c.Subject.CommonName, "system:node:") {
		tell("is for %v, %s", c.ExtKeyUsage, c.Subject)
	}
	lifetime := 365 * 24 * time.Hour
	if r.Spec.ExpirationSeconds != nil {
		lifetime = time.Duration(*r.Spec.ExpirationSeconds) * time.Second
	}
	if lasts := c.NotAfter.Sub(c.NotBefore); lasts < lifetime || lasts > lifetime+5*time.Minute {
		tell("is valid for %v, want %v", lasts, lifetime)
	}
	return wrong
}

// cleaningSettled says which requests should be gone, and which were deleted too soon (CSR-36..40).
func cleaningSettled(s *View) (wrong []string) {
	const tolerance = 5 * time.Second
	for _, r := range subjects[*signingRequest](s) {
		if end, ok := endOfRequest(r); ok && time.Since(end) > tolerance {
			wrong = append(wrong, fmt.Sprintf("the request %s should have been deleted at %v", r.Name, end))
		}
	}
	for _, e := range s.writes("certificatesigningrequests") {
		before, _ := e.Before.(*signingRequest)
		if !e.Deleted || before == nil {
			continue
		}
		if end, ok := endOfRequest(before); !ok || e.Time.Before(end) {
			wrong = append(wrong, fmt.Sprintf("the request %s was deleted at %v, its time is %v", before.Name, e.Time, end))
		}
	}
	return wrong
}

// endOfRequest is when a request has come to its end.
func endOfRequest(r *signingRequest) (time.Time, bool) {
	if len(r.Status.Conditions) == 0 {
		return r.CreationTimestamp.Add(24 * time.Hour), true
	}
	var end time.Time
	for _, c := range r.Status.Conditions {
		after := time.Hour
		if c.Type == certificatesv1.CertificateApproved && len(r.Status.Certificate) == 0 {
			after = 24 * time.Hour
		}
		if at := c.LastUpdateTime.Add(after); end.IsZero() || at.Before(end) {
			end = at
		}
	}
	return end, true
}
