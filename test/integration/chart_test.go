package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestChart: Helm installs the chart on a control plane whose workloads our manager rolls out, upgrades it, rolls it back and removes
// it, and nothing is left. That is the observer: the other modes have the account that the control plane's own manager has, and the API
// server only says whether it would take them. "make chart" builds helm.
func TestChart(t *testing.T) {
	program := os.Getenv("HELM")
	if program == "" {
		t.Skip("HELM names no program: make chart")
	}
	c := share(t).Cluster
	helm := func(t *testing.T, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append(args, "--namespace", "kube-system", "--kubeconfig", c.AdminKubeconfig)...)
		cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	chart := filepath.Join(deploy, "chart")
	for _, mode := range []string{"standalone", "beside"} {
		out := helm(t, "install", "cm", chart, "--set", "mode="+mode, "--dry-run=server", "--take-ownership")
		if held := strings.Contains(out, "holderIdentity: nobody-before-the-handover"); !strings.Contains(out, "kind: PodDisruptionBudget") ||
			held != (mode == "beside") {
			t.Errorf("%s: %s", mode, out)
		}
	}

	const name = "controller-manager-observer"
	b := &bench{t, c, "kube-system"}
	args := func() string {
		d, err := c.Client.AppsV1().Deployments(b.ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(d.Spec.Template.Spec.Containers[0].Args, " ")
	}
	helm(t, "install", "cm", chart)
	b.waitComplete(name)
	helm(t, "upgrade", "cm", chart, "--reuse-values", "--set", "extraArgs={--v=2}")
	if b.waitComplete(name); !strings.HasSuffix(args(), " --v=2") {
		t.Errorf("after the upgrade its arguments are %s", args())
	}
	helm(t, "rollback", "cm", "1")
	if b.waitComplete(name); strings.Contains(args(), "--v=2") {
		t.Errorf("after the way back its arguments are %s", args())
	}
	helm(t, "uninstall", "cm", "--wait")
	b.wait("nothing is left of it", func() error {
		all := c.Kubectl(t, "get", "deployments,pods,roles,rolebindings,clusterroles,clusterrolebindings,serviceaccounts,networkpolicies,secrets",
			"--all-namespaces", "--output=jsonpath={range .items[*]}{.kind} {.metadata.name}{\"\\n\"}{end}")
		for line := range strings.Lines(all) {
			if _, left, _ := strings.Cut(line, " "); strings.HasPrefix(left, name) || strings.HasPrefix(left, "sh.helm") {
				return fmt.Errorf("there is %s", line)
			}
		}
		return nil
	})
}
