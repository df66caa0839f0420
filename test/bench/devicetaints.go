package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// deviceTaints measures many pods that leave their devices, because the driver gives all of these a taint.
func deviceTaints(ctx context.Context, b *bench) error {
	n := 1000
	if b.quick {
		n = 50
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			flags := append(raisedLimits(), "--controllers=device-taint-eviction-controller")
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return s.inNamespace(ctx, func(ns *namespace) error { return b.breakDevices(ctx, t, s, ns, n) })
			})
		})
	})
}

// breakDevices makes pods with devices, and has the driver say that these are broken.
func (b *bench) breakDevices(ctx context.Context, t turn, s *session, ns *namespace, n int) error {
	if err := forEach(ctx, userWorkers, n, ns.createWithDevice); err != nil {
		return err
	}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: ns.name}}
	everywhere := true
	slice.Spec.Driver, slice.Spec.AllNodes = "gpu.example.com", &everywhere
	slice.Spec.Pool = resourcev1.ResourcePool{Name: ns.name, Generation: 1, ResourceSliceCount: 1}
	slice.Spec.Devices = []resourcev1.Device{{Name: "gpu-0",
		Taints: []resourcev1.DeviceTaint{{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNoExecute}}}}
	began := time.Now()
	m, err := s.measure(ctx, ns, func(ctx context.Context) error {
		_, err := ns.client(0).ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		return errors.Join(err, ns.waitDeleted(ctx, s))
	})
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("%d pods leave devices that get a taint", n), Began: began, Flags: s.flags,
		Writes: m.writes.rows, Figures: m.costs(floor.Writes{Status: n, Other: n})})
	return ns.client(0).ResourceV1().ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{})
}

// createWithDevice makes a pod on a node, with a claim that has a device of the pool with the name of the namespace.
func (ns *namespace) createWithDevice(ctx context.Context, worker, i int) error {
	name := fmt.Sprint("web-", i)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: "none",
		Containers:     []corev1.Container{{Name: "web", Image: "web:1"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}}}
	pod, err := ns.client(worker).CoreV1().Pods(ns.name).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claims := ns.client(worker).ResourceV1().ResourceClaims(ns.name)
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
	if claim, err = claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return err
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: ns.name, Device: "gpu-0"}}}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// waitDeleted waits until all pods are being deleted, or gone.
func (ns *namespace) waitDeleted(ctx context.Context, s *session) error {
	return until(ctx, "the pods are deleted", 50*time.Millisecond, func() (bool, error) {
		list, err := ns.client(0).CoreV1().Pods(ns.name).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err := errors.Join(err, s.manager.running()); err != nil {
			return false, err
		}
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				return false, nil
			}
		}
		return true, nil
	})
}
