package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

// sidecarEnd is how long a sidecar may take to end when it is asked to.
const sidecarEnd = 2 * time.Second

// sidecars are the programs of a driver's pod that speak to the API server for it.
type sidecars struct {
	programs   string // the folder where they are
	logs       string // the folder for their logs
	kubeconfig string
	endpoint   string // of the driver
}

// args are the flags of each sidecar. One of a kind runs, so none takes part in an election. All retry soon: the times of
// their defaults, up to five minutes, would be what tests wait for.
func (s sidecars) args() map[string][]string {
	common := []string{
		"--csi-address=" + s.endpoint, "--kubeconfig=" + s.kubeconfig, "--leader-election=false",
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--retry-interval-start=100ms", "--retry-interval-max=2s",
	}
	with := func(more ...string) []string { return append(more, common...) }
	return map[string][]string{
		"csi-provisioner": with("--extra-create-metadata", "--default-fstype=ext4", "--timeout=15s"),
		"csi-attacher":    with("--timeout=15s"),
		"csi-resizer":     with("--timeout=15s", "--handle-volume-inuse-error=false"),
	}
}

// run keeps the sidecars running until ctx ends, and returns when they have ended.
func (s sidecars) run(ctx context.Context) {
	var all sync.WaitGroup
	for name, args := range s.args() {
		all.Go(func() {
			for ctx.Err() == nil {
				err := s.runOnce(ctx, name, args)
				if ctx.Err() != nil {
					return
				}
				// As all sidecars do when they lose the connection to the driver.
				klog.ErrorS(err, "A sidecar has ended and is started again", "sidecar", name)
				select {
				case <-ctx.Done():
				case <-time.After(500 * time.Millisecond):
				}
			}
		})
	}
	all.Wait()
}

// runOnce runs a sidecar until it ends.
func (s sidecars) runOnce(ctx context.Context, name string, args []string) error {
	log, err := os.OpenFile(filepath.Join(s.logs, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs, name), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = sidecarEnd
	if err := startTied(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}
