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

// tainting is how many nodes come, how many of them are tainted, and how many pods run on each of these.
type tainting struct{ nodes, tainted, pods int }

// nodesAndTaints measures ranges of addresses for nodes that come, and the eviction of pods from nodes that are tainted.
func nodesAndTaints(ctx context.Context, b *bench) error {
	sizes := tainting{nodes: 1000, tainted: 100, pods: 10}
	if b.quick {
		sizes = tainting{nodes: 200, tainted: 20, pods: 5}
	}
	flags := append(raisedLimits(), "--controllers=nodeipam,taint-eviction-controller", "--allocate-node-cidrs",
		"--cluster-cidr=10.0.0.0/8")
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return errors.Join(b.nodesGetRanges(ctx, t, s, sizes), b.nodesAreTainted(ctx, t, s, sizes))
			})
		})
	})
}

func (b *bench) nodesGetRanges(ctx context.Context, t turn, s *session, sizes tainting) error {
	writes := figure{Floor: new(float64(sizes.nodes)), Most: new(float64(sizes.nodes + 10))} // the control plane has a few nodes of its own
	return b.keepCost(ctx, t, s, fmt.Sprintf("%d nodes get ranges of addresses", sizes.nodes), writes,
		func(ctx context.Context) ([]figure, error) {
			began := time.Now()
			if err := s.plane.makeNodes(ctx, sizes.nodes, 0); err != nil {
				return nil, err
			}
			err := until(ctx, "all nodes have ranges", 50*time.Millisecond, func() (bool, error) {
				list, err := s.plane.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
				if err != nil {
					return false, err
				}
				for i := range list.Items {
					if list.Items[i].Spec.PodCIDR == "" {
						return false, s.manager.running()
					}
				}
				return len(list.Items) >= sizes.nodes, nil
			})
			return []figure{seconds("from the first node until all have ranges", time.Since(began))}, err
		})
}

// nodesAreTainted taints nodes at the same time, and waits until all of their pods are being deleted, or gone.
func (b *bench) nodesAreTainted(ctx context.Context, t turn, s *session, sizes tainting) error {
	all := sizes.tainted * sizes.pods
	return s.inNamespace(ctx, func(ns *namespace) error {
		pods := s.plane.client.CoreV1().Pods(ns.name)
		err := forEach(ctx, 8, all, func(ctx context.Context, _, i int) error {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}}
			p.Spec.NodeName = fmt.Sprintf("daemon-%04d", i%sizes.tainted)
			p.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}}
			_, err := pods.Create(ctx, p, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		if err := s.quiet(ctx); err != nil {
			return err
		}
		name := fmt.Sprintf("%d nodes of %d pods are tainted", sizes.tainted, sizes.pods)
		writes := figure{Floor: new(float64(2 * all)), Most: new(2.0 * float64(all))}
		return b.keepCost(ctx, t, s, name, writes, func(ctx context.Context) ([]figure, error) {
			began := time.Now()
			taint := []byte(`{"spec":{"taints":[{"key":"example.com/drain","effect":"NoExecute"}]}}`)
			err := forEach(ctx, 8, sizes.tainted, func(ctx context.Context, _, i int) error {
				_, err := s.plane.client.CoreV1().Nodes().Patch(ctx, fmt.Sprintf("daemon-%04d", i), types.MergePatchType, taint,
					metav1.PatchOptions{})
				return err
			})
			if err != nil {
				return nil, err
			}
			err = until(ctx, "all pods are evicted", 50*time.Millisecond, func() (bool, error) {
				list, err := pods.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
				if err != nil {
					return false, err
				}
				for i := range list.Items {
					if list.Items[i].DeletionTimestamp == nil {
						return false, s.manager.running()
					}
				}
				return true, nil
			})
			return []figure{seconds("until all pods are being deleted", time.Since(began))}, err
		})
	})
}
