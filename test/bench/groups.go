package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// podGroups measures PodGroups that are deleted while a pod of each may run, and go with the pods.
func podGroups(ctx context.Context, b *bench) error {
	n := 1000
	if b.quick {
		n = 50
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			flags := append(raisedLimits(), "--controllers=podgroup-protection-controller", "--feature-gates=GenericWorkload=true")
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return s.inNamespace(ctx, func(ns *namespace) error { return b.letGroupsGo(ctx, t, s, ns, n) })
			})
		})
	})
}

// letGroupsGo deletes PodGroups, then their pods, and waits until the last PodGroup has gone.
func (b *bench) letGroupsGo(ctx context.Context, t turn, s *session, ns *namespace, n int) error {
	err := forEach(ctx, userWorkers, n, func(ctx context.Context, worker, i int) error {
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("gang-", i)}}
		group.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
		_, err := ns.client(worker).SchedulingV1beta1().PodGroups(ns.name).Create(ctx, group, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: group.Name}, Spec: corev1.PodSpec{SchedulerName: "nobody",
			Containers:      []corev1.Container{{Name: "rank", Image: "rank:1"}},
			SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &group.Name}}}
		_, err = ns.client(worker).CoreV1().Pods(ns.name).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	began, kept, last := time.Now(), 0, time.Time{}
	m, err := s.measure(ctx, ns, func(ctx context.Context) error {
		groups := ns.client(0).SchedulingV1beta1().PodGroups(ns.name)
		if err := errors.Join(groups.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}), s.quiet(ctx)); err != nil {
			return err
		}
		list, err := groups.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		kept = len(list.Items)
		err = forEach(ctx, userWorkers, n, func(ctx context.Context, worker, i int) error {
			return ns.client(worker).CoreV1().Pods(ns.name).Delete(ctx, fmt.Sprint("gang-", i),
				metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		})
		last = time.Now()
		return errors.Join(err, until(ctx, "the PodGroups are gone", 5*time.Millisecond, func() (bool, error) {
			list, err := groups.List(ctx, metav1.ListOptions{Limit: 1})
			return err == nil && len(list.Items) == 0, errors.Join(err, s.manager.running())
		}))
	})
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("%d PodGroups are deleted, and then their pods", n), Began: began, Flags: s.flags,
		Writes: m.writes.rows, Figures: append(m.costs(floor.Writes{Other: n}),
			exactly("PodGroups that went before their pods", n-kept, 0),
			seconds("from the last deletion of a pod until the last PodGroup is gone", time.Since(last)))})
	return nil
}
