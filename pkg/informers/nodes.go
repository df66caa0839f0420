package informers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
)

// NodeCache finds nodes by name.
type NodeCache struct{ Store[*corev1.Node] }

// Nodes returns the cache of nodes. It must be called before the factory starts.
func Nodes(f informers.SharedInformerFactory) (NodeCache, error) {
	s, err := Objects[*corev1.Node](f)
	return NodeCache{s}, err
}

// Get returns the node of that name, nil if there is none. (Nodes have no namespace.)
func (c NodeCache) Get(name string) *corev1.Node { return c.Store.Get("", name) }

// Names returns the names of all nodes, in no order.
func (c NodeCache) Names() []string { return c.informer.GetIndexer().ListKeys() }
