package chaos

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// process is that of a manager, and after its end the next one in its place. It implements proxy.Process.
type process struct {
	*testing.T
	*cluster.Cluster
	lives
	flags  []string
	mayEnd bool // by itself, when it has lost its lease or finds no API server

	manager *cluster.Manager // the present one; nil before the first

	reviving sync.Mutex // held while the next process is started: several goroutines of a scenario may wait at the same time
	last     cleanups   // of all managers; nil before the first
	over     bool       // the test has ended, and no more processes are started

	mu     sync.Mutex
	alive  *os.Process // nil if it was told to end
	ending *os.Process // that was told to end last
	back   time.Time   // when the next one may start
	kills  int
}

// start starts a process.
func (p *process) start() {
	p.Helper()
	p.begin()
	if p.last.TB == nil {
		p.last.TB = p.T
		p.Cleanup(p.endAll)
	}
	p.manager = p.Manager(&p.last, p.flags...)
	alive, err := os.FindProcess(p.manager.Pid())
	if err != nil {
		p.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive = alive
}

// cleanups are done where the test ends the first manager. A manager that is started later would end before what the scenario cleans up
// after its beginning, which needs one.
type cleanups struct {
	testing.TB
	all []func()
}

// Cleanup implements testing.TB.
func (c *cleanups) Cleanup(f func()) { c.all = append(c.all, f) }

// endAll ends the process, and has each manager judged.
func (p *process) endAll() {
	p.reviving.Lock()
	defer p.reviving.Unlock()
	p.over = true
	if p.hasEnded() { // with nobody left who waited for the next one
		p.judgeEnd()
	}
	for _, f := range slices.Backward(p.last.all) {
		f()
	}
}

// Kill implements proxy.Process.
func (p *process) Kill(back time.Duration) {
	if p.finish(syscall.SIGKILL, back) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.kills++
	}
}

// Stop implements proxy.Process.
func (p *process) Stop(back time.Duration) { p.finish(syscall.SIGTERM, back) }

// finish tells the process to end, and reports whether there was one.
func (p *process) finish(by os.Signal, back time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive == nil || p.alive.Signal(by) != nil {
		return false
	}
	p.alive, p.ending, p.back = nil, p.alive, time.Now().Add(back)
	return true
}

// Pause implements proxy.Process. A process that was told to end while it stood still ends when it goes on.
func (p *process) Pause(to bool) {
	by := syscall.SIGCONT
	if to {
		by = syscall.SIGSTOP
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range []*os.Process{p.alive, p.ending} {
		if one != nil {
			_ = one.Signal(by) // an error means that it has ended
		}
	}
}

func TestWhatIsToldToEndWhileItStandsStillEnds(t *testing.T) {
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{alive: sleeper.Process}
	p.Pause(true)
	p.Stop(0)
	p.Pause(false)
	late := time.AfterFunc(time.Minute, func() { _ = sleeper.Process.Kill() })
	if err := sleeper.Wait(); !late.Stop() || err == nil || err.Error() != "signal: terminated" {
		t.Errorf("it ended with %v", err)
	}
}

// spare lets the process live, whatever scripts say: it may write once more while objects of the whole cluster are cleaned up.
func (p *process) spare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive = nil
}

// killed is how often a process was killed.
func (p *process) killed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kills
}

// revive starts the next process if the present one has ended, and reports whether one lives.
func (p *process) revive() bool {
	p.Helper()
	p.reviving.Lock()
	defer p.reviving.Unlock()
	if p.manager == nil || p.over {
		return false // before the first is started, and after the last one was ended
	}
	if !p.hasEnded() {
		return true
	}
	p.mu.Lock()
	told, wait := p.alive == nil, time.Until(p.back)
	p.mu.Unlock()
	if told && wait > 0 {
		return false
	}
	p.judgeEnd()
	p.start()
	return true
}

func (p *process) hasEnded() bool {
	select {
	case <-p.manager.Ended():
		return true
	default:
		return false
	}
}

// judgeEnd fails the test if the process has ended without being told to, and had no reason.
func (p *process) judgeEnd() {
	p.Helper()
	p.mu.Lock()
	told := p.alive == nil
	p.mu.Unlock()
	code, log := p.manager.Wait(p.T, time.Second), p.manager.Log()
	lost := strings.Contains(log, "leaderelection lost") || strings.Contains(log, "wait for apiserver")
	if !told && (!p.mayEnd || !lost) {
		p.Errorf("manager %s ended by itself with exit code %d:\n%s", p.name, code, log)
	}
}
