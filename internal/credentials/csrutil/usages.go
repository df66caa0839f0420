package csrutil

import (
	"crypto/x509"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Usages returns what the usages of a request are in a certificate: the usages of the key, and the purposes, sorted
// (CSR-18, CSR-27, CSR-28). A name that is not known is an error.
func Usages(names []certificatesv1.KeyUsage) (key x509.KeyUsage, purposes []x509.ExtKeyUsage, err error) {
	var unknown []certificatesv1.KeyUsage
	for _, name := range names {
		if bit, ok := keyUsage(name); ok {
			key |= bit
		} else if purpose, ok := extendedUsage(name); ok {
			purposes = append(purposes, purpose)
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return 0, nil, fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	slices.Sort(purposes)
	return key, slices.Compact(purposes), nil
}

// keyUsage returns the usage of a key that a name of the API stands for, if it stands for one.
func keyUsage(name certificatesv1.KeyUsage) (x509.KeyUsage, bool) {
	switch name {
	case certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature:
		return x509.KeyUsageDigitalSignature, true
	case certificatesv1.UsageContentCommitment:
		return x509.KeyUsageContentCommitment, true
	case certificatesv1.UsageKeyEncipherment:
		return x509.KeyUsageKeyEncipherment, true
	case certificatesv1.UsageKeyAgreement:
		return x509.KeyUsageKeyAgreement, true
	case certificatesv1.UsageDataEncipherment:
		return x509.KeyUsageDataEncipherment, true
	case certificatesv1.UsageCertSign:
		return x509.KeyUsageCertSign, true
	case certificatesv1.UsageCRLSign:
		return x509.KeyUsageCRLSign, true
	case certificatesv1.UsageEncipherOnly:
		return x509.KeyUsageEncipherOnly, true
	case certificatesv1.UsageDecipherOnly:
		return x509.KeyUsageDecipherOnly, true
	}
	return 0, false
}

// extendedUsage returns the purpose of a certificate that a name of the API stands for, if it stands for one.
func extendedUsage(name certificatesv1.KeyUsage) (x509.ExtKeyUsage, bool) {
	switch name {
	case certificatesv1.UsageAny:
		return x509.ExtKeyUsageAny, true
	case certificatesv1.UsageServerAuth:
		return x509.ExtKeyUsageServerAuth, true
	case certificatesv1.UsageClientAuth:
		return x509.ExtKeyUsageClientAuth, true
	case certificatesv1.UsageCodeSigning:
		return x509.ExtKeyUsageCodeSigning, true
	case certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME:
		return x509.ExtKeyUsageEmailProtection, true
	case certificatesv1.UsageIPsecEndSystem:
		return x509.ExtKeyUsageIPSECEndSystem, true
	case certificatesv1.UsageIPsecTunnel:
		return x509.ExtKeyUsageIPSECTunnel, true
	case certificatesv1.UsageIPsecUser:
		return x509.ExtKeyUsageIPSECUser, true
	case certificatesv1.UsageTimestamping:
		return x509.ExtKeyUsageTimeStamping, true
	case certificatesv1.UsageOCSPSigning:
		return x509.ExtKeyUsageOCSPSigning, true
	case certificatesv1.UsageMicrosoftSGC:
		return x509.ExtKeyUsageMicrosoftServerGatedCrypto, true
	case certificatesv1.UsageNetscapeSGC:
		return x509.ExtKeyUsageNetscapeServerGatedCrypto, true
	}
	return 0, false
}
