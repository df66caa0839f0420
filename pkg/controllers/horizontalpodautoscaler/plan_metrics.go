package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// proposal is what one metric asks for.
type proposal struct {
	// Replicas is how many the metric asks for.
	Replicas int32
	Name     string                     // of the metric, for people (HPA-61)
	Status   autoscalingv2.MetricStatus // what the status shows (HPA-36)
	Reason   string                     // of a metric that fails (HPA-59)
	Failing  string                     // what fails, for the sum of all metrics
	// Err is why the metric says nothing; nil if it does.
	Err error
}

// propose returns what a metric asks for. A metric that fails leaves an empty status (HPA-52): clients read what the
// type of a status says without looking whether it is there.
func propose(now time.Time, s snapshot, m *autoscalingv2.MetricSpec, r reading) proposal {
	var p proposal
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		p = s.ofResource(now, m.Resource.Name, "", m.Resource.Target, r)
		p.Reason, p.Failing = "FailedGetResourceMetric", fmt.Sprintf("%s resource metric value", m.Resource.Name)
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		p = s.ofResource(now, m.ContainerResource.Name, m.ContainerResource.Container, m.ContainerResource.Target, r)
		p.Reason, p.Failing = "FailedGetContainerResourceMetric",
			fmt.Sprintf("%s container metric value", m.ContainerResource.Container)
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		p = s.ofPods(now, m.Pods, r)
		p.Reason, p.Failing = "FailedGetPodsMetric", "pods metric value"
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		p = s.ofObject(m.Object, r)
		p.Reason, p.Failing = "FailedGetObjectMetric", objectFailing(m.Object)
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		p = s.ofExternal(m.External, r)
		p.Reason, p.Failing = "FailedGetExternalMetric", externalFailing(m.External)
	default:
		p.Err, p.Reason = fmt.Errorf("unknown metric source type %q", string(m.Type)), "InvalidMetricSourceType"
	}
	if p.Err != nil {
		p.Status = autoscalingv2.MetricStatus{}
		return p
	}
	p.Status.Type = m.Type
	return p
}

// objectFailing says what fails of a metric of an object.
func objectFailing(m *autoscalingv2.ObjectMetricSource) string {
	failing := "object metric value"
	if m.Target.Type == autoscalingv2.AverageValueMetricType && m.Target.AverageValue != nil {
		failing += fmt.Sprintf(": failed to get %s object metric", m.Metric.Name)
	}
	return failing
}

// externalFailing says what fails of an external metric.
func externalFailing(m *autoscalingv2.ExternalMetricSource) string {
	name, failing := m.Metric.Name, fmt.Sprintf("%s external metric value", m.Metric.Name)
	switch {
	case m.Target.AverageValue != nil:
		failing += fmt.Sprintf(": failed to get %s external metric", name)
	case m.Target.Value != nil:
		failing += fmt.Sprintf(": failed to get external metric %s", name)
	}
	return failing
}

// explained is the error in the sum of all metrics.
func (p proposal) explained() string {
	if p.Failing == "" {
		return p.Err.Error()
	}
	return fmt.Sprintf("failed to get %s: %v", p.Failing, p.Err)
}

// event is that of a metric that fails.
func (p proposal) event() plan.Event { return warning(p.Reason, p.Err.Error()) }

// warning makes a warning.
func warning(reason, message string) plan.Event {
	return plan.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message}
}

const (
	errNoPods   = "no pods returned by selector while calculating replica count"
	errNoValues = "did not receive metrics for targeted pods (pods might be unready)"
)

// ofResource is about what pods use of a resource, or one container of each (HPA-31..36).
func (s snapshot) ofResource(now time.Time, name corev1.ResourceName, container string, t autoscalingv2.MetricTarget,
	r reading) (p proposal) {
	shown, values, err := s.resourceReplicas(now, name, container, t, r, &p)
	if err != nil {
		p.Err = err
		return p
	}
	current := autoscalingv2.MetricValueStatus{AverageValue: quantity(average(values), name), AverageUtilization: shown}
	if container != "" {
		p.Status.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{Name: name, Container: container,
			Current: current}
	} else {
		p.Status.Resource = &autoscalingv2.ResourceMetricStatus{Name: name, Current: current}
	}
	return p
}

