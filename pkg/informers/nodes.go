package informers

import corev1 "k8s.io/api/core/v1"

// NodeCache finds nodes by name.
type NodeCache struct{ Store[*corev1.Node] }

// Nodes returns the cache of nodes, under the terms of [Objects].
func Nodes(f *Factory, paths ...string) (NodeCache, error) {
	s, err := Objects[*corev1.Node](f, paths...)
	return NodeCache{s}, err
}

// Get returns the node of that name, nil if there is none. (Nodes have no namespace.)
func (c NodeCache) Get(name string) *corev1.Node { return c.Store.Get("", name) }

// Names returns the names of all nodes, in no order.
func (c NodeCache) Names() []string { return c.informer.GetIndexer().ListKeys() }
