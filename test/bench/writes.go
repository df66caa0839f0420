package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// How many writes ours may make, as multiples of the floor: a large rollout takes steps before all pods are ready.
const (
	mostForMany = 1.05
	mostForOne  = 1.10
)

// Reports of progress come on top (docs/decisions/0003): one a second of a single object is allowed to each of the two
// controllers that work here. None waits for longer than 15 seconds. So when rollouts take longer than that,
// because the machine is slow, the number of reports says nothing.
const (
	reportsPerSecond = 2
	longRollout      = 15 * time.Second
)

// writeSizes are the sizes of the scenario.
type writeSizes struct {
	many   []int // Deployments of two replicas that are created and updated at once
	big    int   // replicas of the one that is updated
	huge   int   // replicas of the one that is scaled up, without client limits
	modest int   // replicas of the one that is scaled up with default flags
}

// writes counts writes against the logical floor.
func writes(ctx context.Context, b *bench) error {
	sizes := writeSizes{many: []int{250, 500}, big: 500, huge: 2000, modest: 300}
	if b.quick {
		sizes = writeSizes{many: []int{150}, big: 200, huge: 300, modest: 100}
	}
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			err := b.withManager(ctx, p, t, raisedLimits(), func(s *session) error {
				return b.raisedWrites(ctx, t, s, sizes)
			})
			if err != nil {
				return err
			}
			return b.withManager(ctx, p, t, nil, func(s *session) error {
				return b.scaleUp(ctx, t, s, sizes.modest, "default flags")
			})
		})
	})
}

// raisedWrites are the parts that take place without client limits.
func (b *bench) raisedWrites(ctx context.Context, t turn, s *session, sizes writeSizes) error {
	for _, n := range sizes.many {
		if err := b.createAndUpdate(ctx, t, s, n); err != nil {
			return err
		}
	}
	if err := b.updateBig(ctx, t, s, sizes.big); err != nil {
		return err
	}
	return b.scaleUp(ctx, t, s, sizes.huge, "limits raised")
}

// createAndUpdate makes so many Deployments of two replicas in a namespace of their own, and then changes their image.
func (b *bench) createAndUpdate(ctx context.Context, t turn, s *session, n int) error {
	const replicas = 2
	return s.inNamespace(ctx, func(ns *namespace) error {
		err := b.record(ctx, t, s, ns, job{
			name: fmt.Sprintf("create %d Deployments of %d pods", n, replicas), floor: floor.CreateDeployments(n, replicas),
			most: mostForMany,
			do:   func(ctx context.Context) error { return ns.createDeployments(ctx, 0, n, replicas) },
		})
		if err != nil {
			return err
		}
		surge, unavailable := floor.DefaultRoom(replicas)
		return b.record(ctx, t, s, ns, job{
			name:  fmt.Sprintf("update %d Deployments of %d pods", n, replicas),
			floor: floor.UpdateDeployments(n, replicas, surge, unavailable), most: mostForMany,
			do: func(ctx context.Context) error { return ns.updateDeployments(ctx, n, replicas, "web:2") },
		})
	})
}

// updateBig is a rolling update of one large Deployment.
func (b *bench) updateBig(ctx context.Context, t turn, s *session, replicas int) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		if _, err := s.measure(ctx, ns, func(ctx context.Context) error { return ns.createDeployments(ctx, 0, 1, replicas) }); err != nil {
			return err
		}
		surge, unavailable := floor.DefaultRoom(replicas)
		return b.record(ctx, t, s, ns, job{
			name:  fmt.Sprintf("update one Deployment of %d pods", replicas),
			floor: floor.UpdateDeployments(1, replicas, surge, unavailable), most: mostForOne,
			do: func(ctx context.Context) error { return ns.updateDeployments(ctx, 1, replicas, "web:2") },
		})
	})
}

// scaleUp takes one Deployment from no pods to many.
func (b *bench) scaleUp(ctx context.Context, t turn, s *session, replicas int, limits string) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		if _, err := s.measure(ctx, ns, func(ctx context.Context) error { return ns.createDeployments(ctx, 0, 1, 0) }); err != nil {
			return err
		}
		return b.record(ctx, t, s, ns, job{
			name: fmt.Sprintf("scale one Deployment from 0 to %d pods, %s", replicas, limits), floor: floor.ScaleDeployment(replicas),
			most: mostForOne,
			do:   func(ctx context.Context) error { return ns.scale(ctx, "web-0", replicas) },
		})
	})
}

// inNamespace does something in a namespace that is played. What is left there takes no part in what comes after.
func (s *session) inNamespace(ctx context.Context, do func(ns *namespace) error) error {
	ns, err := s.plane.follow(ctx)
	if err != nil {
		return err
	}
	defer ns.stop()
	if err := s.quiet(ctx); err != nil { // what comes with a namespace takes no part
		return err
	}
	return do(ns)
}

// withPlane does something with a control plane of its own.
func (b *bench) withPlane(ctx context.Context, do func(p *plane) error) (err error) {
	p, err := b.launcher.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	return do(p)
}

// withManager does something with a manager that leads.
func (b *bench) withManager(ctx context.Context, p *plane, t turn, flags []string, do func(s *session) error) (err error) {
	if err := p.dropLease(ctx); err != nil {
		return err
	}
	s, err := p.begin(ctx, t.contender, flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	b.say("%-8s leads", t.Name)
	return do(s)
}
