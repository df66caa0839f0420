package integration

import (
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// The rights that deploy/ gives are all that the manager and the accounts of its controllers need, and who has fewer is told which.
func TestCheckOfRights(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	if c.CertKubeconfig == "" {
		t.Skip("another manager than ours has its own roles")
	}
	check := func(args ...string) (code int, log string) {
		m := c.ManagerExactly(t, append([]string{"check", "--controllers=*"}, args...)...)
		code = m.Wait(t, patience)
		return code, m.Log()
	}
	code, log := check("--kubeconfig="+c.ManagerKubeconfig, "--use-service-account-credentials", "--root-ca-file="+c.CAFile)
	if code != 0 || strings.Contains(log, "fail ") || strings.Count(log, "rights") < 30 || !strings.Contains(log, "account deployment-controller has all") {
		t.Errorf("exit code %d\n%s", code, log)
	}
	version := "ok version"
	if c.Before(t, 37) {
		version = "warn version" // the manager is newer
	}
	for _, want := range []string{"ok API server", version, "ok clock", "lease kube-system/kube-controller-manager"} {
		if !strings.Contains(strings.Join(strings.Fields(log), " "), want) {
			t.Errorf("no line %q:\n%s", want, log)
		}
	}
	// Without accounts of its own for its controllers, the manager lacks what those do.
	code, log = check("--kubeconfig="+c.ManagerKubeconfig, "--root-ca-file="+c.CAFile)
	if code != 1 || !strings.Contains(log, "the manager may not") || !strings.Contains(log, "create replicasets.apps") {
		t.Errorf("exit code %d\n%s", code, log)
	}
}
