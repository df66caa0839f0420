package apiserver

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Put stores an object as it is, status and all: nothing is validated or filled in but the version, and what a new object has from the
// server. The caller gives the object away.
func (s *Server) Put(o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.storeOf(o)
	setType(st.Kind, o)
	before := st.objects[keyOf(o.GetNamespace(), o.GetName())]
	if before != nil {
		o.SetUID(before.GetUID())
		o.SetCreationTimestamp(before.GetCreationTimestamp())
	} else {
		if o.GetUID() == "" {
			o.SetUID(types.UID(s.uid(st, o)))
		}
		o.SetCreationTimestamp(now())
	}
	s.commit(st, before, o, false)
}

// Backdate has an object look as if it had been created so long ago. Who says so is noted.
func (s *Server) Backdate(by, resource, namespace, name string, ago time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stores[resource]
	before := st.objects[keyOf(namespace, name)]
	if before == nil {
		return apierrors.NewNotFound(st.groupResource(), name)
	}
	after := before.DeepCopyObject().(Object)
	after.SetCreationTimestamp(metav1.NewTime(now().Add(-ago)))
	s.writer = by
	s.commit(st, before, after, false)
	return nil
}

// Remove takes an object away at once, whatever its finalizers are.
func (s *Server) Remove(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stores[resource]
	before := st.objects[keyOf(namespace, name)]
	if before == nil {
		return
	}
	after := before.DeepCopyObject().(Object)
	s.commit(st, before, after, true)
}

// Forget drops what is known of how all objects came about, and the memory that this takes. All watches must have been told of it.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
	for _, st := range s.stores {
		st.history, st.compacted = nil, s.version
	}
}

// ResourceOfObject is the resource of an object.
func (s *Server) ResourceOfObject(o Object) string { return s.storeOf(o).key }
