package integration

import (
	"context"
	"crypto"
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
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"

	"github.com/standalone-kcm/controller-manager/test/suite"
)

// joiner is a machine that joins the cluster as a node, as a kubelet does that kubeadm has set up.
type joiner struct {
	*bench
	node   string
	client kubernetes.Interface // nil until it has something to show
}

// bootstrapRoles are the bindings that kubeadm makes, for a group of tokens.
func (b *bench) bootstrapRoles(group string) {
	b.Helper()
	const requests = "system:certificates.k8s.io:certificatesigningrequests:"
	for role, to := range map[string]string{
		"system:node-bootstrapper":  group,
		requests + "nodeclient":     group,
		requests + "selfnodeclient": "system:nodes",
	} {
		name := b.ns + ":" + role
		_, err := b.Client.RbacV1().ClusterRoleBindings().Create(b.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: to}},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := b.Client.RbacV1().ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				b.Error(err)
			}
		})
	}
}

// bootstrapToken makes a token with which machines of the group may ask for certificates. Its id has six characters.
func (b *bench) bootstrapToken(id, group string) (token string) {
	b.Helper()
	const secret = "0123456789abcdef"
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id},
		Type: corev1.SecretTypeBootstrapToken, StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": group,
		}}
	if _, err := b.Client.CoreV1().Secrets(s.Namespace).Create(b.Context(), s, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := b.Client.CoreV1().Secrets(s.Namespace).Delete(context.Background(), s.Name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	return id + "." + secret
}

// with gives the machine something to show: a token, or a certificate with its key.
func (j *joiner) with(credentials func(*rest.Config)) {
	j.Helper()
	config := rest.AnonymousClientConfig(j.RESTConfig)
	credentials(config)
	var err error
	if j.client, err = kubernetes.NewForConfig(config); err != nil {
		j.Fatal(err)
	}
}

// asks makes a request for a certificate, and a new key for it.
func (j *joiner) asks(name, signer string, template *x509.CertificateRequest, usages ...certificatesv1.KeyUsage) crypto.Signer {
	j.Helper()
	key, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, err2 := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err := errors.Join(err1, err2); err != nil {
		j.Fatal(err)
	}
	r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: j.ns + "-" + name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer, Usages: usages,
		}}
	j.wait("the machine may ask for a certificate", func() error { // roles take effect a little late
		_, err := j.client.CertificatesV1().CertificateSigningRequests().Create(j.Context(), r, metav1.CreateOptions{})
		return err
	})
	j.Cleanup(func() {
		err := j.Client.CertificatesV1().CertificateSigningRequests().Delete(context.Background(), r.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			j.Error(err)
		}
	})
	return key
}

// waitFor waits until a request is as it should be, as the machine itself sees it.
func (j *joiner) waitFor(name, what string,
	check func(*certificatesv1.CertificateSigningRequest) bool) (r *certificatesv1.CertificateSigningRequest) {
	j.Helper()
	j.wait("the request "+name+" "+what, func() (err error) {
		if r, err = j.client.CertificatesV1().CertificateSigningRequests().Get(j.Context(), j.ns+"-"+name,
			metav1.GetOptions{}); err != nil {
			return err
		}
		if !check(r) {
			return fmt.Errorf("%+v", r.Status)
		}
		return nil
	})
	return r
}

// waitIssued waits for a certificate, and verifies it with the authority of the cluster.
func (j *joiner) waitIssued(name string, purpose x509.ExtKeyUsage) (text []byte, message string) {
	j.Helper()
	r := j.waitFor(name, "is signed", func(r *certificatesv1.CertificateSigningRequest) bool { return len(r.Status.Certificate) > 0 })
	block, rest := pem.Decode(r.Status.Certificate)
	if block == nil || len(rest) > 0 {
		j.Fatalf("CSR-17: %s", r.Status.Certificate)
	}
	certificate, err1 := x509.ParseCertificate(block.Bytes)
	authority, err2 := os.ReadFile(j.CAFile)
	if err := errors.Join(err1, err2); err != nil {
		j.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{purpose}}); err != nil {
		j.Error(err)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved {
			if c.LastUpdateTime.IsZero() || c.LastTransitionTime.IsZero() {
				j.Errorf("CSR-32: the API server has not set the times: %+v", c)
			}
			message = c.Message
		}
	}
	return r.Status.Certificate, message
}

