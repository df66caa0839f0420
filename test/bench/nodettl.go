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

// nodeTTL is the annotation that says how long kubelets may cache.
const nodeTTL = "node.alpha.kubernetes.io/ttl"

// nodeSizes are those of a cluster that grows past a limit, at which all nodes get another annotation.
type nodeSizes struct {
	nodes, more, beats int    // nodes, what comes later, and how often each reports its status
	before, after      string // the annotations of both sizes
}

// nodeTTLs measures what nodes cost that come, that report their status, and that must follow when the cluster has grown.
func nodeTTLs(ctx context.Context, b *bench) error {
	// The control plane has a few nodes of its own.
	sizes := nodeSizes{nodes: 1980, more: 30, beats: 5, before: "60", after: "300"}
	if b.quick {
		sizes = nodeSizes{nodes: 480, more: 30, beats: 2, before: "15", after: "30"}
	}
	flags := append(raisedLimits(), "--controllers=ttl")
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return errors.Join(b.nodesCome(ctx, t, s, sizes), b.nodesReport(ctx, t, s, sizes), b.clusterGrows(ctx, t, s, sizes))
			})
		})
	})
}

// nodesCome creates the nodes and waits until all are annotated. How often each is written depends on how fast they come.
func (b *bench) nodesCome(ctx context.Context, t turn, s *session, sizes nodeSizes) error {
	writes := figure{Floor: new(float64(sizes.nodes))}
	return b.keepCost(ctx, t, s, fmt.Sprintf("%d nodes come", sizes.nodes), writes, func(ctx context.Context) ([]figure, error) {
		if err := s.plane.makeNodes(ctx, sizes.nodes, 0); err != nil {
			return nil, err
		}
		return nil, until(ctx, "all nodes are annotated", 100*time.Millisecond, func() (bool, error) {
			n, err := s.plane.annotated(ctx, "")
			return n == 0, errors.Join(err, s.manager.running())
		})
	})
}

// nodesReport has the nodes report their status, as kubelets do. Nothing is to be written.
func (b *bench) nodesReport(ctx context.Context, t turn, s *session, sizes nodeSizes) error {
	if t.Name == original { // otherwise it would annotate some
		if err := s.reports(ctx, sizes, 1); err != nil {
			return err
		}
		if err := s.quiet(ctx); err != nil {
			return err
		}
	}
	writes := figure{Floor: new(0.0), Most: new(0.0)}
	return b.keepCost(ctx, t, s, fmt.Sprintf("%d nodes report their status %d times", sizes.nodes, sizes.beats), writes,
		func(ctx context.Context) ([]figure, error) {
			return nil, s.reports(ctx, sizes, sizes.beats)
		})
}

// reports has each node report its status so often.
func (s *session) reports(ctx context.Context, sizes nodeSizes, times int) error {
	return forEach(ctx, 8, sizes.nodes*times, func(ctx context.Context, _, i int) error {
		document := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`,
			time.Now().UTC().Format(time.RFC3339Nano))
		_, err := s.plane.client.CoreV1().Nodes().Patch(ctx, fmt.Sprintf("daemon-%04d", i%sizes.nodes), types.StrategicMergePatchType,
			document, metav1.PatchOptions{}, "status")
		return err
	})
}

// clusterGrows adds a few nodes, so that the cluster passes a limit, and looks how many nodes have followed after a minute: no node
// reports.
func (b *bench) clusterGrows(ctx context.Context, t turn, s *session, sizes nodeSizes) error {
	name := fmt.Sprintf("%d nodes come beside %d, so that all get another annotation", sizes.more, sizes.nodes)
	all := sizes.nodes + sizes.more
	// new ones may come before the class changes, and there are a few others
	writes := figure{Floor: new(float64(all)), Most: new(float64(all + 2*sizes.more))}
	return b.keepCost(ctx, t, s, name, writes, func(ctx context.Context) ([]figure, error) {
		began := time.Now()
		for i := range sizes.more {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("more-%d", i)}}
			if _, err := s.plane.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
				return nil, err
			}
		}
		for {
			n, err := s.plane.annotated(ctx, sizes.after)
			took := time.Since(began)
			if err != nil || n >= all || took > time.Minute {
				return []figure{count("nodes that have followed within a minute", n),
					seconds("time until all have followed, at most a minute", took)}, err
			}
			if err := errors.Join(sleep(ctx, 200*time.Millisecond), s.manager.running()); err != nil {
				return nil, err
			}
		}
	})
}

// annotated returns how many nodes have the annotation with a value; an empty one counts those without the annotation.
func (p *plane) annotated(ctx context.Context, value string) (n int, err error) {
	list, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		if list.Items[i].Annotations[nodeTTL] == value {
			n++
		}
	}
	return n, nil
}
