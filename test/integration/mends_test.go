package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// The faults of 1.37 that 1.38 mends, as far as they show on a control plane without more ado (docs/contract/mends.md).

// neverLarger has the API server refuse to raise the size of any ReplicaSet of a namespace.
const neverLarger = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: never-larger-NS}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [replicasets]}
  validations:
  - {expression: "object.spec.replicas <= oldObject.spec.replicas", message: "no larger"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: never-larger-NS}
spec:
  policyName: never-larger-NS
  validationActions: [Deny]
  matchResources:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}
`

func TestMEND1RefusedSizesOnAServer(t *testing.T) {
	b := share(t)
	b.create(deployment("web", 3, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = ptr.To[int32](5) },
		func(d *appsv1.Deployment) {
			one, none := intstr.FromInt32(1), intstr.FromInt32(0)
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &none}
		}))
	b.waitComplete("web")
	b.Apply(t, b.ns, strings.ReplaceAll(neverLarger, "NS", b.ns))
	remove := func() {
		b.Kubectl(t, "delete", "validatingadmissionpolicybindings,validatingadmissionpolicies", "never-larger-"+b.ns)
	}
	b.wait("the API server refuses larger ReplicaSets", func() error {
		if _, err := b.TryKubectl(t, "-n", b.ns, "patch", "replicaset", b.sets()[0].Name, "--dry-run=server", "-p",
			`{"spec":{"replicas":9}}`); err == nil {
			return errors.New("it does not")
		}
		return nil
	})
	b.setImage("web", "web:2") // the first new pod comes with the ReplicaSet, the second one does not
	b.waitCondition("web", appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")
	if d := b.get("web"); d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != 1 {
		t.Errorf("the status is %+v", d.Status)
	}
	remove()
	b.waitComplete("web")
}

func TestMEND3SurplusPodsOnAServer(t *testing.T) {
	b := share(t)
	b.createQuota("pods", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")})
	b.waitUsed("pods", "nothing yet", "pods", "0")
	set := statefulSet("db", 2)
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	b.createStatefulSet(set)
	b.waitStatefulSet("db")
	b.patchStatefulSet("db", `{"spec":{"ordinals":{"start":5}}}`) // both pods are too many, and for others is no room
	b.waitStatefulSet("db")
	if got := b.names("pods", "app=db"); len(got) != 2 || got[0] != "pod/db-5" || got[1] != "pod/db-6" {
		t.Errorf("there are %v", got)
	}
}

func TestMEND4LeadingZerosOnAServer(t *testing.T) {
	b := share(t)
	p := requestingPod("db-01", "")
	p.Labels = map[string]string{"app": "db"}
	if _, err := b.Client.CoreV1().Pods(b.ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.createStatefulSet(statefulSet("db", 2))
	b.waitStatefulSet("db")
	if p := b.pod("db-01"); p == nil || len(p.OwnerReferences) > 0 || b.pod("db-1") == nil {
		t.Errorf("%+v", p)
	}
}

func TestMEND5PartitionOnAServer(t *testing.T) {
	b := share(t)
	set := statefulSet("db", 4)
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)}
	set.Spec.Template.Spec.SchedulerName = "nobody" // the test says how the pods are
	b.createStatefulSet(set)
	has := func(what string, is func(appsv1.StatefulSetStatus) bool) {
		t.Helper()
		b.wait(what, func() error {
			set, err := b.Client.AppsV1().StatefulSets(b.ns).Get(t.Context(), "db", metav1.GetOptions{})
			if err == nil && !is(set.Status) {
				return fmt.Errorf("%+v", set.Status)
			}
			return err
		})
	}
	has("all pods are there", func(s appsv1.StatefulSetStatus) bool { return s.Replicas == 4 })
	for _, name := range []string{"db-1", "db-2", "db-3"} {
		if err := b.podStatus(t.Context(), name,
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: readiness(corev1.ConditionTrue)}); err != nil {
			t.Fatal(err)
		}
	}
	has("all but db-0 are ready", func(s appsv1.StatefulSetStatus) bool { return s.ReadyReplicas == 3 })
	b.patchStatefulSet("db", `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
	has("one pod above the partition is updated, though db-0 is not ready", func(s appsv1.StatefulSetStatus) bool {
		return s.UpdatedReplicas == 1 && s.ReadyReplicas == 2 && s.Replicas == 4
	})
}

