package main

import (
	"context"
	"fmt"
	"time"
)

// growth measures what an update of a Deployment costs the manager when more and more Deployments are beside it in the
// namespace. Each time the same number is updated.
func growth(ctx context.Context, b *bench) error {
	return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
		steps := []int{250, 1000}
		if t.Name == ours {
			steps = append(steps, 3000) // the original would take too long
		}
		if b.quick {
			steps = []int{25, 100}
		}
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, raisedLimits(), func(s *session) error {
				return s.inNamespace(ctx, func(ns *namespace) error { return b.grow(ctx, t, s, ns, steps) })
			})
		})
	})
}

// grow makes as many Deployments as each step wants, and then updates as many as were there first.
func (b *bench) grow(ctx context.Context, t turn, s *session, ns *namespace, steps []int) error {
	const replicas = 2
	updated, first, there := steps[0], 0.0, 0
	for i, n := range steps {
		more := func(ctx context.Context) error { return ns.createDeployments(ctx, there, n-there, replicas) }
		if _, err := s.measure(ctx, ns, more); err != nil {
			return err
		}
		there = n
		began := time.Now()
		m, err := s.measure(ctx, ns, func(ctx context.Context) error {
			return ns.updateDeployments(ctx, updated, replicas, fmt.Sprintf("web:%d", i+2))
		})
		if err != nil {
			return err
		}
		each := milliseconds(m.cpu) / float64(updated)
		if i == 0 {
			first = each
		}
		b.keep(t, sample{Scenario: fmt.Sprintf("update %d of %d Deployments in a namespace", updated, n), Began: began, Flags: s.flags,
			Figures: []figure{
				{Name: "CPU of the manager for each update", Value: each, Unit: "ms"},
				{Name: fmt.Sprintf("the same, divided by that of %d", steps[0]), Value: each / first},
				count("writes", m.writes.writes),
			}, Writes: m.writes.rows})
	}
	return nil
}
