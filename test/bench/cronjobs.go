package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// cronJobs measures many CronJobs that are due at the same minute. Their Jobs are only created: no controller runs them.
func cronJobs(ctx context.Context, b *bench) error {
	n := 300
	if b.quick {
		n = 50
	}
	flags := append(raisedLimits(), "--controllers=cronjob,-job")
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return s.inNamespace(ctx, func(ns *namespace) error { return b.runCronJobs(ctx, t, s, ns, n) })
			})
		})
	})
}

// runCronJobs creates the CronJobs one to two minutes before they are due.
func (b *bench) runCronJobs(ctx context.Context, t turn, s *session, ns *namespace, n int) error {
	due := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Minute)
	err := forEach(ctx, userWorkers, n, func(ctx context.Context, worker, i int) error {
		_, err := ns.client(worker).BatchV1().CronJobs(ns.name).Create(ctx, newCronJob(fmt.Sprint("cron-", i), due), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	if time.Now().After(due) {
		return fmt.Errorf("it took until %v to create %d CronJobs that were due at %v", time.Now().UTC().Format(time.TimeOnly), n,
			due.Format(time.TimeOnly))
	}
	if err := sleep(ctx, time.Until(due.Add(-2*time.Second))); err != nil { // the idle time takes no part
		return err
	}
	began := time.Now()
	var created, told time.Duration
	m, err := s.measure(ctx, ns, func(ctx context.Context) error {
		if err := sleep(ctx, time.Until(due)); err != nil {
			return err
		}
		if err := ns.waitJobs(ctx, s, n); err != nil {
			return err
		}
		created = time.Since(due)
		err := ns.waitActive(ctx, s, n)
		told = time.Since(due)
		return err
	})
	if err != nil {
		return err
	}
	b.keep(t, sample{
		Scenario: fmt.Sprintf("%d CronJobs due at the same minute", n), Began: began, Flags: s.flags, Writes: m.writes.rows,
		Figures: append(m.costs(floor.Writes{Status: n, Other: n}),
			seconds("from the minute until all Jobs are there", created),
			seconds("from the minute until all statuses tell of them", told)),
	})
	return nil
}

// newCronJob is due at a time, and then not for a year.
func newCronJob(name string, due time.Time) *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Schedule, c.Spec.TimeZone = due.Format("4 15 2 1 *"), ptr.To("Etc/UTC") // minute, hour, day, month, any weekday
	c.Spec.JobTemplate.Spec = newJob(name, 1, 1).Spec
	return c
}

// waitJobs waits until so many Jobs are there. It asks at little cost for the API server: with a limit it tells how many there are beyond.
func (ns *namespace) waitJobs(ctx context.Context, s *session, n int) error {
	return until(ctx, fmt.Sprintf("%d Jobs are there", n), 10*time.Millisecond, func() (bool, error) {
		list, err := ns.client(0).BatchV1().Jobs(ns.name).List(ctx, metav1.ListOptions{Limit: 1})
		if err := errors.Join(err, s.manager.running()); err != nil {
			return false, err
		}
		return len(list.Items)+int(ptr.Deref(list.RemainingItemCount, 0)) >= n, nil
	})
}

// waitActive waits until so many CronJobs say that a Job of theirs is active.
func (ns *namespace) waitActive(ctx context.Context, s *session, n int) error {
	return until(ctx, fmt.Sprintf("%d CronJobs are active", n), 50*time.Millisecond, func() (bool, error) {
		list, err := ns.client(0).BatchV1().CronJobs(ns.name).List(ctx, metav1.ListOptions{})
		if err := errors.Join(err, s.manager.running()); err != nil {
			return false, err
		}
		active := 0
		for i := range list.Items {
			if st := &list.Items[i].Status; len(st.Active) == 1 && st.LastScheduleTime != nil {
				active++
			}
		}
		return active == n, nil
	})
}
