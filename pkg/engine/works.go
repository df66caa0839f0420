package engine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// work is a piece of work that has begun and has not come to rest, on one key or on several of a family.
type work struct {
	since  time.Time
	family types.UID
	keys   int
}

// works are those of families: the keys whose objects have the same controlling owner, such as the ReplicaSets of one
// Deployment. What is done to one of them is often needed for what the others began.
type works map[types.UID]*work

// join returns the work of the family, which may begin now. A key without family works alone.
func (w works) join(family types.UID, now time.Time) *work {
	if family == "" {
		return &work{since: now}
	}
	if w[family] == nil {
		w[family] = &work{since: now, family: family}
	}
	w[family].keys++
	return w[family]
}

// leave ends a key's part in a work.
func (w works) leave(one *work) {
	if one == nil {
		return
	}
	if one.keys--; one.keys == 0 {
		delete(w, one.family)
	}
}

// familyOf returns the family of the key if the object is the one that the key is named after.
func familyOf(key plan.Key, o plan.Object) types.UID {
	if o == nil || o.GetName() != key.Name || o.GetNamespace() != key.Namespace {
		return ""
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.UID
	}
	return ""
}
