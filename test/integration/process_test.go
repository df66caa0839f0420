package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

func electing(t *testing.T) []string {
	t.Helper()
	return []string{"--leader-elect=true", "--leader-elect-resource-name=" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))}
}

func TestTakeover(t *testing.T) {
	b := alone(t)
	c := b.Cluster
	flags := append(electing(t), onlyWorkloads, "--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s",
		"--leader-elect-retry-period=1s")
	first := c.Manager(t, flags...)
	first.WaitForLog(t, patience, "Successfully acquired lease")
	second := c.Manager(t, flags...)
	second.WaitForLog(t, patience, "Attempting to acquire leader lease")
	b.create(deployment("a", 2))
	b.waitComplete("a")

	if code := first.Stop(t); code != 0 {
		t.Errorf("CLI-63: exit code %d after SIGTERM", code)
	}
	b.create(deployment("b", 2)) // LE-30: the standby needs no more than the release
	b.waitComplete("b")

	third := c.Manager(t, flags...)
	third.WaitForLog(t, patience, "Attempting to acquire leader lease")
	second.Kill(t)
	b.create(deployment("c", 2))
	b.waitComplete("c")
	lease, err := c.Client.CoordinationV1().Leases("kube-system").Get(t.Context(), "testtakeover", metav1.GetOptions{})
	if err != nil || *lease.Spec.LeaseTransitions != 2 {
		t.Errorf("LE-10: %+v, %v", lease.Spec, err)
	}
}

func TestControllersToggledOff(t *testing.T) {
	b := alone(t)
	m := b.Manager(t, "--controllers=*,-replicaset")
	b.create(deployment("web", 2))
	b.wait("the deployment controller has made a ReplicaSet", func() error {
		if len(b.sets()) != 1 {
			return fmt.Errorf("%d ReplicaSets", len(b.sets()))
		}
		return nil
	})
	cluster.Always(t, 2*time.Second, "nobody makes pods", func() error {
		if n := len(b.pods()); n != 0 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	m.Stop(t)
	b.Manager(t, "--controllers=replicaset")
	b.wait("the replicaset controller has made the pods", func() error {
		if n := len(b.pods()); n != 2 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
}

// TestAnUnreachableServerIsWaitedFor: as a standby does, and told to end the process does so at once (CLI-58, CLI-63).
func TestAnUnreachableServerIsWaitedFor(t *testing.T) {
	t.Parallel() // its manager does nothing to the cluster
	unreachable := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(unreachable,
		[]byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}],`+
			`"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t)
	m := c.Manager(t, "--kubeconfig="+unreachable)
	m.WaitForLog(t, patience, `"Waiting for the API server to be healthy" err=`)
	cluster.Always(t, 12*time.Second, "it waits", func() error {
		select {
		case <-m.Ended():
			return errors.New("it has ended")
		default:
			return nil
		}
	})
	if code := m.Stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel() // these managers end at once
	c := cluster.Start(t)
	broken := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(broken, []byte("{not a kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, flag, want string }{
		{"CLI-5 unknown flag", "--no-such-flag", "unknown flag: --no-such-flag"},
		{"CLI-5 bad duration", "--min-resync-period=abc", "invalid duration"},
		{"CLI-54 unknown controller", "--controllers=deploymnet", `is not in the list of known controllers, did you mean`},
		{"CLI-10 missing kubeconfig", "--kubeconfig=/no/such/file", "stat /no/such/file: no such file or directory"},
		{"broken kubeconfig", "--kubeconfig=" + broken, "kubeconfig"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := c.Manager(t, row.flag)
			if code := m.Wait(t, patience); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			lines := strings.Split(strings.TrimSpace(m.Log()), "\n")
			if last := lines[len(lines)-1]; !strings.Contains(last, row.want) || strings.Contains(m.Log(), "goroutine ") {
				t.Errorf("want a last line with %q:\n%s", row.want, m.Log())
			}
		})
	}
}
