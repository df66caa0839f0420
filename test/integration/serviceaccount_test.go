package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/keyutil"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// rootCA is the ConfigMap with the certificate authorities.
const rootCA = "kube-root-ca.crt"

// serviceAccounts are the controllers of this file.
const serviceAccounts = "--controllers=serviceaccount,root-ca-cert-publisher,legacy-service-account-token-cleaner"

// accountBench is a manager with these controllers, and a namespace.
func accountBench(t *testing.T, flags ...string) (*bench, *cluster.Manager) {
	c := cluster.Start(t)
	m := c.Manager(t, append([]string{serviceAccounts}, flags...)...)
	return &bench{t, c, c.BareNamespace(t)}, m
}

// published returns what the ConfigMap of the namespace has.
func (b *bench) published() (string, error) {
	m, err := b.Client.CoreV1().ConfigMaps(b.ns).Get(b.Context(), rootCA, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if len(m.Data) != 1 || m.Annotations["kubernetes.io/description"] == "" {
		return "", fmt.Errorf("%v, %v", m.Data, m.Annotations)
	}
	return m.Data["ca.crt"], nil
}

func (b *bench) waitPublished(want string) {
	b.Helper()
	b.wait("the authorities are published", func() error {
		got, err := b.published()
		if err == nil && got != want {
			err = fmt.Errorf("got %q", got)
		}
		return err
	})
}

func (b *bench) waitAccount() (a *corev1.ServiceAccount) {
	b.Helper()
	b.wait("there is a ServiceAccount default", func() (err error) {
		a, err = b.Client.CoreV1().ServiceAccounts(b.ns).Get(b.Context(), "default", metav1.GetOptions{})
		return err
	})
	return a
}

// TestNamespacesAreUsable: each namespace, the system's own among them, has a ServiceAccount and the authorities, and has them again after
// they were deleted or changed (SA-1, SA-5, SA-8, SA-14, RCA-1, RCA-8, RCA-11).
func TestNamespacesAreUsable(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	shareManager(t, c)
	b := &bench{t, c, c.BareNamespace(t)}
	want, err := os.ReadFile(b.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{b.ns, "default", "kube-system"} {
		in := &bench{t, b.Cluster, ns}
		in.waitAccount()
		in.waitPublished(string(want))
	}
	first := b.waitAccount()
	if len(first.Secrets)+len(first.Labels)+len(first.Annotations)+len(first.OwnerReferences) > 0 {
		t.Errorf("SA-5: %+v", first)
	}
	b.Kubectl(t, "-n", b.ns, "delete", "serviceaccount", "default")
	if again := b.waitAccount(); again.UID == first.UID {
		t.Error("the ServiceAccount is the same as before")
	}
	b.Kubectl(t, "-n", b.ns, "delete", "configmap", rootCA)
	b.waitPublished(string(want))
	b.Kubectl(t, "-n", b.ns, "patch", "configmap", rootCA, "--type=merge", "-p", `{"data":{"ca.crt":"mine","x":"y"}}`)
	b.waitPublished(string(want))
}

// tokenOf creates a ServiceAccount and a Secret for a token of it.
func (b *bench) tokenOf(name string) {
	b.Helper()
	_, err := b.Client.CoreV1().ServiceAccounts(b.ns).Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: name}},
		Type: corev1.SecretTypeServiceAccountToken}
	if _, err := b.Client.CoreV1().Secrets(b.ns).Create(b.Context(), s, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// waitToken waits until the Secret has a token, and returns it.
func (b *bench) waitToken(name string) (token string) {
	b.Helper()
	b.wait("the Secret "+name+" has a token", func() error {
		s, err := b.Client.CoreV1().Secrets(b.ns).Get(b.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if token = string(s.Data["token"]); token == "" || string(s.Data["namespace"]) != b.ns || len(s.Data["ca.crt"]) == 0 {
			return fmt.Errorf("it has %d data", len(s.Data))
		}
		return nil
	})
	return token
}

// review asks the API server whose token it is; "" if it is nobody's.
func (b *bench) review(token string) string {
	b.Helper()
	r, err := b.Client.AuthenticationV1().TokenReviews().Create(b.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if !r.Status.Authenticated {
		return ""
	}
	return r.Status.User.Username
}

// secretIsGone waits until there is no such Secret.
func (b *bench) secretIsGone(name string) {
	b.Helper()
	b.wait("the Secret "+name+" is gone", func() error {
		_, err := b.Client.CoreV1().Secrets(b.ns).Get(b.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there (%v)", err)
	})
}

// TestTokensInSecrets: the API server accepts the tokens (TOK-16, TOK-18, TOK-19), and they go with their ServiceAccounts (TOK-10, TOK-12).
func TestTokensInSecrets(t *testing.T) {
	b := share(t)
	b.tokenOf("builder")
	token := b.waitToken("builder")
	b.wait("the token is accepted", func() error { // the API server compares it with the Secret in a cache of its own
		if got, want := b.review(token), "system:serviceaccount:"+b.ns+":builder"; got != want {
			return fmt.Errorf("it is of %q, want %q", got, want)
		}
		return nil
	})
	b.Kubectl(t, "-n", b.ns, "delete", "serviceaccount", "builder")
	b.secretIsGone("builder")
	b.wait("the token is refused", func() error { // the API server remembers for some seconds what it has found
		if who := b.review(token); who != "" {
			return fmt.Errorf("it is of %s", who)
		}
		return nil
	})
	b.referencesGo()
}

// referencesGo deletes a Secret to which its ServiceAccount refers (TOK-11).
func (b *bench) referencesGo() {
	b.Helper()
	b.tokenOf("lister")
	b.waitToken("lister")
	b.Kubectl(b.T, "-n", b.ns, "patch", "serviceaccount", "lister", "--type=merge", "-p",
		`{"secrets":[{"name":"lister"},{"name":"other"}]}`)
	b.Kubectl(b.T, "-n", b.ns, "delete", "secret", "lister")
	b.wait("TOK-11: the ServiceAccount does not refer to the Secret any more", func() error {
		a, err := b.Client.CoreV1().ServiceAccounts(b.ns).Get(b.Context(), "lister", metav1.GetOptions{})
		if err == nil && (len(a.Secrets) != 1 || a.Secrets[0].Name != "other") {
			err = fmt.Errorf("%v", a.Secrets)
		}
		return err
	})
}

// copied returns a copy of a file that the test may change.
func copied(t *testing.T, file string) (path, content string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), filepath.Base(file))
	put(t, path, string(data))
	return path, string(data)
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKeysAreRotated: keys and authorities that change on disk are used without a restart, and what is no good is not (TOK-26, RCA-12).
func TestKeysAreRotated(t *testing.T) {
	c := cluster.Start(t)
	key, right := copied(t, c.TokenKeyFile())
	ca, authorities := copied(t, c.CAFile)
	b, m := accountBench(t, "--service-account-private-key-file="+key, "--root-ca-file="+ca)
	b.waitPublished(authorities)
	b.tokenOf("first")
	first := b.waitToken("first")

	foreign, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	put(t, key, string(foreign))
	put(t, ca, "no certificate")
	m.WaitForLog(t, patience, "The file cannot be read again")
	m.WaitForLog(t, patience, key) // it says that it has read the file again
	b.tokenOf("second")
	if who := b.review(b.waitToken("second")); who != "" {
		t.Errorf("a token that was signed with a key that the API server does not know is of %s", who)
	}
	b.waitPublished(authorities)

	put(t, key, right)
	put(t, ca, authorities+authorities)
	b.waitPublished(authorities + authorities)
	b.wait("the Secret has the new authorities", func() error {
		s, err := b.Client.CoreV1().Secrets(b.ns).Get(t.Context(), "first", metav1.GetOptions{})
		if err == nil && string(s.Data["ca.crt"]) != authorities+authorities {
			err = fmt.Errorf("%q", s.Data["ca.crt"])
		}
		return err
	})
	if again := b.waitToken("first"); again != first {
		t.Error("TOK-13: a token that exists was renewed")
	}
	b.wait("tokens are signed with the right key again", func() error {
		b.Kubectl(t, "-n", b.ns, "delete", "secret", "second")
		b.tokenOf("second")
		if b.review(b.waitToken("second")) == "" {
			return fmt.Errorf("the token is refused")
		}
		return nil
	})
}

// TestBadKeysEndTheProcess: one line says what is wrong (TOK-2, TOK-3, LTC-1).
func TestBadKeysEndTheProcess(t *testing.T) {
	t.Parallel() // these managers end at once
	c := cluster.Start(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	put(t, garbage, "garbage")
	for _, test := range []struct{ flag, want string }{
		{"--service-account-private-key-file=" + garbage, "error reading key for service account token controller: " + garbage},
		{"--service-account-private-key-file=" + c.CAFile, "error reading key for service account token controller: " + c.CAFile},
		{"--service-account-private-key-file=/nope", "open /nope: no such file or directory"},
		{"--root-ca-file=" + garbage, "error parsing root-ca-file at " + garbage},
		{"--root-ca-file=/nope", "error parsing root-ca-file at /nope: open /nope: no such file or directory"},
		{"--legacy-service-account-token-clean-up-period=0",
			"failed to init the legacy service account token cleaner: invalid CleanUpPeriod: 0s"},
	} {
		t.Run(test.flag, func(t *testing.T) {
			t.Parallel()
			m := c.Manager(t, test.flag)
			code := m.Wait(t, patience)
			lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(m.Log()), "\n"),
				func(line string) bool { return !strings.Contains(line, test.want) })
			if code != 1 || len(lines) != 1 {
				t.Errorf("exit code %d, log:\n%s", code, m.Log())
			}
		})
	}
}

// TestTokensAreOffWithoutAKey: the log says so, and Secrets stay as they are (TOK-2).
func TestTokensAreOffWithoutAKey(t *testing.T) {
	b, m := accountBench(t, "--service-account-private-key-file=")
	m.WaitForLog(t, patience, "Controller is disabled because there is no private key")
	b.tokenOf("builder")
	b.waitAccount()
	b.Kubectl(t, "-n", b.ns, "delete", "serviceaccount", "builder", "default")
	b.waitAccount() // whatever the manager does, it has done
	if s, err := b.Client.CoreV1().Secrets(b.ns).Get(t.Context(), "builder", metav1.GetOptions{}); err != nil || len(s.Data) > 0 {
		t.Errorf("%v, %v", s, err)
	}
}

// legacyTokens makes what the crash tests have for the legacy token cleaner. The returned function waits until it has done its work.
func (b *bench) legacyTokens() (wait func()) {
	b.Helper()
	u := b.user()
	i := slices.IndexFunc(suite.Entries(),
		func(e suite.Entry) bool { return e.Controller == "legacy-serviceaccount-token-cleaner-controller" })
	scenario := suite.Entries()[i].Scenarios[0]
	scenario.Prepare(u)
	return func() { scenario.Play(u) }
}

// TestLegacyTokens: tokens that nobody uses are marked, and later deleted (LTC-3, LTC-6, LTC-8, LTC-9). With a period of a year the same
// tokens are not touched.
func TestLegacyTokens(t *testing.T) {
	c := cluster.Start(t)
	b := &bench{t, c, c.BareNamespace(t)}
	retired := b.legacyTokens()
	young := c.Manager(t, serviceAccounts)
	b.waitToken("unused") // the manager works
	young.Stop(t)
	if s, err := b.Client.CoreV1().Secrets(b.ns).Get(t.Context(), "marked", metav1.GetOptions{}); err != nil {
		t.Errorf("LTC-4: %v, %v", s, err)
	}
	c.Manager(t, serviceAccounts, "--legacy-service-account-token-clean-up-period="+suite.LegacyTokenPeriod)
	retired()
}

// TestNothingIsWrittenAtATakeover: what a manager finds as the original, or ours, has left it is not written again.
func TestNothingIsWrittenAtATakeover(t *testing.T) {
	c := cluster.Start(t)
	b := &bench{t, c, c.BareNamespace(t)}
	authorities, err := os.ReadFile(c.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: rootCA,
		Annotations: map[string]string{"kubernetes.io/description": "Contains a CA bundle."}},
		Data: map[string]string{"ca.crt": string(authorities)}}
	if _, err := b.Client.CoreV1().ConfigMaps(b.ns).Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	proxy, kubeconfig := c.CountingProxy(t, c.AdminKubeconfig)
	written := func() int {
		writes := proxy.Writes()
		n := writes.Total
		for _, row := range writes.Rows {
			if row.Code == http.StatusUnprocessableEntity { // for objects that other tests have stored and the server accepts no more
				n -= row.Count
			}
		}
		return n
	}
	flags := []string{serviceAccounts, "--kubeconfig=" + kubeconfig, "--use-service-account-credentials=false"}
	m := c.Manager(t, flags...)
	b.tokenOf("builder")
	b.waitToken("builder")
	b.waitAccount()
	b.rests(written) // it has also done what other tests have left
	m.Stop(t)
	before := b.versions()
	proxy.Reset()
	c.Manager(t, flags...)
	mark := &bench{t, c, c.BareNamespace(t)} // a namespace that comes later than all else
	mark.waitAccount()
	mark.waitPublished(string(authorities))
	b.rests(written)
	if after := b.versions(); !slices.Equal(before, after) {
		t.Errorf("versions were %v, and are %v", before, after)
	}
	if n := written(); n != 2 {
		t.Errorf("%d writes, want those for the new namespace:\n%v", n, proxy.Writes())
	}
}

// rests waits until the number of writes has not changed for some time.
func (b *bench) rests(written func() int) {
	b.Helper()
	last, since := -1, time.Now()
	b.wait("the manager rests", func() error {
		if n := written(); n != last {
			last, since = n, time.Now()
		}
		if rest := time.Since(since); rest < 2*time.Second {
			return fmt.Errorf("it does for %v", rest)
		}
		return nil
	})
}

// versions are those of what the controllers of this file write.
func (b *bench) versions() (all []string) {
	b.Helper()
	for _, name := range []string{"serviceaccount/default", "serviceaccount/builder", "configmap/" + rootCA, "secret/builder"} {
		all = append(all, name+" "+b.Kubectl(b.T, "-n", b.ns, "get", name, "-o", "jsonpath={.metadata.resourceVersion}"))
	}
	return all
}

// workOfServiceAccounts uses each right of the controllers of this file.
func (b *bench) workOfServiceAccounts() {
	b.Helper()
	b.waitAccount()
	authorities, err := os.ReadFile(b.CAFile)
	if err != nil {
		b.Fatal(err)
	}
	b.waitPublished(string(authorities))
	_, err = b.Client.CoreV1().ConfigMaps(b.ns).Patch(b.Context(), rootCA, types.MergePatchType, []byte(`{"data":{"x":"y"}}`),
		metav1.PatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.waitPublished(string(authorities))
	b.referencesGo()
	b.tokenOf("builder")
	b.waitToken("builder")
	if err := b.Client.CoreV1().ServiceAccounts(b.ns).Delete(context.Background(), "builder", metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.secretIsGone("builder")
}
