package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pdb makes a budget for the pods of an app.
func (b *bench) pdb(name, app string, edit func(*policyv1.PodDisruptionBudgetSpec)) {
	b.Helper()
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	if edit != nil {
		edit(&budget.Spec)
	}
	if _, err := b.Client.PolicyV1().PodDisruptionBudgets(b.ns).Create(b.Context(), budget, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// waitBudget waits until a budget has these numbers: allowed, healthy, desired and expected pods, and its reason.
func (b *bench) waitBudget(name, want string) (found *policyv1.PodDisruptionBudget) {
	b.Helper()
	b.wait(name+" says "+want, func() (err error) {
		if found, err = b.Client.PolicyV1().PodDisruptionBudgets(b.ns).Get(b.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		s := found.Status
		got := fmt.Sprint(s.DisruptionsAllowed, " ", s.CurrentHealthy, " ", s.DesiredHealthy, " ", s.ExpectedPods)
		if c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition); c != nil {
			got += " " + c.Reason
		}
		if got != want {
			return fmt.Errorf("it says %s: %+v", got, s)
		}
		return nil
	})
	return found
}

func (b *bench) evict(name string) error {
	return b.Client.PolicyV1().Evictions(b.ns).Evict(b.Context(),
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: name}})
}

// loose makes a ready pod of an app, which an object controls if it has a kind.
func (b *bench) loose(name, app string, owner metav1.OwnerReference) {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}}}
	if owner.Kind != "" {
		owner.Controller = new(true)
		p.OwnerReferences = []metav1.OwnerReference{owner}
	}
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	if _, err := b.Client.CoreV1().Pods(b.ns).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// DIS-17, DIS-29: the API server evicts as many pods as the budget allows, and more only when the next ones are ready.
func TestEvictions(t *testing.T) {
	b := share(t)
	b.create(deployment("web", 3))
	b.pdb("web", "web", nil)
	b.waitComplete("web")
	b.waitBudget("web", "1 3 2 3 SufficientPods")
	pods := b.pods()
	if err := b.evict(pods[0].Name); err != nil {
		t.Fatal(err)
	}
	if err := b.evict(pods[1].Name); !apierrors.IsTooManyRequests(err) && b.pod(pods[0].Name) != nil {
		t.Errorf("the next eviction: %v", err)
	}
	b.wait("the evicted pod is gone", func() error {
		if b.pod(pods[0].Name) != nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	found := b.waitBudget("web", "1 3 2 3 SufficientPods")
	if len(found.Status.DisruptedPods) > 0 || found.Status.ObservedGeneration != found.Generation {
		t.Errorf("%+v", found.Status)
	}
	b.Kubectl(t, "-n", b.ns, "patch", "pdb", "web", "--type=merge", "-p", `{"spec":{"maxUnavailable":"67%"}}`)
	b.waitBudget("web", "3 3 0 3 SufficientPods")
	b.Kubectl(t, "-n", b.ns, "scale", "deployment", "web", "--replicas=6")
	b.waitBudget("web", "5 6 1 6 SufficientPods")
}

// DIS-20e, DIS-20h: the owner of pods may be of any kind that has a scale, and the budget says if it has none.
func TestBudgetsOfAnyOwner(t *testing.T) {
	b := share(t)
	b.Apply(t, b.ns,
		fmt.Sprintf("apiVersion: autoscaling.example.com/v1\nkind: Gizmo\nmetadata: {name: g, namespace: %s}\nspec: {replicas: 4}\n", b.ns))
	uid := b.Kubectl(t, "-n", b.ns, "get", "gizmo", "g", "--output=jsonpath={.metadata.uid}")
	b.pdb("gizmo", "gizmo", func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = new(intstr.FromString("50%")) })
	for i := range 3 {
		b.loose(fmt.Sprint("gizmo-", i), "gizmo",
			metav1.OwnerReference{APIVersion: gizmo.APIVersion, Kind: "Gizmo", Name: "g", UID: types.UID(strings.TrimSpace(uid))})
	}
	b.waitBudget("gizmo", "1 3 2 4 SufficientPods")

	// No controller releases the pods of a PodTemplate, as that of DaemonSets would.
	b.Apply(t, b.ns, fmt.Sprintf(`apiVersion: v1
kind: PodTemplate
metadata: {name: agent, namespace: %s}
template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: a, image: a}]}}
`, b.ns))
	uid = b.Kubectl(t, "-n", b.ns, "get", "podtemplate", "agent", "--output=jsonpath={.metadata.uid}")
	b.loose("agent-0", "other",
		metav1.OwnerReference{APIVersion: "v1", Kind: "PodTemplate", Name: "agent", UID: types.UID(strings.TrimSpace(uid))})
	b.pdb("agent", "other", nil)
	found := b.waitBudget("agent", "0 0 0 0 SyncFailed")
	if got := found.Status.Conditions[0].Message; got != "podtemplates does not implement the scale subresource" {
		t.Errorf("%q", got)
	}
	b.Kubectl(t, "-n", b.ns, "patch", "pdb", "agent", "--type=json", "-p",
		`[{"op":"replace","path":"/spec","value":{"minAvailable":1,"selector":{"matchLabels":{"app":"other"}}}}]`)
	b.waitBudget("agent", "0 1 1 1 InsufficientPods")
}

// DIS-35: a pod that was to be disrupted long ago says so no longer.
func TestPodsThatWereNotDisrupted(t *testing.T) {
	b := share(t)
	b.loose("web", "web", metav1.OwnerReference{})
	long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	document := fmt.Sprintf(
		`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler","lastTransitionTime":%q}]}}`,
		long.UTC().Format(time.RFC3339))
	if _, err := b.Client.CoreV1().Pods(b.ns).Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(document),
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	b.wait("the condition is False", func() error {
		for _, c := range b.pod("web").Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionFalse && c.Reason == "" &&
				c.LastTransitionTime.After(long.Time) {
				return nil
			}
		}
		return fmt.Errorf("%+v", b.pod("web").Status.Conditions)
	})
}
