package main

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// startTied starts a process that the kernel kills when this one ends, however it ends: a driver that is killed leaves no sidecar
// behind, which would work beside that of the next one.
func startTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	lastingThread() <- func() { started <- cmd.Start() }
	return <-started
}

// lastingThread runs functions on a thread that does not end: with the thread that started it, the kernel would kill a process.
var lastingThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})
