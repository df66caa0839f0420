package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// managerEnd is how long a manager may take to end after SIGTERM.
const managerEnd = 30 * time.Second

// Manager is a running controller manager: the real binary, as a process.
type Manager struct {
	cmd   *exec.Cmd
	log   *logBuffer
	ended chan struct{}
	asked bool // that the process has ended, or will, is known to the test
}

// Manager starts a controller manager with the given flags. Flags that are not given have these values:
//
//	--kubeconfig                        that of the user system:kube-controller-manager
//	--cluster-signing-{cert,key}-file   the cluster's CA, unless there are other --cluster-signing-... files
//	--use-service-account-credentials   true, because that user alone may write almost nothing
//	--allocate-node-cidrs               true, with a --cluster-cidr that the nodes of the control plane have theirs from
//	--leader-elect                      false, so that tests need not wait for a lease
//	--secure-port                       0, so that two managers don't compete for a port
//
// At the end of the test it is stopped if it still runs. If it ended without having been asked to, the test fails. If the
// test failed, its log is shown.
func (c *Cluster) Manager(t testing.TB, args ...string) *Manager {
	t.Helper()
	return c.ManagerOf(t, "", args...)
}

// ManagerOf is [Cluster.Manager] for another program than ours, unless its name is empty.
func (c *Cluster) ManagerOf(t testing.TB, binary string, args ...string) *Manager {
	t.Helper()
	return c.managerOf(t, binary, c.withDefaults(args)...)
}

// ManagerExactly is [Cluster.Manager] with the given flags and no others.
func (c *Cluster) ManagerExactly(t testing.TB, args ...string) *Manager {
	t.Helper()
	return c.managerOf(t, "", args...)
}

func (c *Cluster) managerOf(t testing.TB, binary string, args ...string) *Manager {
	t.Helper()
	m, err := c.startManager(binary, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.cleanUp(t) })
	return m
}

// startManager starts a program, or ours if none is named.
func (c *Cluster) startManager(binary string, args ...string) (*Manager, error) {
	if binary == "" {
		var err error
		if binary, err = c.buildManager(); err != nil {
			return nil, err
		}
	}
	m := &Manager{
		cmd:   exec.Command(binary, args...),
		log:   &logBuffer{},
		ended: make(chan struct{}),
	}
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	if err := StartTied(m.cmd); err != nil {
		return nil, err
	}
	go func() {
		defer close(m.ended)
		_ = m.cmd.Wait() // how it ended is in ProcessState
	}()
	return m, nil
}

// builtManager names, in the environment, the binary that "make build" has just built, so that suites need not link it again. By hand it is
// not set, as it would be forgotten when the code changes.
const builtManager = "MANAGER_BUILT"

// buildManagerBinary puts the binary into the control plane's folder: whatever runs from there is ended with the control plane.
//
// MANAGER_BINARY in the environment names another binary to test, for example the original's (see "localcluster path"),
// and MANAGER_FLAGS more flags for it.
func (c *Cluster) buildManagerBinary() (string, error) {
	if binary := os.Getenv("MANAGER_BINARY"); binary != "" {
		return binary, nil
	}
	binary := filepath.Join(c.Dir, "controller-manager")
	if built := os.Getenv(builtManager); built != "" {
		return binary, copyProgram(built, binary)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "./cmd/controller-manager")
	cmd.Dir = c.repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the controller manager: %w\n%s", err, out)
	}
	return binary, nil
}

func copyProgram(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("%s: %w", builtManager, err)
	}
	return os.WriteFile(to, program, 0o755)
}

func (c *Cluster) withDefaults(args []string) []string {
	defaults := [][2]string{
		{"kubeconfig", c.ManagerKubeconfig},
		{"root-ca-file", c.CAFile},
		{"service-account-private-key-file", c.TokenKeyFile()},
		{"use-service-account-credentials", "true"},
		{"allocate-node-cidrs", "true"},
		{"cluster-cidr", "10.0.0.0/8,fd00:64::/48"},
		{"service-cluster-ip-range", "10.0.0.0/24"},
		{"leader-elect", "false"},
		{"secure-port", "0"},
	}
	if !slices.ContainsFunc(args, namesSigner) {
		defaults = append(defaults, [2]string{"cluster-signing-cert-file", c.CAFile}, [2]string{"cluster-signing-key-file", c.CAKeyFile()})
	}
	var all []string
	for _, flag := range defaults {
		if !hasFlag(args, flag[0]) {
			all = append(all, "--"+flag[0]+"="+flag[1])
		}
	}
	return append(append(all, args...), strings.Fields(os.Getenv("MANAGER_FLAGS"))...)
}

func hasFlag(args []string, name string) bool {
	for _, arg := range args {
		if arg == "--"+name || strings.HasPrefix(arg, "--"+name+"=") {
			return true
		}
	}
	return false
}

// namesSigner tells whether a flag names a file of a CA that signs: the flag for all signers excludes those for one.
func namesSigner(arg string) bool {
	return strings.HasPrefix(arg, "--cluster-signing-") && !strings.HasPrefix(arg, "--cluster-signing-duration")
}

