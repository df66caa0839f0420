package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// runJobs measures a Job of many pods, which end at once, and how soon Jobs of one pod are complete when that has ended.
func runJobs(ctx context.Context, b *bench) error {
	completions, parallelism, small := 1000, 100, 30
	if b.quick {
		completions, parallelism, small = 100, 10, 5
	}
	flags := append(raisedLimits(), "--controllers=job")
	return b.inTurn(ctx, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			return b.withManager(ctx, p, t, flags, func(s *session) error {
				return errors.Join(b.runLargeJob(ctx, t, s, completions, parallelism), b.completeSmallJobs(ctx, t, s, small))
			})
		})
	})
}

// runLargeJob runs a Job from its creation to the end. Each pod is created and released once; the status tells that the Job has begun,
// which pods are about to be released, and that the Job is complete.
func (b *bench) runLargeJob(ctx context.Context, t turn, s *session, completions, parallelism int) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		large := newJob("large", completions, parallelism)
		large.Spec.Template.Labels[endsAtOnce] = "true"
		began := time.Now()
		m, err := s.measure(ctx, ns, func(ctx context.Context) error {
			if err := ns.createJob(ctx, large); err != nil {
				return err
			}
			return ns.waitComplete(ctx, s, large.Name, 20*time.Millisecond)
		})
		if err != nil {
			return err
		}
		b.keep(t, sample{
			Scenario: fmt.Sprintf("a Job of %d pods, %d at a time", completions, parallelism), Began: began, Flags: s.flags,
			Writes: m.writes.rows,
			Figures: append(m.costs(floor.Writes{Status: 3, Other: 2 * completions}),
				seconds("from its creation until it is complete", m.wall),
				millis("the simulated kubelet's part for a pod, median", percentile(m.played, 50))),
		})
		return nil
	})
}

// completeSmallJobs ends the pods of Jobs that have run for a while, one after the other.
func (b *bench) completeSmallJobs(ctx context.Context, t turn, s *session, n int) error {
	return s.inNamespace(ctx, func(ns *namespace) error {
		name := func(i int) string { return fmt.Sprint("small-", i) }
		err := forEach(ctx, userWorkers, n, func(ctx context.Context, _, i int) error { return ns.createJob(ctx, newJob(name(i), 1, 1)) })
		if err != nil {
			return err
		}
		pods := make([]*corev1.Pod, n)
		for i := range pods {
			if pods[i], err = ns.runningPod(ctx, s, name(i)); err != nil {
				return err
			}
		}
		if err := s.quiet(ctx); err != nil {
			return err
		}
		var took []time.Duration
		began := time.Now()
		m, err := s.measure(ctx, ns, func(ctx context.Context) error {
			for i, p := range pods {
				ended := time.Now()
				p.ResourceVersion, p.Status = "", endedStatus(p, p.Status.PodIP) // nobody else writes the status
				if _, err := ns.client(0).CoreV1().Pods(ns.name).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
					return err
				}
				if err := ns.waitComplete(ctx, s, name(i), 2*time.Millisecond); err != nil {
					return err
				}
				took = append(took, time.Since(ended))
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.keep(t, sample{
			Scenario: fmt.Sprintf("%d Jobs of one pod, which ends", n), Began: began, Flags: s.flags, Writes: m.writes.rows,
			Figures: append(m.costs(floor.Writes{Status: 2 * n, Other: n}),
				latencies("from the end of the pod until the Job is complete", took)...),
		})
		return nil
	})
}

// newJob has pods that name their node, so nobody has to bind them.
func newJob(name string, completions, parallelism int) *batchv1.Job {
	most, all := int32(parallelism), int32(completions)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Completions: &all, Parallelism: &most}}
	j.Spec.Template.Labels = map[string]string{appLabel: name}
	j.Spec.Template.Spec = corev1.PodSpec{
		NodeName: "node-0", RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "sum", Image: "sum:1"}},
	}
	return j
}

func (ns *namespace) createJob(ctx context.Context, j *batchv1.Job) error {
	_, err := ns.client(0).BatchV1().Jobs(ns.name).Create(ctx, j, metav1.CreateOptions{})
	return err
}

// waitComplete asks every so often whether a Job is complete.
func (ns *namespace) waitComplete(ctx context.Context, s *session, name string, every time.Duration) error {
	return until(ctx, "the Job "+name+" is complete", every, func() (bool, error) {
		j, err := ns.client(0).BatchV1().Jobs(ns.name).Get(ctx, name, metav1.GetOptions{})
		if err := errors.Join(err, ns.errs.first(), s.manager.running()); err != nil {
			return false, err
		}
		for _, c := range j.Status.Conditions {
			switch {
			case c.Status != corev1.ConditionTrue:
			case c.Type == batchv1.JobComplete:
				return true, nil
			case c.Type == batchv1.JobFailed:
				return false, fmt.Errorf("the Job %s has failed: %s", name, c.Message)
			}
		}
		return false, nil
	})
}

// runningPod waits until the pod of a Job runs.
func (ns *namespace) runningPod(ctx context.Context, s *session, job string) (p *corev1.Pod, err error) {
	err = until(ctx, "the pod of the Job "+job+" runs", 20*time.Millisecond, func() (bool, error) {
		list, err := ns.client(0).CoreV1().Pods(ns.name).List(ctx, metav1.ListOptions{LabelSelector: appLabel + "=" + job})
		if err := errors.Join(err, ns.errs.first(), s.manager.running()); err != nil {
			return false, err
		}
		if len(list.Items) != 1 || list.Items[0].Status.Phase != corev1.PodRunning {
			return false, nil
		}
		p = &list.Items[0]
		return true, nil
	})
	return p, err
}
