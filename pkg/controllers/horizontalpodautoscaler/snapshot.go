package horizontalpodautoscaler

import (
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// snapshot is what one reconcile of an autoscaler has observed: its target, its pods, and what the metrics
// APIs have answered. Observe fills it; planScale, reportStatus and remember read it. The objects belong to
// shared caches.
type snapshot struct {
	Autoscaler *autoscalingv2.HorizontalPodAutoscaler
	// Settings are flags and feature gates: a planner asks no global.
	Settings settings
	// Began is when the evaluation began.
	Began time.Time
	Due   time.Time     // when this evaluation was due; zero if nobody knows
	Next  time.Duration // until the next one

	// Target is what is scaled; nil if it cannot be found.
	Target     *target
	TargetErr  string // why there is none
	Unparsable bool   // the reference to the target is what is wrong

	SelectorErr string        // why the selector of the target cannot be used
	Ambiguous   []string      // this autoscaler and another one that selects one of its pods, if there is one (HPA-16)
	Pods        []*corev1.Pod // of the target
	Readings    []reading     // one for each metric; none if no metrics are to be read

	Known bool // the history is what this process remembers of the autoscaler
	// History is what was asked for and done before. Without it, before reads it from the object.
	History history
	Scaled  time.Time // when this process has scaled the target last; zero if it has not
	// since when the status has not shown the values that were found, which differed a little; zero if it has
	StaleSince time.Time
}

// settings are what decisions depend on, besides objects.
type settings struct {
	// Period is that of evaluations, and Stabilization how long a recommendation holds back a scale-down by
	// default.
	Period, Stabilization time.Duration
	// Tolerance is by how much a metric may miss its target without an effect.
	Tolerance float64
	// For so long after its start, what a pod uses of the CPU may be due to that, and it may not be ready
	// yet.
	CPUInitialization, ReadinessDelay time.Duration
	OwnTolerance                      bool // autoscalers may set a tolerance (HPA-7)
	ToZero                            bool // autoscalers may scale to zero (HPA-21)
	PodLevelRequests                  bool // pods may have requests as a whole (HPA-31)
}

// target is the scale of what an autoscaler scales, as the caches or a live read have it. The change of the
// scale is made of it, under its version.
type target struct {
	Kind schema.GroupVersionKind // of the object, which has a scale
	// UID is that of the object. The scale that is written has it, so that no other object of the name is
	// scaled.
	UID      types.UID
	Version  string // the resourceVersion
	Replicas int32  // that it is meant to have (HPA-14)
	Observed int32  // that it had when its status was written
	// Selector selects the pods of the target; nil if it has none.
	Selector *metav1.LabelSelector
	Labels   string // the selector as the scale has it; empty for none
}

// scale returns the scale of the target with some number of replicas.
func (t *target) scale(namespace, name string, replicas int32) *autoscalingv1.Scale {
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: t.UID, ResourceVersion: t.Version},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: t.Observed, Selector: t.Labels},
	}
}

// reading is what a metrics API has answered about one metric. The methods of reads make it, and propose
// reads it.
type reading struct {
	Err  string            // why there is none
	Pods map[string]sample // by name; of metrics of pods
	Sum  int64             // in thousandths; of metrics of other objects, and of external ones
	Took time.Duration
}

// sample is what is known of one pod.
type sample struct {
	Value  int64 // in thousandths
	Time   time.Time
	Window time.Duration // that the value is of, up to Time
}

// memory is what is remembered of an autoscaler from one reconcile to the next: the past that its object does
// not say. The function remember makes it of the outcome, and it reaches the plan as fields of the snapshot.
type memory struct {
	History history
	// Due is when the next evaluation is due.
	Due time.Time
	// Scaled is when this process has scaled the target last.
	Scaled time.Time
	// since when the status has not shown the values that were found; zero if it has
	StaleSince time.Time
	Shown      []autoscalingv2.MetricStatus // what it has shown instead
}

// history is what decisions depend on, besides what is there now (HPA-11).
type history struct {
	Recommendations []recommendation
	Ups, Downs      []rescale // that this controller has made
}

// recommendation is how many replicas the metrics asked for at a time, before any limits.
type recommendation struct {
	At       time.Time
	Replicas int32
}

// rescale is by how many replicas a target was scaled at a time.
type rescale struct {
	At time.Time
	By int32
}

// minReplicas is the least number of replicas (HPA-14).
func (s snapshot) minReplicas() int32 {
	if n := s.Autoscaler.Spec.MinReplicas; n != nil {
		return *n
	}
	return 1
}

// evaluates reports whether the metrics decide about the size: the target is neither switched off nor outside the
// limits (HPA-17..20).
func (s snapshot) evaluates() bool {
	if s.Target == nil {
		return false
	}
	n, least := s.Target.Replicas, s.minReplicas()
	return least >= 0 && (n != 0 || s.wakes()) && n <= s.Autoscaler.Spec.MaxReplicas && n >= least
}

// wakes reports whether a target without replicas may get some: this controller has taken its last one (HPA-21).
func (s snapshot) wakes() bool {
	if !s.Settings.ToZero || !isTrue(s.Autoscaler.Status.Conditions, autoscalingv2.ScaledToZero) {
		return false
	}
	if s.minReplicas() != 0 {
		return true
	}
	for _, m := range s.Autoscaler.Spec.Metrics {
		if m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType {
			return true
		}
	}
	return false
}

// isTrue reports whether a condition is there and true.
func isTrue(all []autoscalingv2.HorizontalPodAutoscalerCondition,
	t autoscalingv2.HorizontalPodAutoscalerConditionType) bool {
	for i := range all {
		if all[i].Type == t {
			return all[i].Status == corev1.ConditionTrue
		}
	}
	return false
}
