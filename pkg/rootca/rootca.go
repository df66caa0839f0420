// Package rootca finds the certificate authorities by which pods verify the API server.
package rootca

import (
	"fmt"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/standalone-kcm/controller-manager/pkg/files"
)

// Open returns the certificate authorities in PEM, byte for byte as the file of that name has them (TOK-3). Without a file they are
// those by which the client verifies the API server; they are empty if it does so by those of the system, or not at all. It
// fails if the file cannot be read, or has no certificate.
func Open(path string, client *rest.Config) (*files.File[string], error) {
	if path != "" {
		f, err := files.Open(path, parse)
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
	f, err := files.Open(client.CAFile, parse)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities of the API server at %s: %w", client.CAFile, err)
	}
	return f, nil
}

func parse(content []byte) (string, error) {
	_, err := certutil.ParseCertsPEM(content)
	return string(content), err
}
