//go:build !linux

package main

import "os/exec"

// startTied starts a process. On Linux it would end with this one; elsewhere it ends because it loses its connection to the driver.
func startTied(cmd *exec.Cmd) error { return cmd.Start() }
