package usage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/circuit"
	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// Compare lists a namespace live with the reader, and compares the list with what is known of it. What cannot be
// listed in time keeps only its own names from being counted.
func (x *Index) Compare(ctx context.Context, reader client.Reader, of schema.GroupResource, m client.Mapping,
	namespace string) State {
	ended, err := x.lists.Begin(of)
	if err != nil {
		return Failing
	}
	defer ended(circuit.ErrUnknown) // if it panics
	limited, cancel := context.WithTimeout(ctx, ListWithin)
	defer cancel()
	comparison := x.sums.Compare(of, namespace)
	defer comparison.End()
	list := &metav1.PartialObjectMetadataList{}
	err = reader.List(limited, m, namespace, metav1.ListOptions{}, list)
	failure := limited.Err()
	if ctx.Err() != nil { // whoever has asked has given up
		failure = circuit.ErrUnknown
	}
	ended(failure)
	if err != nil {
		return Failing
	}
	if comparison.Lacks(list.Items) {
		return Late
	}
	return Verified
}
