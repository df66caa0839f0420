package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const poolDriver = "gpu.example.com"

// devicePools measures answers to requests for the status of many pools of devices.
func devicePools(ctx context.Context, b *bench) error {
	pools, requests := 1000, 100
	if b.quick {
		pools, requests = 50, 10
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			flags := append(raisedLimits(), "--controllers=resourcepoolstatusrequest-controller", "--feature-gates=DRAResourcePoolStatus=true")
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return s.inNamespace(ctx, func(ns *namespace) error { return b.askForPools(ctx, t, s, ns, pools, requests) })
			})
		})
	})
}

// askForPools publishes pools of 8 devices, of which claims have one, and makes requests.
func (b *bench) askForPools(ctx context.Context, t turn, s *session, ns *namespace, pools, requests int) error {
	err := forEach(ctx, userWorkers, pools, func(ctx context.Context, worker, i int) error {
		return errors.Join(ns.publishPool(ctx, worker, i), ns.claimOfPool(ctx, worker, i))
	})
	if err != nil {
		return err
	}
	began, lag := time.Now(), time.Duration(0)
	asked := ns.client(0).ResourceV1alpha3().ResourcePoolStatusRequests()
	m, err := s.measure(ctx, ns, func(ctx context.Context) error {
		start := time.Now()
		err := forEach(ctx, userWorkers, requests, func(ctx context.Context, worker, i int) error {
			_, err := ns.client(worker).ResourceV1alpha3().ResourcePoolStatusRequests().Create(ctx,
				&resourcev1alpha3.ResourcePoolStatusRequest{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ask-", i)},
					Spec: resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: poolDriver}}, metav1.CreateOptions{})
			return err
		})
		err = errors.Join(err, until(ctx, "all requests are answered", 20*time.Millisecond, func() (bool, error) {
			list, err := asked.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err := errors.Join(err, s.manager.running()); err != nil {
				return false, err
			}
			for i := range list.Items {
				if list.Items[i].Status == nil {
					return false, nil
				}
			}
			return len(list.Items) == requests, nil
		}))
		lag = time.Since(start)
		return err
	})
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("%d requests for the status of %d pools of 8 devices", requests, pools), Began: began,
		Flags: s.flags, Writes: m.writes.rows,
		Figures: append(m.costs(floor.Writes{Status: requests}), seconds("until all requests are answered", lag))})
	return nil
}

func (ns *namespace) publishPool(ctx context.Context, worker, i int) error {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", i)}, Spec: resourcev1.ResourceSliceSpec{
		Driver: poolDriver, AllNodes: ptr.To(true),
		Pool: resourcev1.ResourcePool{Name: fmt.Sprint("pool-", i), Generation: 1, ResourceSliceCount: 1}}}
	for d := range 8 {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("d", d)})
	}
	_, err := ns.client(worker).ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{})
	return err
}

// claimOfPool makes a claim that has a device of a pool.
func (ns *namespace) claimOfPool(ctx context.Context, worker, i int) error {
	claims := ns.client(worker).ResourceV1().ResourceClaims(ns.name)
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("claim-", i)}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: poolDriver}}}
	c, err := claims.Create(ctx, c, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: poolDriver, Pool: fmt.Sprint("pool-", i), Device: "d0"}}}}
	_, err = claims.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	return err
}
