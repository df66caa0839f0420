package cluster

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// StartTied starts a process that the kernel kills when the test process ends, however it ends. So not even a process that
// stands still because of SIGSTOP stays behind.
func StartTied(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	lastingThread() <- func() { started <- cmd.Start() }
	return <-started
}

// lastingThread runs functions on a thread that lives as long as the test process. The kernel kills a process when the
// thread that started it ends, and Go ends threads at times.
var lastingThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread() // for ever
		for f := range work {
			f()
		}
	}()
	return work
})
