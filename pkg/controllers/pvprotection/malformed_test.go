package pvprotection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// Whatever the volume is, planning does not panic or change it.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := draw(t)
		before := v.DeepCopy()
		p := planFinalizer(epoch, snapshot{Volume: v})
		if diff := cmp.Diff(before, v); diff != "" || p.Why == "" || p.Requeue != 0 {
			t.Errorf("%q, again in %v, changed: %s", p.Why, p.Requeue, diff)
		}
	})
}

// SM-22: a bound volume keeps its finalizer, and what is written leaves nothing to do.
func TestBoundVolumesKeepTheirFinalizer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := draw(t)
		p := planFinalizer(epoch, snapshot{Volume: v})
		finalizers := written(t, p)
		if p.Empty() {
			return
		}
		if len(finalizers) < len(v.Finalizers) && v.Status.Phase == corev1.VolumeBound {
			t.Errorf("%s: it is bound", p.Why) // SM-22
		}
		v = v.DeepCopy()
		v.Finalizers = finalizers
		if len(protection.Enqueues(nil, v)) > 0 || !planFinalizer(epoch, snapshot{Volume: v}).Empty() {
			t.Errorf("%s: it is not done", p.Why)
		}
	})
}
