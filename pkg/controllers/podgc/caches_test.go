package podgc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestPGC28NothingIsDoneBeforeBothCachesAreFilled: pods that are known while nodes are not are no orphans (PGC-28).
func TestPGC28NothingIsDoneBeforeBothCachesAreFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := build(t, newServer(pod("finished", "on=gone succeeded"), pod("orphan", "on=gone")), defaults)
		ctx, cancel := context.WithCancel(t.Context())
		go c.caches.pods.Informer().RunWithContext(ctx)
		end := c.lead(t)
		sleep(10 * time.Minute)
		if got := c.requests("get", "patch", "delete"); got != "" {
			t.Errorf("before there are nodes: %s", got)
		}
		go c.caches.nodes.Informer().RunWithContext(ctx)
		sleep(20 * time.Second)
		if got := c.requests("get", "patch", "delete"); got != "" {
			t.Errorf("before the grace period is over: %s", got)
		}
		sleep(time.Minute)
		if got := c.names("Pod"); got != "" {
			t.Errorf("pods that are left: %s", got)
		}
		end()
		cancel()
		synctest.Wait()
	})
}
