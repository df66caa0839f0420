// Package cluster gives tests a real control plane (see hack/localcluster) and runs the controller manager's binary
// against it.
//
// A test package has one control plane, which starts with the first test that asks for it and ends with the package. Each
// test has a namespace of its own. A manager works on all namespaces, so tests that run one of their own must not run in
// parallel. Tests that need none of their own use [Cluster.SharedManager], and may.
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
//
//	func TestRollout(t *testing.T) {
//		c := cluster.Start(t)
//		c.Manager(t, "--controllers=deployment,replicaset")
//		namespace := c.Namespace(t)
//		c.Kubectl(t, "--namespace", namespace, "create", "deployment", "web", "--image=nginx")
//		c.Kubectl(t, "--namespace", namespace, "rollout", "status", "deployment/web", "--timeout=30s")
//	}
//
// If the test process is killed, the control plane ends with it.
package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a running control plane.
type Cluster struct {
	Client     kubernetes.Interface // with the rights of an administrator and without limits of its own
	RESTConfig *rest.Config         // the same, to make other clients from

	// What localcluster says about the control plane.
	Name              string `json:"name"`
	Dir               string `json:"dir"`
	Server            string `json:"server"`
	Etcd              string `json:"etcd"` // the address of etcd, which asks nobody who they are
	AdminKubeconfig   string `json:"kubeconfig"`
	ManagerKubeconfig string `json:"managerKubeconfig"` // of the user system:kube-controller-manager
	CAFile            string `json:"caFile"`
	KubectlPath       string `json:"kubectl"`
	LogDir            string `json:"logs"`
	AuditLog          string `json:"auditLog"`
	ManagerPort       int    `json:"managerPort"` // the port 10257 of all pods leads to this one here

	Roles          Roles  `json:"-"` // see InstalledRoles
	CertKubeconfig string `json:"-"` // ManagerKubeconfig as it was before InstalledRoles

	repository string
	holder     *exec.Cmd      // the localcluster process that keeps the control plane alive
	hold       io.WriteCloser // closing it ends the control plane

	buildManager func() (path string, err error)
}

// shared is the control plane of the running test package.
var shared struct {
	sync.Mutex
	all     []Option // of the package
	options []Option // those that the control plane still lacks
	cluster *Cluster
	err     error
	manager *Manager // see SharedManager
	csi     *Cluster // see StartWithCSI
	csiErr  error
}

// Option changes the control plane of a package before its first test.
type Option func(testing.TB, *Cluster)

// InstalledRoles makes the package's managers run as the service account that deploy/kustomize installs, under exactly its
// roles, instead of as the user and the accounts to which the API server itself gives rights. The package fails if the API
// server has refused one of their requests for want of a right.
func InstalledRoles(t testing.TB, c *Cluster) { c.installRoles(t) }

// WithoutKwok ends kwok, so that only the tests write to nodes and pods.
func WithoutKwok(t testing.TB, c *Cluster) { c.stopComponent(t, "kwok-controller") }

// parallel is how many tests run at the same time, unless the flag -parallel is given. They mostly wait.
const parallel = "4"

// Main runs a package's tests, and then ends its shared manager and its control plane. It returns the code with which the process is to
// end: if TestMain returns without using it, only failed tests fail the package, and not what they have left.
func Main(m *testing.M, options ...Option) (code int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", parallel) // the flag exists
	}
	shared.all, shared.options = options, options
	code = m.Run()
	if err := end(); err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: after the tests: %v\n", err)
		return max(code, 1)
	}
	return code
}

// end ends what the package has started, and tells what is wrong with what the tests have left.
func end() error {
	shared.Lock()
	defer shared.Unlock()
	var problems []error
	if shared.csi != nil {
		problems = append(problems, shared.csi.checkRights(), shared.csi.stop())
	}
	c := shared.cluster
	if c == nil {
		return errors.Join(problems...)
	}
	if shared.manager != nil {
		problems = append(problems, c.waitForNamespaces(), shared.manager.end())
	}
	return errors.Join(append(problems, c.checkRights(), c.stop())...)
}

// SharedManager returns the package's manager with the flags of [Cluster.Manager], starting it if need be with those that are
// given. It runs until all tests have ended, so the test must be parallel: those that are not have ended by then, and with them
// their own managers. At last it empties the namespaces of all tests.
func (c *Cluster) SharedManager(t testing.TB, args ...string) *Manager {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.manager == nil {
		m, err := c.startManager("", c.withDefaults(args)...)
		if err != nil {
			t.Fatal(err)
		}
		shared.manager = m
	}
	t.Cleanup(func() { shared.manager.check(t) })
	return shared.manager
}

// Start returns the package's control plane, starting it if need be. With -short it skips the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane, which -short leaves out")
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = start("", untainted)
	}
	if shared.err != nil {
		t.Fatalf("no control plane: %v", shared.err)
	}
	for len(shared.options) > 0 {
		option := shared.options[0]
		shared.options = shared.options[1:]
		option(t, shared.cluster)
	}
	return shared.cluster
}

// untainted control planes give new nodes no taint: many tests run managers without node-lifecycle-controller, which takes it away.
const untainted = "--without-node-taints"

