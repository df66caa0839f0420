package record

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// catchUp is how long the end of a recording may take.
const catchUp = time.Minute

// Recording is a recorder with the audit log of its control plane.
type Recording struct {
	recorder *Recorder
	cluster  *cluster.Cluster
	began    time.Time
}

// Main is cluster.Main for packages that record: their control plane has Policy from the start.
func Main(m *testing.M) {
	file, err := os.CreateTemp("", "audit-policy-*.yaml")
	if err == nil {
		defer os.Remove(file.Name())
		_, err = file.WriteString(Policy())
		err = errors.Join(err, file.Close(), os.Setenv("LOCALCLUSTER_AUDIT_POLICY", file.Name()))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the audit policy: %v\n", err)
	}
	cluster.Main(m)
}

// OnCluster begins to record what happens on a control plane. If that has another audit policy than Policy, its API server is
// started anew; see Main.
func OnCluster(t testing.TB, c *cluster.Cluster) *Recording {
	t.Helper()
	file := filepath.Join(c.Dir, "audit.yaml") // where kwokctl has put the one that it was given
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != Policy() {
		if err := os.WriteFile(file, []byte(Policy()), 0o600); err != nil {
			t.Fatal(err)
		}
		c.StopAPIServer(t)
		c.StartAPIServer(t)
	}
	recorder, err := Start(context.WithoutCancel(t.Context()), c.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(recorder.cancel)
	return &Recording{recorder, c, time.Now()}
}

// Stop ends the recording and returns the history.
func (r *Recording) Stop(t testing.TB) *oracle.History {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), catchUp)
	defer cancel()
	end := time.Now() // managers that still run write on, when nobody watches any more
	h, err := r.recorder.Stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if gaps := r.recorder.Gaps(); len(gaps) > 0 {
		t.Logf("the recording has gaps: %v", gaps)
	}
	if err := r.waitForAudit(ctx); err != nil {
		t.Fatal(err)
	}
	if h.Requests, err = Requests(r.cluster.AuditLog, r.began.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for _, revision := range h.Revisions {
		last = max(last, revision.Version)
	}
	h.Requests = slices.DeleteFunc(h.Requests, func(q oracle.Request) bool { return q.Done.After(end) && (q.Version > last || q.Version == 0) })
	return h
}

// waitForAudit asks for something that only we ask for, and waits until the audit log has it: it is written after a
// request is answered.
func (r *Recording) waitForAudit(ctx context.Context) error {
	name := fmt.Sprintf("end-of-recording-%d", time.Now().UnixNano())
	_, _ = r.cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}) // not found
	for {
		end, err := tail(r.cluster.AuditLog)
		if err != nil {
			return err
		}
		if bytes.Contains(end, []byte(name)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the audit log does not show the end of the recording: %w", ctx.Err())
		case <-time.After(retry):
		}
	}
}

// tail is the last megabyte of a file.
func tail(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, info.Size()-1<<20), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// Kubeconfig makes a kubeconfig for another manager: the user of c.ManagerKubeconfig, with a certificate of its own, by which
// oracle.ByCredential tells managers apart.
func Kubeconfig(t testing.TB, c *cluster.Cluster) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.Dir, "pki", "ca.crt"), filepath.Join(c.Dir, "pki", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "system:kube-controller-manager"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     pair.Leaf.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, pair.Leaf, key.Public(), pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(c.ManagerKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.ClientCertificateData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		user.ClientKeyData = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
