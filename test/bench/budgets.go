package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// budgetSizes are those of a namespace with PodDisruptionBudgets, each of which has as many pods as the others.
type budgetSizes struct{ pods, budgets, flips int }

// budgets measures what changes of single pods cost in a namespace with many pods and many PodDisruptionBudgets.
func budgets(ctx context.Context, b *bench) error {
	sizes := budgetSizes{pods: 10_000, budgets: 500, flips: 200}
	if b.quick {
		sizes = budgetSizes{pods: 1000, budgets: 50, flips: 50}
	}
	flags := append(raisedLimits(), "--controllers=disruption", "--controllers=-endpoint")
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			n, err := p.newBudgets(ctx, sizes)
			if err != nil {
				return err
			}
			return b.withManager(ctx, p, t, flags, func(s *session) error { return n.measure(ctx, b, t, s) })
		})
	})
}

// budgeted is a namespace with budgets and pods.
type budgeted struct {
	budgetSizes
	ns   string
	pods []*corev1.Pod
}

func (p *plane) newBudgets(ctx context.Context, sizes budgetSizes) (*budgeted, error) {
	ns, err := p.newNamespace(ctx)
	if err != nil {
		return nil, err
	}
	n := &budgeted{budgetSizes: sizes, ns: ns}
	if n.pods, err = p.makeReadyPods(ctx, ns, sizes.pods, n.app); err != nil {
		return nil, err
	}
	one := intstr.FromInt32(1)
	return n, forEach(ctx, 8, sizes.budgets, func(ctx context.Context, _, i int) error {
		_, err := p.client.PolicyV1().PodDisruptionBudgets(ns).Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: n.app(i)},
			Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: n.app(i)}}},
		}, metav1.CreateOptions{})
		return err
	})
}

// app is that of a pod, and the name of its budget.
func (n *budgeted) app(pod int) string { return fmt.Sprint("app-", pod%n.budgets) }

// measure flips the readiness of one pod after another. Each change is seen in the budget before the next one.
func (n *budgeted) measure(ctx context.Context, b *bench, t turn, s *session) error {
	began := time.Now()
	each := int32(len(n.pods) / n.budgets)
	for i := range n.budgets {
		if err := n.shows(ctx, s, i, each); err != nil {
			return err
		}
	}
	filled := time.Since(began)
	var took time.Duration
	c, err := s.costOf(ctx, func(ctx context.Context) error {
		began := time.Now()
		defer func() { took = time.Since(began) }()
		return n.flip(ctx, s, each)
	})
	if err != nil {
		return err
	}
	one := float64(n.flips)
	b.keep(t, sample{
		Scenario: fmt.Sprintf("readiness of single pods among %d, with %d PodDisruptionBudgets", len(n.pods), n.budgets), Began: began,
		Flags:  s.flags,
		Writes: c.writes.rows,
		Figures: []figure{
			{Name: "writes", Value: float64(c.writes.writes), Floor: &one, Most: &one},
			millis("CPU of the manager for each change", c.cpu/time.Duration(n.flips)),
			millis("time until the budget shows a change", took/time.Duration(n.flips)),
			seconds("time until all budgets are filled", filled),
			exactly("refused with 409", c.writes.conflicts, 0),
		},
	})
	return nil
}

// flip makes so many pods unready, each of another budget as long as there are some.
func (n *budgeted) flip(ctx context.Context, s *session, each int32) error {
	healthy := map[int]int32{}
	for i := range n.flips {
		p := flipped(n.pods[i])
		if _, err := s.plane.client.CoreV1().Pods(n.ns).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
			return err
		}
		healthy[i%n.budgets]++
		if err := n.shows(ctx, s, i, each-healthy[i%n.budgets]); err != nil {
			return err
		}
	}
	return nil
}

// shows waits until the budget of a pod has so many healthy pods.
func (n *budgeted) shows(ctx context.Context, s *session, pod int, want int32) error {
	return until(ctx, fmt.Sprintf("%s has %d healthy pods", n.app(pod), want), 2*time.Millisecond, func() (bool, error) {
		found, err := s.plane.client.PolicyV1().PodDisruptionBudgets(n.ns).Get(ctx, n.app(pod), metav1.GetOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		return found.Status.CurrentHealthy == want && found.Status.ObservedGeneration == found.Generation, s.manager.running()
	})
}
