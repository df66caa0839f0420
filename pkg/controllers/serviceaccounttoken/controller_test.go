package serviceaccounttoken

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/keyutil"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// cluster is a server at which the controller works, and the files that it reads.
type cluster struct {
	*clienttest.Server
	t         *testing.T
	key, root string
}

// entry returns the entry in the registry, with a key.
func entry(t *testing.T, key string) manager.Controller {
	t.Helper()
	e := New(Options{})
	if err := managertest.SetFlags([]manager.Controller{e}, map[string]string{"service-account-private-key-file": key}); err != nil {
		t.Fatal(err)
	}
	return e
}

func newKey(t *testing.T) string {
	t.Helper()
	pem, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// inCluster runs a test in virtual time, with a cluster of these objects at which the controller has nothing left to do.
func inCluster(t *testing.T, before func(clienttest.Write) error, test func(c *cluster), objects ...plan.Object) {
	dir := t.TempDir()
	key, root := filepath.Join(dir, "key"), filepath.Join(dir, "ca.crt")
	write(t, key, newKey(t))
	write(t, root, authorities(t))
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{Server: clienttest.NewServer(), t: t, key: key, root: root}
		for _, o := range objects {
			c.put(o)
		}
		c.BeforeWrite(before)
		e := entry(t, key)
		from := managertest.Context(t, c.Server, e, managertest.Cache{Example: &corev1.ServiceAccount{}},
			managertest.Cache{Example: &corev1.Secret{},
				Selector: fields.OneTermEqualSelector("type", "kubernetes.io/service-account-token")})
		from.RootCAFile = root
		managertest.Run(t, from, e, func() { test(c) })
	})
}