// TokenKeyFile is the private key to which the API server has the public key of tokens of service accounts.
func (c *Cluster) TokenKeyFile() string { return c.pki("sa.key") }

// CAKeyFile is the private key of the CA in CAFile.
func (c *Cluster) CAKeyFile() string { return filepath.Join(c.Dir, "pki", "ca.key") }

// FrontProxyCAFile is the CA that has signed the certificate that the API server shows to aggregated API servers.
func (c *Cluster) FrontProxyCAFile() string { return c.pki("front-proxy-ca.crt") }

func (c *Cluster) pki(name string) string { return filepath.Join(c.Dir, "localcluster", "pki", name) }

// Stop sends SIGTERM and returns the exit code.
func (m *Manager) Stop(t testing.TB) int {
	t.Helper()
	m.Signal(t, syscall.SIGTERM)
	return m.Wait(t, managerEnd)
}

// Kill ends the manager as a crash would, with SIGKILL.
func (m *Manager) Kill(t testing.TB) {
	t.Helper()
	m.Signal(t, syscall.SIGKILL)
	m.Wait(t, managerEnd)
}

// Signal sends a signal. A manager that has ended already is left alone.
func (m *Manager) Signal(t testing.TB, signal os.Signal) {
	t.Helper()
	m.asked = true
	if err := m.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal the manager: %v", err)
	}
}

// Wait waits until the manager has ended and returns its exit code, which is -1 if a signal ended it. The test fails if
// that takes longer than timeout.
func (m *Manager) Wait(t testing.TB, timeout time.Duration) int {
	t.Helper()
	m.asked = true
	select {
	case <-m.ended:
		return m.cmd.ProcessState.ExitCode()
	case <-time.After(timeout):
		_ = m.cmd.Process.Kill()
		<-m.ended
		t.Fatalf("the manager did not end in %v and was killed", timeout)
		return -1
	}
}

// Ended is closed when the manager has ended.
func (m *Manager) Ended() <-chan struct{} { return m.ended }

// Pid is the manager's process id.
func (m *Manager) Pid() int { return m.cmd.Process.Pid }

// CPU is the processor time that the manager has used so far. It is zero where there is no /proc.
func (m *Manager) CPU(t testing.TB) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.Pid()))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name in parentheses may have spaces
	fields := strings.Fields(rest)
	var ticks int
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Log is what the manager has printed so far.
func (m *Manager) Log() string { return m.log.String() }

// WaitForLog waits until the manager has printed text.
func (m *Manager) WaitForLog(t testing.TB, timeout time.Duration, text string) {
	t.Helper()
	Eventually(t, timeout, fmt.Sprintf("the manager logs %q", text), func() error {
		if strings.Contains(m.Log(), text) {
			return nil
		}
		select {
		case <-m.ended:
			return fmt.Errorf("it has ended with exit code %d", m.cmd.ProcessState.ExitCode())
		default:
			return errors.New("it did not yet")
		}
	})
}

func (m *Manager) cleanUp(t testing.TB) {
	select {
	case <-m.ended:
		if !m.asked {
			t.Errorf("the manager ended by itself with exit code %d", m.cmd.ProcessState.ExitCode())
		}
	default:
		m.Stop(t)
	}
	if err := m.panicked(); err != nil {
		t.Errorf("%v", err)
	}
	m.explain(t)
}

// check is done at the end of each test that uses a manager together with others.
func (m *Manager) check(t testing.TB) {
	select {
	case <-m.ended:
		t.Errorf("the shared manager ended by itself with exit code %d", m.cmd.ProcessState.ExitCode())
	default:
	}
	if err := m.panicked(); err != nil {
		t.Errorf("%v", err)
	}
	m.explain(t)
}

// panicked reports whether a controller has panicked, which ends neither the process nor the controller.
func (m *Manager) panicked() error {
	for line := range strings.Lines(m.Log()) {
		if strings.Contains(line, "panicked") {
			return fmt.Errorf("a controller has panicked: %s", line)
		}
	}
	return nil
}

// end ends the manager that tests have shared.
func (m *Manager) end() error {
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("signal the shared manager: %w", err)
	}
	select {
	case <-m.ended:
	case <-time.After(managerEnd):
		return fmt.Errorf("the shared manager did not end in %v:\n%s", managerEnd, m.log.tail(64<<10))
	}
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the shared manager ended with exit code %d:\n%s", code, m.log.tail(64<<10))
	}
	return m.panicked()
}

// explain logs what the manager has printed, if the test has failed.
func (m *Manager) explain(t testing.TB) {
	if t.Failed() {
		t.Logf("the manager's flags: %s\nits log:\n%s", strings.Join(m.cmd.Args[1:], " "), m.log.tail(64<<10))
	}
}

// logBuffer keeps what a process prints. The zero value is ready for use.
type logBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// tail is the end of the log, from the beginning of a line.
func (b *logBuffer) tail(most int) string {
	text := b.String()
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	_, text, _ = strings.Cut(text, "\n")
	return "(the beginning is left out)\n" + text
}
