package serviceaccounttoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/keyutil"
)

// issuer is what the API server knows these tokens by (TOK-19).
const issuer = "kubernetes/serviceaccount"

// signingKey signs tokens. It is read from the file of --service-account-private-key-file, and a new file
// makes a new one.
type signingKey struct {
	private crypto.Signer
	// method follows from the kind of the key.
	method jwt.SigningMethod
	// id is by which API servers find the public key in their files.
	id string
}

// parseSigningKey reads a private key, RSA or ECDSA, in PEM (TOK-2).
func parseSigningKey(pem []byte) (*signingKey, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(pem)
	if err != nil {
		return nil, err
	}
	k := &signingKey{}
	switch private := parsed.(type) {
	case *rsa.PrivateKey:
		k.private, k.method = private, jwt.SigningMethodRS256
	case *ecdsa.PrivateKey:
		k.private = private
		switch private.Curve.Params().BitSize {
		case 256:
			k.method = jwt.SigningMethodES256
		case 384:
			k.method = jwt.SigningMethodES384
		case 521:
			k.method = jwt.SigningMethodES512
		default:
			return nil, fmt.Errorf("an ECDSA key of the curve %s cannot sign tokens", private.Curve.Params().Name)
		}
	default:
		return nil, errors.New("the key is neither of RSA nor of ECDSA")
	}
	public, err := x509.MarshalPKIXPublicKey(k.private.Public())
	if err != nil {
		return nil, fmt.Errorf("public part of the key: %w", err)
	}
	sum := sha256.Sum256(public)
	k.id = base64.RawURLEncoding.EncodeToString(sum[:])
	return k, nil
}

// token returns a token of the service account that is to be kept in the Secret.
func (k *signingKey) token(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	const prefix = "kubernetes.io/serviceaccount/"
	t := jwt.NewWithClaims(k.method, jwt.MapClaims{
		"iss":                           issuer,
		"sub":                           "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		prefix + "namespace":            account.Namespace,
		prefix + "secret.name":          secret.Name,
		prefix + "service-account.name": account.Name,
		prefix + "service-account.uid":  string(account.UID),
	})
	delete(t.Header, "typ") // the tokens of the original have none
	t.Header["kid"] = k.id
	signed, err := t.SignedString(k.private)
	if err != nil {
		return "", fmt.Errorf("sign a token of service account %s/%s: %w", account.Namespace, account.Name, err)
	}
	return signed, nil
}
