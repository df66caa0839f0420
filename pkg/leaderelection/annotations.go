package leaderelection

import (
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotate sets what changes the annotations of the lease when this process renews it while it works as the leader.
// They go with the renewal: there is no request more. f is given a map of its own. It must be called before
// [Elector.Run].
func (e *Elector) Annotate(f func(annotations map[string]string)) { e.annotate = f }

// Metadata returns that of the lease, as this process has last seen it; empty if it has not. Who leads sees it every
// retry period.
func (e *Elector) Metadata() metav1.ObjectMeta {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *e.metadata.DeepCopy()
}

// annotated returns the lease as it is to be written.
func (e *Elector) annotated(lease *coordinationv1.Lease) *coordinationv1.Lease {
	if t := e.current.Load(); e.annotate == nil || t == nil || !t.working.Load() {
		return lease
	}
	written := *lease // the other one is client-go's
	if written.Annotations = maps.Clone(lease.Annotations); written.Annotations == nil {
		written.Annotations = map[string]string{}
	}
	e.annotate(written.Annotations)
	return &written
}

// madeAnew returns a lease that is to be made with the annotations that the last one had: the next leader reads in them
// what brakes hold, whoever has deleted the lease.
func (e *Elector) madeAnew(lease *coordinationv1.Lease) *coordinationv1.Lease {
	before := e.Metadata().Annotations
	if len(before) == 0 {
		return lease
	}
	made := *lease // the other one is client-go's
	maps.Copy(before, lease.Annotations)
	made.Annotations = before
	return &made
}
