package usage

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/guard"
	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// comparison is that of a live list of a namespace with what is known of it. Objects that go while the list is read may be in it.
type comparison struct {
	of        schema.GroupResource
	namespace string
	gone      map[types.UID]bool
}

// Compare lists a namespace live with the reader, and compares the list with what is known of it. What cannot be listed in time keeps only its
// own names from being counted.
func (x *Index) Compare(ctx context.Context, reader client.Reader, of schema.GroupResource, m client.Mapping, namespace string) State {
	ended, err := x.lists.Begin(of)
	if err != nil {
		return Failing
	}
	limited, cancel := context.WithTimeout(ctx, ListWithin)
	defer cancel()
	comparison, end := x.sums.beginComparison(of, namespace)
	defer end()
	list := &metav1.PartialObjectMetadataList{}
	err = reader.List(limited, m, namespace, metav1.ListOptions{}, list)
	failure := limited.Err()
	if ctx.Err() != nil { // whoever has asked has given up
		failure = guard.ErrUnknown
	}
	ended(failure)
	if err != nil {
		return Failing
	}
	if x.sums.lacks(comparison, list.Items) {
		return Late
	}
	return Verified
}

// beginComparison is called before a namespace is listed live, and end when the list has been compared.
func (s *sums) beginComparison(of schema.GroupResource, namespace string) (c *comparison, end func()) {
	c = &comparison{of, namespace, map[types.UID]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.comparisons[c] = struct{}{}
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.comparisons, c)
	}
}

// lacks reports whether an object that was listed is not known, and has not been known either since the comparison began.
func (s *sums) lacks(c *comparison, objects []metav1.PartialObjectMetadata) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var known map[types.UID]*interned
	if a := s.namespaces[c.namespace]; a != nil {
		known = a.items[c.of]
	}
	return slices.ContainsFunc(objects, func(o metav1.PartialObjectMetadata) bool { return known[o.UID] == nil && !c.gone[o.UID] })
}
