//go:build !linux

package cluster

import "os/exec"

// StartTied starts a process. On Linux it would end with the test process; elsewhere localcluster ends what runs from the
// control plane's folder.
func StartTied(cmd *exec.Cmd) error { return cmd.Start() }
