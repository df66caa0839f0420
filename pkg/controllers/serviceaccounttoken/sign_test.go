package serviceaccounttoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
)

func encoded(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem
}

// decoded returns a part of a token.
func decoded(t *testing.T, part string) (all map[string]any) {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTokens(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "builder", UID: "u1"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "token"}}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]crypto.Signer{"RS256": private}
	for name, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		if keys[name], err = ecdsa.GenerateKey(curve, rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	for alg, private := range keys {
		t.Run("TOK-18, TOK-19 "+alg, func(t *testing.T) {
			key, err := parseSigningKey(encoded(t, private))
			if err != nil {
				t.Fatal(err)
			}
			token, err := key.token(account, secret)
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.MarshalPKIXPublicKey(private.Public())
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(der)
			parts := strings.Split(token, ".")
			if diff := cmp.Diff(map[string]any{"alg": alg, "kid": base64.RawURLEncoding.EncodeToString(sum[:])},
				decoded(t, parts[0])); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]any{ // TOK-19
				"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:shop:builder",
				"kubernetes.io/serviceaccount/namespace": "shop", "kubernetes.io/serviceaccount/secret.name": "token",
				"kubernetes.io/serviceaccount/service-account.name": "builder", "kubernetes.io/serviceaccount/service-account.uid": "u1",
			}, decoded(t, parts[1])); diff != "" {
				t.Error(diff)
			}
			if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return private.Public(), nil }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKeysThatCannotSign(t *testing.T) {
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, pem := range map[string][]byte{"an odd curve": encoded(t, small), "nothing": nil, "no PEM": []byte("x")} {
		if _, err := parseSigningKey(pem); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzSigningKey: whatever a file has, it is a key that signs tokens that can be verified, or an error.
func FuzzSigningKey(f *testing.F) {
	pem, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		f.Fatal(err)
	}
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{pem, pem[:len(pem)/2], append([]byte("x\n"), pem...), encoded(f, small), nil,
		[]byte("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := parseSigningKey(data)
		if err != nil {
			return
		}
		token, err := key.token(&corev1.ServiceAccount{}, &corev1.Secret{})
		if err != nil {
			return // such as an RSA key that is too small
		}
		if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return key.private.Public(), nil }); err != nil {
			t.Error(err)
		}
	})
}
