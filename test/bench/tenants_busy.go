package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// busySizes are what tenant A keeps a manager busy with, while tenant B asks for something new.
type busySizes struct {
	flapping, pods int // Deployments whose sizes change all the time, and the pods that each has at most
	endless        int // pods of the Deployment whose rollout never ends
	atRest         int // Deployments that a fresh leader finds
	asks           int // Deployments of tenant B, one after the other
}

// besideBusy times new work of tenant B beside what tenant A keeps busy.
func (b *bench) besideBusy(ctx context.Context, t turn, s *session, sizes busySizes) error {
	flap := func(ctx context.Context, a *namespace) error {
		for i := 0; ctx.Err() == nil; i++ {
			err := forEach(ctx, userWorkers, sizes.flapping, func(ctx context.Context, worker, at int) error {
				name, size := fmt.Sprint("web-", at), sizes.pods/(1+i%2)
				a.crowd.allow(name, sizes.pods, 0)
				return a.patch(ctx, worker, name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, size))
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	change := func(ctx context.Context, a *namespace) error {
		for i := 0; ctx.Err() == nil; i++ {
			if err := errors.Join(a.updateDeployments(ctx, 1, sizes.endless, fmt.Sprint("web:", i+2)),
				sleep(ctx, time.Second)); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.Join(
		b.besideWork(ctx, t, s,
			fmt.Sprintf("A has %d flapping Deployments of %d pods, B creates one of %d", sizes.flapping, sizes.pods, smallShare),
			sizes.asks, sizes.flapping, sizes.pods, flap),
		b.besideWork(ctx, t, s,
			fmt.Sprintf("A has a rollout of %d pods that never ends, B creates a Deployment of %d", sizes.endless, smallShare),
			sizes.asks, 1, sizes.endless, change),
	)
}

// besideWork has tenant A roll out Deployments, and then work on them until tenant B has asked for so many of its own.
func (b *bench) besideWork(ctx context.Context, t turn, s *session, name string, asks, deployments, pods int,
	work func(context.Context, *namespace) error) error {
	return s.inNamespace(ctx, func(a *namespace) error {
		return s.inNamespace(ctx, func(ns *namespace) error {
			if err := a.createDeployments(ctx, 0, deployments, pods); err != nil {
				return err
			}
			if err := errors.Join(a.waitRolledOut(ctx, s.manager.running), s.quiet(ctx)); err != nil {
				return err
			}
			began := time.Now()
			working, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- work(working, a) }()
			took, err := ns.askFor(ctx, s, asks)
			if len(ended) > 0 {
				err = errors.Join(err, errors.New("the work of tenant A has ended too soon"), <-ended)
			} else {
				stop()
				<-ended
			}
			stop()
			if err := errors.Join(err, a.waitRolledOut(ctx, s.manager.running)); err != nil {
				return err
			}
			b.keep(t, sample{Scenario: name, Began: began, Flags: s.flags, Figures: []figure{
				seconds("from the creation of B's until it is rolled out, median", percentile(took, 50)),
				seconds("the longest", percentile(took, 100)),
			}})
			return nil
		})
	})
}

// askFor creates Deployments, one after the other, and returns how long each takes to be rolled out.
func (ns *namespace) askFor(ctx context.Context, s *session, asks int) (took []time.Duration, err error) {
	if err := sleep(ctx, 2*time.Second); err != nil { // tenant A is busy
		return nil, err
	}
	for i := range asks {
		created := time.Now()
		if err := ns.createDeployments(ctx, i, 1, smallShare); err != nil {
			return nil, err
		}
		if err := ns.waitRolledOut(ctx, s.manager.running); err != nil {
			return nil, err
		}
		took = append(took, time.Since(created))
	}
	return took, nil
}

// besideBackground has a fresh leader find what tenant A has at rest, and tenant B create a Deployment as soon as it leads. It ends no
// session.
func (b *bench) besideBackground(ctx context.Context, t turn, p *plane, flags []string, sizes busySizes) error {
	a, err := p.follow(ctx)
	if err != nil {
		return err
	}
	defer a.stop()
	if err := b.withManager(ctx, p, t, flags, func(s *session) error {
		if err := a.createDeployments(ctx, 0, sizes.atRest, 2); err != nil {
			return err
		}
		return errors.Join(a.waitRolledOut(ctx, s.manager.running), s.quiet(ctx))
	}); err != nil {
		return err
	}
	ns, err := p.follow(ctx)
	if err != nil {
		return err
	}
	defer ns.stop()
	if err := p.dropLease(ctx); err != nil {
		return err
	}
	s, err := p.standby(t.contender, false, flags...)
	if err != nil {
		return err
	}
	began := time.Now()
	took, err := ns.askFreshLeader(ctx, s)
	if err != nil {
		return errors.Join(err, s.end())
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("a fresh leader finds %d Deployments of A at rest, B creates one of %d", sizes.atRest,
		smallShare), Began: began, Flags: s.flags,
		Figures: []figure{seconds("from the creation of B's until it is rolled out", took)}})
	return s.end()
}

// askFreshLeader creates a Deployment as soon as somebody leads, and returns how long it takes to be rolled out.
func (ns *namespace) askFreshLeader(ctx context.Context, s *session) (time.Duration, error) {
	leases := s.plane.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	if err := until(ctx, "somebody leads", 5*time.Millisecond, func() (bool, error) {
		_, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		return err == nil, errors.Join(client404IsFine(err), s.manager.running())
	}); err != nil {
		return 0, err
	}
	created := time.Now()
	if err := ns.createDeployments(ctx, 0, 1, smallShare); err != nil {
		return 0, err
	}
	err := ns.waitRolledOut(ctx, s.manager.running)
	return time.Since(created), err
}
