package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// devices measures many pods with a claim of a template each, which come and end.
func devices(ctx context.Context, b *bench) error {
	n := 1000
	if b.quick {
		n = 50
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			flags := append(raisedLimits(), "--controllers=resourceclaim-controller,garbage-collector-controller")
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return s.inNamespace(ctx, func(ns *namespace) error { return b.claimDevices(ctx, t, s, ns, n) })
			})
		})
	})
}

// claimDevices makes pods, gives their claims devices as the scheduler does, and has the pods fail.
func (b *bench) claimDevices(ctx context.Context, t turn, s *session, ns *namespace, n int) error {
	if err := ns.createDeviceTemplate(ctx); err != nil {
		return err
	}
	began := time.Now()
	m, err := s.measure(ctx, ns, func(ctx context.Context) error {
		err := forEach(ctx, userWorkers, n, func(ctx context.Context, worker, i int) error {
			_, err := ns.client(worker).CoreV1().Pods(ns.name).Create(ctx, devicePod(i), metav1.CreateOptions{})
			return err
		})
		return errors.Join(err, ns.waitClaims(ctx, s, n))
	})
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("%d pods with a claim of a template each", n), Began: began, Flags: s.flags,
		Writes:  m.writes.rows,
		Figures: m.costs(floor.Writes{Status: n, Other: n})})
	if err := ns.reserveClaims(ctx); err != nil {
		return err
	}
	began = time.Now()
	m, err = s.measure(ctx, ns, func(ctx context.Context) error {
		err := forEach(ctx, userWorkers, n, func(ctx context.Context, worker, i int) error {
			_, err := ns.client(worker).CoreV1().Pods(ns.name).Patch(ctx, devicePod(i).Name, types.StrategicMergePatchType,
				[]byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
			return err
		})
		return errors.Join(err, ns.waitNoClaims(ctx, s))
	})
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("%d pods end that have a claim of a template each", n), Began: began, Flags: s.flags,
		Writes: m.writes.rows, Figures: m.costs(floor.Writes{Status: n, Other: 2 * n})})
	return nil
}

func (ns *namespace) createDeviceTemplate(ctx context.Context) error {
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
	_, err := ns.client(0).ResourceV1().ResourceClaimTemplates(ns.name).Create(ctx, template, metav1.CreateOptions{})
	return err
}

// devicePod is a pod with a claim, which nobody schedules.
func devicePod(i int) *corev1.Pod {
	template := "gpus"
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}, Spec: corev1.PodSpec{
		SchedulerName: "nobody", Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}},
	}}
}

// waitClaims waits until so many pods have their claims.
func (ns *namespace) waitClaims(ctx context.Context, s *session, n int) error {
	return until(ctx, fmt.Sprintf("%d pods have claims", n), 50*time.Millisecond, func() (bool, error) {
		list, err := ns.client(0).CoreV1().Pods(ns.name).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err := errors.Join(err, s.manager.running()); err != nil {
			return false, err
		}
		have := 0
		for i := range list.Items {
			have += len(list.Items[i].Status.ResourceClaimStatuses)
		}
		return have >= n, nil
	})
}

// reserveClaims gives all claims devices and reserves them for their pods.
func (ns *namespace) reserveClaims(ctx context.Context) error {
	list, err := ns.client(0).ResourceV1().ResourceClaims(ns.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return forEach(ctx, userWorkers, len(list.Items), func(ctx context.Context, worker, i int) error {
		claims, c := ns.client(worker).ResourceV1().ResourceClaims(ns.name), &list.Items[i]
		c.Finalizers = append(c.Finalizers, resourcev1.Finalizer)
		c, err := claims.Update(ctx, c, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "pool",
				Device: "gpu-0"}}}}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
			{Resource: "pods", Name: c.OwnerReferences[0].Name, UID: c.OwnerReferences[0].UID}}
		_, err = claims.UpdateStatus(ctx, c, metav1.UpdateOptions{})
		return err
	})
}

// waitNoClaims waits until all claims are gone.
func (ns *namespace) waitNoClaims(ctx context.Context, s *session) error {
	return until(ctx, "the claims are gone", 50*time.Millisecond, func() (bool, error) {
		list, err := ns.client(0).ResourceV1().ResourceClaims(ns.name).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && len(list.Items) == 0, errors.Join(err, s.manager.running())
	})
}
