package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// garbageFlags switch on the garbage collector, beside the controllers of all sessions.
func garbageFlags() []string { return append(raisedLimits(), "--controllers=garbagecollector") }

// garbage measures the garbage collector: a large Deployment that is deleted in the background, and many objects whose owners
// have never been there.
func garbage(ctx context.Context, b *bench) error {
	pods, owners, each := 2000, 100, 100
	if b.quick {
		pods, owners, each = 100, 10, 10
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, garbageFlags(), func(s *session) error {
				return errors.Join(b.deleteDeployment(ctx, t, s, pods), b.abandon(ctx, t, s, owners, each))
			})
		})
	})
}

// deleteDeployment deletes a Deployment in the background and waits until its last pod has gone.
func (b *bench) deleteDeployment(ctx context.Context, t turn, s *session, pods int) error {
	ns, err := s.plane.follow(ctx)
	if err != nil {
		return err
	}
	defer ns.stop()
	if _, err := s.measure(ctx, ns, func(ctx context.Context) error { return ns.createDeployments(ctx, 0, 1, pods) }); err != nil {
		return err
	}
	name := fmt.Sprintf("a Deployment of %d pods is deleted in the background", pods)
	return b.collected(ctx, t, s, name, pods+1, func(ctx context.Context) error {
		background := metav1.DeletePropagationBackground
		err := s.plane.client.AppsV1().Deployments(ns.name).Delete(ctx, "web-0", metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil {
			return err
		}
		return until(ctx, "the pods are gone", 10*time.Millisecond, func() (bool, error) {
			return ns.crowd.active() == 0, errors.Join(ns.errs.first(), s.manager.running())
		})
	})
}

// abandon creates ConfigMaps with owners that have never been there, and waits until they are gone.
func (b *bench) abandon(ctx context.Context, t turn, s *session, owners, each int) error {
	ns, err := s.plane.newNamespace(ctx)
	if err != nil {
		return err
	}
	clients, err := s.plane.clients(kubeletConnections)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d ConfigMaps of %d owners that are not there", owners*each, owners)
	return b.collected(ctx, t, s, name, owners*each, func(ctx context.Context) error {
		err := forEach(ctx, len(clients), owners*each, func(ctx context.Context, worker, i int) error {
			owner := i % owners
			c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("left-", i), OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("owner-", owner),
				UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", owner)),
			}}}}
			_, err := clients[worker].CoreV1().ConfigMaps(ns).Create(ctx, c, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		return until(ctx, "the ConfigMaps are gone", 50*time.Millisecond, func() (bool, error) {
			list, err := s.plane.client.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{Limit: 2})
			if err != nil {
				return false, err
			}
			left := len(list.Items)
			for _, c := range list.Items {
				if c.Name == "kube-root-ca.crt" {
					left--
				}
			}
			return left == 0, s.manager.running()
		})
	})
}

// collected measures a piece of the garbage collector's work, after which dependents have gone.
func (b *bench) collected(ctx context.Context, t turn, s *session, name string, dependents int, do func(ctx context.Context) error) error {
	var began time.Time
	var took time.Duration
	c, err := s.costOf(ctx, func(ctx context.Context) error {
		began = time.Now()
		err := do(ctx)
		took = time.Since(began)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	seen := s.proxy.Requests()
	deletions, reads := 0, 0
	for _, r := range seen.Rows {
		switch r.Verb {
		case "delete":
			deletions += r.Count
		case "get":
			if r.Resource != "leases" && r.Resource != "" { // without discovery
				reads += r.Count
			}
		}
	}
	least := float64(dependents)
	b.keep(t, sample{Scenario: name, Began: began, Flags: s.flags, Writes: countWrites(seen).rows, Figures: []figure{
		seconds("from the first request until all are gone", took),
		{Name: "deletions", Value: float64(deletions), Floor: &least},
		count("live reads", reads),
		seconds("CPU of the manager", c.cpu),
	}})
	return nil
}
