package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// leaseName is the default of --leader-elect-resource-name.
const leaseName = "kube-controller-manager"

// manager is a running controller manager.
type manager struct {
	cmd   *exec.Cmd
	out   *output
	began time.Time
	ended chan struct{}
}

// startManager starts a contender's program through a link in the control plane's folder, so that it ends with the control
// plane.
func (p *plane) startManager(c contender, flags []string) (*manager, error) {
	link := filepath.Join(p.Dir, "manager-"+c.Name)
	if err := os.Symlink(c.Binary, link); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	m := &manager{cmd: exec.Command(link, flags...), out: &output{}, ended: make(chan struct{})}
	m.cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1") // says how large the heap is after each collection
	m.cmd.Stdout, m.cmd.Stderr = m.out, m.out
	m.began = time.Now()
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(m.ended)
		_ = m.cmd.Wait() // how it ended is in ProcessState
	}()
	return m, nil
}

// running returns an error that shows the log if the manager has ended.
func (m *manager) running() error {
	select {
	case <-m.ended:
		return fmt.Errorf("the manager has ended by itself (%v): %s\n%s", m.cmd.ProcessState, strings.Join(m.cmd.Args, " "), m.out.tail())
	default:
		return nil
	}
}

// stop ends the manager: it is given time to end by itself, which it may do with any exit code.
func (m *manager) stop() error {
	err := m.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	select {
	case <-m.ended:
	case <-time.After(20 * time.Second):
		err = errors.Join(err, errors.New("the manager did not end 20 s after SIGTERM"), m.cmd.Process.Kill())
		<-m.ended
	}
	return err
}

func (m *manager) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", m.cmd.Process.Pid, file)
}

// cpu is the processor time that the manager has used so far, by the hundredth of a second.
func (m *manager) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(m.proc("stat"))
	if err != nil {
		return 0, errors.Join(err, m.running())
	}
	return parseStat(string(stat))
}

// parseStat reads user and system time from /proc/PID/stat.
func parseStat(stat string) (time.Duration, error) {
	const user, system = 11, 12 // counted from behind the name, which is in parentheses and may have spaces
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) <= system {
		return 0, fmt.Errorf("unexpected process state %q", stat)
	}
	ticks := 0
	for _, field := range fields[user : system+1] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("unexpected process state %q: %w", stat, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// memory is the manager's resident memory now and at its highest since the start or the last resetPeak, in bytes.
func (m *manager) memory() (now, peak int64, err error) {
	status, err := os.ReadFile(m.proc("status"))
	if err != nil {
		return 0, 0, errors.Join(err, m.running())
	}
	now, err = parseStatus(string(status), "VmRSS")
	if err != nil {
		return 0, 0, err
	}
	peak, err = parseStatus(string(status), "VmHWM")
	return now, peak, err
}

// parseStatus reads a size from /proc/PID/status.
func parseStatus(status, name string) (bytes int64, err error) {
	for line := range strings.Lines(status) {
		value, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		kilobytes, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if !ok {
			break
		}
		n, err := strconv.ParseInt(kilobytes, 10, 64)
		return n << 10, err
	}
	return 0, fmt.Errorf("no %s in the process status", name)
}

// resetPeak begins a new measurement of the highest resident memory.
func (m *manager) resetPeak() error { return os.WriteFile(m.proc("clear_refs"), []byte("5"), 0) }

// output keeps the end of what a process prints, and what it says about garbage collections.
type output struct {
	mu     sync.Mutex
	rest   []byte // of a line that is not over
	lines  []string
	heap   int64 // bytes alive after the last collection
	forced int   // collections that were made because there had been none for two minutes
}

// mostLines of a process are kept.
const mostLines = 400

// "gc 7 @0.512s 1%: 0.02+1.1+0.03 ms clock, 0.04+0.3/0.9/0+0.06 ms cpu, 9->10->5 MB, 10 MB goal, ..., 2 P (forced)"
var gcLine = regexp.MustCompile(`^gc \d+ @\S+ \d+%: .* (\d+)->(\d+)->(\d+) MB, `)

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, p...)
	for {
		line, rest, found := bytes.Cut(o.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		o.take(string(line))
		o.rest = rest
	}
}

func (o *output) take(line string) {
	if match := gcLine.FindStringSubmatch(line); match != nil {
		if alive, err := strconv.ParseInt(match[3], 10, 64); err == nil {
			o.heap = alive << 20
		}
		if strings.HasSuffix(line, "(forced)") {
			o.forced++
		}
		return
	}
	if len(o.lines) == mostLines {
		o.lines = o.lines[1:]
	}
	o.lines = append(o.lines, line)
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n")
}

// collected returns the heap that was alive after the last collection, and how many collections were forced so far.
func (o *output) collected() (heap int64, forced int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heap, o.forced
}

// atRest waits until the manager has used no more than a fiftieth of a processor for a while, and returns the time that
// it had used, and when, when that began.
func (m *manager) atRest(ctx context.Context, while time.Duration) (used time.Duration, at time.Time, err error) {
	for {
		used, err = m.cpu()
		if err != nil {
			return 0, at, err
		}
		at = time.Now()
		calm := true
		for calm && time.Since(at) < while {
			if err := sleep(ctx, 250*time.Millisecond); err != nil {
				return 0, at, err
			}
			now, err := m.cpu()
			if err != nil {
				return 0, at, err
			}
			calm = now-used <= max(while/50, 20*time.Millisecond)
		}
		if calm {
			return used, at, nil
		}
	}
}
