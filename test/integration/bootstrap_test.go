package integration

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// bootstrapping is a bench for what belongs to the whole cluster. It is as before when the test is over.
type bootstrapping struct{ *bench }

// newBootstrapping makes the ConfigMap cluster-info as kubeadm does, without signatures.
func newBootstrapping(b *bench) bootstrapping {
	b.Helper()
	p := bootstrapping{b}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.ConfigMapClusterInfo},
		Data: map[string]string{api.KubeConfigKey: p.kubeconfig("https://first:6443")}}
	if _, err := b.Client.CoreV1().ConfigMaps(metav1.NamespacePublic).Create(b.Context(), m, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	p.afterwards(func() error {
		return b.Client.CoreV1().ConfigMaps(metav1.NamespacePublic).Delete(context.Background(), m.Name, metav1.DeleteOptions{})
	})
	return p
}

// afterwards does something when the test is over, unless it is done.
func (p bootstrapping) afterwards(do func() error) {
	p.Cleanup(func() {
		if err := do(); err != nil && !apierrors.IsNotFound(err) {
			p.Error(err)
		}
	})
}

// kubeconfig is what who joins is told of the cluster.
func (p bootstrapping) kubeconfig(server string) string {
	p.Helper()
	text, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {Server: server,
		CertificateAuthorityData: []byte("authorities")}}})
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// serve changes what who joins is told.
func (p bootstrapping) serve(server string) {
	p.Helper()
	m, err := p.Client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(p.Context(), api.ConfigMapClusterInfo, metav1.GetOptions{})
	if err == nil {
		m.Data[api.KubeConfigKey] = p.kubeconfig(server)
		_, err = p.Client.CoreV1().ConfigMaps(metav1.NamespacePublic).Update(p.Context(), m, metav1.UpdateOptions{})
	}
	if err != nil {
		p.Fatal(err)
	}
}

// token is a bootstrap token that kubeadm has made.
type token struct{ id, secret string }

func (p bootstrapping) token(id, expiration string, changes ...string) token {
	p.Helper()
	made := token{id, strings.ToLower(rand.Text()[:16])}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: api.BootstrapTokenSecretPrefix + id}, Type: api.SecretTypeBootstrapToken,
		StringData: map[string]string{
			api.BootstrapTokenIDKey: id, api.BootstrapTokenSecretKey: made.secret, api.BootstrapTokenExpirationKey: expiration,
			api.BootstrapTokenUsageSigningKey: "true", api.BootstrapTokenUsageAuthentication: "true",
		}}
	for i := 0; i < len(changes); i += 2 {
		s.StringData[changes[i]] = changes[i+1]
	}
	if _, err := p.Client.CoreV1().Secrets(metav1.NamespaceSystem).Create(p.Context(), s, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
	p.afterwards(func() error {
		return p.Client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(context.Background(), s.Name, metav1.DeleteOptions{})
	})
	return made
}

