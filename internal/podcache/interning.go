package podcache

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"weak"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Transform returns a function that projects an object before it is cached, and interns its parts.
func Transform(project cache.TransformFunc) cache.TransformFunc {
	return newInterner(project).transform
}

// transform projects an object before it is cached, and interns its parts: equal parts of several objects are held
// once. Pods of one controller share their labels, owner references and containers, a Deployment and its ReplicaSets
// the parts of their templates that are equal, and all pods share strings. This is safe because nobody writes to
// objects of a cache.
//
// It is a cache.TransformFunc and never fails, like the function that projects.
func (i *interner) transform(o any) (any, error) {
	projected, err := i.project(o)
	i.mu.Lock()
	defer i.mu.Unlock()
	switch o := projected.(type) {
	case *corev1.Pod:
		i.internPod(o)
	case *appsv1.Deployment:
		shareLabels(&o.Labels, o.Spec.Selector, &o.Spec.Template)
		i.internTemplate(o.UID, &o.Spec.Template, true)
	case *appsv1.ReplicaSet:
		shareLabels(&o.Labels, o.Spec.Selector, &o.Spec.Template)
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			i.internTemplate(owner.UID, &o.Spec.Template, false)
		}
	}
	return projected, err
}

// How much is remembered in order to be shared. A part that is forgotten is stored twice, at worst.
const (
	mostStrings     = 8 << 10
	mostControllers = 4 << 10
	longestShared   = 128 // bytes of a string
)

// interner remembers the parts of objects that other objects may share.
type interner struct {
	project cache.TransformFunc
	mu      sync.Mutex
	// strings are those that objects share, such as names of nodes and namespaces.
	strings   recent[string, string]
	pods      recent[types.UID, *podParts]                    // by the UID of the pods' controller
	templates recent[types.UID, weak.Pointer[corev1.PodSpec]] // by the UID of the Deployment
}

// newInterner returns one that knows nothing yet.
func newInterner(project cache.TransformFunc) *interner {
	return &interner{
		project:   project,
		strings:   recent[string, string]{limit: mostStrings},
		pods:      recent[types.UID, *podParts]{limit: mostControllers},
		templates: recent[types.UID, weak.Pointer[corev1.PodSpec]]{limit: mostControllers},
	}
}

// podParts are the parts of the last pod of a controller. The next one shares those that are equal. They are large if
// somebody likes, so they are remembered for as long as the caches have them.
type podParts struct {
	// about has the labels and owner references that the pods of a controller share.
	about  weak.Pointer[metav1.ObjectMeta]
	spec   weak.Pointer[corev1.PodSpec] // as in compactPod
	status weak.Pointer[corev1.PodStatus]
}

// internPod lets a pod, which nobody else refers to yet, share its strings, labels and owner references. It returns
// the parts of the last pod of the same controller.
func (i *interner) internPod(p *corev1.Pod) *podParts {
	for _, text := range []*string{&p.Namespace, &p.Spec.NodeName, &p.Spec.Subdomain, (*string)(&p.Status.Phase),
		&p.Status.Reason} {
		*text = i.intern(*text)
	}
	for at := range p.Status.Conditions {
		c := &p.Status.Conditions[at]
		c.Type, c.Status = corev1.PodConditionType(i.intern(string(c.Type))),
			corev1.ConditionStatus(i.intern(string(c.Status)))
		c.Reason, c.Message = i.intern(c.Reason), i.intern(c.Message)
	}
	if ips := p.Status.PodIPs; len(ips) > 0 && ips[0].IP == p.Status.PodIP {
		p.Status.PodIPs = slices.Clone(ips) // the list may still be that of the whole object
		p.Status.PodIPs[0].IP = p.Status.PodIP
	}
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return &podParts{}
	}
	last, ok := i.pods.get(owner.UID)
	if !ok {
		last = &podParts{}
		i.pods.put(owner.UID, last)
	}
	about, all := last.about.Value(), true
	if about == nil {
		about = &metav1.ObjectMeta{}
	}
	if len(p.Labels) > 0 && maps.Equal(about.Labels, p.Labels) {
		p.Labels = about.Labels
	} else {
		all = len(p.Labels)+len(about.Labels) == 0
	}
	if len(p.OwnerReferences) > 0 && reflect.DeepEqual(about.OwnerReferences, p.OwnerReferences) {
		p.OwnerReferences = about.OwnerReferences
	} else {
		all = false
	}
	if !all { // otherwise the older pod remains the one
		last.about = weak.Make(&p.ObjectMeta)
	}
	return last
}

