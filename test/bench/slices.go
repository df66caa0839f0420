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

// sliceFlags switch on the controller of EndpointSlices, beside those of all sessions and without some of them.
func sliceFlags(without ...string) []string {
	flags := raisedLimits()
	for _, name := range without {
		flags = append(flags, "--controllers=-"+name)
	}
	return append(flags, "--controllers=endpointslice")
}

// endpointsPerSlice is the default of --max-endpoints-per-slice.
const endpointsPerSlice = 100

// endpointSlices measures what changes of pods cost a large Service: first EndpointSlices alone, then with Endpoints beside them.
func endpointSlices(ctx context.Context, b *bench) error {
	ready, flips, rolling := 5000, 500, 1000
	if b.quick {
		ready, flips, rolling = 500, 50, 100
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			large, err := p.newLargeService(ctx, ready)
			if err != nil {
				return err
			}
			err = b.withManager(ctx, p, t, sliceFlags("endpoint"), func(s *session) error {
				return b.flipReadiness(ctx, t, s, large, flips, "EndpointSlices alone")
			})
			if err != nil {
				return err
			}
			return b.withManager(ctx, p, t, sliceFlags(), func(s *session) error {
				err := b.flipReadiness(ctx, t, s, large, flips, "EndpointSlices and Endpoints")
				return errors.Join(err, b.rollService(ctx, t, s, rolling))
			})
		})
	})
}

// largeService is a Service and its pods.
type largeService struct {
	ns    string
	pods  []*corev1.Pod
	ready int
}

// newLargeService makes a Service with so many pods, all ready.
func (p *plane) newLargeService(ctx context.Context, n int) (*largeService, error) {
	ns, err := p.newNamespace(ctx)
	if err != nil {
		return nil, err
	}
	large := &largeService{ns: ns, ready: n}
	large.pods, err = p.makeReadyPods(ctx, ns, n, func(int) string { return "web" })
	return large, errors.Join(err, makeService(ctx, p.client, ns, "web"))
}

// flipReadiness changes the readiness of one pod after another. Each change is seen in the EndpointSlices before the next one.
func (b *bench) flipReadiness(ctx context.Context, t turn, s *session, large *largeService, flips int, what string) error {
	if err := s.slicesShow(ctx, large.ns, large.ready); err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	s.proxy.Reset()
	before, err := s.manager.cpu()
	if err != nil {
		return err
	}
	stop := s.plane.profiles.take(ctx, s.name, s.serving)
	began := time.Now()
	err = large.flip(ctx, s, flips)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	after, err := s.manager.cpu()
	if err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	one := float64(flips)
	b.keep(t, sample{
		Scenario: fmt.Sprintf("readiness of single pods of a Service of %d, %s", len(large.pods), what), Began: began, Flags: s.flags,
		Writes: countWrites(s.proxy.Requests()).rows,
		Figures: []figure{
			{Name: "EndpointSlices written", Value: float64(sliceWrites(s)), Floor: &one, Most: &one},
			millis("CPU of the manager for each change", (after-before)/time.Duration(flips)),
		},
	})
	return nil
}

// flip changes the readiness of so many pods, from all slices.
func (l *largeService) flip(ctx context.Context, s *session, flips int) error {
	for i := range flips {
		p := &l.pods[i*len(l.pods)/flips]
		*p = flipped(*p)
		if _, err := s.plane.client.CoreV1().Pods(l.ns).UpdateStatus(ctx, *p, metav1.UpdateOptions{}); err != nil {
			return err
		}
		if isReady(*p) {
			l.ready++
		} else {
			l.ready--
		}
		if err := s.slicesShow(ctx, l.ns, l.ready); err != nil {
			return err
		}
	}
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
	b.keep(t, sample{Scenario: fmt.Sprintf("a Service of %d pods is updated", n), Began: began, Flags: s.flags, Writes: m.writes.rows,
		Figures: []figure{
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
