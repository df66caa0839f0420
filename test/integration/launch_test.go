package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// TestLaunchers starts the manager with the argument lists that distributions start kube-controller-manager with, under the
// rights that every cluster gives to that. It gets healthy, rolls out a Deployment where the list has its controllers, and
// is refused nothing. TestKubeadm has the list of kubeadm itself, TestKwokctl that of kwokctl, and TestLaunchers of the options says
// what each list turns off.
func TestLaunchers(t *testing.T) {
	c := cluster.Start(t)
	kubeconfig := c.UpstreamRoles(t)
	const karmada = "karmada-system"
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: karmada}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Client.CoreV1().Namespaces().Delete(context.Background(), karmada, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	for _, row := range []struct {
		launcher  string
		args      []string
		rollsOut  bool
		byAnAdmin bool // the launcher's kubeconfig is that of an administrator
	}{
		{"kubeadm with a pod subnet and an external CA", withPodSubnet(kubeadmArgs(t)), true, false},
		{"vcluster", launcherArgs(t, "vcluster"), true, false},
		{"karmada", launcherArgs(t, "karmada"), false, true},
		{"k3s", launcherArgs(t, "k3s"), true, false},
		{"rke2", launcherArgs(t, "rke2"), true, false},
		{"k0s", launcherArgs(t, "k0s"), true, false},
		{"kamaji", launcherArgs(t, "kamaji"), true, false},
		{"talos", launcherArgs(t, "talos"), true, false},
	} {
		t.Run(row.launcher, func(t *testing.T) {
			b := &bench{t, c, c.Namespace(t)}
			begin := c.AuditEnd(t)
			user := kubeconfig
			if row.byAnAdmin {
				user = c.AdminKubeconfig
			}
			port := freePort(t)
			args := append(filesOf(c, user, row.args), fmt.Sprintf("--secure-port=%d", port))
			if slices.Contains(args, "--allocate-node-cidrs=true") {
				args = append(args, "--cluster-cidr=10.244.0.0/16") // the nodes have ranges of it after the first launcher
			}
			m := c.ManagerExactly(t, args...)
			b.wait("CLI-78: /healthz answers 200 to anybody", func() error {
				return answers(t.Context(), fmt.Sprintf("https://127.0.0.1:%d/healthz", port), "", http.StatusOK)
			})
			if row.rollsOut {
				b.create(deployment("web", 2))
				b.waitComplete("web")
			}
			if code := m.Stop(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			requests, _ := c.Requests(t, begin)
			if b.refused(requests) == 0 && !row.byAnAdmin {
				t.Error("the audit log has no request of the manager")
			}
		})
	}
}

// TestKwokctl starts the binary in the original's place with the arguments of kwokctl, beside everything else of a control plane.
func TestKwokctl(t *testing.T) {
	t.Parallel() // on another control plane
	c := cluster.Start(t)
	if os.Getenv("MANAGER_BINARY") != "" {
		t.Skip("it is about ours")
	}
	other := c.StartWithManager(t)
	b := &bench{t, other, other.Namespace(t)}
	b.create(deployment("web", 2))
	b.waitComplete("web")
}

// kubeadmArgs are those of the manifest under deploy/static-pod.
func kubeadmArgs(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "static-pod", "kube-controller-manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(data, pod); err != nil {
		t.Fatal(err)
	}
	command := pod.Spec.Containers[0].Command
	if len(command) < 10 || command[0] != "kube-controller-manager" {
		t.Fatalf("CLI-75: the command is %q", command)
	}
	return command[1:]
}

// withPodSubnet is what kubeadm makes of a configuration with networks and without the CA's key (CLI-76).
func withPodSubnet(args []string) (all []string) {
	for _, arg := range args {
		if name, _, _ := strings.Cut(arg, "="); strings.HasPrefix(name, "--cluster-signing-") {
			arg = name + "="
		}
		all = append(all, arg)
	}
	return append(all, "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16", "--service-cluster-ip-range=10.96.0.0/12")
}

// launcherArgs are the arguments in a file of the test of options, which says what each launcher turns off.
func launcherArgs(t *testing.T, launcher string) (args []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "cmd", "controller-manager", "app", "options", "testdata", "launchers", launcher))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "--") {
			args = append(args, line)
		}
	}
	if len(args) < 10 {
		t.Fatalf("the arguments of %s are %q", launcher, args)
	}
	return args
}

// filesOf puts files of the control plane in the place of those that the arguments name.
func filesOf(c *cluster.Cluster, kubeconfig string, args []string) (all []string) {
	files := map[string]string{
		"kubeconfig": kubeconfig, "authentication-kubeconfig": kubeconfig, "authorization-kubeconfig": kubeconfig,
		"client-ca-file": c.CAFile, "root-ca-file": c.CAFile, "requestheader-client-ca-file": c.FrontProxyCAFile(),
		"service-account-private-key-file": c.TokenKeyFile(),
		"tls-cert-file":                    filepath.Join(filepath.Dir(c.CAFile), "apiserver.crt"),
		"tls-private-key-file":             filepath.Join(filepath.Dir(c.CAFile), "apiserver.key"),
	}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		file := files[name]
		switch {
		case value == "":
		case file != "":
			arg = "--" + name + "=" + file
		case strings.HasPrefix(name, "cluster-signing-") && strings.HasSuffix(name, "-cert-file"):
			arg = "--" + name + "=" + c.CAFile
		case strings.HasPrefix(name, "cluster-signing-") && strings.HasSuffix(name, "-key-file"):
			arg = "--" + name + "=" + c.CAKeyFile()
		}
		all = append(all, arg)
	}
	return all
}