// same returns the first value if the second one is equal to it, and otherwise a copy of the second. It compares all
// fields, so that it stays right when more of them are kept.
func same[T any](have, want *T) *T {
	if have != nil && reflect.DeepEqual(have, want) {
		return have
	}
	c := *want
	return &c
}

// intern returns an equal string, the same one for all equal strings.
func (i *interner) intern(t string) string {
	if t == "" || len(t) > longestShared {
		return t
	}
	if same, ok := i.strings.get(t); ok {
		return same
	}
	i.strings.put(t, t)
	return t
}

// internTemplate lets a template share its equal parts with the last template of the same Deployment. Of a container
// that differs, it shares the fields that are equal. Lists of containers are copied before they are changed, because
// they may be shared already. What is remembered is the template of the Deployment, or of a ReplicaSet while there is
// none: those go.
func (i *interner) internTemplate(owner types.UID, t *corev1.PodTemplateSpec, own bool) {
	last, _ := i.templates.get(owner)
	model := last.Value()
	if own || model == nil {
		i.templates.put(owner, weak.Make(&t.Spec))
	}
	if model == nil {
		shareWithin(&t.Spec)
		return
	}
	if model == &t.Spec {
		return
	}
	shareFields(&t.Spec, model)
	for _, list := range []struct{ own, model *[]corev1.Container }{
		{&t.Spec.Containers, &model.Containers}, {&t.Spec.InitContainers, &model.InitContainers},
	} {
		if n := min(len(*list.own), len(*list.model)); n > 0 && &(*list.own)[0] != &(*list.model)[0] {
			*list.own = slices.Clone(*list.own)
			for at := range n {
				shareFields(&(*list.own)[at], &(*list.model)[at])
			}
		}
	}
}

// shareWithin lets the containers of a template share equal fields, such as resources and mounts. It gives up the
// room that decoders leave in lists.
func shareWithin(s *corev1.PodSpec) {
	s.Volumes, s.Containers, s.InitContainers = slices.Clone(s.Volumes), slices.Clone(s.Containers),
		slices.Clone(s.InitContainers)
	for _, list := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for at := 1; at < len(list); at++ {
			shareFields(&list[at], &list[at-1])
		}
	}
}

// shareLabels lets the labels of an object, its selector and its template share a map, where they are equal. Most
// often they are.
func shareLabels(own *map[string]string, selector *metav1.LabelSelector, t *corev1.PodTemplateSpec) {
	if selector == nil {
		return
	}
	for _, labels := range []*map[string]string{own, &t.Labels} {
		if len(*labels) > 0 && maps.Equal(*labels, selector.MatchLabels) {
			*labels = selector.MatchLabels
		}
	}
}

// shareFields sets the fields of a struct that are equal to those of the model to the very same.
func shareFields[T any](own, model *T) {
	o, m := reflect.ValueOf(own).Elem(), reflect.ValueOf(model).Elem()
	for i := range o.NumField() {
		if !o.Field(i).IsZero() && reflect.DeepEqual(o.Field(i).Interface(), m.Field(i).Interface()) {
			o.Field(i).Set(m.Field(i))
		}
	}
}

// recent remembers at least the limit's number of values that were used last, and at most twice as many.
type recent[K comparable, V any] struct {
	limit      int
	now, older map[K]V
}

// get returns a value that was put not long ago, and keeps it for longer.
func (r *recent[K, V]) get(k K) (v V, ok bool) {
	if v, ok = r.now[k]; ok {
		return v, true
	}
	if v, ok = r.older[k]; ok {
		r.put(k, v)
	}
	return v, ok
}

// put remembers a value. When there are too many, those that nobody has asked for since are forgotten.
func (r *recent[K, V]) put(k K, v V) {
	if len(r.now) >= r.limit {
		r.now, r.older = nil, r.now
	}
	if r.now == nil {
		r.now = map[K]V{}
	}
	r.now[k] = v
}
