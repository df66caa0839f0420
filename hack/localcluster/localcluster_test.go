package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"
)

// newTestToolbox works in empty folders, but with the real pinned modules.
func newTestToolbox(t *testing.T) *toolbox {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	tools, err := newToolbox()
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func newTestCluster(t *testing.T, name string) *cluster {
	t.Helper()
	c, err := newTestToolbox(t).cluster(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(c.file("localcluster"), 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPinnedVersionsAreFound(t *testing.T) {
	t.Setenv("KUBERNETES", "")
	tools := newTestToolbox(t)
	for module, prefix := range map[string]string{"kubernetes": "v1.37.", "etcd": "v3.7.", "kwok": "v0.8.", "csi": "v6.4.", driverProgram: "source"} {
		version, key, err := tools.pinned(module)
		if err != nil || !strings.HasPrefix(version, prefix) || len(key) != 12 {
			t.Errorf("%s: version %q, key %q, error %v", module, version, key, err)
		}
	}
	if _, err := tools.path("kube-proxy"); err == nil {
		t.Error("path of an unknown program: no error")
	}
}

func TestAnOlderReleaseIsChosenByTheEnvironment(t *testing.T) {
	for release, want := range map[string]string{"": "kubernetes-v1.37.", "1.37": "kubernetes-v1.37.", "1.36": "kubernetes-v1.36.", "1.35": "kubernetes-v1.35."} {
		t.Setenv("KUBERNETES", release)
		path, err := newTestToolbox(t).path("kube-apiserver")
		if folder := filepath.Base(filepath.Dir(path)); err != nil || !strings.HasPrefix(folder, want) {
			t.Errorf("KUBERNETES=%s: %s, %v", release, folder, err)
		}
	}
	for _, release := range []string{"1.3", "1.20", "latest", "../kwok"} {
		t.Setenv("KUBERNETES", release)
		if _, err := newToolbox(); err == nil || !strings.Contains(err.Error(), "no such release") {
			t.Errorf("KUBERNETES=%s: %v", release, err)
		}
	}
}

func TestClientsWorkWithServersOneReleaseApart(t *testing.T) {
	for client, want := range map[string]bool{"v1.36.0": true, "v1.37.2": true, "v1.38.1-rc.0": true, "v1.35.9": false, "v1.39.0": false, "": false, "v2.37.0": false} {
		if worksWith(client, "v1.37.2") != want {
			t.Errorf("%s with v1.37.2: %t", client, !want)
		}
	}
}

func TestMissingProgramsAreNamed(t *testing.T) {
	tools := newTestToolbox(t)
	path, err := tools.path("etcd")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	missing, err := tools.missing([]string{"etcd", "kwok"})
	if err != nil || strings.Join(programNames(missing), " ") != "kwok" {
		t.Errorf("missing %v, error %v", programNames(missing), err)
	}
	err = tools.ensureBuilt(t.Context(), false, true)
	if err == nil || !strings.Contains(err.Error(), "make localcluster") {
		t.Errorf("--no-build without programs: %v", err)
	}
}

func TestLdflagsStampTheVersionOfKubernetesOnly(t *testing.T) {
	if got := ldflags("etcd", "v3.6.1"); got != "-s -w" {
		t.Errorf("etcd: %s", got)
	}
	got := ldflags("kubernetes", "v1.37.2")
	for _, want := range []string{"component-base/version.gitVersion=v1.37.2", "component-base/version.gitMajor=1 ", "client-go/pkg/version.gitMinor=37 "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

func TestBuildLogTellsProgressFromErrors(t *testing.T) {
	var log buildLog
	log.read(strings.NewReader("go: downloading a.b/c v1.0.0\nk8s.io/api/core/v1\nx/y_z-1.v2\n# k8s.io/broken\nfile.go:1:2: no such thing\n"))
	if log.downloaded != 1 || log.compiled != 2 {
		t.Errorf("%d downloaded, %d compiled", log.downloaded, log.compiled)
	}
	if got := log.errors(); got != "# k8s.io/broken\nfile.go:1:2: no such thing" {
		t.Errorf("errors %q", got)
	}
}

func TestClusterNames(t *testing.T) {
	tools := newTestToolbox(t)
	for name, ok := range map[string]bool{"dev": true, "test-a-1": true, "": false, "..": false, "a/b": false, "-a": false, "Ä": false} {
		if _, err := tools.cluster(name); (err == nil) != ok {
			t.Errorf("name %q: error %v", name, err)
		}
	}
}

func TestPruneDeletesOnlyWhatHasADeadOwner(t *testing.T) {
	dead := newTestCluster(t, "dead")
	tools := dead.tools
	clusters := map[string]*cluster{"dead": dead}
	for _, name := range []string{"alive", "unowned"} {
		c, err := tools.cluster(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(c.file("localcluster"), 0o700); err != nil {
			t.Fatal(err)
		}
		clusters[name] = c
	}
	lock, err := tryLockFile(dead.ownerLock())
	if err != nil {
		t.Fatal(err)
	}
	lock.Close() // as the kernel does when its owner dies
	lock, err = tryLockFile(clusters["alive"].ownerLock())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()

	if err := tools.prune(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"dead": false, "alive": true, "unowned": true} {
		if got := clusters[name].exists(); got != want {
			t.Errorf("cluster %s exists: %t, want %t", name, got, want)
		}
	}
}

func TestDeleteEndsProcessesOfItsFolderOnly(t *testing.T) {
	c := newTestCluster(t, "c")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no program called sleep")
	}
	inside := startSleep(t, sleep, c.file("kube-apiserver"))
	outside := startSleep(t, sleep, filepath.Join(t.TempDir(), "kube-apiserver"))
	if err := c.delete(0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-inside:
	case <-time.After(10 * time.Second):
		t.Error("the cluster's process still runs")
	}
	select {
	case <-outside:
		t.Error("another process was ended")
	default:
	}
	if c.exists() {
		t.Error("the folder is still there")
	}
	if err := c.delete(0); err != nil {
		t.Errorf("deleting it once more: %v", err)
	}
}

// startSleep runs a program through a link; the channel is closed when it has ended.
func startSleep(t *testing.T, program, link string) <-chan struct{} {
	t.Helper()
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return ended
}

func TestTerminateKillsWhatDoesNotEnd(t *testing.T) {
	dir := t.TempDir()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	link := filepath.Join(dir, "stubborn")
	if err := os.Symlink(shell, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := terminate(func() ([]process, error) { return processesNamed(dir, "stubborn") }, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("killed after %v, before its grace was over", took)
	}
}

func TestManagerCredentialsAreSignedByTheCA(t *testing.T) {
	pki := t.TempDir()
	writeCA(t, pki)
	creds, err := newCredentials(pki, managerUser)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(creds.cert, creds.key); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(creds.cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(creds.ca)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if cert.Subject.CommonName != managerUser || len(cert.Subject.Organization) != 0 {
		t.Errorf("the certificate is for %v", cert.Subject)
	}
	kubeconfig, err := creds.kubeconfig("c", managerUser, "https://127.0.0.1:1")
	if err != nil || !strings.Contains(string(kubeconfig), "server: https://127.0.0.1:1\n") {
		t.Errorf("%s (%v)", kubeconfig, err)
	}
}

func writeCA(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ca.crt": {Type: "CERTIFICATE", Bytes: cert},
		"ca.key": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCountReady(t *testing.T) {
	list := `{"items":[
		{"status":{"conditions":[{"type":"Ready","status":"True"}]}},
		{"status":{"conditions":[{"type":"Ready","status":"False"}]}},
		{"status":{}}]}`
	if n, err := countReady([]byte(list)); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := countReady([]byte("no JSON")); err == nil {
		t.Error("no error")
	}
}

func TestNodesDifferInNameAndAddresses(t *testing.T) {
	var nodes [2]struct {
		Metadata struct{ Name string }
		Spec     struct{ PodCIDR string }
	}
	for i := range nodes {
		if err := json.Unmarshal(nodeManifest(i), &nodes[i]); err != nil {
			t.Fatal(err)
		}
	}
	if nodes[0].Metadata.Name == nodes[1].Metadata.Name || nodes[0].Spec.PodCIDR == nodes[1].Spec.PodCIDR {
		t.Errorf("got %+v", nodes)
	}
}

func TestPollReturnsTheLastErrorWhenTimeIsUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	cause := errors.New("not yet")
	if err := poll(ctx, "it", func() error { return cause }); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestKwokctlConfigWithAndWithoutControllerManager(t *testing.T) {
	for manager, want := range map[string]string{
		"":       "\n  disable: [kube-controller-manager]\n",
		"/a/b c": "\n  kubeControllerManagerBinary: \"/a/b c\"\n",
	} {
		var config bytes.Buffer
		err := template.Must(template.New("").Parse(kwokctlConfig)).Execute(&config, map[string]string{"ControllerManager": manager})
		if err != nil || !strings.Contains(config.String(), want) {
			t.Errorf("with manager %q: %v\n%s", manager, err, &config)
		}
	}
}

func TestAdmissionIsThatOfKubeadmIfAsked(t *testing.T) {
	for _, asked := range []string{"", "true"} {
		var config bytes.Buffer
		err := template.Must(template.New("").Parse(kwokctlConfig)).Execute(&config, map[string]string{"KubeadmAdmission": asked})
		if err != nil {
			t.Fatal(err)
		}
		exact := strings.Contains(config.String(), "value: NodeRestriction}") && !strings.Contains(config.String(), "disable-admission-plugins")
		if exact != (asked != "") {
			t.Errorf("asked for kubeadm's admission: %q, but got\n%s", asked, &config)
		}
	}
}

func TestPKIIsThatOfKubeadm(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := writePKI(dir); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	pair, err := tls.LoadX509KeyPair(file("front-proxy-client.crt"), file("front-proxy-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := tls.LoadX509KeyPair(file("front-proxy-ca.crt"), file("front-proxy-ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if pair.Leaf.Subject.CommonName != frontProxy {
		t.Errorf("the certificate is for %v", pair.Leaf.Subject)
	}
	private, err := os.ReadFile(file("sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(file("sa.pub"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(private)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode(public)
	if got, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil || !key.PublicKey.Equal(got) {
		t.Errorf("sa.pub is not the public key of sa.key: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o  options
		ok bool
	}{
		{options{nodes: 3}, true},
		{options{nodes: 3, controllerManager: program}, true},
		{options{nodes: -1}, false},
		{options{nodes: 251}, false},
		{options{controllerManager: program + "-missing"}, false},
		{options{controllerManager: filepath.Dir(program)}, false},
	} {
		if err := c.o.check(); (err == nil) != c.ok {
			t.Errorf("%+v: error %v", c.o, err)
		}
	}
}

func TestBadCommandLines(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, args := range [][]string{
		{"nonsense"}, {"create", "stray"}, {"run", "--examples", "none"}, {"run", "--examples", "all", "--manifest", "web.yaml"},
		{"path"}, {"path", "nonsense"}, {"stop-component"}, {"stop-component", "--name", "none", "etcd"},
	} {
		if err := dispatch(t.Context(), args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestHeldClusterEndsWithTheInput(t *testing.T) {
	r, w := io.Pipe()
	ctx := untilEnd(t.Context(), r)
	if ctx.Err() != nil {
		t.Fatal("it ended before")
	}
	w.Close()
	<-ctx.Done()
}

func TestLogTailShowsTheLastLines(t *testing.T) {
	c := newTestCluster(t, "c")
	if err := os.MkdirAll(c.file("logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("long line of a log\n", 2000) + "the end\n"
	if err := os.WriteFile(c.file("logs", "etcd.log"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := c.logTail("etcd")
	if !strings.HasSuffix(got, "\nthe end") || strings.Count(got, "\n") != 25 {
		t.Errorf("got %d lines ending in %q", strings.Count(got, "\n"), got[len(got)-20:])
	}
	if got := c.logTail("none"); !strings.Contains(got, "no such file") {
		t.Errorf("of a missing log: %q", got)
	}
}
