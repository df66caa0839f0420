package informers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/podutil"
)

// byStage indexes the few pods that are at the end of their life, so that who looks for them need not go through all.
const byStage = "stage"

// The stages that byStage knows. A pod may be in both, most are in none.
const (
	finished    = "finished"
	terminating = "terminating"
)

// NodeCache finds nodes by name.
type NodeCache struct{ store[*corev1.Node] }

// Nodes returns the cache of nodes. It must be called before the factory starts.
func Nodes(f informers.SharedInformerFactory) (NodeCache, error) {
	informer := informerOf(f, &corev1.Node{}, corev1.SchemeGroupVersion.WithResource("nodes"), func(k kubernetes.Interface) kindClient[*corev1.NodeList] {
		return k.CoreV1().Nodes()
	})
	s, err := newStore[*corev1.Node](informer, nil)
	return NodeCache{s}, err
}

// Get returns the node of that name, nil if there is none. (Nodes have no namespace.)
func (c NodeCache) Get(name string) *corev1.Node {
	o, ok, err := c.informer.GetIndexer().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	node, _ := o.(*corev1.Node)
	return node
}

// Names returns the names of all nodes, in no order.
func (c NodeCache) Names() []string { return c.informer.GetIndexer().ListKeys() }

// EndingPodCache finds pods by their nodes, those that have finished, and those that are being deleted.
type EndingPodCache struct{ NodePodCache }

// EndingPods returns the same cache of pods as [Pods], with indexes by node and by the end of life. Only who asks for them
// has a process pay for them.
func EndingPods(f informers.SharedInformerFactory) (EndingPodCache, error) {
	s, err := newStore[*corev1.Pod](podInformer(f), cache.Indexers{byNode: nodeOf, byStage: stagesOf})
	return EndingPodCache{NodePodCache{s}}, err
}

// NodesInUse returns the names of the nodes that pods are assigned to, whether or not they exist, in no order.
func (c EndingPodCache) NodesInUse() []string {
	return c.informer.GetIndexer().ListIndexFuncValues(byNode)
}

// Finished returns the pods that have succeeded or failed.
func (c EndingPodCache) Finished() []*corev1.Pod { return c.by(byStage, finished) }

// FinishedCount counts them at less cost.
func (c EndingPodCache) FinishedCount() int {
	keys, err := c.informer.GetIndexer().IndexKeys(byStage, finished)
	if err != nil {
		panic(fmt.Sprintf("a cache without its index: %v", err)) // as in by
	}
	return len(keys)
}

// Terminating returns the pods that are being deleted, whether or not they have finished.
func (c EndingPodCache) Terminating() []*corev1.Pod { return c.by(byStage, terminating) }

func stagesOf(o any) (stages []string, err error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	if podutil.Finished(p) {
		stages = append(stages, finished)
	}
	if p.DeletionTimestamp != nil {
		stages = append(stages, terminating)
	}
	return stages, nil
}