// resourceReplicas fills in the name of the metric and the replicas that it asks for, and returns what the status
// shows.
func (s snapshot) resourceReplicas(now time.Time, name corev1.ResourceName, container string,
	t autoscalingv2.MetricTarget, r reading,
	p *proposal) (shown *int32, values map[string]int64, err error) {
	byValue := t.AverageValue != nil
	switch {
	case byValue:
		p.Name = fmt.Sprintf("%s resource", name)
	case t.AverageUtilization != nil && container != "":
		p.Name = fmt.Sprintf("%s container resource utilization (percentage of request)", name)
	case t.AverageUtilization != nil:
		p.Name = fmt.Sprintf("%s resource utilization (percentage of request)", name)
	default:
		return nil, nil,
			errors.New("invalid resource metric source: neither an average utilization target nor an average value " +
				"(usage) target was set")
	}
	fail := func(format string, args ...any) (*int32, map[string]int64, error) {
		of := "utilization"
		if byValue {
			of = "usage"
		}
		return nil, nil, fmt.Errorf("failed to get %s %s: %w", name, of, fmt.Errorf(format, args...))
	}
	if r.Err != "" {
		return fail("unable to get metrics for resource %s: %s", name, r.Err)
	}
	if len(s.Pods) == 0 {
		return fail("%s", errNoPods)
	}
	g := groupPods(now, s, r.Pods, name == corev1.ResourceCPU)
	if g.ready == 0 {
		return fail("%s", errNoValues)
	}
	values = make(map[string]int64, len(g.values))
	for name, v := range g.values {
		values[name] = v
	}
	if byValue {
		target := milli(*t.AverageValue)
		p.Replicas, err = s.tolerance().replicasFor(s.Target.Replicas, g, averageRatio(target),
			func(string) int64 { return target })
		return nil, values, err
	}
	requests, err := requestsOf(s, name, container)
	if err != nil {
		return fail("%w", err)
	}
	percent, ok := utilization(values, requests)
	if !ok {
		return fail("no metrics returned matched known pods")
	}
	target := *t.AverageUtilization
	p.Replicas, err = s.tolerance().replicasFor(s.Target.Replicas, g, utilizationRatio(requests, target),
		func(pod string) int64 {
			return percentOf(requests[pod], max(100, target))
		})
	return &percent, values, err
}

// errZeroTarget is said of a metric whose target is zero: nothing can be compared with it.
const errZeroTarget = "the target is zero"

// averageRatio compares the mean of values to a target (HPA-32).
func averageRatio(target int64) usageRatio {
	return func(values map[string]int64) (float64, error) {
		if target <= 0 {
			return 0, errors.New(errZeroTarget)
		}
		return float64(average(values)) / float64(target), nil
	}
}

// utilizationRatio compares the percentage of requests to a target (HPA-32).
func utilizationRatio(requests map[string]int64, target int32) usageRatio {
	return func(values map[string]int64) (float64, error) {
		percent, ok := utilization(values, requests)
		if !ok || target <= 0 {
			return 0, errors.New(errZeroTarget)
		}
		return float64(percent) / float64(target), nil
	}
}

// percentOf returns a share of a number, or the largest number if that is more.
func percentOf(n int64, percent int32) int64 {
	if n > math.MaxInt64/int64(percent) {
		return math.MaxInt64
	}
	return n * int64(percent) / 100
}

// ofPods is about a custom metric of pods.
func (s snapshot) ofPods(now time.Time, m *autoscalingv2.PodsMetricSource, r reading) (p proposal) {
	p.Name = "pods metric " + m.Metric.Name
	target := m.Target.AverageValue
	switch {
	case target == nil:
		p.Err = errors.New("invalid pods metric source: no average value target was set")
	case r.Err != "":
		p.Err = fmt.Errorf("unable to get metric %s: %s", m.Metric.Name, r.Err)
	case len(s.Pods) == 0:
		p.Err = errors.New(errNoPods)
	}
	if p.Err != nil {
		return p
	}
	g := groupPods(now, s, r.Pods, false)
	if g.ready == 0 {
		p.Err = errors.New(errNoValues)
		return p
	}
	shown := quantity(average(g.values), "")
	value := milli(*target)
	p.Replicas, p.Err = s.tolerance().replicasFor(s.Target.Replicas, g, averageRatio(value),
		func(string) int64 { return value })
	p.Status.Pods = &autoscalingv2.PodsMetricStatus{Metric: m.Metric,
		Current: autoscalingv2.MetricValueStatus{AverageValue: shown}}
	return p
}

