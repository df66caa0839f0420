package nodeipam

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	nodes informers.NodeCache
	pools []pool
	// services are the ranges of Services, which no node gets.
	services []netip.Prefix
}

// enqueued: what a node reports says nothing of ranges.
func enqueued(before, after plan.Object) []plan.Key {
	was, ok1 := before.(*corev1.Node)
	is, ok2 := after.(*corev1.Node)
	if ok1 && ok2 && was.UID == is.UID && slices.Equal(was.Spec.PodCIDRs, is.Spec.PodCIDRs) &&
		(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) {
		return nil
	}
	return []plan.Key{allocation}
}

// observe finds all nodes. What is taken is worked out by the plan.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory],
	err error) {
	o.Exists = true
	o.Snapshot = snapshot{Pools: k.pools, Services: k.services, Nodes: slices.Collect(k.nodes.All()),
		Memory: ptr.Deref(r.Memory, memory{})}
	return o, nil
}

// live are all nodes: a previous leader, or a write of our own that was not answered, may have given ranges to any of
// them.
func (k *caches) live(s snapshot) []reconcile.Live {
	return []reconcile.Live{{Kind: k.nodes.Kind(), Selector: labels.Everything(), Cached: plan.Objects(s.Nodes)}}
}
