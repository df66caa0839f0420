package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// daemonFlags switch on the controller of DaemonSets, beside those of all sessions.
func daemonFlags() []string { return append(raisedLimits(), "--controllers=daemonset") }

// mostForDaemonSets is how many writes ours may make, as a multiple of the floor, besides reports of progress.
const mostForDaemonSets = 1.02

// daemonNodes is the label of the nodes on which a DaemonSet runs that is updated.
const daemonNodes = "bench/updated"

// daemonSets measures a DaemonSet on many nodes that is created, and another one, on a part of them, that is updated.
func daemonSets(ctx context.Context, b *bench) error {
	nodes, updated := 5000, 1000
	if b.quick {
		nodes, updated = 300, 100
	}
	return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			if err := p.makeNodes(ctx, nodes, updated); err != nil {
				return err
			}
			return b.withManager(ctx, p, t, daemonFlags(), func(s *session) error {
				return errors.Join(b.createDaemonSet(ctx, t, s, nodes), b.updateDaemonSet(ctx, t, s, updated))
			})
		})
	})
}

// makeNodes makes nodes, some of them with a label.
func (p *plane) makeNodes(ctx context.Context, n, labelled int) error {
	return forEach(ctx, 8, n, func(ctx context.Context, _, i int) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("daemon-%04d", i),
			Labels: map[string]string{daemonNodes: "false"}}}
		if i < labelled {
			node.Labels[daemonNodes] = "true"
		}
		_, err := p.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
}

func (b *bench) createDaemonSet(ctx context.Context, t turn, s *session, nodes int) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		return b.record(ctx, t, s, ns, job{
			name: fmt.Sprintf("create a DaemonSet on %d nodes", nodes), floor: floor.Writes{Status: 2, Other: nodes + 1},
			most: mostForDaemonSets,
			do: func(ctx context.Context) error {
				return ns.runDaemonSet(ctx, newDaemonSet("all", nil), nodes)
			},
		})
	})
}

// updateDaemonSet updates a DaemonSet of which a tenth of the pods may be unavailable.
func (b *bench) updateDaemonSet(ctx context.Context, t turn, s *session, nodes int) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		d := newDaemonSet("some", map[string]string{daemonNodes: "true"})
		if _, err := s.measure(ctx, ns, func(ctx context.Context) error { return ns.runDaemonSet(ctx, d, nodes) }); err != nil {
			return err
		}
		return b.record(ctx, t, s, ns, job{
			name: fmt.Sprintf("update a DaemonSet on %d nodes", nodes), floor: floor.Writes{Status: 2, Other: 2*nodes + 1},
			most: mostForDaemonSets,
			do: func(ctx context.Context) error {
				ns.crowd.allow(d.Name, nodes, nodes-(nodes+9)/10)
				document := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"agent","image":"agent:2"}]}}}}`)
				if _, err := ns.client(0).AppsV1().DaemonSets(ns.name).Patch(ctx, d.Name, types.StrategicMergePatchType, document,
					metav1.PatchOptions{}); err != nil {
					return err
				}
				return ns.waitDaemonSet(ctx, d.Name, nodes)
			},
		})
	})
}

// newDaemonSet runs on the nodes with the labels, whatever their taints.
func newDaemonSet(name string, nodes map[string]string) *appsv1.DaemonSet {
	labels := map[string]string{appLabel: name}
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromString("10%"))}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.NodeSelector = nodes
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: "agent:1"}}
	if nodes == nil {
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: daemonNodes,
					Operator: corev1.NodeSelectorOpExists}}}},
			}}}
	}
	return d
}

// runDaemonSet creates a DaemonSet and waits until it runs.
func (ns *namespace) runDaemonSet(ctx context.Context, d *appsv1.DaemonSet, nodes int) error {
	if _, err := ns.client(0).AppsV1().DaemonSets(ns.name).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return err
	}
	return ns.waitDaemonSet(ctx, d.Name, nodes)
}

// waitDaemonSet waits until so many nodes have an available pod of the present template, as the status tells.
func (ns *namespace) waitDaemonSet(ctx context.Context, name string, nodes int) error {
	return until(ctx, "the DaemonSet runs on all nodes", 20*time.Millisecond, func() (bool, error) {
		d, err := ns.client(0).AppsV1().DaemonSets(ns.name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, errors.Join(err, ns.errs.first())
		}
		n, st := int32(nodes), d.Status
		return st.ObservedGeneration == d.Generation && st.DesiredNumberScheduled == n && st.UpdatedNumberScheduled == n &&
			st.NumberAvailable == n, ns.errs.first()
	})
}