// ofObject is about a custom metric of one object.
func (s snapshot) ofObject(m *autoscalingv2.ObjectMetricSource, r reading) (p proposal) {
	p.Name = fmt.Sprintf("%s metric %s", m.DescribedObject.Kind, m.Metric.Name)
	average := m.Target.Type == autoscalingv2.AverageValueMetricType
	target := m.Target.Value
	if average {
		target = m.Target.AverageValue
	}
	switch {
	case target == nil:
		p.Err = errors.New("invalid object metric source: neither a value target nor an average value target was set")
		return p
	case r.Err != "":
		p.Err = fmt.Errorf("unable to get metric %s on %s %s/%s: %s", m.Metric.Name, m.DescribedObject.Kind,
			s.Autoscaler.Namespace, m.DescribedObject.Name, r.Err)
		return p
	}
	current := s.ofSum(&p, average, milli(*target), r.Sum)
	p.Status.Object = &autoscalingv2.ObjectMetricStatus{Metric: m.Metric, DescribedObject: m.DescribedObject,
		Current: current}
	return p
}

// ofExternal is about a metric of anything else.
func (s snapshot) ofExternal(m *autoscalingv2.ExternalMetricSource, r reading) (p proposal) {
	p.Name = fmt.Sprintf("external metric %s(%v)", m.Metric.Name, m.Metric.Selector)
	average := m.Target.AverageValue != nil
	target := m.Target.Value
	if average {
		target = m.Target.AverageValue
	}
	switch {
	case target == nil:
		p.Err = errors.New("invalid external metric source: neither a value target nor an average value target was set")
		return p
	case r.Err != "":
		p.Err = fmt.Errorf("unable to get external metric %s/%s/%v: %s", s.Autoscaler.Namespace, m.Metric.Name,
			m.Metric.Selector, r.Err)
		return p
	}
	current := s.ofSum(&p, average, milli(*target), r.Sum)
	p.Status.External = &autoscalingv2.ExternalMetricStatus{Metric: m.Metric, Current: current}
	return p
}

// shareOf divides a value that so many share, and rounds up.
func shareOf(value, n int64) int64 {
	share := value / n
	if value%n > 0 {
		share++
	}
	return share
}

// ofSum fills in the replicas that one value for the whole target asks for, and returns what the status shows.
func (s snapshot) ofSum(p *proposal, average bool, target, value int64) (shown autoscalingv2.MetricValueStatus) {
	t := s.Target
	switch {
	case target <= 0:
		p.Err = errors.New(errZeroTarget)
	case average && t.Observed <= 0: // an average of nothing is shown as zero (MEND-13)
		p.Replicas = ceil(float64(value) / float64(target))
		shown.AverageValue = quantity(0, "")
	case average:
		// By what the target is meant to have: a rollout has more for a while, and what it has is no reason to scale.
		p.Replicas = t.Replicas
		if !s.tolerance().within(float64(value) / (float64(target) * float64(t.Replicas))) {
			p.Replicas = ceil(float64(value) / float64(target))
		}
		shown.AverageValue = quantity(shareOf(value, int64(t.Observed)), "")
	case t.Replicas == 0:
		p.Replicas = ceil(float64(value) / float64(target))
		shown.Value = quantity(value, "")
	default:
		ratio := float64(value) / float64(target)
		switch {
		case s.tolerance().within(ratio): // whatever the pods are
			p.Replicas = t.Replicas
		case len(s.Pods) == 0:
			p.Err = errors.New("unable to calculate ready pods: " + errNoPods)
		default:
			p.Replicas = ceil(ratio * float64(countReady(s.Pods)))
		}
		shown.Value = quantity(value, "")
	}
	return shown
}

// quantity returns thousandths of a resource as the status shows them (HPA-52).
func quantity(milli int64, of corev1.ResourceName) *resource.Quantity {
	if of == corev1.ResourceMemory {
		return resource.NewMilliQuantity(milli, resource.BinarySI)
	}
	return resource.NewMilliQuantity(milli, resource.DecimalSI)
}

// tolerance is by how much metrics may miss their targets (HPA-4, HPA-7).
func (s snapshot) tolerance() tolerance {
	t := tolerance{s.Settings.Tolerance, s.Settings.Tolerance}
	b := s.Autoscaler.Spec.Behavior
	if b == nil || !s.Settings.OwnTolerance {
		return t
	}
	if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.Down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.Up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}
