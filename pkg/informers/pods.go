package informers

import (
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/selectors"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"

	"github.com/standalone-kcm/controller-manager/internal/podcache"
)

const (
	byNode  = "node"  // the index of pods by the node they are assigned to
	byClaim = "claim" // the index of pods that are assigned to a node, by the claims of their volumes
)

// byStage indexes the few pods that are at the end of their life, so that they are found without a look at all pods.
const byStage = "stage"

// The stages that byStage knows. A pod may be in both, most are in none.
const (
	finished    = "finished"
	terminating = "terminating"
)

const (
	// mostPodIndexes bounds the indexes of pods by label keys. Clusters have a dozen or two.
	mostPodIndexes = 100
	// podsWorthAnIndex is how many pods a namespace has for which there is one.
	podsWorthAnIndex = 200
)

// PodCache finds pods by their controllers.
type PodCache struct{ OwnedStore[*corev1.Pod] }

// NodePodCache finds pods by their nodes.
type NodePodCache struct{ Store[*corev1.Pod] }

// LabeledPodCache finds pods by their labels.
type LabeledPodCache struct {
	Store[*corev1.Pod]
	indexes *selectors.LabelIndexes
	stored  cache.Indexer // of the pods as they are stored: a lookup need not expand all of them
}

// EndingPodCache finds pods by their nodes, those that have finished, and those that are being deleted.
type EndingPodCache struct{ NodePodCache }

// ClaimPodCache finds pods by the claims of their volumes.
type ClaimPodCache struct{ Store[*corev1.Pod] }

// PodFields are what a controller reads of pods. The zero value stands for whole pods.
type PodFields struct {
	// Paths are those of fields, see [Objects]. The affinity of a pod is kept until the pod is assigned to a node,
	// and volumes only if something is kept of their sources.
	Paths []string
	// Containers says that containers are read of which nothing else is kept than the name. Without it they are left
	// out.
	Containers bool
	// Condition reports whether a condition of that type is read, if "status.conditions" is among the paths. Nil: all
	// are.
	Condition func(*corev1.Pod, corev1.PodConditionType) bool
}

// ReadyCondition is the Condition of [PodFields] for readers of nothing but whether pods are ready.
func ReadyCondition(p *corev1.Pod, t corev1.PodConditionType) bool {
	return projection.ReadyCondition(p, t)
}

// projected returns what the projection has to know.
func (f PodFields) projected() projection.Fields {
	if f.Condition == nil {
		f.Condition = func(*corev1.Pod, corev1.PodConditionType) bool { return true }
	}
	return projection.Fields{
		Kinds:      map[schema.GroupVersionKind][]string{corev1.SchemeGroupVersion.WithKind("Pod"): f.Paths},
		Containers: f.Containers, PodCondition: f.Condition,
	}
}

// Pods returns the cache of pods, with an index by controller. Only kinds that are asked for are watched (CI-9), and
// each only once, however many controllers ask. It must be called before the factory starts. Without fields, whole
// pods are kept.
func Pods(f *Factory, reads ...PodFields) (PodCache, error) {
	s, err := podStore(f, owners(), reads)
	return PodCache{OwnedStore[*corev1.Pod]{s}}, err
}

// podStore returns the store of pods with further indexes. Without fields, whole pods are kept.
func podStore(f *Factory, indexers cache.Indexers, reads []PodFields) (Store[*corev1.Pod], error) {
	if len(reads) == 0 {
		reads = []PodFields{{}}
	}
	made, err := podInformer(f, reads...)
	if err != nil {
		return Store[*corev1.Pod]{}, err
	}
	return newStore[*corev1.Pod](made, indexers)
}

// podInformer returns the factory's cache of pods, whose informer f.Core().V1().Pods() has, too. With a client made by
// [listwatch.NewClient] it projects pods while it decodes them.
func podInformer(f *Factory, reads ...PodFields) (cached, error) {
	kind, resource := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	for _, one := range reads {
		if err := f.ask(kind, resource, one.projected()); err != nil {
			return cached{}, err
		}
	}
	client := f.all.client
	if client == nil || f.selector != "" {
		return f.informer(kind, resource, &corev1.Pod{}), nil
	}
	informer := f.InformerFor(&corev1.Pod{},
		func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			made, stored := podcache.NewInformer(client, f.identity(resource), resync)
			f.all.compactPods.Store(&stored)
			return made
		})
	return f.note(kind, resource, informer), nil
}

// PodsByNode returns the same cache of pods, with an index by node, under the same terms.
func PodsByNode(f *Factory, reads ...PodFields) (NodePodCache, error) {
	s, err := podStore(f, cache.Indexers{byNode: nodeOf}, reads)
	return NodePodCache{s}, err
}