func authorities(t *testing.T) string {
	t.Helper()
	all, err := os.ReadFile("../../../internal/credentials/testdata/authorities.pem")
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func (c *cluster) put(o plan.Object) {
	if _, err := c.Put(o); err != nil {
		c.t.Error(err)
	}
}

func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// secret returns a Secret of the server, nil if it is gone.
func (c *cluster) secret(name string) *corev1.Secret {
	mapping := client.MappingFor[*corev1.Secret]()
	s := &corev1.Secret{}
	if err := c.Get(c.t.Context(), mapping, plan.Key{Namespace: "shop", Name: name}, s); err != nil {
		return nil
	}
	return s
}

func (c *cluster) delete(name, kindName string) {
	mapping, _ := client.BuiltIn(corev1.SchemeGroupVersion.WithKind(kindName))
	if err := c.Delete(c.t.Context(), mapping, plan.Key{Namespace: "shop", Name: name}, metav1.DeleteOptions{}); err != nil {
		c.t.Error(err)
	}
	settle()
}

func TestSecretsAreFilledAndGoWithTheirServiceAccount(t *testing.T) {
	opaque := secret(named("opaque"), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
	inCluster(t, nil, func(c *cluster) {
		s := c.secret("token")
		if s == nil || string(s.Data["ca.crt"]) != authorities(t) || string(s.Data["namespace"]) != "shop" ||
			strings.Count(string(s.Data["token"]), ".") != 2 {
			t.Fatalf("TOK-15, TOK-16: %v", s)
		}
		c.put(secret(named("later"), func(s *corev1.Secret) { s.UID = "later" }))
		settle()
		if s := c.secret("later"); s == nil || len(s.Data["token"]) == 0 {
			t.Error("TOK-16: a new Secret is not filled within a second")
		}
		c.delete("builder", "ServiceAccount")
		if c.secret("token") != nil || c.secret("later") != nil {
			t.Error("TOK-10: Secrets of a ServiceAccount that is gone stay")
		}
		if s := c.secret("opaque"); s == nil || len(s.Data) > 0 {
			t.Error("TOK-6: a Secret of another type is not left alone")
		}
		if got := c.Log(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{
			"delete Secret later", "delete Secret token", "delete ServiceAccount builder", "update Secret later", "update Secret token",
		}) {
			t.Errorf("writes: %v", got)
		}
	}, account("a1"), secret(), opaque)
}

func TestTOK11ServiceAccountsForgetSecrets(t *testing.T) {
	inCluster(t, nil, func(c *cluster) {
		c.delete("token", "Secret")
		mapping := client.MappingFor[*corev1.ServiceAccount]()
		a := &corev1.ServiceAccount{}
		if err := c.Get(t.Context(), mapping, plan.Key{Namespace: "shop", Name: "builder"}, a); err != nil || len(a.Secrets) != 1 ||
			a.Secrets[0].Name != "other" {
			t.Errorf("%v, %v", a.Secrets, err)
		}
	}, account("a1", "token", "other"), secret(complete))
}

// The caches of Secrets and of ServiceAccounts may differ in age: a Secret is only deleted after a look at the server.
func TestTOK12LiveRead(t *testing.T) {
	inCluster(t, nil, func(c *cluster) {
		c.FreezeWatches(client.KindFor[*corev1.ServiceAccount]())
		c.put(account("a1"))
		c.put(secret())
		settle()
		if s := c.secret("token"); s == nil || len(s.Data["token"]) == 0 {
			t.Errorf("%v", s)
		}
	})
}

// A Secret that is met while the server cannot be written to is filled later (TOK-23).
func TestTOK20NeverGivenUp(t *testing.T) {
	inCluster(t, clienttest.RefuseFirst(12, apierrors.NewInternalError(os.ErrClosed)), func(c *cluster) {
		if s := c.secret("token"); len(s.Data["token"]) == 0 {
			t.Error("given up")
		}
	}, account("a1"), secret())
}

// Keys and authorities are read again when their files change (TOK-26); tokens that exist stay (TOK-13).
func TestFilesThatChange(t *testing.T) {
	inCluster(t, nil, func(c *cluster) {
		before := string(c.secret("token").Data["token"])
		next := newKey(t)
		write(t, c.key, next)
		write(t, c.root, authorities(t)+"\n")
		c.put(secret(named("later"), func(s *corev1.Secret) { s.UID = "later" })) // the file was looked at not five seconds ago
		time.Sleep(6 * time.Second)
		settle()
		s := c.secret("token")
		if string(s.Data["ca.crt"]) != authorities(t)+"\n" || string(s.Data["token"]) != before {
			t.Errorf("%s, and the token is the same: %t", s.Data["ca.crt"], string(s.Data["token"]) == before)
		}
		key, err := parseSigningKey([]byte(next))
		if err != nil {
			t.Fatal(err)
		}
		sample, err := key.token(account("a1"), secret(named("later")))
		if err != nil {
			t.Fatal(err)
		}
		// The signature of ECDSA differs each time; the header names the key.
		if header, _, _ := strings.Cut(sample, "."); !strings.HasPrefix(string(c.secret("later").Data["token"]), header+".") {
			t.Error("a new token is signed with the old key")
		}
	}, account("a1"), secret())
}

// What the original has left is taken over without a write.
func TestTakenOverWithoutAWrite(t *testing.T) {
	done := secret(complete, func(s *corev1.Secret) { s.Data["ca.crt"] = []byte(authorities(t)) })
	inCluster(t, nil, func(c *cluster) {
		if log := c.Log(); len(log) > 0 {
			t.Errorf("writes: %v", log)
		}
	}, account("a1", "token"), done)
}

func TestInit(t *testing.T) {
	dir := t.TempDir()
	good, garbage, public := filepath.Join(dir, "good"), filepath.Join(dir, "garbage"), filepath.Join(dir, "public")
	write(t, good, newKey(t))
	write(t, garbage, "x")
	write(t, public, authorities(t))
	for _, c := range []struct {
		name, key, root, want string
		skipped               bool
	}{
		{"TOK-2 a missing file", "/nope", "",
			"error reading key for service account token controller: open /nope: no such file or directory", false},
		{"TOK-2 no key", garbage, "", "error reading key for service account token controller: " + garbage + ": ", false},
		{"TOK-2 a certificate in the place of the key", public, "",
			"error reading key for service account token controller: " + public + ": ", false},
		{"TOK-3 no certificate", good, garbage, "error parsing root-ca-file at " + garbage + ": ", false},
		{"TOK-2 no key is asked for", "", "", "there is no private key", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := entry(t, c.key)
			from := managertest.Context(t, clienttest.NewServer(), e)
			from.RootCAFile = c.root
			runner, err := e.Init(from)
			if runner != nil {
				t.Error("the controller is on")
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v", err)
			}
			if skipped := errors.As(err, &manager.Off{}); skipped != c.skipped {
				t.Errorf("skipped: %t", skipped)
			}
		})
	}
}

// A new Secret gets the token of the ServiceAccount that there is, whatever the cache shows of one before (TOK-16, TOK-24).
func TestServiceAccountThatWasMadeAnew(t *testing.T) {
	inCluster(t, nil, func(c *cluster) {
		c.FreezeWatches(client.KindFor[*corev1.ServiceAccount]())
		c.delete("builder", "ServiceAccount")
		c.put(account("a2"))
		c.put(secret())
		settle()
		c.ResumeWatches(client.KindFor[*corev1.ServiceAccount]())
		settle()
		if s := c.secret("token"); s == nil || s.Annotations[corev1.ServiceAccountUIDKey] != "a2" || len(s.Data["token"]) == 0 {
			t.Errorf("%v", s)
		}
	}, account("a1"))
}