// StartWithManager starts another control plane, in which localcluster runs the manager with the flags that kwokctl has for
// kube-controller-manager. Its new nodes are tainted, and the manager takes the taint away. It ends with the test.
func (c *Cluster) StartWithManager(t testing.TB) *Cluster {
	t.Helper()
	binary, err := c.buildManager()
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine the API server may answer more slowly than within the 10 s that a manager waits for it (CLI-58), and
	// nobody starts that again, as a kubelet would. By the name of its process localcluster knows it.
	again := filepath.Join(t.TempDir(), "again")
	script := fmt.Sprintf(`#!/usr/bin/env bash
[ "$1" = --again ] || exec -a "$0" bash "$0" --again "$@"
shift
trap 'kill -TERM $pid; wait $pid; exit' TERM INT
while :; do '%s' "$@" & pid=$!; wait $pid && exit; sleep 1; done
`, binary)
	if err := os.WriteFile(again, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return startOther(t, "-with", "--kube-controller-manager-binary", again)
}

// StartLikeKubeadm starts another control plane, with exactly the admission plugins of kubeadm. Its nodes keep the taint
// node.kubernetes.io/not-ready until somebody takes it away. It ends with the test.
func (c *Cluster) StartLikeKubeadm(t testing.TB) *Cluster {
	t.Helper()
	return startOther(t, "-kubeadm", "--kubeadm-admission")
}

func startOther(t testing.TB, suffix string, args ...string) *Cluster {
	t.Helper()
	other, err := start(suffix, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.stop(); err != nil {
			t.Errorf("ending the other control plane: %v", err)
		}
	})
	return other
}

func start(suffix string, args ...string) (*Cluster, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	repository, err := findRepository(wd)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("test-%s-%d%s", regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(wd)), "-"),
		os.Getpid(), suffix)
	c := &Cluster{repository: repository}
	c.holder = c.localcluster(append([]string{"create", "--name", name, "--hold", "--no-build"}, args...)...)
	var stderr bytes.Buffer
	c.holder.Stderr = &stderr
	stdout, err := c.holder.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.hold, err = c.holder.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.holder.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(stdout).Decode(c); err != nil {
		_ = c.stop() // it has failed, and says why on standard error
		return nil, fmt.Errorf("localcluster create: %w\n%s", err, &stderr)
	}
	if err := c.connect(); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.buildManager = sync.OnceValues(c.buildManagerBinary)
	return c, nil
}

// findRepository looks for the folder that has hack/localcluster, from dir upwards.
func findRepository(dir string) (string, error) {
	for parent := dir; ; parent = filepath.Dir(parent) {
		if _, err := os.Stat(filepath.Join(parent, "hack", "localcluster", "go.mod")); err == nil {
			return parent, nil
		}
		if parent == filepath.Dir(parent) {
			return "", fmt.Errorf("no hack/localcluster from %s upwards", dir)
		}
	}
}

func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.AdminKubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.UserAgent = "test"
	c.RESTConfig = config
	c.Client, err = kubernetes.NewForConfig(config)
	return err
}

// stop ends the control plane and waits until nothing of it is left.
func (c *Cluster) stop() error {
	err := c.hold.Close()
	ended := make(chan error, 1)
	go func() { ended <- c.holder.Wait() }()
	select {
	case waitErr := <-ended:
		return errors.Join(err, waitErr)
	case <-time.After(time.Minute):
		return errors.Join(err, errors.New("localcluster did not end in a minute"), c.holder.Process.Kill())
	}
}

// localcluster is a run of the program in hack/localcluster.
func (c *Cluster) localcluster(args ...string) *exec.Cmd {
	return exec.Command("go", append([]string{"-C", filepath.Join(c.repository, "hack", "localcluster"), "run", "."}, args...)...)
}

// StopAPIServer kills the API server. The test's end starts it again if the test did not.
func (c *Cluster) StopAPIServer(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { c.StartAPIServer(cleanup{t}) })
	c.Roles.rightless = append(c.Roles.rightless, c.AuditEnd(t))
	c.stopComponent(t, "kube-apiserver")
}

// stopComponent kills one of the control plane's programs.
func (c *Cluster) stopComponent(t testing.TB, component string) {
	t.Helper()
	if out, err := c.localcluster("stop-component", "--kill", "--name", c.Name, component).CombinedOutput(); err != nil {
		t.Fatalf("stop %s: %v\n%s", component, err, out)
	}
}

// StartAPIServer starts the API server, unless it runs, and waits until it is ready. The managers have the rights that they had
// before.
func (c *Cluster) StartAPIServer(t testing.TB) {
	t.Helper()
	if len(c.Roles.rightless)%2 == 0 {
		return // it runs
	}
	if out, err := c.localcluster("start-component", "--name", c.Name, "kube-apiserver").CombinedOutput(); err != nil {
		t.Fatalf("start the API server: %v\n%s", err, out)
	}
	if c.Roles.installed {
		c.takeRoles(t)
		c.waitForRights(t, installedUser, true)
	}
	c.Roles.rightless = append(c.Roles.rightless, c.AuditEnd(t))
}

// Kubectl runs kubectl as the administrator and returns what it prints. The test ends if kubectl fails.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.TryKubectl(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryKubectl is Kubectl for commands that may fail; the error has what kubectl printed on standard error.
func (c *Cluster) TryKubectl(t testing.TB, args ...string) (string, error) {
	t.Helper()
	return c.kubectl(t, "", args)
}

// Apply gives kubectl apply a manifest.
func (c *Cluster) Apply(t testing.TB, namespace, manifest string) {
	t.Helper()
	if _, err := c.kubectl(t, manifest, []string{"--namespace", namespace, "apply", "--filename", "-"}); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) kubectl(t testing.TB, stdin string, args []string) (string, error) {
	cmd := exec.CommandContext(t.Context(), c.KubectlPath, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.AdminKubeconfig, "KUBECACHEDIR="+filepath.Join(c.Dir, "kubectl-cache"))
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