// becomes shows a certificate from now on.
func (j *joiner) becomes(certificate []byte, key crypto.Signer) {
	j.Helper()
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		j.Fatal(err)
	}
	j.with(func(c *rest.Config) { c.CertData, c.KeyData = certificate, text })
}

// identity is what the machine asks for to be a node.
func (j *joiner) identity(organization string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + j.node, Organization: []string{organization}}}
}

var clientUsages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}

// TestKubeletJoins: a machine that has nothing but a bootstrap token gets a client certificate, registers its node, renews the certificate
// with its own identity, and gets a certificate to serve with when somebody approves it. What it must not have, it does not get (CSR-16,
// CSR-22, CSR-29 to CSR-32, CSR-45).
func TestKubeletJoins(t *testing.T) {
	b := share(t)
	group := "system:bootstrappers:" + b.ns
	b.bootstrapRoles(group)
	token := b.bootstrapToken("jo1n0"+b.ns[len(b.ns)-1:], group)
	j := &joiner{bench: b, node: b.ns + "-joined"}
	j.with(func(c *rest.Config) { c.BearerToken = token })

	j.asks("masters", certificatesv1.KubeAPIServerClientKubeletSignerName, j.identity("system:masters"), clientUsages...)
	key := j.asks("first", certificatesv1.KubeAPIServerClientKubeletSignerName, j.identity("system:nodes"), clientUsages...)
	certificate, message := j.waitIssued("first", x509.ExtKeyUsageClientAuth)
	if message != "Auto approving kubelet client certificate after SubjectAccessReview." {
		t.Errorf("CSR-31: %q", message)
	}
	j.becomes(certificate, key)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: j.node}}
	if _, err := j.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal("the node cannot be registered:", err)
	}
	t.Cleanup(func() {
		if err := b.Client.CoreV1().Nodes().Delete(context.Background(), j.node, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})

	key = j.asks("renewed", certificatesv1.KubeAPIServerClientKubeletSignerName, j.identity("system:nodes"), clientUsages...)
	certificate, message = j.waitIssued("renewed", x509.ExtKeyUsageClientAuth)
	if message != "Auto approving self kubelet client certificate after SubjectAccessReview." {
		t.Errorf("CSR-30: %q", message)
	}
	j.becomes(certificate, key)
	j.asksToServe()

	r := j.waitFor("masters", "is there", func(*certificatesv1.CertificateSigningRequest) bool { return true })
	if len(r.Status.Conditions) > 0 || len(r.Status.Certificate) > 0 {
		t.Errorf("CSR-29: %+v", r.Status)
	}
}

// asksToServe asks for a certificate to serve with, and for one that it must not have. Nobody approves either by himself.
func (j *joiner) asksToServe() {
	j.Helper()
	template := j.identity("system:nodes")
	template.DNSNames = []string{j.node}
	user := j.user()
	j.asks("serving", certificatesv1.KubeletServingSignerName, template, certificatesv1.UsageDigitalSignature,
		certificatesv1.UsageServerAuth)
	if r := j.waitFor("serving", "is there",
		func(*certificatesv1.CertificateSigningRequest) bool { return true }); len(r.Status.Conditions) > 0 {
		j.Errorf("CSR-29: %+v", r.Status)
	}
	user.Approve("serving")
	j.waitIssued("serving", x509.ExtKeyUsageServerAuth)
	j.asks("authority", certificatesv1.KubeletServingSignerName, template, certificatesv1.UsageServerAuth, certificatesv1.UsageCertSign)
	user.Approve("authority")
	r := j.waitFor("authority", "is given up",
		func(r *certificatesv1.CertificateSigningRequest) bool { return len(r.Status.Conditions) == 2 })
	failed := slices.IndexFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateFailed && c.Reason == "SignerValidationFailure" &&
			strings.HasPrefix(c.Message, "usages did not match [digital signature key encipherment server auth]")
	})
	if failed < 0 || len(r.Status.Certificate) > 0 {
		j.Errorf("CSR-16: %+v", r.Status)
	}
}

// workOfCertificates has requests approved, signed, given up and deleted.
func (b *bench) workOfCertificates() {
	b.Helper()
	user := b.user()
	for _, e := range suite.Entries() {
		if !strings.HasPrefix(e.Controller, "certificatesigningrequest-") {
			continue
		}
		for _, s := range e.Scenarios {
			s.Play(user)
		}
	}
}
