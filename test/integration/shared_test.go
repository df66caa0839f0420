package integration

import (
	"fmt"
	"sync"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// shared is what the tests have in common that share a manager.
var shared struct {
	sync.Mutex
	port int // at which everybody may ask the manager for health, metrics and debugging
}

// share has the test run in parallel with others, in a namespace of its own, with the one manager that they share. It is
// for tests that need no manager with other flags, do not stop it, and judge no numbers of requests.
func share(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	c := cluster.Start(t)
	shareManager(t, c)
	return &bench{t, c, c.Namespace(t)}
}

// shareManager has the test use the manager that tests share. It runs all controllers, and what can be many or takes long is little or
// short: the slices of 20 endpoints, the mirrored subsets of 3 addresses, and the periods of autoscalers.
func shareManager(t *testing.T, c *cluster.Cluster) *cluster.Manager {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.port == 0 {
		customKinds(t, c)
		shared.port = freePort(t)
	}
	return c.SharedManager(t, "--controllers=*,bootstrapsigner,tokencleaner,selinux-warning-controller", suite.GatesFlag, "--max-endpoints-per-slice=20",
		"--mirroring-max-endpoints-per-subset=3",
		"--horizontal-pod-autoscaler-sync-period=500ms", "--horizontal-pod-autoscaler-downscale-stabilization=2s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=1ms", "--horizontal-pod-autoscaler-initial-readiness-delay=1ms",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", shared.port), openPaths)
}

// customKinds makes two kinds, of which one has a scale, unless they are there. A manager that starts afterwards knows them at once.
func customKinds(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.Apply(t, "default", gadgets+"\n---\n"+gizmos)
	c.Kubectl(t, "wait", "--for=condition=Established", "crd/gadgets.shop.example.com", "crd/gizmos.autoscaling.example.com",
		"--timeout=60s")
}

// openPaths lets everybody ask a manager for these paths.
const openPaths = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics,/metrics/slis,/debug/controllers/*"
