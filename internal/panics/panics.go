package panics

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Place is where a panic was.
type Place string

// The places.
const (
	Handler   Place = "handler"
	Index     Place = "index"
	Transform Place = "transform"
)

// Places lists all places.
func Places() []Place { return []Place{Handler, Index, Transform} }

var (
	total    atomic.Int64
	observer atomic.Pointer[func(Place)]
)

// Total returns how many panics there have been in this process.
func Total() int64 { return total.Load() }

// Observe has a function called for each panic from now on, for metrics. There is one in a process.
func Observe(f func(Place)) { observer.Store(&f) }

// Contain is deferred around work for one object, which may hold no lock when it panics that it does not release by
// defer.
func Contain(where Place, o any) {
	if cause := recover(); cause != nil {
		note(where, o, cause)
	}
}

// note logs and counts a panic.
func note(where Place, o any, cause any) {
	klog.Background().Error(fmt.Errorf("panic: %v", cause), "It was panicked over an object, which is left out",
		"where", where, "object", nameOf(o), "stack", string(debug.Stack()))
	total.Add(1)
	if f := observer.Load(); f != nil {
		(*f)(where)
	}
}

// nameOf is how an object is called in the log. That it has a nil inside may be why it has come to this.
func nameOf(o any) (name string) {
	defer func() {
		if recover() != nil {
			name = fmt.Sprintf("%T", o)
		}
	}()
	if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return fmt.Sprintf("%T %s", missed.Obj, missed.Key)
	}
	if m, err := meta.Accessor(o); err == nil {
		return fmt.Sprintf("%T %s", o, cache.NewObjectName(m.GetNamespace(), m.GetName()))
	}
	return fmt.Sprintf("%T", o)
}

// TransformFunc returns the function, of which a panic leaves the object as it was.
func TransformFunc(f cache.TransformFunc) cache.TransformFunc {
	return func(o any) (result any, err error) {
		result = o
		defer Contain(Transform, o)
		return f(o)
	}
}