func readiness(is corev1.ConditionStatus) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.Now()}}
}

func TestMEND16MEND17BudgetsOnAServer(t *testing.T) {
	b := share(t)
	least := func(spec *policyv1.PodDisruptionBudgetSpec) {
		spec.MaxUnavailable, spec.MinAvailable = nil, ptr.To(intstr.FromInt32(1))
	}
	for _, name := range []string{"one", "two"} {
		b.pdb(name, "web", least)
	}
	both := func(want string) {
		t.Helper()
		b.waitBudget("one", want)
		b.waitBudget("two", want)
	}
	for i, ip := range []string{"10.9.0.1", "10.9.0.2"} {
		if err := b.loosePod(t.Context(), string("ab"[i]), 8080, ip); err != nil {
			t.Fatal(err)
		}
	}
	both("1 2 1 2 SufficientPods")
	if err := b.podStatus(t.Context(), "a", corev1.PodStatus{Conditions: readiness(corev1.ConditionFalse)}); err != nil {
		t.Fatal(err)
	}
	both("0 1 1 2 InsufficientPods")
	b.Kubectl(t, "-n", b.ns, "label", "pod", "b", "app=other", "--overwrite")
	both("0 0 1 1 InsufficientPods")
}

func TestMEND18PodsThatEndOnAServer(t *testing.T) {
	b := share(t)
	b.service("web", func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true })
	if err := b.loosePod(t.Context(), "a", 8080, "10.9.0.1"); err != nil {
		t.Fatal(err)
	}
	if err := b.podStatus(t.Context(), "a", corev1.PodStatus{Conditions: readiness(corev1.ConditionFalse)}); err != nil {
		t.Fatal(err)
	}
	b.waitSlices("web", "IPv4:8080 10.9.0.1")
	if err := b.podStatus(t.Context(), "a", corev1.PodStatus{Phase: corev1.PodFailed}); err != nil {
		t.Fatal(err)
	}
	b.waitSlices("web", "IPv4")
	b.wait("the Endpoints are empty", func() error {
		if e := b.endpoints("web"); e == nil || len(e.Subsets) > 0 {
			return fmt.Errorf("%+v", e)
		}
		return nil
	})
}

func TestMEND20ServiceMadeAnewOnAServer(t *testing.T) {
	b := share(t)
	b.service("web")
	b.waitSlices("web", "IPv4")
	held := b.slices("web")[0].Name
	finalizers := func(list string) {
		t.Helper()
		if _, err := b.Client.DiscoveryV1().EndpointSlices(b.ns).Patch(t.Context(), held, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	finalizers(`["example.com/held"]`)
	defer finalizers("null")
	if err := b.Client.CoreV1().Services(b.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.service("web")
	b.wait("the new Service has a slice, though the old one is held", func() error {
		service, err := b.Client.CoreV1().Services(b.ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var held, own []discoveryv1.EndpointSlice
		for _, s := range b.slices("web") {
			if metav1.IsControlledBy(&s, service) {
				own = append(own, s)
			} else {
				held = append(held, s)
			}
		}
		if len(own) != 1 || len(held) != 1 {
			return fmt.Errorf("%d are its own, %d are not", len(own), len(held))
		}
		return nil
	})
}

func TestMEND30LimitsOnAServer(t *testing.T) {
	b := share(t)
	p := requestingPod("a", "")
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "limited", Image: "web:1", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}})
	if _, err := b.Client.CoreV1().Pods(b.ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.createQuota("limits",
		corev1.ResourceList{corev1.ResourceLimitsCPU: resource.MustParse("5"), corev1.ResourceRequestsCPU: resource.MustParse("5")})
	b.waitUsed("limits", "a pod of which one container has a limit", "limits.cpu", "0", "requests.cpu", "1")
}
