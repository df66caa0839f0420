package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

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
		dir, err := os.MkdirTemp(filepath.Join(deploy, "kustomize", "overlays"), ".test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		kustomization := "resources: [../minimal]\ncomponents: [../../components/service, ../../components/servicemonitor]\n"
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
			t.Fatal(err)
		}
		all := c.Kubectl(t, "kustomize", dir)
		for _, want := range []string{"kind: ServiceMonitor", "kind: Service\n", "controller-manager:metrics-reader"} {
			if !strings.Contains(all, want) {
				t.Errorf("there is no %q", want)
			}
		}
	})
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
			if name := want.lease; !strings.Contains(all, "resourceNames:\n  - "+map[bool]string{true: "kube-controller-manager", false: name}[name == ""]+"\n  resources:\n  - leases\n") {
				t.Error("its role is for another lease")
			}
			s := container.SecurityContext
			if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" ||
				!*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
				t.Errorf("its security contexts are %+v, %+v", pod.SecurityContext, s)
			}
			if pod.PriorityClassName != "system-cluster-critical" || len(pod.TopologySpreadConstraints) != 1 || container.Resources.Requests.Memory().IsZero() ||
				container.LivenessProbe == nil || container.ReadinessProbe == nil || container.StartupProbe == nil {
				t.Error("it lacks its priority, its spread over nodes, its requests or a probe")
			}
		})
	}
}

// TestInstalledDeployment applies the overlay "standalone" and lets the manager roll it out: the same pods, played by kwok,
// that a cluster would run.
func TestInstalledDeployment(t *testing.T) {
	c := share(t).Cluster
	all := c.Kubectl(t, "kustomize", filepath.Join(deploy, "kustomize", "overlays", "standalone"))
	d := deploymentIn(t, all)
	b := &bench{t, c, d.Namespace}
	deployments := c.Client.AppsV1().Deployments(d.Namespace)
	if _, err := deployments.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, now, ours := context.Background(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=controller-manager"}
		for _, err := range []error{
			deployments.DeleteCollection(ctx, now, ours),
			c.Client.AppsV1().ReplicaSets(d.Namespace).DeleteCollection(ctx, now, ours),
			c.Client.CoreV1().Pods(d.Namespace).DeleteCollection(ctx, now, ours),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
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
