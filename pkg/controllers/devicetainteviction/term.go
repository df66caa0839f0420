package devicetainteviction

import (
	"maps"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// term is what is known of rules, by their uids, since this process leads.
type term struct {
	Evicted map[types.UID]int // how many pods were evicted for a rule
	// Previewed has rules whose spec differs from the one before only in the effect, which was None: whoever has made
	// the change could read in the status what would become of it.
	Previewed map[types.UID]preview
}

// preview is of which generation a rule has been since its status has told of it, and of how many pods that was.
type preview struct {
	Generation int64
	Pods       int
}

func newTerm() *reconcile.Term[term] {
	return reconcile.NewTerm(reconcile.TermOptions[term]{Next: term.next})
}

// next follows the changes of rules.
func (t term) next(before, after plan.Object) term {
	was, _ := before.(*resourcev1.DeviceTaintRule)
	is, _ := after.(*resourcev1.DeviceTaintRule)
	if was == nil {
		return t
	}
	switch told, ok := previewed(was, is); {
	case is == nil || is.UID != was.UID:
		t.Evicted, t.Previewed = maps.Clone(t.Evicted), maps.Clone(t.Previewed)
		delete(t.Evicted, was.UID)
		delete(t.Previewed, was.UID)
	case ok:
		t.Previewed = with(t.Previewed, is.UID, preview{is.Generation, told})
	}
	return t
}

// evicted notes that a pod was evicted for rules.
func (t term) evicted(rules []types.UID) term {
	for _, uid := range rules {
		t.Evicted = with(t.Evicted, uid, t.Evicted[uid]+1)
	}
	return t
}

// with returns a copy of a map with another value of a key.
func with[V any](m map[types.UID]V, key types.UID, value V) map[types.UID]V {
	if m = maps.Clone(m); m == nil {
		m = map[types.UID]V{}
	}
	m[key] = value
	return m
}

// previewed reports whether a rule gets its effect on the pods that its status has told of, and how many these were.
func previewed(was, is *resourcev1.DeviceTaintRule) (pods int, ok bool) {
	c := meta.FindStatusCondition(was.Status.Conditions, resourcev1.DeviceTaintConditionEvictionInProgress)
	if is == nil || c == nil || c.Reason != noEffect || c.ObservedGeneration != was.Generation ||
		was.Spec.Taint.Effect != resourcev1.DeviceTaintEffectNone || !evicts(is) ||
		!equality.Semantic.DeepEqual(was.Spec.DeviceSelector, is.Spec.DeviceSelector) {
		return 0, false
	}
	return previewedPods(c.Message)
}
