package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

const (
	// restfulness is how long a manager that has nothing to do must have written nothing: longer than it may hold back a
	// status.
	restfulness = 1500 * time.Millisecond
)

// run is a manager that works on one namespace through a fault proxy. Runs don't see one another, so they may go on in
// parallel.
type run struct {
	*testing.T
	*cluster.Cluster
	ns        string
	proxy     *proxy.Proxy
	recording recording
	flags     []string
	tally     *tally
	judged    bool

	lives   lives
	manager *cluster.Manager
	mayEnd  bool // by itself, when it has lost its lease
	kills   atomic.Int32

	reference   *oracle.History // of a run without faults, which ends in the same state; nil if there is none
	disturbance disturbance
	disturbed   oracle.Interval // when there were faults; zero if there were none

	mu      sync.Mutex
	process *os.Process // of the manager
}

// newRun starts a proxy with the script, for a run that the tally counts, however it ends. The manager behind it starts with [run.start].
func newRun(t *testing.T, c *cluster.Cluster, y *tally, script string, flags ...string) *run {
	t.Helper()
	parsed, err := proxy.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{T: t, Cluster: c, tally: y, ns: c.Namespace(t), lives: lives{name: "manager"}, disturbance: disturbance{func() {}, func() {}}}
	r.recording.namespaces = []string{r.ns}
	r.recording.begin(t, c.RESTConfig)
	t.Cleanup(r.recording.stop)
	r.proxy, err = proxy.Start(proxy.Options{
		Kubeconfig: c.ManagerKubeconfig, Namespace: r.ns, Kill: r.kill,
		Answered: func(e proxy.Exchange) { r.recording.answered(r.lives.identity(e.Sent), e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.proxy.Close(); err != nil {
			t.Errorf("close the proxy: %v", err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := r.proxy.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	r.flags = append([]string{"--kubeconfig=" + kubeconfig, suite.ControllersFlag(),
		"--legacy-service-account-token-clean-up-period=" + suite.LegacyTokenPeriod}, flags...)
	t.Cleanup(r.explain)
	t.Cleanup(r.giveUp)
	r.proxy.Run(parsed)
	return r
}

// start starts the manager's process.
func (r *run) start() {
	r.Helper()
	r.lives.begin()
	r.manager = r.Manager(r.T, r.flags...)
	process, err := os.FindProcess(r.manager.Pid())
	if err != nil {
		r.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = process
}

// spare lets the manager live, whatever the script says: it may write once more while objects of the whole cluster are cleaned up.
func (r *run) spare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = nil
}

// kill ends the manager as a crash would. The proxy calls it.
func (r *run) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil && r.process.Kill() == nil {
		r.kills.Add(1)
		r.process = nil
	}
}

// revive starts the manager anew if it was killed.
func (r *run) revive() {
	r.Helper()
	if r.manager == nil {
		return // it has not been started yet
	}
	select {
	case <-r.manager.Ended():
		r.mu.Lock()
		killed := r.process == nil
		r.mu.Unlock()
		if code := r.manager.Wait(r.T, time.Second); !killed && !r.mayEnd {
			r.Errorf("the manager ended by itself with exit code %d", code)
		}
		r.start()
	default:
	}
}

// wait waits until check returns nil, while managers that are killed are started anew.
func (r *run) wait(what string, timeout time.Duration, check func() error) {
	r.Helper()
	cluster.Eventually(r.T, timeout, what, func() error {
		r.revive()
		return check()
	})
}

// quiet waits until nothing has been written for as long as given.
func (r *run) quiet(long, timeout time.Duration) {
	r.Helper()
	last, since := -1, time.Now()
	r.wait("the manager is quiet", timeout, func() error {
		if n := r.proxy.Writes(); n != last {
			last, since = n, time.Now()
		}
		if rest := time.Since(since); rest < long {
			return fmt.Errorf("%d writes, quiet for %v", last, rest)
		}
		return nil
	})
}

// end waits until the manager has come to rest with its work done, and returns all that has happened. A manager that
// pauses before it tries again, or before it opens a watch again, is at rest for a while too. So it is asked whether something is left to
// do, and whether the end is that of the run without faults. If it is not to the last, the oracles will say why.
func (r *run) end() *oracle.History {
	r.Helper()
	o := oracle.Options{Settled: true, Unhindered: true, TerminatedPodThreshold: suite.TerminatedThreshold}
	for deadline := time.Now().Add(recovery); ; {
		r.quiet(restfulness, suite.Patience)
		h := r.recording.now(r.T, r.RESTConfig)
		done := len(oracle.Check(h, o, oracle.L1(), oracle.L3()))+len(r.differences(h)) == 0
		if done || time.Now().After(deadline) {
			r.spare()
			return r.recording.end(r.T)
		}
	}
}

// explain logs what was injected, if the test has failed.
func (r *run) explain() {
	if !r.Failed() {
		return
	}
	for i, injection := range r.proxy.Injections() {
		if i == 200 {
			r.Logf("... and more")
			break
		}
		r.Logf("injected %s", injection)
	}
}

// keep saves the history of a run that has failed.
func (r *run) keep(h *oracle.History) {
	r.Helper()
	keep(r.T, r.ns, h)
}

// keep saves a history in the folder that CHAOS_HISTORIES names.
func keep(t *testing.T, name string, h *oracle.History) {
	t.Helper()
	dir := os.Getenv("CHAOS_HISTORIES")
	if dir == "" {
		return
	}
	file := filepath.Join(dir, name+".jsonl.gz")
	if err := h.Save(file); err != nil {
		t.Error(err)
		return
	}
	t.Logf("its history is in %s", file)
}
