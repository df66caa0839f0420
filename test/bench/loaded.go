package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loaded measures managers on a large cluster on which nothing is to be done: start, memory, lists that have to be
// repeated, and takeovers. All contenders work on the same control plane, one after the other.
func loaded(ctx context.Context, b *bench) error {
	size := population{namespaces: 10, deployments: 100, pods: 20, services: 30}
	if b.quick {
		size = population{namespaces: 2, deployments: 20, pods: 20, services: 10}
	}
	return b.withPlane(ctx, func(p *plane) error {
		began := time.Now()
		namespaces, podSize, err := p.populate(ctx, size)
		if err != nil {
			return err
		}
		b.say("%v of %d bytes were made in %v", size, podSize, time.Since(began).Round(time.Second))
		// The objects lack status and Endpoints yet. What one contender writes, the other takes for its own, or so the
		// number of writes at its start tells.
		for _, c := range b.contenders {
			if err := b.settle(ctx, p, turn{contender: c}); err != nil {
				return fmt.Errorf("settle with %s: %w", c.Name, err)
			}
		}
		return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
			l := &large{plane: p, size: size, podSize: podSize, lost: namespaces[0]}
			return l.measure(ctx, b, t)
		})
	})
}

// settle lets a contender write what it finds missing.
func (b *bench) settle(ctx context.Context, p *plane, t turn) error {
	return b.withManager(ctx, p, t, raisedLimits(), func(*session) error { return nil })
}

// large is a cluster with many objects.
type large struct {
	plane   *plane
	size    population
	podSize int
	lost    string // the namespace where pods get lost
}

func (l *large) String() string { return l.size.String() }

func (l *large) measure(ctx context.Context, b *bench, t turn) error {
	ns, err := l.plane.followExisting(ctx, l.lost)
	if err != nil {
		return err
	}
	defer ns.stop()
	if err := l.losePods(ctx, ns); err != nil {
		return err
	}
	if err := l.plane.dropLease(ctx); err != nil {
		return err
	}
	s, err := l.plane.standby(t.contender, true, raisedLimits()...)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return l.start(ctx, b, t, s, ns) },
		func() error { return l.rest(ctx, b, t, s) },
		func() error { return l.relist(ctx, b, t, s) },
	} {
		if err := step(); err != nil {
			return errors.Join(err, s.end())
		}
	}
	return b.succession(ctx, t, s, l.String())
}

// lostPods of the cluster have vanished while no manager ran.
const lostPods = 20

// losePods deletes one pod each of as many Deployments.
func (l *large) losePods(ctx context.Context, ns *namespace) error {
	all := l.size.deployments * l.size.pods
	if err := until(ctx, "all pods are seen", 10*time.Millisecond,
		func() (bool, error) { return ns.crowd.active() == all, ns.errs.first() }); err != nil {
		return err
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for i := range lostPods {
		client := ns.client(i).CoreV1().Pods(ns.name)
		list, err := client.List(ctx, metav1.ListOptions{LabelSelector: fmt.Sprintf("%s=web-%d", appLabel, i), Limit: 1})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("web-%d has no pods", i)
		}
		if err := client.Delete(ctx, list.Items[0].Name, now); err != nil {
			return err
		}
	}
	return until(ctx, "the lost pods are gone", 10*time.Millisecond,
		func() (bool, error) { return ns.crowd.active() == all-lostPods, ns.errs.first() })
}

