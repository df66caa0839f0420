package podgc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingIsDoneBeforeBothCachesAreFilled: pods that are known while nodes are not are no orphans (PGC-28).
func TestNothingIsDoneBeforeBothCachesAreFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := build(t, newServer(pod("finished", "on=gone succeeded"), pod("orphan", "on=gone")), defaults)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go c.pods.Informer().RunWithContext(ctx)
		go func() { done <- c.Run(ctx) }()
		pass(10 * time.Minute)
		if got := c.requests("get", "patch", "delete"); got != "" {
			t.Errorf("before there are nodes: %s", got)
		}
		go c.nodes.Informer().RunWithContext(ctx)
		pass(20 * time.Second)
		if got := c.requests("get", "patch", "delete"); got != "" {
			t.Errorf("before the quarantine is over: %s", got)
		}
		pass(time.Minute)
		if got := c.names("Pod"); got != "" {
			t.Errorf("pods that are left: %s", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}
