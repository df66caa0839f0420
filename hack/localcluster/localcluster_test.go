package main

import (
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
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
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
	for module, prefix := range map[string]string{"kubernetes": "v1.37.", "etcd": "v3.7.", "kwok": "v0.8.", "csi": "v6.4.",
		driverProgram: "source"} {
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
	for release, want := range map[string]string{"": "kubernetes-v1.37.", "1.37": "kubernetes-v1.37.", "1.36": "kubernetes-v1.36.",
		"1.35": "kubernetes-v1.35."} {
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
	for client, want := range map[string]bool{"v1.36.0": true, "v1.37.2": true, "v1.38.1-rc.0": true, "v1.35.9": false, "v1.39.0": false,
		"": false, "v2.37.0": false} {
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
	for _, want := range []string{"component-base/version.gitVersion=v1.37.2", "component-base/version.gitMajor=1 ",
		"client-go/pkg/version.gitMinor=37 "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

func TestBuildLogTellsProgressFromErrors(t *testing.T) {
	var log buildLog
	log.read(strings.NewReader(
		"go: downloading a.b/c v1.0.0\nk8s.io/api/core/v1\nx/y_z-1.v2\n# k8s.io/broken\nfile.go:1:2: no such thing\n"))
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

// newTestPlan lays a cluster out, of programs that need not be built.
func newTestPlan(t *testing.T, o options) (*cluster, *plan) {
	t.Helper()
	c := newTestCluster(t, "c")
	if err := c.layOut(o); err != nil {
		t.Fatal(err)
	}
	p, err := c.plan()
	if err != nil {
		t.Fatal(err)
	}
	return c, p
}

func (p *plan) args(name string) []string {
	for _, o := range p.Components {
		if o.Name == name {
			return o.Args
		}
	}
	return nil
}

func TestPlanWithAndWithoutControllerManager(t *testing.T) {
	for binary, want := range map[string]string{
		"":       "etcd kube-apiserver kube-scheduler kwok-controller",
		"/a/b c": "etcd kube-apiserver kube-scheduler kwok-controller kube-controller-manager",
	} {
		c, p := newTestPlan(t, options{controllerManager: binary})
		var names []string
		for _, o := range p.Components {
			names = append(names, o.Name)
			if _, err := os.Readlink(c.file("bin", o.Name)); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("with manager %q: %s, want %s", binary, got, want)
		}
		if target, _ := os.Readlink(c.file("bin", manager)); target != binary {
			t.Errorf("with manager %q the link leads to %q", binary, target)
		}
	}
}

// Each file that a program is told to read is there, is not empty, and lies in the cluster's folder.
func TestProgramsAreGivenFilesThatAreThere(t *testing.T) {
	c, p := newTestPlan(t, options{controllerManager: "/manager"})
	n := 0
	for _, o := range p.Components {
		for _, arg := range o.Args {
			name, value, _ := strings.Cut(arg, "=")
			if !strings.HasPrefix(value, "/") || name == "--etcd-prefix" || name == "--authorization-always-allow-paths" ||
				name == "--data-dir" || name == "--audit-log-path" {
				continue
			}
			n++
			if info, err := os.Stat(value); err != nil || info.Size() == 0 || !strings.HasPrefix(value, c.dir+"/") {
				t.Errorf("%s %s: %v", o.Name, arg, err)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d files", n)
	}
}

func TestAdmissionIsThatOfKubeadmIfAsked(t *testing.T) {
	const plugins, owners, taints = "--enable-admission-plugins=NodeRestriction", ",OwnerReferencesPermissionEnforcement",
		"--disable-admission-plugins=TaintNodesByCondition"
	for _, row := range []struct {
		o    options
		want []string
	}{
		{options{}, []string{plugins + owners}},
		{options{kubeadmAdmission: true}, []string{plugins}},
		{options{untainted: true}, []string{plugins + owners, taints}},
	} {
		_, p := newTestPlan(t, row.o)
		got := slices.DeleteFunc(p.args(apiServer), func(arg string) bool { return !strings.Contains(arg, "admission-plugins") })
		if !slices.Equal(got, row.want) {
			t.Errorf("%+v: %q, want %q", row.o, got, row.want)
		}
	}
}

func TestClustersHavePortsOfTheirOwn(t *testing.T) {
	a, first := newTestPlan(t, options{})
	b, err := a.tools.cluster("b")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(b.file("localcluster"), 0o700); err != nil {
		t.Fatal(err)
	}
	second, err := b.writePlan(options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range []*plan{first, second} {
		for _, port := range p.Ports.all() {
			if seen[*port] || *port < 1024 || *port > highestPort {
				t.Errorf("port %d of %v and %v", *port, first.Ports, second.Ports)
			}
			seen[*port] = true
		}
	}
}

func TestPortsInUseAreNotChosen(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	busy := listener.Addr().(*net.TCPAddr).Port
	chosen, err := freePorts(busy, map[int]bool{busy - 1: true})
	if err != nil || chosen.EtcdPeer >= busy-1 {
		t.Errorf("with %d in use and %d taken: %v, %v", busy, busy-1, chosen, err)
	}
	if _, err := freePorts(1025, map[int]bool{1024: true}); err == nil {
		t.Error("no port is left, and there is no error")
	}
}

// Ctrl-C and the end of the terminal are for localcluster alone, which ends its programs; the user's folder is not kept in use.
func TestProgramsRunInAFolderAndASessionOfTheirOwn(t *testing.T) {
	c := newTestCluster(t, "c")
	for _, dir := range []string{"bin", "logs"} {
		if err := os.MkdirAll(c.file(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	if err := os.Symlink(shell, c.file("bin", "etcd")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KWOK_NAME", "other")
	for range 2 { // the second adds to the log
		ended, err := c.run(component{"etcd",
			[]string{"-c", `pwd; echo "kwok: $KWOK_NAME"; test "$(cut -d' ' -f6 /proc/$$/stat)" = $$ && echo leads`}})
		if err != nil {
			t.Fatal(err)
		}
		<-ended
	}
	log, err := os.ReadFile(c.log("etcd"))
	want := c.dir + "\nkwok: \nleads\n"
	if runtime.GOOS != "linux" {
		want = c.dir + "\nkwok: \n"
	}
	if err != nil || string(log) != want+want {
		t.Errorf("%v\n%s", err, log)
	}
}

func TestScriptsCountAsRunningOnceTheirInterpreterDoes(t *testing.T) {
	c := newTestCluster(t, "c")
	for _, dir := range []string{"bin", "logs"} {
		if err := os.MkdirAll(c.file(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	for name, text := range map[string]string{
		"slow":  "sleep 0.3; [ \"$1\" = --again ] || exec -a \"$0\" bash \"$0\" --again; sleep 60",
		"short": "echo that was all; exit 3",
	} {
		if err := os.WriteFile(c.file("bin", name), []byte("#!/usr/bin/env bash\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := c.delete(0); err != nil {
			t.Error(err)
		}
	})
	if err := c.runUntilSeen(component{Name: "slow"}); err != nil {
		t.Error(err)
	}
	if running, err := processesNamed(c.dir, "slow"); err != nil || len(running) == 0 { // a fork counts, too, until it runs a program
		t.Errorf("running are %v, %v", running, err)
	}
	if err := c.runUntilSeen(component{Name: "short"}); err == nil || !strings.Contains(err.Error(), "that was all") {
		t.Errorf("a program that ends at once: %v", err)
	}
}

func TestTheTaintOfNewNodesIsTakenAway(t *testing.T) {
	list := `{"items":[
		{"metadata":{"name":"new","resourceVersion":"7"},"spec":{"taints":[{"key":"a","effect":"NoSchedule","value":"b"},{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]}},
		{"metadata":{"name":"lost"},"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"}]}},
		{"metadata":{"name":"usual"},"spec":{}}]}`
	nodes, err := notReadyNodes([]byte(list))
	if err != nil || len(nodes) != 1 || nodes[0].Metadata.Name != "new" {
		t.Fatalf("%+v, %v", nodes, err)
	}
	want := `{"metadata":{"resourceVersion":"7"},"spec":{"taints":[{"effect":"NoSchedule","key":"a","value":"b"}]}}`
	if got := string(untaintPatch(nodes[0])); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPKIIsThatOfKubeadm(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writePKI(dir), writeClusterPKI(dir)); err != nil {
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
	clusterCA, err := os.ReadFile(file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(clusterCA)
	for name, usage := range map[string]x509.ExtKeyUsage{"admin": x509.ExtKeyUsageClientAuth, "apiserver": x509.ExtKeyUsageServerAuth} {
		pair, err := tls.LoadX509KeyPair(file(name+".crt"), file(name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "admin" &&
			(pair.Leaf.Subject.CommonName != adminUser || !slices.Equal(pair.Leaf.Subject.Organization, []string{"system:masters"})) {
			t.Errorf("the administrator is %v", pair.Leaf.Subject)
		}
		for _, host := range []string{"127.0.0.1", "localhost", "kubernetes.default.svc"} {
			if err := pair.Leaf.VerifyHostname(host); (err == nil) != (name == "apiserver") {
				t.Errorf("%s at %s: %v", name, host, err)
			}
		}
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

func TestProgressTellsWhatIsLeft(t *testing.T) {
	file := func(size int) string {
		name := filepath.Join(t.TempDir(), "a file.go")
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	p := newProgress()
	p.download()
	if got := p.state(time.Now()); got != "1 modules downloaded" {
		t.Error(got)
	}
	p.expect("a/small\t" + file(100) + "\na/large\t" + file(200) + "\t" + file(100) + "\n")
	p.expect("a/small\t" + file(100) + "\nb/other\t" + file(600) + "\n\n") // of another program
	began := time.Now()
	p.compile("a/small", began)
	p.compile("a/small", began)
	p.compile("unknown", began)
	if got := p.state(began); got != "1 packages compiled, 1 modules downloaded" {
		t.Error(got)
	}
	p.complete()
	for after, want := range map[time.Duration]string{
		time.Second: "1 of 3 packages", 20 * time.Second: "1 of 3 packages, about 3m left",
		10 * time.Second: "1 of 3 packages, about 2m left",
	} {
		if got := p.state(began.Add(after)); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	p.compile("a/large", began)
	for after, want := range map[time.Duration]string{24 * time.Second: "2 of 3 packages, about 40s left"} {
		if got := p.state(began.Add(after)); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	p.compile("b/other", began)
	if got := p.state(began.Add(time.Minute)); got != "3 of 3 packages, a few seconds left" {
		t.Error(got)
	}
}

func TestTheExampleCanBeCreatedWithoutKubectl(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"))
	}))
	defer server.Close()
	manifest, err := os.ReadFile(filepath.Join("..", "..", "examples", "web.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	a := &api{server: server.URL, http: server.Client()}
	if err := a.createFrom(t.Context(), string(manifest)); err != nil {
		t.Fatal(err)
	}
	want := []string{"POST /apis/apps/v1/namespaces/default/deployments application/yaml",
		"POST /api/v1/namespaces/default/services application/yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := a.createFrom(t.Context(), "kind: Secret\n"); err == nil {
		t.Error("another kind: no error")
	}
}