// start waits until a new manager has replaced the lost pods and is at rest.
func (l *large) start(ctx context.Context, b *bench, t turn, s *session, ns *namespace) error {
	all := l.size.deployments * l.size.pods
	if err := until(ctx, "the lost pods are replaced", 2*time.Millisecond, func() (bool, error) {
		return ns.crowd.active() == all, errors.Join(ns.errs.first(), s.manager.running())
	}); err != nil {
		return err
	}
	replaced := time.Now()
	if err := s.quiet(ctx); err != nil {
		return err
	}
	used, _, err := s.manager.atRest(ctx, restTime)
	if err != nil {
		return err
	}
	_, listed := s.valve.pods()
	writes := countWrites(s.proxy.Requests())
	b.keep(t, sample{Scenario: fmt.Sprintf("start with %v, %d pods lost", l, lostPods), Began: s.manager.began, Flags: s.flags,
		Writes: writes.rows, Figures: []figure{
			seconds("from the start to all pods listed", listed.Sub(s.manager.began)),
			seconds("from there to the lost pods replaced", replaced.Sub(listed)),
			seconds("from the start to the lost pods replaced", replaced.Sub(s.manager.began)),
			seconds("CPU of the manager until at rest", used),
			megabytes("received from the API server", s.valve.received.Load()),
			count("watches", s.valve.open()),
			count("writes", writes.writes),
			exactly("refused with 409", writes.conflicts, 0),
			exactly("writes without effect", writes.noOps, 0),
		}})
	return nil
}

// forcedCollection is when at the latest the Go runtime has collected garbage in a process that has nothing to do.
const forcedCollection = 150 * time.Second

// rest measures the memory of a manager that has nothing to do.
func (l *large) rest(ctx context.Context, b *bench, t turn, s *session) error {
	began := time.Now()
	figures, err := b.memoryAtRest(ctx, s)
	if err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("memory with %v, a pod of %.1f KB", l, float64(l.podSize)/1024), Began: began, Flags: s.flags,
		Figures: figures})
	return nil
}

// memoryAtRest returns the memory of a manager that has nothing to do. The full benchmark waits for the collection that the Go
// runtime makes when there was none for two minutes: the heap is then what is really alive, and unused memory has been
// given back. A manager that collects by itself now and then has no such collection: then that time is waited out.
func (b *bench) memoryAtRest(ctx context.Context, s *session) ([]figure, error) {
	began := time.Now()
	_, peak, err := s.manager.memory()
	if err != nil {
		return nil, err
	}
	if b.quick {
		err = sleep(ctx, restTime)
	} else {
		_, before := s.manager.out.collected()
		err = until(ctx, "garbage is collected", time.Second, func() (bool, error) {
			_, forced := s.manager.out.collected()
			return forced > before || time.Since(began) > forcedCollection, s.manager.running()
		})
	}
	if err != nil {
		return nil, err
	}
	now, _, err := s.manager.memory()
	if err != nil {
		return nil, err
	}
	heap, _ := s.manager.out.collected()
	return []figure{
		megabytes("resident at its highest, start", peak),
		megabytes("resident at rest", now),
		megabytes("live heap at the last collection", heap),
	}, nil
}

// relist cuts all watches, so that everything has to be listed anew.
func (l *large) relist(ctx context.Context, b *bench, t turn, s *session) error {
	if err := s.manager.resetPeak(); err != nil {
		return err
	}
	s.proxy.Reset()
	before, _ := s.valve.pods()
	busy, err := s.manager.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	if s.valve.cut() == 0 {
		return errors.New("the manager watches nothing")
	}
	if err := until(ctx, "all pods are listed again", 5*time.Millisecond, func() (bool, error) {
		n, _ := s.valve.pods()
		return n > before, s.manager.running()
	}); err != nil {
		return err
	}
	listed := time.Since(began)
	used, _, err := s.manager.atRest(ctx, restTime)
	if err != nil {
		return err
	}
	_, peak, err := s.manager.memory()
	if err != nil {
		return err
	}
	writes := countWrites(s.proxy.Requests())
	b.keep(t, sample{Scenario: fmt.Sprintf("relist with %v", l), Began: began, Flags: s.flags, Writes: writes.rows, Figures: []figure{
		megabytes("resident at its highest, relist", peak),
		seconds("from the cut to all pods listed", listed),
		seconds("CPU of the manager until at rest", used-busy),
		exactly("writes", writes.writes, 0),
	}})
	return nil
}
