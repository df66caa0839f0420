package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// certificate writes a certificate that ends then, and returns the name of the file.
func certificate(t *testing.T, ends time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: ends.Add(-time.Hour), NotAfter: ends}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFilesAreChecked(t *testing.T) {
	now := time.Now()
	folder, broken := t.TempDir(), filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]result{
		certificate(t, now.Add(365*24*time.Hour)): passes, certificate(t, now.Add(24*time.Hour)): warns,
		certificate(t, now.Add(-time.Minute)): fails, folder: fails, filepath.Join(folder,
			"none"): fails, broken: fails,
	} {
		c := checker{now: now}
		c.Flags = map[string]string{"root-ca-file": name, "kubeconfig": "", "controllers": "*"}
		if c.files(); len(c.findings) != 1 || c.findings[0].Result != want ||
			!strings.Contains(c.findings[0].Says, "--root-ca-file") {
			t.Errorf("%s: %+v", name, c.findings)
		}
	}
}

func TestTheFolderOfTheHistoryIsChecked(t *testing.T) {
	folder := t.TempDir()
	for name, want := range map[string]string{
		"": "", folder: "ok: --history-dir: " + folder + ", up to 1Mi",
		filepath.Join(folder, "none"):   "ok: --history-dir: " + folder + "/none is not there yet, and is made at the start",
		certificate(t, time.Now()):      "is not a folder",
		filepath.Join(folder, "a\x00b"): "fail: --history-dir: ",
	} {
		c := checker{}
		c.History = mustHistory(t, name)
		c.historyFolder()
		got := ""
		for _, f := range c.findings {
			got += string(f.Result) + ": " + f.Says
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestRightsThatAreLacking(t *testing.T) {
	everywhere := []rbac.Rule{{Group: "apps", Resource: "deployments/status", Verbs: []string{"patch", "get"}}}
	in := map[string][]rbac.Rule{"kube-system": {{Resource: "configmaps", Verbs: []string{"get"},
		Names: []string{"a", "b"}}}}
	ask := func(_ context.Context, what *authorizationv1.ResourceAttributes) (bool, error) {
		return what.Verb == "get" && what.Name != "b", nil
	}
	var c checker
	c.allowed(t.Context(), "the manager", everywhere, in, ask)
	c.allowed(t.Context(), "account a", everywhere[:0], nil, ask)
	c.allowed(t.Context(), "account b", everywhere, nil,
		func(context.Context, *authorizationv1.ResourceAttributes) (bool, error) {
			return false, errors.New("forbidden")
		})
	var out bytes.Buffer
	err := c.write(&out, "text")
	want := "fail  rights  the manager may not get configmaps b in kube-system, patch deployments.apps/status\n" +
		"ok    rights  account a has all of its 0\nwarn  rights  account b: cannot be asked for: forbidden\n"
	if out.String() != want || err == nil || err.Error() != "1 of 3 checks failed" {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Without an API server there is one line about it, and nothing that follows from it.
func TestCheckWithoutAServer(t *testing.T) {
	p := Program{Name: "controller-manager", Registry: controllers.Registry()}
	code, out, errs := execute(t, t.Context(), p, "check", "--kubeconfig="+kubeconfigOf(t))
	if code != 1 || !strings.Contains(out, "does not answer") || strings.Contains(out, "rights") ||
		errs != "Error: 1 of 3 checks failed\n" {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}
