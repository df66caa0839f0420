package main

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// rangeFlags switch on the controller of ServiceCIDRs, beside those of all sessions.
func rangeFlags() []string { return append(raisedLimits(), "--controllers=service-cidr-controller") }

// serviceRanges measures a ServiceCIDR that is deleted while it has many addresses, which go one after the other, and it with the last.
func serviceRanges(ctx context.Context, b *bench) error {
	n := 5000
	if b.quick {
		n = 100
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, rangeFlags(), func(s *session) error { return b.letRangeGo(ctx, t, s, n) })
		})
	})
}

// letRangeGo deletes a ServiceCIDR, then the addresses in it, and waits until it has gone.
func (b *bench) letRangeGo(ctx context.Context, t turn, s *session, n int) error {
	clients, err := s.plane.clients(kubeletConnections)
	if err != nil {
		return err
	}
	if err := s.createUsedRange(ctx, clients, n); err != nil {
		return err
	}
	began, lag := time.Now(), time.Duration(0)
	c, err := s.costOf(ctx, func(ctx context.Context) (err error) {
		lag, err = s.deleteUsedRange(ctx, clients, n)
		return err
	})
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("a ServiceCIDR with %d addresses is deleted, and then they are", n), Began: began,
		Flags: s.flags, Writes: countWrites(s.proxy.Requests()).rows, Figures: []figure{
			seconds("from the last deletion of an address until the ServiceCIDR is gone", lag), seconds("CPU of the manager", c.cpu),
		}})
	return nil
}

const usedRange = "used"

// rangeAddress is the address of that number.
func rangeAddress(i int) string { return fmt.Sprintf("100.96.%d.%d", i/250, 1+i%250) }

// createUsedRange creates a ServiceCIDR and addresses in it as API servers allocate them, and waits until it is ready.
func (s *session) createUsedRange(ctx context.Context, clients []kubernetes.Interface, n int) error {
	ranges := s.plane.client.NetworkingV1().ServiceCIDRs()
	if _, err := ranges.Create(ctx, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: usedRange},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"100.96.0.0/16"}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := forEach(ctx, len(clients), n, func(ctx context.Context, worker, i int) error {
		_, err := clients[worker].NetworkingV1().IPAddresses().Create(ctx, &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: rangeAddress(i),
				Labels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"}},
			Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default",
				Name: fmt.Sprint("web-", i)}}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return s.untilRangeIs(ctx, metav1.ConditionTrue)
}

// deleteUsedRange deletes the ServiceCIDR, and when it says why it stays, the addresses. It returns how long it took from the last one's
// deletion until the ServiceCIDR was gone.
func (s *session) deleteUsedRange(ctx context.Context, clients []kubernetes.Interface, n int) (time.Duration, error) {
	ranges := s.plane.client.NetworkingV1().ServiceCIDRs()
	if err := ranges.Delete(ctx, usedRange, metav1.DeleteOptions{}); err != nil {
		return 0, err
	}
	if err := s.untilRangeIs(ctx, metav1.ConditionFalse); err != nil {
		return 0, err
	}
	err := forEach(ctx, len(clients), n, func(ctx context.Context, worker, i int) error {
		err := clients[worker].NetworkingV1().IPAddresses().Delete(ctx, rangeAddress(i), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) { // an API server has found no Service that has it
			return nil
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	last := time.Now()
	err = until(ctx, "the ServiceCIDR is gone", 5*time.Millisecond, func() (bool, error) {
		_, err := ranges.Get(ctx, usedRange, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		return false, s.manager.running()
	})
	return time.Since(last), err
}

// untilRangeIs waits until the ServiceCIDR says whether it is ready.
func (s *session) untilRangeIs(ctx context.Context, ready metav1.ConditionStatus) error {
	return until(ctx, "the ServiceCIDR says whether it is ready", 5*time.Millisecond, func() (bool, error) {
		c, err := s.plane.client.NetworkingV1().ServiceCIDRs().Get(ctx, usedRange, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady, ready) {
			return true, nil
		}
		return false, s.manager.running()
	})
}
