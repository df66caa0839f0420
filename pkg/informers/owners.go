package informers

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/selectors"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Owners finds the objects of one kind that other objects belong to, or may come to belong to.
type Owners[T interface {
	comparable
	metav1.Object
}] struct {
	Kind     string                         // in owner references
	Get      func(namespace, name string) T // the zero T if there is none
	In       func(namespace string) []T     // all in a namespace; nil: none adopts
	Selector func(T) *metav1.LabelSelector  // by which T adopts; nil: none does
}

// Enqueues returns the keys of whoever owned an object before a change or owns it after (RS-2, RS-4, DEP-1), and of
// those who may adopt it, if it is an orphan that is new or has been relabelled or let go (RS-3, DEP-2).
func (o Owners[T]) Enqueues(before, after plan.Object) (keys []plan.Key) {
	if before != nil {
		keys = o.Of(before, keys)
	}
	if after == nil {
		return keys
	}
	if metav1.GetControllerOfNoCopy(after) != nil {
		return o.Of(after, keys)
	}
	if before != nil && metav1.GetControllerOfNoCopy(before) == nil &&
		maps.Equal(before.GetLabels(), after.GetLabels()) {
		return keys
	}
	return append(keys, o.adopters(after)...)
}

// Of adds the key of the object's controlling owner, if that is of the kind, exists, and has the same UID.
func (o Owners[T]) Of(object plan.Object, keys []plan.Key) []plan.Key {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || ref.Kind != o.Kind {
		return keys
	}
	var none T
	if owner := o.Get(object.GetNamespace(), ref.Name); owner == none || owner.GetUID() != ref.UID {
		return keys
	}
	key := plan.Key{Namespace: object.GetNamespace(), Name: ref.Name}
	if len(keys) > 0 && keys[len(keys)-1] == key {
		return keys
	}
	return append(keys, key)
}

// adopters returns those whose selector matches an orphan's labels.
func (o Owners[T]) adopters(orphan plan.Object) (keys []plan.Key) {
	if len(orphan.GetLabels()) == 0 || o.In == nil || o.Selector == nil {
		return nil
	}
	for _, owner := range o.In(orphan.GetNamespace()) {
		// What is not rejected matches, unless no server would have accepted the selector. To parse it may cost much.
		s := o.Selector(owner)
		if !selectors.Rejects(s, orphan.GetLabels()) && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
			keys = append(keys, plan.KeyOf(owner))
		}
	}
	return keys
}

// ItselfIf returns the key of the object that has changed if it matches, or has matched before it changed or was
// deleted.
func ItselfIf[T plan.Object](before, after plan.Object, matches func(T) bool) []plan.Key {
	for _, o := range []plan.Object{after, before} {
		if typed, ok := o.(T); ok && matches(typed) {
			return []plan.Key{plan.KeyOf(o)}
		}
	}
	return nil
}

// Itself returns the key of the object that has changed.
func Itself(before, after plan.Object) []plan.Key {
	if after == nil {
		after = before
	}
	return []plan.Key{plan.KeyOf(after)}
}

// Existing returns the key of the object that has changed, unless it is gone.
func Existing(_, after plan.Object) []plan.Key {
	if after == nil {
		return nil
	}
	return []plan.Key{plan.KeyOf(after)}
}
