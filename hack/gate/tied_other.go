//go:build !linux

package main

import "os/exec"

// startTied starts a process.
func startTied(cmd *exec.Cmd) error { return cmd.Start() }
