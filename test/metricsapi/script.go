package metricsapi

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// Series is the value of a metric over time. Where there is no sample, ok is false.
type Series func(now time.Time) (value resource.Quantity, ok bool)

// Constant has the same value at all times. It panics if that is no quantity.
func Constant(value string) Series {
	q := resource.MustParse(value)
	return func(time.Time) (resource.Quantity, bool) { return q, true }
}

// Step is a value from a time on, which is counted from the beginning of the series. The empty value means no sample.
type Step struct {
	After time.Duration
	Value string
}

// Steps has no sample before the first step. It panics if a value is no quantity.
func Steps(begin time.Time, steps ...Step) Series {
	all := make([]Series, len(steps))
	for i, step := range steps {
		all[i] = None
		if step.Value != "" {
			all[i] = Constant(step.Value)
		}
	}
	return func(now time.Time) (resource.Quantity, bool) {
		for i, step := range slices.Backward(steps) {
			if !now.Before(begin.Add(step.After)) {
				return all[i](now)
			}
		}
		return None(now)
	}
}

// None has no samples.
func None(time.Time) (resource.Quantity, bool) { return resource.Quantity{}, false }

// Usage is what a container of a pod uses. A pod of whose containers none uses anything has no metrics.
type Usage func(p *corev1.Pod, container string, now time.Time) corev1.ResourceList

// EachContainer uses the same of one resource.
func EachContainer(name corev1.ResourceName, s Series) Usage {
	return func(_ *corev1.Pod, _ string, now time.Time) corev1.ResourceList {
		value, ok := s(now)
		if !ok {
			return nil
		}
		return corev1.ResourceList{name: value}
	}
}

// Metric is the name of a custom or external metric, and the labels by which it can be selected.
type Metric struct {
	Name   string
	Labels map[string]string
}

// AllObjects in the place of an object's name makes a series that of each object that has none of its own.
const AllObjects = "*"

// object is one that has custom metrics, in the form in which requests name it.
type object struct{ namespace, resource, name string }

type scripted struct {
	Metric
	series Series
}

// script says what the server answers, and keeps what it was asked. The zero value has no metrics.
type script struct {
	mu       sync.Mutex
	usage    map[string]Usage // by namespace
	objects  map[object][]scripted
	external map[string][]scripted // by namespace
	refused  map[target]int
	counts   map[target]int
}

type target struct{ group, namespace string }

// Usage sets what the pods of a namespace use; that of the namespace "" is for all that have none of their own.
func (s *script) Usage(namespace string, u Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(&s.usage, namespace, u)
}

// Object sets a metric of an object. The resource is one such as "pods" or "deployments.apps". Metrics of a Namespace are
// those of the resource "namespaces"; what has no namespace has the empty one.
func (s *script) Object(namespace, resource, name string, m Metric, series Series) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := object{namespace, resource, name}
	set(&s.objects, o, replaced(s.objects[o], m, series))
}

// External sets a metric of a namespace that belongs to no object.
func (s *script) External(namespace string, m Metric, series Series) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(&s.external, namespace, replaced(s.external[namespace], m, series))
}

// Refuse answers all requests to a group for a namespace with an HTTP status. With 0 they are answered again.
func (s *script) Refuse(group, namespace string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(&s.refused, target{group, namespace}, code)
}

// Requests are those to a group for the metrics of a namespace so far, without discovery.
func (s *script) Requests(group, namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[target{group, namespace}]
}

// AllRequests are those to a group so far, without discovery.
func (s *script) AllRequests(group string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, count := range s.counts {
		if t.group == group {
			n += count
		}
	}
	return n
}

// count notes a request and tells with which status it is to be refused, if it is.
func (s *script) count(q query) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := target{q.group, q.namespace}
	set(&s.counts, t, s.counts[t]+1)
	return s.refused[t]
}

func (s *script) usageIn(namespace string) Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.usage[namespace]; u != nil {
		return u
	}
	return s.usage[""]
}

// of returns the samples of an object's metric with their labels, as far as the selector wants them.
func (s *script) of(o object, metric string, wanted labels.Selector, now time.Time) []sample {
	s.mu.Lock()
	series := slices.Clone(s.objects[o])
	if len(series) == 0 {
		series = slices.Clone(s.objects[object{o.namespace, o.resource, AllObjects}])
	}
	s.mu.Unlock()
	return samples(series, metric, wanted, now)
}

func (s *script) externalOf(namespace, metric string, wanted labels.Selector, now time.Time) []sample {
	s.mu.Lock()
	series := slices.Clone(s.external[namespace])
	s.mu.Unlock()
	return samples(series, metric, wanted, now)
}

// sample is the value of a series at a time.
type sample struct {
	labels map[string]string
	value  resource.Quantity
}

func samples(all []scripted, metric string, wanted labels.Selector, now time.Time) (found []sample) {
	for _, one := range all {
		if one.Name != metric || !wanted.Matches(labels.Set(one.Labels)) {
			continue
		}
		if value, ok := one.series(now); ok {
			found = append(found, sample{one.Labels, value})
		}
	}
	return found
}

func set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// replaced has one series for each metric.
func replaced(all []scripted, m Metric, series Series) []scripted {
	kept := slices.DeleteFunc(slices.Clone(all), func(s scripted) bool { return s.Name == m.Name && maps.Equal(s.Labels, m.Labels) })
	return append(kept, scripted{m, series})
}
