package credentials

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/standalone-kcm/controller-manager/internal/files"
)

// OpenRootCA returns the certificate authorities in PEM, byte for byte as the file of that name has them (TOK-3).
// Without a file they are those by which the client verifies the API server; they are empty if it does so by those of
// the system, or not at all. It fails if the file cannot be read, or has no certificate.
func OpenRootCA(path string, client *rest.Config) (*files.File[string], error) {
	if path != "" {
		f, err := files.Open(path, parseCertificates)
		if err != nil {
			return nil, fmt.Errorf("error parsing root-ca-file at %s: %w", path, err)
		}
		return f, nil
	}
	if client == nil {
		return files.Fixed(""), nil
	}
	if data := client.CAData; len(data) > 0 || client.CAFile == "" { // client-go prefers the data, too
		return files.Fixed(string(data)), nil
	}
	f, err := files.Open(client.CAFile, parseCertificates)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities of the API server at %s: %w", client.CAFile, err)
	}
	return f, nil
}

// AuthoritativeRootCA reports whether the file of that name says what pods should have. Without a file nothing does: a
// kubeconfig may reach the API server through a proxy with an authority of its own. Neither does what the kubelet has
// projected into a pod of this manager: that is what was published before.
func AuthoritativeRootCA(path string) bool {
	return path != "" && !slices.Contains(projected, filepath.Clean(path))
}

// projected is where pods find the authorities that are published.
var projected = []string{"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
	"/run/secrets/kubernetes.io/serviceaccount/ca.crt"}

// DescribeRootCA says, for people, where the authorities that OpenRootCA returns come from, and whose they are.
func DescribeRootCA(path string, client *rest.Config, bundle string) (from, subjects string) {
	from = cmp.Or(path, "the client configuration")
	if path == "" && client != nil && len(client.CAData) == 0 && client.CAFile != "" {
		from = client.CAFile
	}
	certs, err := certutil.ParseCertsPEM([]byte(bundle))
	if err != nil {
		return from, "unknown: " + err.Error()
	}
	var all []string
	for _, c := range certs {
		all = append(all, c.Subject.String())
	}
	return from, strings.Join(all, "; ")
}

// parseCertificates checks that a file has certificates, and returns it as it is.
func parseCertificates(content []byte) (string, error) {
	_, err := certutil.ParseCertsPEM(content)
	return string(content), err
}
