package horizontalpodautoscaler

import (
	"slices"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// namespaces returns what the autoscalers of a namespace have to do with one another. That follows from the caches, and
// from the selectors of targets that are not cached; it is found out once in a period.
type namespaces struct {
	caches *caches

	mu sync.Mutex
	// views are by namespace. Each is of one period.
	views map[string]*view
	live  map[plan.Key]liveSelector // of autoscalers whose targets are not cached
}

// liveSelector is the selector of a target that was read live, and the autoscaler that it was read for.
type liveSelector struct {
	uid      types.UID
	selector *metav1.LabelSelector
}

// newNamespaces returns one that knows of no namespace.
func newNamespaces(k *caches) *namespaces {
	return &namespaces{caches: k, views: map[string]*view{}, live: map[plan.Key]liveSelector{}}
}

// view is what is known of the autoscalers of a namespace in one period.
type view struct {
	// slot is the period that this is of.
	slot     int64
	pods     int            // that the namespace has
	resource int            // autoscalers that need the resource metrics of pods
	custom   map[string]int // how many need a custom metric of pods, by name

	mu sync.RWMutex
	// byLabel and broad find the targets that select a pod, without looking at all of them.
	byLabel map[label][]targetSelector
	broad   []targetSelector // those that require no label of one value
}

// label is a label with its value, as selectors require them.
type label struct{ key, value string }

// targetSelector is the last known selector of the target of an autoscaler (HPA-16).
type targetSelector struct {
	name     string
	selector labels.Selector
}

// view returns what is known of a namespace.
func (n *namespaces) view(now time.Time, namespace string) *view {
	slot := n.caches.schedule.slot(now, namespace)
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.views[namespace]
	if v == nil || v.slot != slot {
		v = n.look(namespace)
		v.slot = slot
		n.views[namespace] = v
	}
	return v
}

// look finds out anew what the autoscalers of a namespace have to do with one another.
func (n *namespaces) look(namespace string) *view {
	v := &view{custom: map[string]int{}, byLabel: map[label][]targetSelector{}, pods: n.caches.pods.CountIn(namespace)}
	for _, h := range n.caches.autoscalers.In(namespace) {
		v.count(h)
		if selector := n.selectorOf(h); selector != nil {
			v.add(targetSelector{h.Name, selector})
		}
	}
	return v
}

// selectorOf returns the last known selector of an autoscaler's target, nil if none is known, or if it selects nothing.
func (n *namespaces) selectorOf(h *autoscalingv2.HorizontalPodAutoscaler) labels.Selector {
	kind, err := targetKind(h)
	if err != nil {
		return nil
	}
	var of *metav1.LabelSelector
	if t := n.caches.cachedTarget(h.Namespace, kind, h.Spec.ScaleTargetRef.Name); t != nil {
		of = t.Selector
	} else if known := n.live[plan.Key{Namespace: h.Namespace, Name: h.Name}]; known.uid == h.UID {
		of = known.selector
	}
	selector, err := metav1.LabelSelectorAsSelector(of)
	if err != nil || of == nil || selector.Empty() {
		return nil
	}
	return selector
}

// count notes which lists the autoscaler needs.
func (v *view) count(h *autoscalingv2.HorizontalPodAutoscaler) {
	resource, custom := false, map[string]bool{}
	for _, m := range h.Spec.Metrics {
		switch {
		case m.Type == autoscalingv2.ResourceMetricSourceType,
			m.Type == autoscalingv2.ContainerResourceMetricSourceType:
			resource = true
		case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
			custom[m.Pods.Metric.Name] = true
		}
	}
	if resource {
		v.resource++
	}
	for name := range custom {
		v.custom[name]++
	}
}

// add notes a selector under a label that it requires.
func (v *view) add(c targetSelector) {
	v.mu.Lock()
	defer v.mu.Unlock()
	requirements, _ := c.selector.Requirements()
	for _, r := range requirements {
		if r.Operator() != selection.In && r.Operator() != selection.Equals && r.Operator() != selection.DoubleEquals ||
			r.Values().Len() != 1 {
			continue
		}
		l := label{r.Key(), r.Values().UnsortedList()[0]}
		v.byLabel[l] = append(v.byLabel[l], c)
		return
	}
	v.broad = append(v.broad, c)
}

// ambiguous returns the names of an autoscaler and of another one that selects one of its pods, the first by name, if
// there is one (HPA-16).
func (v *view) ambiguous(of *autoscalingv2.HorizontalPodAutoscaler, pods []*corev1.Pod) (names []string) {
	other := ""
	look := func(p *corev1.Pod, selectors []targetSelector) {
		for _, c := range selectors {
			if c.name != of.Name && (other == "" || c.name < other) && c.selector.Matches(labels.Set(p.Labels)) {
				other = c.name
			}
		}
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, p := range pods {
		for key, value := range p.Labels {
			look(p, v.byLabel[label{key, value}])
		}
		look(p, v.broad)
	}
	if other == "" {
		return nil
	}
	names = []string{of.Namespace + "/" + of.Name, of.Namespace + "/" + other}
	slices.Sort(names) // so that both of two say the same
	return names
}

// remember keeps the selector of a target that is not cached. The next autoscaler that selects the same pods is to
// notice that at first sight (HPA-16), so a selector that is new becomes part of what is known of the namespace; if
// it has changed, all of that is found out anew.
func (n *namespaces) remember(h *autoscalingv2.HorizontalPodAutoscaler, selector *metav1.LabelSelector) {
	key := plan.Key{Namespace: h.Namespace, Name: h.Name}
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.live[key]
	if ok && known.uid == h.UID && equality.Semantic.DeepEqual(known.selector, selector) {
		return
	}
	n.live[key] = liveSelector{h.UID, selector}
	v := n.views[h.Namespace]
	switch {
	case ok || v == nil:
		delete(n.views, h.Namespace)
	default:
		if selects := n.selectorOf(h); selects != nil {
			v.add(targetSelector{h.Name, selects})
		}
	}
}

// changed has all of a namespace found out anew. The evaluation of an autoscaler is to see those that have come since
// its period began.
func (n *namespaces) changed(namespace string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.views, namespace)
}

// forget drops what is known of an autoscaler that is gone (HPA-10).
func (n *namespaces) forget(o plan.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.live, plan.KeyOf(o))
	delete(n.views, o.GetNamespace())
}

// podsOfEach is how many pods a namespace may have for each autoscaler if all of them are listed at once.
const podsOfEach = 100

// sharesResource reports whether one list of all resource metrics of the namespace serves better than one for each
// autoscaler.
func (v *view) sharesResource() bool { return v.shares(v.resource) }

// sharesCustom reports the same of a custom metric of pods.
func (v *view) sharesCustom(metric string) bool { return v.shares(v.custom[metric]) }

// shares reports whether so many autoscalers together are served better by one list of all pods.
func (v *view) shares(readers int) bool { return readers > 1 && v.pods <= podsOfEach*readers }
