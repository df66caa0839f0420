package ttl

import (
	"context"
	"iter"
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
	size  *reconcile.Term[size]
}

// newSize returns the size of the cluster, not known yet. When its class changes, the nodes follow whose annotation
// is not as it should be (TTL-14).
func (k *caches) newSize() *reconcile.Term[size] {
	return reconcile.NewTerm(reconcile.TermOptions[size]{
		Begin:    func() size { names := k.nodes.Names(); return firstSize(names, k.annotated(names)) },
		Next:     size.next,
		Concerns: func(was, is size) bool { return was.Class != is.Class },
		Keys:     k.wrong,
		Portion:  portion,
		Pause:    pause,
	})
}

// class returns the class of the cluster's size.
func (k *caches) class() int {
	if s, known := k.size.Get(); known {
		return s.Class
	}
	return unknown
}

// observe finds the node, and how large the cluster is.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}],
	err error) {
	o.Snapshot.Node = k.nodes.Get(r.Key.Name)
	s, known := k.size.Get()
	if o.Snapshot.Nodes, o.Snapshot.Class = s.Nodes, s.Class; !known {
		o.Snapshot.Class = unknown
	}
	o.Exists = o.Snapshot.Node != nil
	return o, nil
}

// enqueuedByNode returns the key of a node whose annotation is not as it should be (TTL-9, TTL-17), and of one that
// is gone, so that nothing more is known of it. Before the class is known it is not needed: then all nodes are looked
// at.
func (k *caches) enqueuedByNode(before, after plan.Object) []plan.Key {
	if after == nil {
		return []plan.Key{{Name: before.GetName()}}
	}
	if node, ok := after.(*corev1.Node); ok && !right(node, k.class()) {
		return []plan.Key{{Name: node.Name}}
	}
	return nil
}

// wrong ranges over the nodes whose annotation is not as it should be.
func (k *caches) wrong(s size) iter.Seq[plan.Key] {
	return func(yield func(plan.Key) bool) {
		for _, name := range k.nodes.Names() {
			if node := k.nodes.Get(name); node != nil && !right(node, s.Class) && !yield(plan.Key{Name: name}) {
				return
			}
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
