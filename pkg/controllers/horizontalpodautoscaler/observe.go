package horizontalpodautoscaler

import (
	"context"
	"slices"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/scale"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	autoscalers informers.Store[*autoscalingv2.HorizontalPodAutoscaler]
	pods        informers.LabeledPodCache
	workloads   scale.Caches

	mapper     mapper
	settings   settings
	schedule   schedule
	answers    *answers
	namespaces *namespaces

	mu        sync.Mutex
	refreshed time.Time // when the mapper was last asked to look anew
}

type (
	// request and observation are those of the controller.
	request     = reconcile.Request[memory]
	observation = reconcile.Observation[snapshot, memory]
)

// observe finds the autoscaler, the scale of its target and, if they decide, the pods and the metrics.
func (k *caches) observe(ctx context.Context, r request) (observation, error) {
	h := k.autoscalers.Get(r.Key.Namespace, r.Key.Name)
	if h == nil {
		return observation{}, nil
	}
	s := snapshot{Autoscaler: h, Settings: k.settings, Began: r.Now, Next: k.schedule.wait(r.Now, h.Namespace)}
	if m := r.Memory; m != nil {
		s.Known, s.History, s.Due, s.Scaled, s.StaleSince = true, m.History, m.Due, m.Scaled, m.staleSince(h)
	}
	if err := k.observeTarget(ctx, r, &s); err != nil {
		s.TargetErr = err.Error()
	} else if s.evaluates() {
		k.observePods(ctx, r, &s)
	}
	return observation{Exists: true, Snapshot: s}, nil
}

// observePods finds the pods of the target, whoever else scales them, and their metrics.
func (k *caches) observePods(ctx context.Context, r request, s *snapshot) {
	if s.Target.Labels == "" || s.SelectorErr != "" {
		return
	}
	pods, _, err := k.pods.SelectedBy(s.Autoscaler.Namespace, s.Target.Selector)
	if err != nil {
		s.SelectorErr = err.Error()
		return
	}
	pods = distinct(pods)
	view := k.namespaces.view(r.Now, s.Autoscaler.Namespace)
	if s.Ambiguous = view.ambiguous(s.Autoscaler, pods); len(s.Ambiguous) > 0 {
		return
	}
	s.Pods = pods
	reads := reads{caches: k, request: r, snapshot: s, view: view}
	for i := range s.Autoscaler.Spec.Metrics {
		began := time.Now()
		read := reads.metric(ctx, &s.Autoscaler.Spec.Metrics[i])
		read.Took = time.Since(began)
		s.Readings = append(s.Readings, read)
	}
}

// distinct drops what was found twice: a pod that is relabelled between two lookups in the cache is found by both.
func distinct(pods []*corev1.Pod) []*corev1.Pod {
	seen := make(map[types.UID]bool, len(pods))
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool {
		again := seen[p.UID]
		seen[p.UID] = true
		return again
	})
}
