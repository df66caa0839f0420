package main

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// policyFlags switch on the controller of admission policies, beside those of all sessions.
func policyFlags() []string {
	return append(raisedLimits(), "--controllers=validatingadmissionpolicy-status-controller")
}

// policies measures many policies that come at once, as when a tool is installed, and the same when each changes.
func policies(ctx context.Context, b *bench) error {
	n := 500
	if b.quick {
		n = 20
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, policyFlags(), func(s *session) error { return b.checkPolicies(ctx, t, s, n) })
		})
	})
}

// checkPolicies makes policies about pods and Deployments, changes them, and waits each time until they were checked.
func (b *bench) checkPolicies(ctx context.Context, t turn, s *session, n int) error {
	clients, err := s.plane.clients(kubeletConnections)
	if err != nil {
		return err
	}
	for _, work := range []struct {
		name     string
		do       func(context.Context, kubernetes.Interface, int) error
		warnings int
	}{
		{"are made", makePolicy, 0}, {"are changed, and wrong", spoilPolicy, 1},
	} {
		began := time.Now()
		c, err := s.costOf(ctx, func(ctx context.Context) error {
			err := forEach(ctx, len(clients), n, func(ctx context.Context, worker, i int) error { return work.do(ctx, clients[worker], i) })
			if err != nil {
				return err
			}
			return s.untilChecked(ctx, n, work.warnings)
		})
		if err != nil {
			return err
		}
		b.keep(t, sample{Scenario: fmt.Sprintf("%d admission policies %s", n, work.name), Began: began, Flags: s.flags,
			Writes: countWrites(s.proxy.Requests()).rows, Figures: []figure{
				seconds("until all were checked", time.Since(began)), seconds("CPU of the manager", c.cpu),
			}})
	}
	return nil
}

func policyName(i int) string { return fmt.Sprintf("policy-%04d", i) }

func makePolicy(ctx context.Context, c kubernetes.Interface, i int) error {
	rule := func(group, resource string) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}}}}
	}
	_, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName(i)},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
				rule("", "pods"), rule("apps", "deployments")}},
			Validations: []admissionv1.Validation{{Expression: "object.metadata.name != 'forbidden'"}},
		}}, metav1.CreateOptions{})
	return err
}

// spoilPolicy changes a policy, so that it is wrong for both of its types.
func spoilPolicy(ctx context.Context, c kubernetes.Interface, i int) error {
	all := c.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	p, err := all.Get(ctx, policyName(i), metav1.GetOptions{})
	if err != nil {
		return err
	}
	p.Spec.Validations[0].Expression = "object.metadata.name > 5"
	_, err = all.Update(ctx, p, metav1.UpdateOptions{})
	return err
}

// untilChecked waits until so many policies were checked, with so many warnings each.
func (s *session) untilChecked(ctx context.Context, n, warnings int) error {
	return until(ctx, "all policies are checked", 50*time.Millisecond, func() (bool, error) {
		all, err := s.plane.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		checked := 0
		for _, p := range all.Items {
			if p.Status.ObservedGeneration == p.Generation && p.Status.TypeChecking != nil &&
				len(p.Status.TypeChecking.ExpressionWarnings) == warnings {
				checked++
			}
		}
		if checked < n {
			return false, s.manager.running()
		}
		return true, nil
	})
}
