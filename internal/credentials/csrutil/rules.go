package csrutil

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// The group and the names of nodes, as kubelets use them.
const (
	nodesGroup = "system:nodes"
	nodePrefix = "system:node:"
)

// Violation returns why the signer that the request names may not sign it, empty if it may (CSR-22..25). Signers that
// are not those of Kubernetes allow nothing.
func Violation(signer string, usages []certificatesv1.KeyUsage, parsed *x509.CertificateRequest) string {
	switch signer {
	case certificatesv1.KubeletServingSignerName:
		return servingViolation(usages, parsed)
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return KubeletViolation(usages, parsed)
	case certificatesv1.KubeAPIServerClientSignerName:
		return clientViolation(usages)
	case LegacyUnknown:
		return ""
	}
	return fmt.Sprintf("the signer %q is not known", signer)
}

// LegacyUnknown is a signer that only old versions of the API know (CSR-25).
const LegacyUnknown = "kubernetes.io/legacy-unknown"

// Signers are the names of all signers that Kubernetes has itself.
func Signers() []string {
	return []string{
		certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName,
		certificatesv1.KubeAPIServerClientSignerName, LegacyUnknown,
	}
}

// KubeletViolation returns what keeps the request from being one for the client certificate of a kubelet, empty if
// nothing does (CSR-23). Of several reasons, this and servingViolation return the one that kube-controller-manager
// names.
func KubeletViolation(usages []certificatesv1.KeyUsage, parsed *x509.CertificateRequest) string {
	return cmp.Or(
		organizationViolation(parsed),
		forbidden("DNS", len(parsed.DNSNames)),
		forbidden("Email", len(parsed.EmailAddresses)),
		forbidden("IP", len(parsed.IPAddresses)),
		forbidden("URI", len(parsed.URIs)),
		commonNameViolation(parsed),
		usageViolation(usages, certificatesv1.UsageClientAuth),
	)
}

// servingViolation is the same for the certificate with which a kubelet serves (CSR-22).
func servingViolation(usages []certificatesv1.KeyUsage, parsed *x509.CertificateRequest) string {
	noAddress := ""
	if len(parsed.DNSNames)+len(parsed.IPAddresses) == 0 {
		noAddress = "DNS or IP subjectAltName is required"
	}
	return cmp.Or(
		organizationViolation(parsed),
		noAddress,
		forbidden("Email", len(parsed.EmailAddresses)),
		forbidden("URI", len(parsed.URIs)),
		usageViolation(usages, certificatesv1.UsageServerAuth),
		commonNameViolation(parsed),
	)
}

// organizationViolation says whether the subject is of another organization than nodes.
func organizationViolation(parsed *x509.CertificateRequest) string {
	if !slices.Equal(parsed.Subject.Organization, []string{nodesGroup}) {
		return "subject organization is not " + nodesGroup
	}
	return ""
}

// commonNameViolation says whether the subject is not named like a node.
func commonNameViolation(parsed *x509.CertificateRequest) string {
	if !strings.HasPrefix(parsed.Subject.CommonName, nodePrefix) {
		return "subject common name does not begin with " + nodePrefix
	}
	return ""
}

// forbidden says whether there are alternative names of a kind that must not be there.
func forbidden(kind string, names int) string {
	if names > 0 {
		return kind + " subjectAltNames are not allowed"
	}
	return ""
}

// usageViolation says whether the usages are others than those of a kubelet that has this purpose. The order does not
// matter, nor does repetition.
func usageViolation(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) string {
	allowed := []certificatesv1.KeyUsage{purpose, certificatesv1.UsageDigitalSignature,
		certificatesv1.UsageKeyEncipherment}
	foreign := func(u certificatesv1.KeyUsage) bool { return !slices.Contains(allowed, u) }
	if slices.ContainsFunc(usages, foreign) || !slices.Contains(usages, allowed[0]) ||
		!slices.Contains(usages, allowed[1]) {
		slices.Sort(allowed)
		return fmt.Sprintf("usages did not match %v", allowed)
	}
	return ""
}

// clientViolation says what keeps the usages from being those of any client of the API server (CSR-24).
func clientViolation(usages []certificatesv1.KeyUsage) string {
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return fmt.Sprintf("invalid usage for client certificate: %s", usage)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return "missing required usage for client certificate: " + string(certificatesv1.UsageClientAuth)
	}
	return ""
}
