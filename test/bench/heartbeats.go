package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubelets renew the Leases of so many nodes, every ten seconds. The first ones are lost later, with so many pods on each.
type kubelets struct {
	nodes, lost, pods int

	*plane
	dead atomic.Bool               // those that are lost renew nothing any more
	last atomic.Pointer[time.Time] // when the first of them was last renewed
}

func nodeName(i int) string { return fmt.Sprintf("daemon-%04d", i) }

// heartbeats measures what nodes cost that are well, and how soon it shows that many of them are not.
func heartbeats(ctx context.Context, b *bench) error {
	nodes, lost, pods := 5000, 200, 30
	if b.quick {
		nodes, lost, pods = 500, 20, 10
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			k := &kubelets{nodes: nodes, lost: lost, pods: pods, plane: p}
			if err := k.register(ctx); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(ctx)
			failed := make(chan error, 1)
			go func() { failed <- k.renew(ctx) }()
			err := b.withManager(ctx, p, t, append(raisedLimits(), "--controllers=nodelifecycle", "--node-monitor-grace-period=50s"),
				func(s *session) error {
					return errors.Join(b.nodesAreWell(ctx, t, s, k), b.nodesAreLost(ctx, t, s, k))
				})
			cancel()
			return errors.Join(err, <-failed)
		})
	})
}

// register makes the nodes, which are ready, and their Leases.
func (k *kubelets) register(ctx context.Context) error {
	if err := k.makeNodes(ctx, k.nodes, 0); err != nil {
		return err
	}
	return forEach(ctx, 8, k.nodes, func(ctx context.Context, _, i int) error {
		now := metav1.NowMicro()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}
		_, err := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
		return errors.Join(err, k.reportReady(ctx, i))
	})
}

func (k *kubelets) reportReady(ctx context.Context, i int) error {
	now := time.Now().UTC().Format(time.RFC3339)
	status := fmt.Appendf(nil,
		`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q,"lastTransitionTime":%[1]q}]}}`, now)
	_, err := k.client.CoreV1().Nodes().Patch(ctx, nodeName(i), types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status")
	return err
}

// renew renews the Leases, evenly over the time, until ctx ends.
func (k *kubelets) renew(ctx context.Context) error {
	const portions = 100
	for next := time.NewTicker(10 * time.Second / portions); ; {
		for portion := range portions {
			select {
			case <-ctx.Done():
				return nil
			case <-next.C:
			}
			from, to := portion*k.nodes/portions, (portion+1)*k.nodes/portions
			err := forEach(ctx, 8, to-from, func(ctx context.Context, _, i int) error {
				if i += from; i < k.lost && k.dead.Load() {
					return nil
				}
				now := time.Now()
				renewed := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro))
				_, err := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, nodeName(i), types.MergePatchType, renewed,
					metav1.PatchOptions{})
				if i == 0 {
					k.last.Store(&now)
				}
				return err
			})
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// nodesAreWell is a minute in which nothing happens, after the first one.
func (b *bench) nodesAreWell(ctx context.Context, t turn, s *session, k *kubelets) error {
	if err := sleep(ctx, time.Minute); err != nil {
		return err
	}
	name := fmt.Sprintf("a minute with %d nodes that are well", k.nodes)
	return b.keepCost(ctx, t, s, name, figure{Floor: new(0.0), Most: new(0.0)}, func(ctx context.Context) ([]figure, error) {
		return nil, sleep(ctx, time.Minute)
	})
}

// nodesAreLost has nodes die at the same time.
func (b *bench) nodesAreLost(ctx context.Context, t turn, s *session, k *kubelets) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		pods := s.plane.client.CoreV1().Pods(ns.name)
		err := forEach(ctx, 8, k.lost*k.pods, func(ctx context.Context, _, i int) error {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}}
			p.Spec.NodeName = nodeName(i % k.lost)
			p.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}}
			_, err := pods.Create(ctx, p, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			_, err = pods.Patch(ctx, p.Name, types.StrategicMergePatchType,
				[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
			return err
		})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%d nodes of %d pods are lost", k.lost, k.pods)
		floor := float64(k.lost*(2+k.pods) + 1) // the status and the taint of each, and one more taint
		return b.keepCost(ctx, t, s, name, figure{Floor: &floor, Most: new(1.1 * floor)}, func(ctx context.Context) ([]figure, error) {
			k.dead.Store(true)
			unknown, err := s.firstUnknown(ctx)
			if err != nil {
				return nil, err
			}
			err = until(ctx, "no pod is ready", 200*time.Millisecond, func() (bool, error) {
				list, err := pods.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
				if err != nil {
					return false, err
				}
				for i := range list.Items {
					if isReady(&list.Items[i]) {
						return false, s.manager.running()
					}
				}
				return true, nil
			})
			return []figure{
				seconds("from the last renewal until a node is Unknown", unknown.Sub(*k.last.Load())),
				seconds("from then until no pod is ready", time.Since(unknown)),
			}, err
		})
	})
}

// firstUnknown waits until a node is Unknown.
func (s *session) firstUnknown(ctx context.Context) (when time.Time, err error) {
	nodes, err := s.plane.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return when, err
	}
	changes, err := s.plane.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: nodes.ResourceVersion})
	if err != nil {
		return when, err
	}
	defer changes.Stop()
	limit := time.After(patience)
	for {
		select {
		case change, ok := <-changes.ResultChan():
			if !ok {
				return when, errors.New("the watch of nodes has ended")
			}
			node, ok := change.Object.(*corev1.Node)
			if !ok {
				continue
			}
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
					return time.Now(), nil
				}
			}
		case <-limit:
			return when, fmt.Errorf("no node is Unknown after %v", patience)
		case <-ctx.Done():
			return when, context.Cause(ctx)
		}
	}
}
