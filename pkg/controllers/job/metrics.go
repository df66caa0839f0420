package job

import (
	"context"
	"errors"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// collectors are the metrics of this controller (JOB-100..107). They count nothing until they are registered.
type collectors struct {
	duration                                      *metrics.HistogramVec
	syncs, finished, podsFinished, policy         *metrics.CounterVec
	terminated, indexes, creations, foreign, late *metrics.CounterVec
}

// newCollectors makes the metrics. They count nothing until they are registered.
func newCollectors() *collectors {
	const subsystem = "job_controller"
	counter := func(name string, level metrics.StabilityLevel, help string, labels ...string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, StabilityLevel: level,
			Help: help}, labels)
	}
	return &collectors{
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "job_sync_duration_seconds", StabilityLevel: metrics.STABLE,
			Help:    "How long a reconcile of a Job took, its writes included.",
			Buckets: metrics.ExponentialBuckets(0.004, 2, 15),
		}, []string{"completion_mode", "result", "action"}),
		syncs: counter("job_syncs_total", metrics.STABLE, "Reconciles of Jobs.", "completion_mode", "result", "action"),
		finished: counter("jobs_finished_total", metrics.STABLE, "Jobs that have finished, by how and why.",
			"completion_mode", "result", "reason"),
		podsFinished: counter("job_pods_finished_total", metrics.STABLE,
			"Pods of Jobs that were counted as ended; of Indexed Jobs, indexes.",
			"completion_mode", "result"),
		policy: counter("pod_failures_handled_by_failure_policy_total", metrics.BETA,
			"Failed pods about which a rule of a pod failure policy has decided.", "action"),
		terminated: counter("terminated_pods_tracking_finalizer_total", metrics.BETA,
			"Pods that have ended and gain or lose the finalizer by which Jobs count them.", "event"),
		indexes: counter("job_finished_indexes_total", metrics.ALPHA, "Indexes that have succeeded or failed.",
			"status", "backoffLimit"),
		creations: counter("job_pods_creation_total", metrics.ALPHA,
			"Pods that were created for Jobs, or could not be.",
			"reason", "status"),
		foreign: counter("jobs_by_external_controller_total", metrics.ALPHA,
			"Jobs that name another controller in spec.managedBy.",
			"controller_name"),
		late: counter("stale_sync_skips_total", metrics.ALPHA,
			"Reconciles of a Job that were put off because the cache of the resource lacked own writes.", "group",
			"resource"),
	}
}

// all lists the metrics for a registry.
func (c *collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.duration, c.syncs, c.finished, c.podsFinished, c.policy, c.terminated, c.indexes,
		c.creations,
		c.foreign, c.late}
}

// countStale counts a reconcile that was put off because the cache of a resource lacks own writes.
func (c *collectors) countStale(r schema.GroupResource) {
	c.late.WithLabelValues(r.Group, r.Resource).Inc()
}

// itself returns the key of a Job that has changed, and counts new ones that another controller manages (JOB-13).
func (c *collectors) itself(before, after plan.Object) []plan.Key {
	if job, ok := after.(*batchv1.Job); ok && before == nil && workloads.ManagedElsewhere(job) {
		c.foreign.WithLabelValues(*job.Spec.ManagedBy).Inc()
	}
	return informers.Itself(before, after)
}

// counting returns the function, and has it count ended pods that gain or lose the finalizer (JOB-104).
func (c *collectors) counting(enqueues func(before, after plan.Object) []plan.Key) func(before,
	after plan.Object) []plan.Key {
	return func(before, after plan.Object) []plan.Key {
		old, _ := before.(*corev1.Pod)
		pod, _ := after.(*corev1.Pod)
		had := old != nil && podutil.Finished(old) && workloads.Tracked(old)
		has := pod != nil && podutil.Finished(pod) && workloads.Tracked(pod)
		switch {
		case has && !had:
			c.terminated.WithLabelValues("add").Inc()
		case had && !has:
			c.terminated.WithLabelValues("delete").Inc()
		}
		return enqueues(before, after)
	}
}

