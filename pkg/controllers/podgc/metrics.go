package podgc

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// collectors are the metrics of this controller. They count nothing until they are registered.
type collectors struct {
	deletions *metrics.CounterVec
	errors    *metrics.CounterVec
}

func newCollectors() collectors {
	const subsystem = "pod_gc_collector"
	labels := []string{"namespace", "reason"}
	return collectors{
		deletions: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "force_delete_pods_total", StabilityLevel: metrics.STABLE,
			Help: "Pods whose forceful deletion was tried.",
		}, labels),
		errors: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "force_delete_pod_errors_total", StabilityLevel: metrics.STABLE,
			Help: "Pods whose forceful deletion has failed.",
		}, labels),
	}
}

// all lists the metrics for a registry.
func (c collectors) all() []metrics.Registerable {
	return []metrics.Registerable{c.deletions, c.errors}
}

// applied counts and logs what became of a rule's plan.
func (c collectors) applied(ctx context.Context, s snapshot, _ struct{}, did, _ plan.Outcome) {
	logger := klog.FromContext(ctx)
	if s.Rule == orphaned {
		logUnread(logger, s)
	}
	c.countDeletions(logger, s, did)
}

// logUnread says what could not be read live.
func logUnread(logger klog.Logger, s snapshot) {
	if s.Uncompared {
		logger.V(1).Info(
			"The cache of nodes cannot be compared with the server, as the role does not allow to list nodes")
	}
	if n := len(s.Unreadable); n > 0 {
		logger.Info("Nodes cannot be read, their pods stay", "nodes", n, "err", s.Unreadable[0])
	}
}

// countDeletions counts and logs what became of the pods (PGC-20, PGC-21, PGC-25).
func (c collectors) countDeletions(logger klog.Logger, s snapshot, did plan.Outcome) {
	tried, failed := 0, 0
	var first error
	for _, r := range did.Results {
		if r.Verb == plan.Changed && r.Err == nil {
			continue // its deletion follows, and counts
		}
		if errors.Is(r.Err, client.ErrNotLeading) || errors.Is(r.Err, context.Canceled) {
			continue // not tried
		}
		tried++
		namespace := r.Object.GetNamespace()
		c.deletions.WithLabelValues(namespace, s.Rule).Inc()
		pod := klog.KObj(r.Object)
		switch {
		case r.Err == nil:
			logger.V(2).Info("Forced deletion of Pod succeeded", "reason", s.Rule, "pod", pod)
		case stale(r.Err):
			logger.V(2).Info("Pod has changed, is reconciled again", "reason", s.Rule, "pod", pod)
		default:
			failed++
			if first == nil {
				first = r.Err
			}
			c.errors.WithLabelValues(namespace, s.Rule).Inc()
			logger.V(2).Info("Forced deletion of Pod failed", "reason", s.Rule, "pod", pod, "err", r.Err.Error())
		}
	}
	if tried == 0 {
		return
	}
	values := []any{"reason", s.Rule, "count", tried, "failed", failed}
	if first != nil {
		values = append(values, "err", first.Error())
	}
	logger.Info("Garbage collecting pods", slices.Clip(values)...)
}

// stale reports whether a write was refused because the pod is not what the cache showed: it is met again, as it is by
// then, in the next cycle.
func stale(err error) bool {
	return errors.Is(err, plan.ErrStale) || client.IsAbsent(err) ||
		apierrors.IsConflict(err) && !client.DeniedByWebhook(err)
}
