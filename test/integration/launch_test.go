package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// etc is the folder that kubeadm keeps its files in.
const etc = "/etc/kubernetes"

// TestLaunchers starts the manager with the argument lists that others start kube-controller-manager with, under the
// rights that every cluster gives to that. It gets healthy, rolls out a Deployment where the list has its controllers, and
// is refused nothing. TestKubeadm has the list of kubeadm itself, and TestKwokctl that of kwokctl.
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
		{"vcluster", vclusterArgs, true, false},
		{"karmada", karmadaArgs, false, true},
	} {
		t.Run(row.launcher, func(t *testing.T) {
			b := &bench{t, c, c.Namespace(t)}
			begin := c.AuditEnd(t)
			user := kubeconfig
			if row.byAnAdmin {
				user = c.AdminKubeconfig
			}
			port := freePort(t)
			args := append(in(kubernetesFolder(t, c, user), row.args), fmt.Sprintf("--secure-port=%d", port))
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

var vclusterArgs = []string{
	"--service-cluster-ip-range=10.96.0.0/16",
	"--authentication-kubeconfig=" + etc + "/controller-manager.conf",
	"--authorization-kubeconfig=" + etc + "/controller-manager.conf",
	"--bind-address=127.0.0.1",
	"--client-ca-file=" + etc + "/pki/ca.crt",
	"--cluster-name=kubernetes",
	"--cluster-signing-cert-file=" + etc + "/pki/ca.crt",
	"--cluster-signing-key-file=" + etc + "/pki/ca.key",
	"--horizontal-pod-autoscaler-sync-period=60s",
	"--kubeconfig=" + etc + "/controller-manager.conf",
	"--node-monitor-grace-period=180s",
	"--node-monitor-period=30s",
	"--pvclaimbinder-sync-period=60s",
	"--requestheader-client-ca-file=" + etc + "/pki/front-proxy-ca.crt",
	"--root-ca-file=" + etc + "/pki/ca.crt",
	"--service-account-private-key-file=" + etc + "/pki/sa.key",
	"--use-service-account-credentials=true",
	"--controllers=*,-nodeipam,-nodelifecycle,-persistentvolume-binder,-attachdetach,-persistentvolume-expander,-cloud-node-lifecycle,-ttl",
	"--leader-elect=false",
}

var karmadaArgs = []string{
	"--authentication-kubeconfig=" + etc + "/controller-manager.conf",
	"--authorization-kubeconfig=" + etc + "/controller-manager.conf",
	"--bind-address=127.0.0.1",
	"--client-ca-file=" + etc + "/pki/ca.crt",
	"--cluster-cidr=10.244.0.0/16",
	"--cluster-name=karmada-apiserver",
	"--cluster-signing-cert-file=" + etc + "/pki/ca.crt",
	"--cluster-signing-key-file=" + etc + "/pki/ca.key",
	"--controllers=namespace,garbagecollector,serviceaccount-token,ttl-after-finished,bootstrapsigner,tokencleaner,csrcleaner,csrsigning,clusterrole-aggregation",
	"--kubeconfig=" + etc + "/controller-manager.conf",
	"--leader-elect=true",
	"--leader-elect-resource-namespace=karmada-system",
	"--node-cidr-mask-size=24",
	"--root-ca-file=" + etc + "/pki/ca.crt",
	"--service-account-private-key-file=" + etc + "/pki/sa.key",
	"--service-cluster-ip-range=10.96.0.0/12",
	"--use-service-account-credentials=true",
	"--v=4",
}

// in moves the files that the arguments name to another folder.
func in(folder string, args []string) (all []string) {
	for _, arg := range args {
		all = append(all, strings.ReplaceAll(arg, "="+etc+"/", "="+folder+"/"))
	}
	return all
}

// kubernetesFolder makes the files that kubeadm would have made.
func kubernetesFolder(t *testing.T, c *cluster.Cluster, kubeconfig string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{
		"controller-manager.conf": kubeconfig, "pki/ca.crt": c.CAFile, "pki/ca.key": c.CAKeyFile(),
		"pki/front-proxy-ca.crt": c.FrontProxyCAFile(), "pki/sa.key": c.TokenKeyFile(),
	} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
