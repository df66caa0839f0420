package horizontalpodautoscaler

import (
	"maps"
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

	mu   sync.Mutex
	each map[string]*neighbors // by namespace
}

// neighbors are the autoscalers of one namespace. How large their selectors are is up to tenants, so that they are
// parsed, and pods compared with them, under no lock that other namespaces or the handlers of events need.
type neighbors struct {
	looking sync.Mutex // held while all is found out anew

	mu    sync.Mutex
	view  *view
	stale bool                    // all is to be found out anew
	live  map[string]liveSelector // of targets that are not cached, by the name of the autoscaler
}

// liveSelector is the selector of a target that was read live, and the autoscaler that it was read for.
type liveSelector struct {
	uid      types.UID
	selector *metav1.LabelSelector
}

// newNamespaces returns one that knows of no namespace.
func newNamespaces(k *caches) *namespaces {
	return &namespaces{caches: k, each: map[string]*neighbors{}}
}

// in returns the autoscalers of a namespace.
func (n *namespaces) in(namespace string) *neighbors {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.each[namespace]
	if of == nil {
		of = &neighbors{live: map[string]liveSelector{}}
		n.each[namespace] = of
	}
	return of
}

// view is what is known of the autoscalers of a namespace in one period.
type view struct {
	// slot is the period that this is of.
	slot     int64
	pods     int            // that the namespace has
	resource int            // autoscalers that need the resource metrics of pods
	custom   map[string]int // how many need a custom metric of pods, by name

	// parsed are the selectors, so that the next period needs to parse only what is new.
	parsed map[*metav1.LabelSelector]labels.Selector

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
	of, slot := n.in(namespace), n.caches.schedule.slot(now, namespace)
	of.looking.Lock()
	defer of.looking.Unlock()
	known, live, fresh := of.begin(slot)
	if fresh {
		return known
	}
	v := n.look(namespace, known, live)
	v.slot = slot
	of.mu.Lock()
	defer of.mu.Unlock()
	of.view = v
	return v
}

// begin returns what is known, and whether that will do for a period; else all is found out anew from now on.
func (of *neighbors) begin(slot int64) (known *view, live map[string]liveSelector, fresh bool) {
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.view != nil && of.view.slot == slot && !of.stale {
		return of.view, nil, true
	}
	of.stale = false
	return of.view, maps.Clone(of.live), false
}

// look finds out anew what the autoscalers of a namespace have to do with one another.
func (n *namespaces) look(namespace string, known *view, live map[string]liveSelector) *view {
	v := &view{custom: map[string]int{}, byLabel: map[label][]targetSelector{}, pods: n.caches.pods.CountIn(namespace),
		parsed: map[*metav1.LabelSelector]labels.Selector{}}
	for _, h := range n.caches.autoscalers.In(namespace) {
		v.count(h)
		of := n.caches.cachedSelector(h)
		if last := live[h.Name]; of == nil && last.uid == h.UID {
			of = last.selector
		}
		v.add(h.Name, of, known)
	}
	return v
}

// cachedSelector returns the selector of an autoscaler's target, nil if that is not in the caches.
func (k *caches) cachedSelector(h *autoscalingv2.HorizontalPodAutoscaler) *metav1.LabelSelector {
	kind, err := targetKind(h)
	if err != nil {
		return nil
	}
	w, _ := k.workloads.Get(kind, h.Namespace, h.Spec.ScaleTargetRef.Name)
	return w.Selector
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

// add notes the selector of an autoscaler's target under a label that it requires. A selector that selects nothing, or
// that cannot be parsed, is left out. What was known may be nil.
func (v *view) add(name string, of *metav1.LabelSelector, known *view) {
	if of == nil {
		return
	}
	var parsed labels.Selector
	if known != nil {
		parsed = known.parsed[of]
	}
	if parsed == nil {
		var err error
		if parsed, err = metav1.LabelSelectorAsSelector(of); err != nil || parsed.Empty() {
			return
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.parsed[of] = parsed
	c := targetSelector{name, parsed}
	requirements, _ := parsed.Requirements()
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
	of := n.in(h.Namespace)
	of.looking.Lock()
	defer of.looking.Unlock()
	if v := of.remember(h, selector); v != nil {
		v.add(h.Name, selector, nil)
	}
}

// remember returns what is known of the namespace, if the selector is to become part of it.
func (of *neighbors) remember(h *autoscalingv2.HorizontalPodAutoscaler, selector *metav1.LabelSelector) *view {
	of.mu.Lock()
	defer of.mu.Unlock()
	last, ok := of.live[h.Name]
	if ok && last.uid == h.UID && equality.Semantic.DeepEqual(last.selector, selector) {
		return nil
	}
	of.live[h.Name] = liveSelector{h.UID, selector}
	if of.stale = of.stale || ok; of.stale {
		return nil
	}
	return of.view
}

// changed has all of a namespace found out anew. The evaluation of an autoscaler is to see those that have come since
// its period began.
func (n *namespaces) changed(namespace string) {
	of := n.in(namespace)
	of.mu.Lock()
	defer of.mu.Unlock()
	of.stale = true
}

// forget drops what is known of an autoscaler that is gone (HPA-10), and of a namespace whose last one it was.
func (n *namespaces) forget(o plan.Object) {
	of := n.in(o.GetNamespace())
	of.mu.Lock()
	defer of.mu.Unlock()
	of.stale = true
	delete(of.live, o.GetName())
	if len(n.caches.autoscalers.In(o.GetNamespace())) == 0 {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.each, o.GetNamespace())
	}
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
