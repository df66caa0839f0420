package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// admission is a policy, which refuses nothing, because it has no binding.
type admission struct {
	*bench
	name string
}

// policyAbout makes a policy about Deployments and pods, or about a resource of a group of its own.
func (b *bench) policyAbout(resource string, expressions ...string) *admission {
	b.Helper()
	a := &admission{b, b.ns + "-" + resource}
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: a.name}}
	group := map[string]string{"deployments": "apps", "widgets": b.ns + ".example.com"}[resource]
	p.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}}}}}}
	p.Spec.Validations = validations(expressions)
	policies := b.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	if _, err := policies.Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := policies.Delete(context.Background(), a.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			b.Error(err)
		}
	})
	return a
}

func validations(expressions []string) (all []admissionv1.Validation) {
	for _, e := range expressions {
		all = append(all, admissionv1.Validation{Expression: e})
	}
	return all
}

// says changes what the policy says.
func (a *admission) says(expressions ...string) {
	a.Helper()
	a.wait("the policy is changed", func() error {
		policies := a.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
		p, err := policies.Get(a.Context(), a.name, metav1.GetOptions{})
		if err == nil {
			p.Spec.Validations = validations(expressions)
			_, err = policies.Update(a.Context(), p, metav1.UpdateOptions{})
		}
		return err
	})
}

// isChecked waits until the status has warnings that contain these texts, in order.
func (a *admission) isChecked(texts ...string) {
	a.Helper()
	a.wait("the policy is checked", func() error {
		p, err := a.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(a.Context(), a.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		checked := p.Status.TypeChecking
		if checked == nil || p.Status.ObservedGeneration != p.Generation || len(checked.ExpressionWarnings) != len(texts) {
			return fmt.Errorf("generation %d: %+v", p.Generation, p.Status)
		}
		for i, text := range texts {
			if !strings.Contains(checked.ExpressionWarnings[i].Warning, text) {
				return fmt.Errorf("%q is not in %q", text, checked.ExpressionWarnings[i].Warning)
			}
		}
		return nil
	})
}

// Expressions are checked against the types that the API server publishes. When nothing is wrong any more, the status still says that the
// policy was checked.
func TestVAP2PoliciesAreChecked(t *testing.T) { // VAP-1, VAP-6, VAP-7
	share(t).lifeOfAPolicy()
}

func (b *bench) lifeOfAPolicy() {
	b.Helper()
	a := b.policyAbout("deployments", "object.spec.replicas > 1", "object.spec.replicas > 'a'", "object.spec.replica > 1")
	a.isChecked("apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'",
		"undefined field 'replica'")
	a.says("object.spec.replicas > 1")
	a.isChecked()
	a.says("object.spec.replicas > 1", "object.nothing == 1")
	a.isChecked("undefined field 'nothing'")
}

// What is right of real types has no warnings: quantities, values of several types, maps, and what is of any type.
func TestRealTypesHaveNoFalseWarnings(t *testing.T) { // VAP-5, VAP-21
	share(t).policyAbout("deployments",
		"object.spec.template.spec.containers.all(c, quantity(c.resources.limits['cpu']).isLessThan(quantity('2')))",
		"object.spec.strategy.rollingUpdate.maxSurge == '25%' || object.spec.strategy.rollingUpdate.maxSurge == 1",
		"object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z') || object.metadata.labels['a'] == 'b'",
		"object.spec.template.spec.volumes.all(v, !has(v.hostPath))", "object.metadata.namespace == 'a' || object.kind == 'Deployment'",
		"authorizer.requestResource.check('delete').allowed() || request.userInfo.username == 'a'",
	).isChecked()
}

// A policy about a custom resource is checked again when the definition comes, and when it changes.
func TestVAP20PoliciesAboutCustomResources(t *testing.T) {
	b := share(t)
	a := b.policyAbout("widgets", "object.size > 5")
	a.isChecked()
	name := "widgets." + b.ns + ".example.com"
	b.Cleanup(func() {
		client := must(dynamic.NewForConfig(b.RESTConfig))
		if err := client.Resource(crds).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	for _, size := range []string{"string", "integer"} {
		b.Apply(b.T, b.ns, fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\nspec:\n"+
			"  group: %s.example.com\n  scope: Namespaced\n  names: {plural: widgets, singular: widget, kind: Widget}\n  versions:\n"+
			"  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: %s}}}}}\n",
			name, b.ns, size))
		if size == "integer" {
			a.isChecked()
			continue
		}
		a.isChecked("found no matching overload for '_>_' applied to '(string, int)'")
	}
}
