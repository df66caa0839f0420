package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// restTime is how long a manager must have nothing to do to count as at rest.
const restTime = 3 * time.Second

// takeover measures a manager that has nothing to do, and how a standby takes over from it, on an empty cluster.
func takeover(ctx context.Context, b *bench) error {
	return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			s, err := p.begin(ctx, t.contender)
			if err != nil {
				return err
			}
			if err := b.idle(ctx, t, s); err != nil {
				return errors.Join(err, s.end())
			}
			return b.succession(ctx, t, s, "an empty cluster")
		})
	})
}

// idle measures a manager that leads and has nothing to do.
func (b *bench) idle(ctx context.Context, t turn, s *session) error {
	const while = 20 * time.Second
	if _, _, err := s.manager.atRest(ctx, restTime); err != nil {
		return err
	}
	began := time.Now()
	before, err := s.manager.cpu()
	if err != nil {
		return err
	}
	if err := sleep(ctx, while); err != nil {
		return err
	}
	after, err := s.manager.cpu()
	if err != nil {
		return err
	}
	now, _, err := s.manager.memory()
	if err != nil {
		return err
	}
	heap, _ := s.manager.out.collected()
	b.keep(t, sample{Scenario: "idle on an empty cluster", Began: began, Flags: s.flags, Figures: []figure{
		megabytes("resident memory", now),
		megabytes("live heap at the last collection", heap),
		seconds("CPU of the manager in a minute", (after-before)*time.Duration(time.Minute/while)),
	}})
	return nil
}

// succession lets standbys take over, first from a leader that gets SIGTERM, then from one that is killed. It ends the
// leader's session.
func (b *bench) succession(ctx context.Context, t turn, leader *session, where string) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		successor, err := b.succeed(ctx, t, leader, signal, where)
		if err != nil {
			return errors.Join(err, leader.end()) // what has ended already may be ended again
		}
		leader = successor
	}
	return leader.end()
}

// succeed starts a standby and lets it take over from the leader, whose session it ends. It returns the standby's.
func (b *bench) succeed(ctx context.Context, t turn, leader *session, signal syscall.Signal, where string) (*session, error) {
	successor, err := leader.plane.standby(t.contender, true, leader.own...)
	if err != nil {
		return nil, err
	}
	_, _, err = successor.manager.atRest(ctx, restTime)
	if err == nil {
		err = b.takeOver(ctx, t, leader, successor, signal, where)
	}
	if err == nil {
		_, _, err = successor.manager.atRest(ctx, restTime)
	}
	if err != nil {
		return nil, errors.Join(err, successor.end())
	}
	return successor, leader.end()
}

// takeOver ends a leader a second after a renewal of its lease, gives a Deployment to be rolled out, and waits for the
// successor's first write.
func (b *bench) takeOver(ctx context.Context, t turn, leader, successor *session, signal syscall.Signal, where string) error {
	ns, err := leader.plane.follow(ctx)
	if err != nil {
		return err
	}
	defer ns.stop()
	renewed, err := leader.plane.followLease(ctx)
	if err != nil {
		return err
	}
	defer renewed.stop()
	if err := renewed.next(ctx); err != nil {
		return err
	}
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	began := time.Now()
	if err := leader.manager.cmd.Process.Signal(signal); err != nil {
		return err
	}
	<-leader.manager.ended
	ended := time.Since(began)
	if err := ns.createDeployments(ctx, 0, 1, 1); err != nil {
		return err
	}
	if err := until(ctx, "the successor writes", time.Millisecond, func() (bool, error) {
		return successor.proxy.Writes().Total > 0, successor.manager.running()
	}); err != nil {
		return err
	}
	first := time.Since(began)
	if err := ns.waitRolledOut(ctx, successor.manager.running); err != nil {
		return err
	}
	b.keep(t, sample{Scenario: fmt.Sprintf("takeover after %s, %s", signalName(signal), where), Began: began, Flags: leader.flags,
		Figures: []figure{
			seconds("from the signal to the process's end", ended),
			seconds("from the signal to the successor's first write", first),
			seconds("from the signal to a new Deployment rolled out", time.Since(began)),
		}})
	return nil
}

func signalName(s syscall.Signal) string {
	if s == syscall.SIGKILL {
		return "SIGKILL"
	}
	return "SIGTERM"
}