// EndingPods returns the same cache of pods as [Pods], with indexes by node and by the end of life. Only who asks for
// them has a process pay for them.
func EndingPods(f *Factory, reads ...PodFields) (EndingPodCache, error) {
	s, err := podStore(f, cache.Indexers{byNode: nodeOf, byStage: stagesOf}, reads)
	return EndingPodCache{NodePodCache{s}}, err
}

// PodsByClaim returns the same cache of pods as [Pods], with an index by the claims of volumes.
func PodsByClaim(f *Factory, reads ...PodFields) (ClaimPodCache, error) {
	s, err := podStore(f, cache.Indexers{byClaim: claimsOf}, reads)
	return ClaimPodCache{s}, err
}

// IndexedPods returns the same cache of pods as [Pods], with an index of the caller's choice, see [IndexedObjects].
func IndexedPods(f *Factory, name string, values func(*corev1.Pod) []string,
	reads ...PodFields) (IndexedStore[*corev1.Pod], error) {
	s, err := podStore(f, indexOf(name, values), reads)
	return IndexedStore[*corev1.Pod]{s, name}, err
}

// Naming returns the pods whose volumes name the claim, on nodes or not, also those with an ephemeral volume whose
// claim would have that name.
func (c ClaimPodCache) Naming(namespace, claim string) []*corev1.Pod {
	return c.by(byClaim, namespace, cache.NewObjectName(namespace, claim).String())
}

// claimsOf is the index of pods by the keys of the claims that they use.
func claimsOf(o any) (claims []string, err error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	for _, name := range podutil.Claims(p) {
		claims = append(claims, cache.NewObjectName(p.Namespace, name).String())
	}
	return claims, nil
}

// PodsByLabels returns the same cache of pods as [Pods]. Its indexes come with the first lookup that wants them.
func PodsByLabels(f *Factory, reads ...PodFields) (LabeledPodCache, error) {
	s, err := podStore(f, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, reads)
	if err != nil {
		return LabeledPodCache{}, err
	}
	stored := s.informer.GetIndexer()
	if compact := f.all.compactPods.Load(); compact != nil && f.selector == "" {
		stored = *compact
	}
	return LabeledPodCache{s, &f.all.labels, stored}, nil
}

// OnNode returns the pods that are assigned to the node.
func (c NodePodCache) OnNode(node string) []*corev1.Pod { return c.by(byNode, "", node) }

// NodesInUse returns the names of the nodes that pods are assigned to, whether or not they exist, in no order.
func (c EndingPodCache) NodesInUse() []string {
	return c.informer.GetIndexer().ListIndexFuncValues(byNode)
}

// Finished returns the pods that have succeeded or failed.
func (c EndingPodCache) Finished() []*corev1.Pod { return c.by(byStage, "", finished) }

// FinishedCount counts them at less cost.
func (c EndingPodCache) FinishedCount() int {
	return len(mustFind(c.informer.GetIndexer().IndexKeys(byStage, finished)))
}

// Terminating returns the pods that are being deleted, whether or not they have finished.
func (c EndingPodCache) Terminating() []*corev1.Pod { return c.by(byStage, "", terminating) }

// stagesOf is the index of pods that have ended, and of those that are being deleted.
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

// nodeOf is the index of pods by the node that they are on.
func nodeOf(o any) ([]string, error) {
	if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}, nil
	}
	return nil, nil
}

// Selected returns the pods in the namespace that have all labels of the selector, and with an empty selector all
// pods. In large namespaces there is an index for each set of keys that a selector has had, so a lookup does not go
// through all pods.
func (c LabeledPodCache) Selected(namespace string, selector map[string]string) []*corev1.Pod {
	c.mustBeSound("", namespace)
	found := mustFind(c.indexes.Find(c.stored, c.informer.AddIndexers, namespace, selector))
	pods := make([]*corev1.Pod, 0, len(found))
	for _, o := range found {
		if p, ok := podcache.Expanded(o).(*corev1.Pod); ok {
			pods = append(pods, p)
		}
	}
	return pods
}

// SelectedAmong returns those pods of [LabeledPodCache.Selected] that have one of the names, whatever others there are.
func (c LabeledPodCache) SelectedAmong(namespace string, selector map[string]string,
	names iter.Seq[string]) (pods []*corev1.Pod) {
	for name := range names {
		if p := c.Get(namespace, name); p != nil && selectors.HasPairs(p.Labels, selector) {
			pods = append(pods, p)
		}
	}
	return pods
}

// SelectedBy returns the pods in the namespace that a label selector matches, none for a nil selector, and how many
// pods were looked at to find them. It fails for a selector that no server accepts.
func (c LabeledPodCache) SelectedBy(namespace string, by *metav1.LabelSelector) (pods []*corev1.Pod, looked int,
	err error) {
	s, err := selectors.Split(by)
	if err != nil {
		return nil, 0, err
	}
	for _, pairs := range s.Alternatives {
		pods = append(pods, c.Selected(namespace, pairs)...)
	}
	looked = len(pods)
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !s.Matches(p.Labels) }), looked, nil
}