// applied counts what one reconcile did.
func (c *collectors) applied(_ context.Context, seen snapshot, d decision, did, reported plan.Outcome) {
	s := view{seen, d}
	if s.selector == nil || unknownMode(s.Job) || errors.Is(reported.Err, reconcile.ErrNoReport) {
		return
	}
	result := "success"
	if err := errors.Join(did.Err, reported.Err); err != nil {
		if errors.Is(err, plan.ErrStale) {
			return
		}
		result = "error"
	}
	labels := []string{modeOf(s.Job), result, actionOf(s, did)}
	c.syncs.WithLabelValues(labels...).Inc()
	c.duration.WithLabelValues(labels...).Observe(time.Since(s.Began).Seconds())
	c.countCreations(s, did)
	for _, r := range reported.Results {
		if r.Err != nil {
			continue
		}
		switch o := r.Object.(type) {
		case *batchv1.Job:
			c.countEnded(s, o)
		case *corev1.Pod:
			if s.actions[o.UID].action == batchv1.PodFailurePolicyActionIgnore {
				c.policy.WithLabelValues(string(batchv1.PodFailurePolicyActionIgnore)).Inc()
			}
		}
	}
}

// countEnded counts what a new status says more than the one before.
func (c *collectors) countEnded(s view, after *batchv1.Job) {
	mode, before := modeOf(after), s.Job.Status
	c.podsFinished.WithLabelValues(mode, "succeeded").Add(float64(max(0, after.Status.Succeeded-before.Succeeded)))
	c.podsFinished.WithLabelValues(mode, "failed").Add(float64(max(0, after.Status.Failed-before.Failed)))
	for _, p := range s.newFailed {
		if r := s.actions[p.UID]; r.action != "" &&
			slices.Contains(after.Status.UncountedTerminatedPods.Failed, p.UID) {
			c.policy.WithLabelValues(string(r.action)).Inc()
		}
	}
	if workloads.Indexed(after) {
		limit := "global"
		if workloads.HasLimitPerIndex(after) {
			limit = "perIndex"
			failed := parseIndexes(*after.Status.FailedIndexes, workloads.Completions(after))
			lost := failed.count() - s.failedBefore.count()
			c.indexes.WithLabelValues("failed", limit).Add(float64(max(0, lost)))
		}
		c.indexes.WithLabelValues("succeeded",
			limit).Add(float64(max(0, after.Status.Succeeded-int32(s.completedBefore.count()))))
	}
	for t, result := range map[batchv1.JobConditionType]string{batchv1.JobComplete: "succeeded",
		batchv1.JobFailed: "failed"} {
		if workloads.HasJobCondition(after.Status, t) {
			c.finished.WithLabelValues(mode, result, workloads.JobCondition(after.Status, t).Reason).Inc()
		}
	}
}

// countCreations counts the pods that were created, or could not be, and why they were needed.
func (c *collectors) countCreations(s view, did plan.Outcome) {
	reason := "new"
	if s.totalFailed() > 0 || len(s.terminating) > 0 {
		reason = "recreate_terminating_or_failed"
		if workloads.ReplacesOnlyEnded(s.Job) {
			reason = "recreate_failed"
		}
	}
	for _, r := range did.Results {
		if r.Verb != plan.Created || !isPod(r) {
			continue
		}
		status := "succeeded"
		if r.Err != nil {
			status = "failed"
		}
		c.creations.WithLabelValues(reason, status).Inc()
	}
}

// modeOf is the completion mode as metrics name it.
func modeOf(j *batchv1.Job) string {
	if workloads.Indexed(j) {
		return string(batchv1.IndexedCompletion)
	}
	return string(batchv1.NonIndexedCompletion)
}

// actionOf is what a reconcile did, as metrics name it.
func actionOf(s view, did plan.Outcome) string {
	wrote := func(v plan.Verb) bool {
		return slices.ContainsFunc(did.Results, func(r plan.Result) bool { return r.Verb == v && isPod(r) })
	}
	switch {
	case wrote(plan.Created):
		return "pods_created"
	case wrote(plan.Deleted):
		return "pods_deleted"
	case s.Job.DeletionTimestamp == nil && !endOf(s.Began, s).decided():
		return "tracking"
	}
	return "reconciling"
}
