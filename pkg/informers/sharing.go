package informers

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slim slims an object on its way into a cache, and lets it share memory with others: pods of one controller share their
// labels, owner references and ports, a Deployment and its ReplicaSets the parts of their templates that are equal, and
// all pods share the strings that recur. Nobody notices, for what a cache returns is not written to.
//
// Like [Slim] it is a cache.TransformFunc and never fails.
func (s *shares) slim(o any) (any, error) {
	slim, err := Slim(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := slim.(type) {
	case *corev1.Pod:
		s.pod(o)
	case *appsv1.Deployment:
		s.template(o.UID, &o.Spec.Template)
	case *appsv1.ReplicaSet:
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			s.template(owner.UID, &o.Spec.Template)
		}
	}
	return slim, err
}

// How much is remembered in order to be shared. What is forgotten is stored twice, at worst.
const (
	mostStrings   = 8 << 10
	mostFamilies  = 4 << 10
	longestShared = 128 // bytes of a string
)

// shares is what objects may have in common.
type shares struct {
	mu        sync.Mutex
	strings   recent[string, string]
	families  recent[types.UID, *family]         // of pods, by the uid of their controller
	templates recent[types.UID, *corev1.PodSpec] // by the uid of the Deployment: the last one seen
}

func newShares() *shares {
	return &shares{
		strings:   recent[string, string]{limit: mostStrings},
		families:  recent[types.UID, *family]{limit: mostFamilies},
		templates: recent[types.UID, *corev1.PodSpec]{limit: mostFamilies},
	}
}

// family is what the pods of one controller have in common, as far as they do: an ordinal, for example, is not.
type family struct {
	labels               map[string]string
	owners               []metav1.OwnerReference
	containers, sidecars []corev1.Container
}

// pod lets a pod, which nobody else knows yet, share what it can.
func (s *shares) pod(p *corev1.Pod) {
	for _, text := range []*string{&p.Namespace, &p.Spec.NodeName, &p.Spec.Subdomain, (*string)(&p.Status.Phase), &p.Status.Reason} {
		*text = s.text(*text)
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		c.Type, c.Status = corev1.PodConditionType(s.text(string(c.Type))), corev1.ConditionStatus(s.text(string(c.Status)))
		c.Reason, c.Message = s.text(c.Reason), s.text(c.Message)
	}
	if ips := p.Status.PodIPs; len(ips) > 0 && ips[0].IP == p.Status.PodIP {
		p.Status.PodIPs = slices.Clone(ips) // the list may still be that of the object that was slimmed
		p.Status.PodIPs[0].IP = p.Status.PodIP
	}
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return
	}
	f, ok := s.families.get(owner.UID)
	if !ok {
		f = &family{}
		s.families.put(owner.UID, f)
	}
	f.join(p)
}

// text returns a string that is equal, and the same one for all who ask.
func (s *shares) text(t string) string {
	if t == "" || len(t) > longestShared {
		return t
	}
	if same, ok := s.strings.get(t); ok {
		return same
	}
	s.strings.put(t, t)
	return t
}

// join lets the pod have what the family has, and the family what the pod has of its own.
func (f *family) join(p *corev1.Pod) {
	if len(p.Labels) > 0 && maps.Equal(f.labels, p.Labels) {
		p.Labels = f.labels
	}
	if len(p.OwnerReferences) > 0 && reflect.DeepEqual(f.owners, p.OwnerReferences) {
		p.OwnerReferences = f.owners
	}
	p.Spec.Containers = sameContainers(f.containers, p.Spec.Containers)
	p.Spec.InitContainers = sameContainers(f.sidecars, p.Spec.InitContainers)
	*f = family{p.Labels, p.OwnerReferences, p.Spec.Containers, p.Spec.InitContainers}
}

// sameContainers returns the first list if the containers in it are equal to those in the second. It compares whole
// containers, so that it stays right when more of them is kept.
func sameContainers(have, want []corev1.Container) []corev1.Container {
	if len(want) > 0 && reflect.DeepEqual(have, want) {
		return have
	}
	return want
}

// template lets a template share with the last one of the same Deployment what is equal: all of it, or as much of each
// container as a change of its image leaves, say. Lists of containers are copied before they are changed, because they may
// be shared already.
func (s *shares) template(owner types.UID, t *corev1.PodTemplateSpec) {
	model, ok := s.templates.get(owner)
	s.templates.put(owner, &t.Spec)
	if !ok || model == &t.Spec {
		return
	}
	shareFields(&t.Spec, model)
	for _, list := range []struct{ own, model *[]corev1.Container }{
		{&t.Spec.Containers, &model.Containers}, {&t.Spec.InitContainers, &model.InitContainers},
	} {
		if n := min(len(*list.own), len(*list.model)); n > 0 && &(*list.own)[0] != &(*list.model)[0] {
			*list.own = slices.Clone(*list.own)
			for i := range n {
				shareFields(&(*list.own)[i], &(*list.model)[i])
			}
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

// recent remembers at least the last so many things that it was asked for, and at most twice as many.
type recent[K comparable, V any] struct {
	limit      int
	now, older map[K]V
}

func (r *recent[K, V]) get(k K) (v V, ok bool) {
	if v, ok = r.now[k]; ok {
		return v, true
	}
	if v, ok = r.older[k]; ok {
		r.put(k, v)
	}
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	if len(r.now) >= r.limit {
		r.now, r.older = nil, r.now
	}
	if r.now == nil {
		r.now = map[K]V{}
	}
	r.now[k] = v
}