// expires lets a token expire soon.
func (p bootstrapping) expires(t token) {
	p.Helper()
	patch := fmt.Appendf(nil, `{"stringData":{"expiration":%q}}`, inTime(time.Second))
	if _, err := p.Client.CoreV1().Secrets(metav1.NamespaceSystem).Patch(p.Context(), api.BootstrapTokenSecretPrefix+t.id,
		types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

// discover does what kubeadm join does: it reads the ConfigMap and trusts it if it is signed with the token. It returns the server that the
// kubeconfig names.
func (t token) discover(p bootstrapping) (server string, err error) {
	m, err := p.Client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(p.Context(), api.ConfigMapClusterInfo, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	content := m.Data[api.KubeConfigKey]
	signature, ok := m.Data[api.JWSSignatureKeyPrefix+t.id]
	if !ok {
		return "", fmt.Errorf("there is no signature of %s", t.id)
	}
	if !jws.DetachedTokenIsValid(signature, content, t.id, t.secret) {
		return "", fmt.Errorf("the signature of %s is not valid", t.id)
	}
	config, err := clientcmd.Load([]byte(content))
	if err != nil {
		return "", err
	}
	return config.Clusters[""].Server, nil
}

func (p bootstrapping) waitDiscovered(t token, want string) {
	p.Helper()
	p.wait(t.id+" discovers the cluster", func() error {
		server, err := t.discover(p)
		if err == nil && server != want {
			err = fmt.Errorf("the server is %s", server)
		}
		return err
	})
}

// waitRefused waits until there is no signature of the token.
func (p bootstrapping) waitRefused(t token) {
	p.Helper()
	p.wait(t.id+" does not sign", func() error {
		if _, err := t.discover(p); err == nil || !strings.HasPrefix(err.Error(), "there is no signature") {
			return fmt.Errorf("discovery: %w", err)
		}
		return nil
	})
}

func (p bootstrapping) waitDeleted(t token) {
	p.Helper()
	p.wait(t.id+" is deleted", func() error {
		_, err := p.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(p.Context(), api.BootstrapTokenSecretPrefix+t.id,
			metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there (%v)", err)
	})
}

// inTime returns the moment so long from now as Secrets have it.
func inTime(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

// TestBootstrapTokens: with the flag that kubeadm gives, who knows a token can trust what the cluster says of itself, and a token that has
// expired is gone (BOOT-11, BOOT-15, BOOT-18, BOOT-22, BOOT-24, BOOT-25, BOOT-33).
func TestBootstrapTokens(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	m := shareManager(t, c)
	p := newBootstrapping(&bench{t, c, ""})
	early := p.token("early1", "")
	p.waitDiscovered(early, "https://first:6443")

	p.token("badnam", "", api.BootstrapTokenIDKey, "othern")
	p.token("badkey", "", api.BootstrapTokenSecretKey, "")
	odd := p.token("badtim", "tomorrow")
	brief, late := p.token("brief1", inTime(time.Hour)), p.token("later1", inTime(time.Hour))
	p.waitDiscovered(brief, "https://first:6443")
	p.waitDiscovered(late, "https://first:6443")
	p.waitDeleted(odd)
	m.WaitForLog(t, patience, "Deleted a bootstrap token because its expiration is no time")

	p.serve("https://second:6443")
	p.waitDiscovered(early, "https://second:6443")
	p.waitDiscovered(late, "https://second:6443")

	p.expires(brief)
	p.waitDeleted(brief)
	p.waitRefused(brief)
	if err := c.Client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(t.Context(), api.BootstrapTokenSecretPrefix+early.id,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.waitRefused(early)
	p.waitDiscovered(late, "https://second:6443")
}

// TestBootstrapSignerWithoutTokenCleaner: a signature ends with its token all the same, and the token stays.
func TestBootstrapSignerWithoutTokenCleaner(t *testing.T) {
	c := cluster.Start(t)
	p := newBootstrapping(&bench{t, c, ""})
	begin := c.AuditEnd(t)
	c.Manager(t, "--controllers=bootstrapsigner")
	brief := p.token("alone1", inTime(time.Hour))
	p.waitDiscovered(brief, "https://first:6443")
	p.expires(brief)
	p.waitRefused(brief)
	if _, err := c.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), api.BootstrapTokenSecretPrefix+brief.id,
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	p.readsLittle(begin)
}

// readsLittle says that the manager has asked for no other Secrets and ConfigMaps than selected ones since then, among them those of
// the bootstrap signer (BOOT-34).
func (p bootstrapping) readsLittle(begin int64) {
	p.Helper()
	requests, _ := p.Requests(p.T, begin)
	missing := map[string]string{
		"secrets":    "fieldSelector=metadata.namespace%3Dkube-system%2Ctype%3Dbootstrap.kubernetes.io%2Ftoken",
		"configmaps": "fieldSelector=metadata.namespace%3Dkube-public%2Cmetadata.name%3Dcluster-info",
	}
	for _, r := range requests {
		resource := r.ObjectRef.Resource
		if !r.ByManager() || r.Verb != "list" && r.Verb != "watch" || resource != "secrets" && resource != "configmaps" {
			continue
		}
		if !strings.Contains(r.RequestURI, "fieldSelector=") {
			p.Errorf("it asks for %s", r.RequestURI)
		}
		if selector, ok := missing[resource]; ok && strings.Contains(r.RequestURI, selector) {
			delete(missing, resource)
		}
	}
	for resource, selector := range missing {
		p.Errorf("it does not ask for %s with %s", resource, selector)
	}
}

// workOfBootstrapTokens uses each right of the controllers of this file.
func (b *bench) workOfBootstrapTokens() {
	b.Helper()
	p := newBootstrapping(b)
	brief := p.token("brief2", inTime(time.Hour))
	p.waitDiscovered(brief, "https://first:6443")
	p.expires(brief)
	p.waitDeleted(brief)
	p.waitRefused(brief)
}
