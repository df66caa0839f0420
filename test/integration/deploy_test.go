package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/rbac"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

var deploy = filepath.Join("..", "..", "deploy")

var overlays = []string{"standalone", "beside-upstream", "minimal"}

// TestManifestsAreAccepted: the API server takes every manifest as it is, unknown fields and all.
func TestManifestsAreAccepted(t *testing.T) {
	t.Parallel() // nothing is made
	c := cluster.Start(t)
	apply := func(what, path string) {
		c.Kubectl(t, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", what, path)
	}
	for _, overlay := range overlays {
		t.Run(overlay, func(*testing.T) { apply("--kustomize", filepath.Join(deploy, "kustomize", "overlays", overlay)) })
	}
	t.Run("static pod", func(*testing.T) {
		apply("--filename", filepath.Join(deploy, "static-pod", "kube-controller-manager.yaml"))
	})
	t.Run("components", func(t *testing.T) {
		// The two components as a user puts them together. The ServiceMonitor's own type is checked in hack/tools, because
		// no API server has it by itself.
		all := kustomized(t, c, "resources: [../minimal]\ncomponents: [../../components/service, ../../components/servicemonitor]\n")
		for _, want := range []string{"kind: ServiceMonitor", "kind: Service\n", "controller-manager:metrics-reader"} {
			if !strings.Contains(all, want) {
				t.Errorf("there is no %q", want)
			}
		}
	})
}

// kustomized is what kubectl makes of a kustomization beside the overlays.
func kustomized(t *testing.T, c *cluster.Cluster, kustomization string) string {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Join(deploy, "kustomize", "overlays"), ".test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	return c.Kubectl(t, "kustomize", dir)
}

// TestOverlaysAreWhatTheySay: what makes them safe is in each of them.
func TestOverlaysAreWhatTheySay(t *testing.T) {
	t.Parallel() // nothing is made
	c := cluster.Start(t)
	for overlay, want := range map[string]struct {
		replicas int32
		lease    string // given by a flag
		job      string // of the Service, if there is one
	}{
		"standalone":      {2, "", "kube-controller-manager"},
		"beside-upstream": {2, "standalone-controller-manager", "standalone-controller-manager"},
		"minimal":         {1, "", ""},
	} {
		t.Run(overlay, func(t *testing.T) {
			all := c.Kubectl(t, "kustomize", filepath.Join(deploy, "kustomize", "overlays", overlay))
			if got := strings.Contains(all, "\nkind: Service\n"); got != (want.job != "") {
				t.Errorf("it has a Service: %t", got)
			}
			if want.job != "" && !strings.Contains(all, "\n    job: "+want.job+"\n") {
				t.Errorf("its Service has not the job %s", want.job)
			}
			d := deploymentIn(t, all)
			pod, container := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
			if *d.Spec.Replicas != want.replicas {
				t.Errorf("%d replicas", *d.Spec.Replicas)
			}
			args := strings.Join(container.Args, " ") + " "
			flag := "--leader-elect-resource-name=" + want.lease + " "
			if !strings.Contains(args, "--leader-elect=true ") || want.lease != "" && !strings.Contains(args, flag) ||
				want.lease == "" && strings.Contains(args, "--leader-elect-resource-name") {
				t.Errorf("its arguments are %s", args)
			}
			if name := want.lease; !strings.Contains(all,
				"resourceNames:\n  - "+map[bool]string{true: "kube-controller-manager", false: name}[name == ""]+
					"\n  resources:\n  - leases\n") {
				t.Error("its role is for another lease")
			}
			s := container.SecurityContext
			if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 ||
				pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" ||
				!*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || len(s.Capabilities.Drop) != 1 ||
				s.Capabilities.Drop[0] != "ALL" {
				t.Errorf("its security contexts are %+v, %+v", pod.SecurityContext, s)
			}
			if got := strings.Contains(all, "\nkind: PodDisruptionBudget\n"); got != (want.replicas > 1) {
				t.Errorf("it has a PodDisruptionBudget: %t", got)
			}
			if !strings.Contains(all, "\nkind: NetworkPolicy\n") || !strings.Contains(all, "controller-manager:debug-reader") {
				t.Error("it lacks its NetworkPolicy or the role for /debug/explain")
			}
			if terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; len(terms) != 1 ||
				len(terms[0].MatchExpressions) != 1 || terms[0].MatchExpressions[0].Key != "node-role.kubernetes.io/control-plane" {
				t.Errorf("it runs on the nodes %+v", terms)
			}
			if pod.PriorityClassName != "system-cluster-critical" || len(pod.TopologySpreadConstraints) != 1 ||
				container.Resources.Requests.Memory().IsZero() ||
				container.LivenessProbe == nil || container.ReadinessProbe == nil || container.StartupProbe == nil {
				t.Error("it lacks its priority, its spread over nodes, its requests or a probe")
			}
		})
	}
}

// TestStandbysOfTheHandOver: with the lease that a hand-over begins with, the pods of the overlay wait, and one of them leads when it is
// released, as deploy/README.md tells; with the roles of the overlay.
func TestStandbysOfTheHandOver(t *testing.T) {
	c := cluster.Start(t)
	c.WithRoles(t, "beside")
	overlay := filepath.Join(deploy, "kustomize", "overlays", "beside-upstream")
	c.Kubectl(t, "create", "--filename", filepath.Join(overlay, "handover-lease.yaml"))
	leases := c.Client.CoordinationV1().Leases("kube-system")
	t.Cleanup(func() {
		if err := leases.Delete(context.Background(), "standalone-controller-manager", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	holder := func() string {
		lease, err := leases.Get(t.Context(), "standalone-controller-manager", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	b := &bench{t, c, c.Namespace(t)}
	port := freePort(t)
	m := c.Manager(t,
		append(deploymentIn(t, c.Kubectl(t, "kustomize", overlay)).Spec.Template.Spec.Containers[0].Args,
			fmt.Sprintf("--secure-port=%d", port))...)
	b.wait("the standby is ready", func() error {
		return answers(t.Context(), fmt.Sprintf("https://127.0.0.1:%d/readyz", port), "", http.StatusOK)
	})
	b.create(deployment("web", 2))
	if got := holder(); got != "nobody-before-the-handover" || len(b.sets()) > 0 {
		t.Fatalf("the lease has the holder %q, and there are %d ReplicaSets", got, len(b.sets()))
	}
	c.Kubectl(t, "--namespace=kube-system", "patch", "lease", "standalone-controller-manager", "--type=merge", "--patch",
		`{"spec":{"holderIdentity":""}}`)
	b.waitComplete("web")
	if code := m.Stop(t); code != 0 || holder() != "" {
		t.Errorf("exit code %d, and the lease has the holder %q", code, holder())
	}
}

// TestInstalledDeployment applies the overlay "standalone" and lets the manager roll it out: the same pods, played by kwok,
// that a cluster would run.
func TestInstalledDeployment(t *testing.T) {
	c := share(t).Cluster
	all := kustomized(t, c, "resources: [../standalone]\ncomponents: [../../components/any-node]\n") // no node is one of a control plane
	d := deploymentIn(t, all)
	b := &bench{t, c, d.Namespace}
	deployments := c.Client.AppsV1().Deployments(d.Namespace)
	if _, err := deployments.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.removeDeployed("controller-manager") })
	b.waitComplete(d.Name)
	nodes := map[string]bool{}
	for _, p := range b.pods() {
		if strings.HasPrefix(p.Name, d.Name) {
			nodes[p.Spec.NodeName] = true
		}
	}
	if len(nodes) != 2 {
		t.Errorf("its pods are on the nodes %v", nodes)
	}
	b.patch(d.Name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"again":%q}}}}}`, t.Name()))
	b.waitComplete(d.Name)
}

// deploymentIn finds the Deployment among manifests, and decodes it strictly.
func deploymentIn(t *testing.T, manifests string) *appsv1.Deployment {
	t.Helper()
	for _, document := range strings.Split(manifests, "\n---\n") {
		if strings.Contains("\n"+document, "\nkind: Deployment\n") {
			d := &appsv1.Deployment{}
			if err := yaml.UnmarshalStrict([]byte(document), d); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal("there is no Deployment")
	return nil
}

// removeDeployed removes the Deployment of a program with what was made of it, whether a manager runs or not.
func (b *bench) removeDeployed(program string) {
	ctx, now, ours := context.Background(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + program}
	for _, err := range []error{
		b.Client.AppsV1().Deployments(rbac.Home).DeleteCollection(ctx, now, ours),
		b.Client.AppsV1().ReplicaSets(rbac.Home).DeleteCollection(ctx, now, ours),
		b.Client.CoreV1().Pods(rbac.Home).DeleteCollection(ctx, now, ours),
	} {
		if err != nil {
			b.Error(err)
		}
	}
}
