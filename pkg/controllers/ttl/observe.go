package ttl

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// When the class of the cluster's size changes, its nodes follow at this rate (TTL-16).
const (
	portion = 10
	pause   = 100 * time.Millisecond
)

// caches are what the controller reads.
type caches struct {
	nodes informers.NodeCache
	size  *size
}

// observe finds the node, and how large the cluster is.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}], err error) {
	o.Snapshot.Node = k.nodes.Get(r.Key.Name)
	o.Snapshot.Nodes, o.Snapshot.Class = k.size.get()
	o.Exists = o.Snapshot.Node != nil
	return o, nil
}

// enqueuedByNode counts the nodes. It returns the key of a node whose annotation is not as it should be (TTL-9, TTL-17), and of one that
// is gone, so that nothing more is known of it. Before the class is known it is not needed: follow then looks at all nodes.
func (k *caches) enqueuedByNode(before, after plan.Object) []plan.Key {
	if after == nil {
		k.size.remove(before.GetName())
		return []plan.Key{{Name: before.GetName()}}
	}
	if before == nil {
		k.size.add(after.GetName())
	}
	node, ok := after.(*corev1.Node)
	if _, class := k.size.get(); !ok || right(node, class) {
		return nil
	}
	return []plan.Key{{Name: node.Name}}
}

// follow finds out the class of the cluster's size, and whenever it changes, enqueues the nodes that must follow, a few at a time
// (TTL-14, TTL-16). When ctx ends, the class is unknown again: the process may not see nodes come and go until it leads again.
func (k *caches) follow(ctx context.Context, enqueue func(plan.Key)) {
	defer k.size.forget()
	k.size.begin(func() ([]string, [steps]int) {
		names := k.nodes.Names()
		return names, k.annotated(names)
	})
	for {
		k.enqueueWrong(ctx, enqueue)
		select {
		case <-k.size.changed:
		case <-ctx.Done():
			return
		}
	}
}

// annotated returns how many nodes have the annotation of each class.
func (k *caches) annotated(names []string) (count [steps]int) {
	for _, name := range names {
		node := k.nodes.Get(name)
		for class := range count {
			if node != nil && right(node, class) {
				count[class]++
			}
		}
	}
	return count
}

// enqueueWrong enqueues the nodes whose annotation is not as it should be, unless the class changes meanwhile or ctx ends.
func (k *caches) enqueueWrong(ctx context.Context, enqueue func(plan.Key)) {
	_, class := k.size.get()
	enqueued := 0
	for _, name := range k.nodes.Names() {
		if node := k.nodes.Get(name); node == nil || right(node, class) {
			continue
		}
		enqueue(plan.Key{Name: name})
		if enqueued++; enqueued%portion > 0 {
			continue
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if _, now := k.size.get(); now != class {
			return
		}
	}
}
