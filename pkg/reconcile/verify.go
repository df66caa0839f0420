package reconcile

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// verifiable reports whether something is read live that shows more than the caches. Who writes nothing need not know
// what others are writing.
func (r *TypedRunner[K, S, D, M]) verifiable() bool {
	return r.shared.Verifier != nil && !r.shared.ReadOnly && !r.SkipVerification && (r.Live != nil || r.Owner != nil)
}

// observeVerified observes anew when the caches show what the server has: what was observed before may be older
// than that. If the caches lack something, the error is [plan.ErrStale].
func (r *run[K, S, D, M]) observeVerified(ctx context.Context, s S) (o Observation[S, M], err error) {
	if err := r.verify(ctx, s); err != nil {
		return o, err
	}
	o, err = r.observe(ctx)
	if err == nil && !o.Exists {
		r.forget(false)
	}
	return o, err
}

// verify reads live what the caches may lack. Until the caches show it, nothing is written.
func (r *run[K, S, D, M]) verify(ctx context.Context, s S) error {
	if r.runner.verifiable() {
		var sets []Live
		if owner := r.runner.ownerOf(s); owner != nil {
			self, err := ownerOnly(owner)
			if err != nil {
				return err
			}
			sets = append(sets, self)
		}
		if r.runner.Live != nil {
			sets = append(sets, r.runner.Live(s)...)
		}
		for _, set := range sets {
			if err := r.compare(ctx, set); err != nil {
				return fmt.Errorf("read live: %w", err)
			}
		}
	}
	r.runner.keys.Verified(r.state)
	if !r.state.Barrier.Check(r.runner.caches).Open {
		return plan.ErrStale
	}
	return nil
}

// ownerOnly is the set that has nothing but the owner. It is listed, not read by name: whoever fills the caches may
// list.
func ownerOnly(owner plan.Object) (Live, error) {
	kind, err := client.KindOf(owner)
	return Live{Kind: kind, Namespace: owner.GetNamespace(), Name: owner.GetName(), Selector: labels.Everything(),
		Cached: []plan.Object{owner}}, err
}

// compare makes the key wait until the caches show what the server shows: the latest version of what exists, and the
// absence of what does not.
func (r *run[K, S, D, M]) compare(ctx context.Context, set Live) error {
	found, err := r.runner.listLive(ctx, set)
	if err != nil {
		return err
	}
	exists := make(map[types.UID]bool, len(found))
	for _, o := range found {
		exists[o.GetUID()] = true
		r.state.Barrier.WaitForVersion(set.Kind, o.GetResourceVersion())
	}
	for _, o := range set.Cached {
		if !exists[o.GetUID()] && set.Selector.Matches(labels.Set(o.GetLabels())) {
			r.state.Barrier.WaitForAbsence(set.Kind, o, set.Selector)
		}
	}
	return nil
}

// listLive lists what is in a set, or takes what another key has listed a moment ago if the set is shared.
func (r *TypedRunner[K, S, D, M]) listLive(ctx context.Context, set Live) ([]plan.Object, error) {
	list := func() (all []plan.Object, err error) {
		found, err := r.shared.list(ctx, set.Kind, set.Namespace, set.options())
		if err != nil {
			return nil, err
		}
		for i := range found.Items {
			all = append(all, &found.Items[i])
		}
		return all, nil
	}
	if !set.Shared {
		return list()
	}
	ref := plan.Ref{Kind: set.Kind, Namespace: set.Namespace, Name: set.Name, All: true,
		Fields: set.Selector.String(), Metadata: true, Shared: true}
	read := r.reads.get(ctx, r.shared.Clock.Now, ref, list)
	return read.Objects, read.Err
}

func (l Live) options() metav1.ListOptions {
	o := metav1.ListOptions{LabelSelector: l.Selector.String()}
	if l.Name != "" {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, l.Name).String()
	}
	return o
}

// list reads metadata live, as the identity that fills the caches.
func (s Shared) list(ctx context.Context, kind schema.GroupVersionKind, namespace string,
	o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	m, err := s.Mapper.Mapping(ctx, kind)
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	return list, s.Verifier.List(ctx, m, namespace, o, list)
}
