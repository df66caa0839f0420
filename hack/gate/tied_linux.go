package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startTied starts a process that ends with this one, however that ends: go test kills a test that has hung.
func startTied(cmd *exec.Cmd) error {
	runtime.LockOSThread() // for good: the signal comes when the thread ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Start()
}
