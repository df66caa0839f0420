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

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// statefulSets measures StatefulSets whose pods come, and are replaced, one after the other in each set.
func statefulSets(ctx context.Context, b *bench) error {
	n, replicas := 50, 5
	if b.quick {
		n = 10
	}
	flags := append(raisedLimits(), "--controllers=statefulset")
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return s.inNamespace(ctx, func(ns *namespace) error {
					if err := b.createStatefulSets(ctx, t, s, ns, n, replicas); err != nil {
						return err
					}
					return b.updateStatefulSets(ctx, t, s, ns, n, replicas)
				})
			})
		})
	})
}

func (b *bench) createStatefulSets(ctx context.Context, t turn, s *session, ns *namespace, n, replicas int) error {
	return b.rollStatefulSets(ctx, t, s, ns, statefulWork{
		name: fmt.Sprintf("create %d StatefulSets of %d pods", n, replicas), sets: n, replicas: replicas,
		floor: floor.Writes{Status: n, Other: n * (1 + replicas)},
		each: func(ctx context.Context, worker int, name string) error {
			ns.crowd.allow(name, replicas, 0)
			_, err := ns.client(worker).AppsV1().StatefulSets(ns.name).Create(ctx, newStatefulSet(name, replicas), metav1.CreateOptions{})
			return err
		},
	})
}

// updateStatefulSets changes the image of StatefulSets. At most one pod of each may be missing.
func (b *bench) updateStatefulSets(ctx context.Context, t turn, s *session, ns *namespace, n, replicas int) error {
	document := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"db","image":"db:2"}]}}}}`)
	return b.rollStatefulSets(ctx, t, s, ns, statefulWork{
		name: fmt.Sprintf("update %d StatefulSets of %d pods", n, replicas), sets: n, replicas: replicas,
		floor: floor.Writes{Status: n, Other: n * (1 + 2*replicas)},
		each: func(ctx context.Context, worker int, name string) error {
			ns.crowd.allow(name, replicas, replicas-1)
			_, err := ns.client(worker).AppsV1().StatefulSets(ns.name).Patch(ctx, name, types.StrategicMergePatchType, document,
				metav1.PatchOptions{})
			return err
		},
	})
}

// statefulWork is something that is done to each of many StatefulSets.
type statefulWork struct {
	name           string
	sets, replicas int
	floor          floor.Writes
	each           func(ctx context.Context, worker int, name string) error
}

// rollStatefulSets measures from the first change until all StatefulSets are rolled out.
func (b *bench) rollStatefulSets(ctx context.Context, t turn, s *session, ns *namespace, w statefulWork) error {
	began := time.Now()
	m, err := s.measure(ctx, ns, func(ctx context.Context) error {
		err := forEach(ctx, userWorkers, w.sets,
			func(ctx context.Context, worker, i int) error { return w.each(ctx, worker, fmt.Sprint("db-", i)) })
		if err != nil {
			return err
		}
		return ns.waitStatefulSets(ctx, s, w.sets, int32(w.replicas))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	b.keep(t, sample{Scenario: w.name, Began: began, Flags: s.flags, Writes: m.writes.rows, Figures: append(m.costs(w.floor),
		seconds("time until all is rolled out", m.wall),
		millis("the simulated kubelet's part for a pod, median", percentile(m.played, 50)),
		exactly("pods above replicas", m.excess.tooMany, 0),
		exactly("available pods below replicas - 1", m.excess.tooFew, 0))})
	return nil
}

func newStatefulSet(name string, replicas int) *appsv1.StatefulSet {
	labels := map[string]string{appLabel: name}
	n := int32(replicas)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Replicas, set.Spec.ServiceName = &n, "db"
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec = corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "db", Image: "db:1"}}}
	return set
}

// waitStatefulSets waits until so many StatefulSets are rolled out, as their statuses tell.
func (ns *namespace) waitStatefulSets(ctx context.Context, s *session, n int, replicas int32) error {
	return until(ctx, "all StatefulSets are rolled out", 50*time.Millisecond, func() (bool, error) {
		list, err := ns.client(0).AppsV1().StatefulSets(ns.name).List(ctx, metav1.ListOptions{})
		if err := errors.Join(err, ns.errs.first(), s.manager.running()); err != nil {
			return false, err
		}
		done := 0
		for i := range list.Items {
			set, st := &list.Items[i], &list.Items[i].Status
			if st.ObservedGeneration == set.Generation && st.CurrentRevision == st.UpdateRevision && st.Replicas == replicas &&
				st.UpdatedReplicas == replicas && st.AvailableReplicas == replicas {
				done++
			}
		}
		return done == n, nil
	})
}
