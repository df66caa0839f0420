package informers

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const bySelector = "selector" // services, by all pairs of their selector

// mostPodIndexes bounds the indexes of pods by label keys: each costs a little time for every change of any pod. Clusters
// have a dozen or two; one with more is served by looking through the namespace.
const mostPodIndexes = 100

// EndpointsCache finds Endpoints.
type EndpointsCache struct{ store[*corev1.Endpoints] }

// ServiceCache finds services by the pods that they select.
type ServiceCache struct{ store[*corev1.Service] }

// LabeledPodCache finds pods by their labels.
type LabeledPodCache struct {
	store[*corev1.Pod]
	indexes *atomic.Int32 // added so far
}

// Endpoints returns the cache of Endpoints, under the terms of [Pods].
func Endpoints(f informers.SharedInformerFactory) (EndpointsCache, error) {
	informer := informerOf(f, &corev1.Endpoints{}, corev1.SchemeGroupVersion.WithResource("endpoints"), func(k kubernetes.Interface) kindClient[*corev1.EndpointsList] {
		return k.CoreV1().Endpoints(metav1.NamespaceAll)
	})
	s, err := newStore[*corev1.Endpoints](informer, nil)
	return EndpointsCache{s}, err
}

// Services returns the cache of services, with an index by selector, under the same terms.
func Services(f informers.SharedInformerFactory) (ServiceCache, error) {
	known := &keySets{byFirst: map[string][][]string{}}
	informer := informerOf(f, &corev1.Service{}, corev1.SchemeGroupVersion.WithResource("services"), func(k kubernetes.Interface) kindClient[*corev1.ServiceList] {
		return k.CoreV1().Services(metav1.NamespaceAll)
	})
	s, err := newStore[*corev1.Service](informer, cache.Indexers{bySelector: known.index})
	return ServiceCache{s}, err
}

// PodsByLabels returns the same cache of pods as [Pods]. Its indexes come with the first lookup that wants them.
func PodsByLabels(f informers.SharedInformerFactory) (LabeledPodCache, error) {
	s, err := newStore[*corev1.Pod](podInformer(f), nil)
	return LabeledPodCache{s, new(atomic.Int32)}, err
}

// Selecting returns the services whose selector matches the labels of a pod in the namespace. Services without selector
// match no pod (EP-6), those with an empty one match every pod. The cost grows with the number of services found and of
// different sets of keys that selectors have, not with the number of services.
func (c ServiceCache) Selecting(namespace string, labels map[string]string) []*corev1.Service {
	found, err := c.informer.GetIndexer().Index(bySelector, labeled{namespace, labels})
	if err != nil {
		panic("a cache without its index: " + err.Error()) // no constructor lets this happen
	}
	services := make([]*corev1.Service, 0, len(found))
	for _, o := range found {
		if s, ok := o.(*corev1.Service); ok {
			services = append(services, s)
		}
	}
	return services
}

// Selected returns the pods in the namespace that have all labels of the selector, and with an empty selector all pods.
//
// There is an index for each set of keys that a selector has had, by the values of those labels. So a lookup finds what
// it looks for and nothing else, and a pod takes room in the indexes that are in use, not one for each of its labels.
func (c LabeledPodCache) Selected(namespace string, selector map[string]string) []*corev1.Pod {
	if len(selector) == 0 {
		return c.In(namespace)
	}
	keys := keysOf(selector)
	name, value := "labels "+strings.Join(keys, ","), valueOf(namespace, keys, selector)
	found, err := c.informer.GetIndexer().ByIndex(name, value)
	if err != nil && c.indexes.Load() < mostPodIndexes {
		if c.informer.AddIndexers(cache.Indexers{name: indexByLabels(keys)}) == nil { // or another worker was faster
			c.indexes.Add(1)
		}
		found, err = c.informer.GetIndexer().ByIndex(name, value)
	}
	if err != nil {
		return c.scan(namespace, selector)
	}
	pods := make([]*corev1.Pod, 0, len(found))
	for _, o := range found {
		if p, ok := o.(*corev1.Pod); ok {
			pods = append(pods, p)
		}
	}
	return pods
}

// scan finds pods without an index.
func (c LabeledPodCache) scan(namespace string, selector map[string]string) []*corev1.Pod {
	return slices.DeleteFunc(c.In(namespace), func(p *corev1.Pod) bool {
		for key, value := range selector {
			if has, ok := p.Labels[key]; !ok || has != value {
				return true
			}
		}
		return false
	})
}

func indexByLabels(keys []string) cache.IndexFunc {
	return func(o any) ([]string, error) {
		if p, ok := o.(*corev1.Pod); ok && hasAll(p.Labels, keys) {
			return []string{valueOf(p.Namespace, keys, p.Labels)}, nil
		}
		return nil, nil
	}
}

// keySets are the sets of keys that selectors of services have had. With them the services of a pod are found by a
// lookup for each set whose keys the pod all has, instead of by looking at services: of one that selects by app and tier,
// only those are found that select just the app and tier of the pod.
//
// The index function of services notes a set before the service can be seen in the index, so none is ever missed. Sets
// are not forgotten: there are few, and one that is no longer used costs a lookup that finds nothing.
type keySets struct {
	mu      sync.RWMutex
	byFirst map[string][][]string // sorted keys, by the first of them
	nothing bool                  // whether there was an empty selector
}

// index is the index function of services. For what is labeled it returns the values of all services that would select it.
func (k *keySets) index(o any) ([]string, error) {
	switch o := o.(type) {
	case *corev1.Service:
		if o.Spec.Selector == nil {
			return nil, nil // EP-6
		}
		keys := keysOf(o.Spec.Selector)
		k.note(keys)
		return []string{valueOf(o.Namespace, keys, o.Spec.Selector)}, nil
	case labeled:
		return k.valuesFor(o), nil
	}
	return nil, nil
}

func (k *keySets) note(keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(keys) == 0 {
		k.nothing = true
		return
	}
	same := func(other []string) bool { return slices.Equal(keys, other) }
	if !slices.ContainsFunc(k.byFirst[keys[0]], same) {
		k.byFirst[keys[0]] = append(k.byFirst[keys[0]], keys)
	}
}

// labeled is what services look at in a pod.
type labeled struct {
	namespace string
	labels    map[string]string
}

func (k *keySets) valuesFor(p labeled) (values []string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.nothing {
		values = append(values, valueOf(p.namespace, nil, nil))
	}
	for first := range p.labels {
		for _, keys := range k.byFirst[first] {
			if hasAll(p.labels, keys) {
				values = append(values, valueOf(p.namespace, keys, p.labels))
			}
		}
	}
	return values
}

func keysOf(selector map[string]string) []string {
	keys := make([]string, 0, len(selector))
	for key := range selector {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// valueOf is what objects with these labels are indexed under. No name, key or label value has a zero byte in it.
func valueOf(namespace string, keys []string, labels map[string]string) string {
	n := len(namespace)
	for _, key := range keys {
		n += len(key) + len(labels[key]) + 2
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteString(namespace)
	for _, key := range keys {
		b.WriteByte(0)
		b.WriteString(key)
		b.WriteByte(0)
		b.WriteString(labels[key])
	}
	return b.String()
}

func hasAll(labels map[string]string, keys []string) bool {
	for _, key := range keys {
		if _, ok := labels[key]; !ok {
			return false
		}
	}
	return true
}
