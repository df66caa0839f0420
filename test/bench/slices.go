package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sliceFlags switch on the controller of EndpointSlices, beside those of all sessions.
func sliceFlags() []string { return append(raisedLimits(), "--controllers=endpointslice") }

// endpointsPerSlice is the default of --max-endpoints-per-slice.
const endpointsPerSlice = 100

// endpointSlices measures what changes of pods cost a large Service.
func endpointSlices(ctx context.Context, b *bench) error {
	ready, flips, rolling := 5000, 100, 1000
	if b.quick {
		ready, flips, rolling = 500, 10, 100
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, sliceFlags(), func(s *session) error {
				return errors.Join(b.flipReadiness(ctx, t, s, ready, flips), b.rollService(ctx, t, s, rolling))
			})
		})
	})
}

// flipReadiness changes the readiness of one pod after another.
func (b *bench) flipReadiness(ctx context.Context, t turn, s *session, n, flips int) error {
	ns, err := s.plane.newNamespace(ctx)
	if err != nil {
		return err
	}
	clients, err := s.plane.clients(kubeletConnections)
	if err != nil {
		return err
	}
	pods := make([]*corev1.Pod, n)
	err = forEach(ctx, len(clients), n, func(ctx context.Context, worker, i int) (err error) {
		pods[i], err = makeReadyPod(ctx, clients[worker], loosePod(ns, fmt.Sprint("web-", i), "web"), uint32(i))
		return err
	})
	if err := errors.Join(err, makeService(ctx, s.plane.client, ns, "web")); err != nil {
		return err
	}
	if err := s.slicesShow(ctx, ns, n); err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	before, err := s.manager.cpu()
	if err != nil {
		return err
	}
	s.proxy.Reset()
	began := time.Now()
	for i := range flips {
		if _, err := s.plane.client.CoreV1().Pods(ns).UpdateStatus(ctx, flipped(pods[i*n/flips]), metav1.UpdateOptions{}); err != nil {
			return err
		}
		if err := s.slicesShow(ctx, ns, n-i-1); err != nil {
			return err
		}
	}
	after, err := s.manager.cpu()
	if err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	written := sliceWrites(s)
	least := float64(flips)
	b.keep(t, sample{Scenario: fmt.Sprintf("readiness of single pods of a Service of %d, Endpoints and EndpointSlices", n), Began: began, Flags: s.flags, Figures: []figure{
		{Name: "EndpointSlices written", Value: float64(written), Floor: &least},
		millis("CPU of the manager for each change", (after-before)/time.Duration(flips)),
	}})
	return nil
}

// rollService updates a Deployment that is behind a Service.
func (b *bench) rollService(ctx context.Context, t turn, s *session, n int) error {
	ns, err := s.plane.follow(ctx)
	if err != nil {
		return err
	}
	defer ns.stop()
	if err := makeService(ctx, s.plane.client, ns.name, "web-0"); err != nil {
		return err
	}
	if _, err := s.measure(ctx, ns, func(ctx context.Context) error { return ns.createDeployments(ctx, 0, 1, n) }); err != nil {
		return err
	}
	if err := s.slicesShow(ctx, ns.name, n); err != nil {
		return err
	}
	began := time.Now()
	m, err := s.measure(ctx, ns, func(ctx context.Context) error { return ns.updateDeployments(ctx, 1, n, "web:2") })
	if err != nil {
		return err
	}
	list, err := s.plane.client.DiscoveryV1().EndpointSlices(ns.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	fewest := float64((n + endpointsPerSlice - 1) / endpointsPerSlice)
	b.keep(t, sample{Scenario: fmt.Sprintf("a Service of %d pods is updated", n), Began: began, Flags: s.flags, Writes: m.writes.rows, Figures: []figure{
		count("EndpointSlices written", sliceWrites(s)),
		{Name: "EndpointSlices afterwards", Value: float64(len(list.Items)), Floor: &fewest},
		seconds("time until all is rolled out", m.wall),
		seconds("CPU of the manager", m.cpu),
	}})
	return nil
}

// sliceWrites are those that the API server has accepted.
func sliceWrites(s *session) (n int) {
	for _, r := range countWrites(s.proxy.Requests()).rows {
		if r.Resource == "endpointslices" && r.Code < 300 {
			n += r.Count
		}
	}
	return n
}

// slicesShow waits until the EndpointSlices of a namespace have so many ready endpoints.
func (s *session) slicesShow(ctx context.Context, ns string, want int) error {
	return until(ctx, fmt.Sprintf("EndpointSlices have %d ready endpoints", want), 20*time.Millisecond, func() (bool, error) {
		list, err := s.plane.client.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		return readyEndpoints(list.Items) == want, s.manager.running()
	})
}

func readyEndpoints(slices []discoveryv1.EndpointSlice) (n int) {
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				n++
			}
		}
	}
	return n
}
