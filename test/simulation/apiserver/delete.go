package apiserver

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func (s *Server) delete(st *store, old Object, w Write) (Object, error) {
	opts := w.Options
	if err := checkPreconditions(st, old, opts.Preconditions); err != nil {
		return nil, err
	}
	if err := s.admit(w, old, nil); err != nil {
		return nil, err
	}
	o := old.DeepCopyObject().(Object)
	o.SetFinalizers(st.finalizersFor(o.GetFinalizers(), opts))
	grace := int64(0)
	if st.graceful != nil {
		grace = st.graceful(o, opts.GracePeriodSeconds)
	}
	dying := old.GetDeletionTimestamp() != nil
	if dying && opts.GracePeriodSeconds == nil && ptr.Deref(old.GetDeletionGracePeriodSeconds(), 0) > 0 {
		grace = *old.GetDeletionGracePeriodSeconds() // it is on its way
	}
	if dying {
		grace = min(grace, ptr.Deref(old.GetDeletionGracePeriodSeconds(), 0))
	}
	gone := grace == 0 && !st.mustStay(o)
	if !gone || st.graceful != nil {
		st.beginEnd(o, grace)
	}
	if st.doom != nil {
		st.doom(o)
	}
	if !equality.Semantic.DeepEqual(old, o) {
		s.commit(st, old, o, false)
		old = o
	}
	if gone {
		last := old.DeepCopyObject().(Object)
		s.commit(st, old, last, true)
		return last, nil
	}
	return old, nil
}

// beginEnd marks an object as being deleted, or one that is being deleted as having less time.
func (st *store) beginEnd(o Object, grace int64) {
	if end := o.GetDeletionTimestamp(); end != nil {
		if less := ptr.Deref(o.GetDeletionGracePeriodSeconds(), 0) - grace; less > 0 {
			sooner := metav1.NewTime(end.Add(-time.Duration(less) * time.Second))
			o.SetDeletionTimestamp(&sooner)
			o.SetDeletionGracePeriodSeconds(&grace)
		}
		return
	}
	end := metav1.NewTime(now().Add(time.Duration(grace) * time.Second))
	o.SetDeletionTimestamp(&end)
	o.SetDeletionGracePeriodSeconds(&grace)
	if o.GetGeneration() > 0 {
		o.SetGeneration(o.GetGeneration() + 1)
	}
}

// mustStay reports whether something must happen before an object may be removed.
func (k *Kind) mustStay(o Object) bool {
	return len(o.GetFinalizers()) > 0 || k.held != nil && k.held(o)
}

func checkPreconditions(st *store, old Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if p.UID != nil && *p.UID != old.GetUID() {
		return conflict(st, old.GetName(), errUID(*p.UID, old.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
		return conflict(st, old.GetName(),
			fmt.Errorf("precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion,
				old.GetResourceVersion()))
	}
	return nil
}

// finalizersFor returns what must be done before an object may go, given what is to become of its dependents.
func (k *Kind) finalizersFor(has []string, opts metav1.DeleteOptions) []string {
	policy := ptr.Deref(opts.PropagationPolicy, "")
	//lint:ignore SA1019 clients still send it
	switch orphan := opts.OrphanDependents; {
	case policy != "":
	case orphan != nil && *orphan:
		policy = metav1.DeletePropagationOrphan
	case orphan != nil:
		policy = metav1.DeletePropagationBackground
	case slices.Contains(has, metav1.FinalizerOrphanDependents), slices.Contains(has, metav1.FinalizerDeleteDependents):
		return has
	case k.orphans:
		policy = metav1.DeletePropagationOrphan
	default:
		return has
	}
	kept := slices.DeleteFunc(slices.Clone(has), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch policy {
	case metav1.DeletePropagationOrphan:
		return append(kept, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		return append(kept, metav1.FinalizerDeleteDependents)
	}
	return kept
}
