package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quotaSizes are those of a namespace with pods and quotas that limit all of them.
type quotaSizes struct{ pods, quotas, deletions int }

// quotas measures what the deletion of a pod costs in a namespace with many pods and some quotas.
func quotas(ctx context.Context, b *bench) error {
	sizes := quotaSizes{pods: 10_000, quotas: 5, deletions: 500}
	if b.quick {
		sizes = quotaSizes{pods: 500, quotas: 5, deletions: 50}
	}
	flags := append(raisedLimits(), "--controllers=resourcequota", "--controllers=-endpoint")
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			n, err := p.newQuotas(ctx, sizes)
			if err != nil {
				return err
			}
			return b.withManager(ctx, p, t, flags, func(s *session) error { return n.measure(ctx, b, t, s) })
		})
	})
}

// limited is a namespace with quotas and pods.
type limited struct {
	quotaSizes
	ns string
}

func (p *plane) newQuotas(ctx context.Context, sizes quotaSizes) (*limited, error) {
	ns, err := p.newNamespace(ctx)
	if err != nil {
		return nil, err
	}
	n := &limited{quotaSizes: sizes, ns: ns}
	if _, err := p.makeReadyPods(ctx, ns, sizes.pods, func(int) string { return "web" }); err != nil {
		return nil, err
	}
	return n, forEach(ctx, sizes.quotas, sizes.quotas, func(ctx context.Context, _, i int) error {
		_, err := p.client.CoreV1().ResourceQuotas(ns).Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("quota-", i)},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100k")}},
		}, metav1.CreateOptions{})
		return err
	})
}

// measure deletes one pod after the other, and waits at the end until all quotas have followed.
func (n *limited) measure(ctx context.Context, b *bench, t turn, s *session) error {
	began := time.Now()
	if err := n.shows(ctx, s, n.pods); err != nil {
		return err
	}
	var lag time.Duration
	c, err := s.costOf(ctx, func(ctx context.Context) error {
		if err := n.delete(ctx, s.plane); err != nil {
			return err
		}
		deleted := time.Now()
		defer func() { lag = time.Since(deleted) }()
		return n.shows(ctx, s, n.pods-n.deletions)
	})
	if err != nil {
		return err
	}
	b.keep(t, sample{
		Scenario: fmt.Sprintf("%d of %d pods are deleted, with %d quotas", n.deletions, n.pods, n.quotas), Began: began, Flags: s.flags,
		Writes: c.writes.rows,
		Figures: []figure{
			count("writes", c.writes.writes),
			millis("CPU of the manager for each deletion", c.cpu/time.Duration(n.deletions)),
			millis("from the last deletion until all quotas show it", lag),
			count("refused with 409", c.writes.conflicts),
		},
	})
	return nil
}

// delete deletes one pod after the other.
func (n *limited) delete(ctx context.Context, p *plane) error {
	for i := range n.deletions {
		if err := p.client.CoreV1().Pods(n.ns).Delete(ctx, fmt.Sprint("web-", i),
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// shows waits until all quotas say that so many pods are used.
func (n *limited) shows(ctx context.Context, s *session, pods int) error {
	return until(ctx, fmt.Sprintf("the quotas count %d pods", pods), 10*time.Millisecond, func() (bool, error) {
		list, err := s.plane.client.CoreV1().ResourceQuotas(n.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			used, ok := list.Items[i].Status.Used[corev1.ResourcePods]
			if !ok || used.Value() != int64(pods) {
				return false, nil
			}
		}
		return len(list.Items) == n.quotas, s.manager.running()
	})
}
