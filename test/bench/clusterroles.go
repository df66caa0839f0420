package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// roleSizes are those of a cluster with many ClusterRoles.
type roleSizes struct {
	others, aggregated, changes int // those that nobody aggregates, those that view, edit and admin do, and changes of the others
}

// clusterRoles measures how soon rules reach the roles of the API server's chain, and what roles cost that nobody aggregates.
func clusterRoles(ctx context.Context, b *bench) error {
	sizes := roleSizes{others: 2000, aggregated: 100, changes: 2000}
	if b.quick {
		sizes = roleSizes{others: 200, aggregated: 10, changes: 200}
	}
	flags := append(raisedLimits(), "--controllers=clusterrole-aggregation")
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			err := forEach(ctx, 8, sizes.others, func(ctx context.Context, _, i int) error { return p.makeRole(ctx, otherRole(i), nil) })
			if err != nil {
				return err
			}
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return errors.Join(b.aggregateRoles(ctx, t, s, sizes), b.changeOtherRoles(ctx, t, s, sizes))
			})
		})
	})
}

func otherRole(i int) string { return fmt.Sprintf("other-%04d", i) }

// makeRole makes a ClusterRole with a rule about a resource of its name.
func (p *plane) makeRole(ctx context.Context, name string, labels map[string]string) error {
	_, err := p.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{name},
			Verbs: []string{"get", "list", "watch"}}},
	}, metav1.CreateOptions{})
	return err
}

// aggregateRoles adds roles to view, one after the other. Each is to reach edit and admin, too, before the next one is made.
func (b *bench) aggregateRoles(ctx context.Context, t turn, s *session, sizes roleSizes) error {
	name := fmt.Sprintf("%d ClusterRoles are added to view, edit and admin, beside %d others", sizes.aggregated, sizes.others)
	least := new(float64(3 * sizes.aggregated))
	return b.keepCost(ctx, t, s, name, figure{Floor: least, Most: least}, func(ctx context.Context) ([]figure, error) {
		var took []time.Duration
		for i := range sizes.aggregated {
			name, began := fmt.Sprintf("added-%04d", i), time.Now()
			if err := s.plane.makeRole(ctx, name, map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}); err != nil {
				return nil, err
			}
			for _, role := range []string{"view", "edit", "admin"} {
				if err := s.hasRule(ctx, role, name); err != nil {
					return nil, err
				}
			}
			took = append(took, time.Since(began))
		}
		return latencies("until view, edit and admin have the rule", took), nil
	})
}

// hasRule waits until a ClusterRole has a rule about a resource.
func (s *session) hasRule(ctx context.Context, role, resource string) error {
	return until(ctx, role+" has the rule about "+resource, 2*time.Millisecond, func() (bool, error) {
		found, err := s.plane.client.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(found.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) }),
			s.manager.running()
	})
}

// changeOtherRoles changes annotations of roles that nobody aggregates. Nothing is to be written.
func (b *bench) changeOtherRoles(ctx context.Context, t turn, s *session, sizes roleSizes) error {
	name := fmt.Sprintf("%d changes of ClusterRoles that nobody aggregates", sizes.changes)
	return b.keepCost(ctx, t, s, name, figure{Floor: new(0.0), Most: new(0.0)}, func(ctx context.Context) ([]figure, error) {
		return nil, forEach(ctx, 8, sizes.changes, func(ctx context.Context, _, i int) error {
			document := fmt.Appendf(nil, `{"metadata":{"annotations":{"change":"%d"}}}`, i)
			_, err := s.plane.client.RbacV1().ClusterRoles().Patch(ctx, otherRole(i%sizes.others), types.MergePatchType, document,
				metav1.PatchOptions{})
			return err
		})
	})
}
