package reconcile

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
)

// previousLeader says whether the caches show all that others have written before this process began to lead. They
// may not, and each may lack something else: one shows a ReplicaSet that a previous leader has created, another one
// none of the pods that it has created for it.
type previousLeader struct{ freshness.Horizon }

// ask asks the server how far it is, until it has answered or ctx ends.
func ask[K comparable](ctx context.Context, p *previousLeader, shared Shared, watches []TypedWatch[K]) {
	for ctx.Err() == nil {
		versions, err := serverVersions(ctx, shared, watches)
		if err == nil {
			p.Set(versions)
			return
		}
		klog.FromContext(ctx).V(4).Info(
			"Cannot find out how far the server is; new objects are verified live until then", "err", err.Error())
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// serverVersions reads live how far the watched resources are: whoever has seen that version of one has seen all
// that was written before.
func serverVersions[K comparable](
	ctx context.Context, shared Shared, watches []TypedWatch[K],
) (map[schema.GroupVersionKind]string, error) {
	versions := map[schema.GroupVersionKind]string{}
	for _, w := range watches {
		if w.missing() {
			continue
		}
		list, err := shared.list(ctx, w.Kind, metav1.NamespaceAll, metav1.ListOptions{Limit: 1})
		if err != nil {
			return nil, err
		}
		versions[w.Kind] = list.ResourceVersion
	}
	return versions, nil
}

// askPreviousLeader asks until the returned function is called. It is of use only where caches can be compared with the
// server.
func (r *TypedRunner[K, S, D, M]) askPreviousLeader(ctx context.Context) (stop func()) {
	if !r.verifiable() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func(p *previousLeader) {
		defer close(done)
		ask(ctx, p, r.shared, r.Watches)
	}(r.previous)
	return func() {
		cancel()
		<-done
	}
}

// mayBeTheirs reports whether an object that has just come into a cache, and that a key is named after, may be one
// for which a previous leader has written what the caches don't show.
func (r *TypedRunner[K, S, D, M]) mayBeTheirs(p *previousLeader, w TypedWatch[K]) bool {
	return slices.Contains(r.Verified, w.Kind.Kind) && !p.ShownBy(r.caches)
}
