package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// standIn in the environment makes TestTiedProcessEndsWithTheTestProcess be the test process that is killed.
const standIn = "CLUSTER_TEST_STAND_IN"

func TestTiedProcessEndsWithTheTestProcess(t *testing.T) {
	if os.Getenv(standIn) != "" {
		startStopped(t)
		select {}
	}
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), standIn+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = parent.Process.Kill()
	_ = parent.Wait() // it was killed
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, 20*time.Second, "the process has ended", func() error {
		if runs(pid) {
			return errors.New("it runs")
		}
		return nil
	})
}

// startStopped starts a process, stops it by a signal, and prints its id.
func startStopped(t *testing.T) {
	cmd := sleeper(t)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	fmt.Println(cmd.Process.Pid)
}

func TestTiedProcessOutlivesTheThreadThatAskedForIt(t *testing.T) {
	type begun struct {
		thread int
		cmd    *exec.Cmd
	}
	asked := make(chan begun)
	go onThreadThatEnds(func() { asked <- begun{syscall.Gettid(), sleeper(t)} })
	b := <-asked
	defer func() {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait() // it was killed
	}()
	Eventually(t, 20*time.Second, "the thread has ended", func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", b.thread)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it has not: %v", err)
		}
		return nil
	})
	Always(t, 300*time.Millisecond, "the process runs", func() error {
		if !runs(b.cmd.Process.Pid) {
			return errors.New("it has ended")
		}
		return nil
	})
}

// onThreadThatEnds calls f on a thread that ends with it. Go never ends the first thread of a process; while that is held,
// another goroutine gets another one.
func onThreadThatEnds(f func()) {
	runtime.LockOSThread() // without unlocking: the thread ends with the goroutine
	if syscall.Gettid() == syscall.Getpid() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			onThreadThatEnds(f)
		}()
		<-done
		runtime.UnlockOSThread()
		return
	}
	f()
}

func sleeper(t *testing.T) *exec.Cmd {
	cmd := exec.Command("sleep", "600")
	if err := StartTied(cmd); err != nil {
		t.Error(err)
	}
	return cmd
}

// runs tells whether a process exists and is more than a record of its end that nobody has asked for.
func runs(pid int) bool {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}
