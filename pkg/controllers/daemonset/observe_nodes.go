package daemonset

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselectors "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// eligibilityCache remembers on which nodes DaemonSets run, so that what was decided about a node is not decided
// again until the node or the template changes in something that counts (DS-104). It saves time and nothing else.
type eligibilityCache struct {
	comparisons bool                                           // see nodeRules
	get         func(namespace, name string) *appsv1.DaemonSet // from the cache; nil if there is none

	mu   sync.Mutex
	sets map[plan.Key]*setEligibility
	kept int // sets, when those that are gone were last forgotten
}

// setEligibility is what is remembered for one DaemonSet.
type setEligibility struct {
	// uid and generation are of the DaemonSet whose rules these are. When they change, the rules are read
	// anew.
	uid        types.UID
	generation int64
	*nodeRules

	mu     sync.Mutex
	known  map[string]eligibility // by class of node, see appendClass
	text   []byte                 // of the class that was looked up last
	misses int                    // nodes that were not found in known
}

// mostClasses bounds what is remembered for one DaemonSet. Only where the name of a node counts, or labels that
// differ from node to node, are there as many classes as nodes.
const mostClasses = 20_000

// newEligibilityCache returns an empty one. The function finds DaemonSets in their cache, to notice which are
// gone.
func newEligibilityCache(comparisons bool, get func(namespace, name string) *appsv1.DaemonSet) *eligibilityCache {
	return &eligibilityCache{comparisons: comparisons, get: get, sets: map[plan.Key]*setEligibility{}}
}

// of returns what is remembered for a DaemonSet with the present spec.
func (j *eligibilityCache) of(d *appsv1.DaemonSet) *setEligibility {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := plan.Key{Namespace: d.Namespace, Name: d.Name}
	s := j.sets[key]
	if s == nil || s.uid != d.UID || s.generation != d.Generation {
		s = &setEligibility{uid: d.UID, generation: d.Generation, nodeRules: newNodeRules(d, j.comparisons),
			known: map[string]eligibility{}}
		j.sets[key] = s
		j.sweep()
	}
	return s
}

// sweep forgets the DaemonSets that are gone, when twice as many are remembered as there were the last time. Of those
// that are deleted while another process leads, no reconcile shows.
func (j *eligibilityCache) sweep() {
	if len(j.sets) <= max(2*j.kept, 16) {
		return
	}
	maps.DeleteFunc(j.sets, func(key plan.Key, _ *setEligibility) bool { return j.get(key.Namespace, key.Name) == nil })
	j.kept = len(j.sets)
}

// forget drops what is remembered for a DaemonSet that is gone.
func (j *eligibilityCache) forget(key plan.Key) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.sets, key)
}

// eligibility returns whether a node, nil for none, runs pods of the DaemonSet.
func (s *setEligibility) eligibility(n *corev1.Node) eligibility {
	if n == nil {
		return excluded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = shortened(s.appendClass(s.text[:0], n))
	e, ok := s.known[string(s.text)]
	if !ok {
		if len(s.known) >= mostClasses {
			clear(s.known)
		}
		e = s.evaluate(n)
		s.misses++
		s.known[string(s.text)] = e
	}
	return e
}

// longestClass is the longest class that is remembered as it is. A DaemonSet may ask for thousands of labels.
const longestClass = 256

// shortened returns a text, or what stands for one that is too long.
func shortened(class []byte) []byte {
	if len(class) <= longestClass {
		return class
	}
	sum := sha256.Sum256(class)
	return sum[:]
}

// reads reports whether one of the labels counts.
func (s *setEligibility) reads(labels []string) bool {
	return slices.ContainsFunc(labels, func(key string) bool { return slices.Contains(s.labels, key) })
}

// nodesFor returns the nodes that a DaemonSet has to do with: those that run its pods or may keep them, and those
// that have some.
func (k *caches) nodesFor(d *appsv1.DaemonSet, on map[string][]*corev1.Pod) (nodes []node) {
	cached := k.eligibility.of(d)
	for n := range k.nodes.All() {
		if e := cached.eligibility(n); e != excluded || len(on[n.Name]) > 0 {
			nodes = append(nodes, node{n.Name, e})
		}
	}
	return nodes
}

// uncachedNodes returns which nodes exist that unassigned pods are meant for and the cache does not show. One node is
// read by name; several are rare, and found in one list of all.
func (k *caches) uncachedNodes(ctx context.Context, s snapshot, on map[string][]*corev1.Pod) (map[string]bool, error) {
	missing := s.nodeless(on)
	if k.verifier == nil || len(missing) == 0 {
		return nil, nil
	}
	var o metav1.ListOptions
	if len(missing) == 1 {
		for name := range missing {
			o.FieldSelector = fieldselectors.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
	resource := client.MappingFor[*corev1.Node]()
	found := &metav1.PartialObjectMetadataList{}
	if err := k.verifier.List(ctx, resource, "", o, found); err != nil {
		return nil, fmt.Errorf("whether the nodes of unassigned pods are gone: %w", err)
	}
	exist := map[string]bool{}
	for i := range found.Items {
		if name := found.Items[i].Name; len(missing[name]) > 0 {
			exist[name] = true
		}
	}
	return exist, nil
}

// enqueuedByNode returns the DaemonSets that a change of a node concerns: those that it begins or ceases to run, or
// whose pods on it may no longer stay (DS-4, DS-5). A node that comes or goes also concerns those that have pods on
// it (DS-103).
func (k *caches) enqueuedByNode(before, after plan.Object) (keys []plan.Key) {
	was, _ := before.(*corev1.Node)
	is, _ := after.(*corev1.Node)
	var relabeled []string
	retainted := was == nil || is == nil
	if !retainted {
		relabeled = differing(was.Labels, is.Labels)
		retainted = !equality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints)
		if !retainted && len(relabeled) == 0 {
			return nil
		}
	}
	var owners map[types.UID]bool
	if was == nil || is == nil {
		owners = k.ownersOn(was, is)
	}
	for d := range k.sets.All() {
		cached := k.eligibility.of(d)
		if !retainted && !cached.reads(relabeled) {
			continue
		}
		if cached.eligibility(was) != cached.eligibility(is) || owners[d.UID] {
			keys = append(keys, plan.Key{Namespace: d.Namespace, Name: d.Name})
		}
	}
	return keys
}

// ownersOn returns the uids of whoever controls pods that are assigned to a node that has come or gone.
func (k *caches) ownersOn(was, is *corev1.Node) map[types.UID]bool {
	n := is
	if n == nil {
		n = was
	}
	owners := map[types.UID]bool{}
	for _, p := range k.onNodes.OnNode(n.Name) {
		if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
			owners[ref.UID] = true
		}
	}
	return owners
}

// differing returns the keys of which two sets of labels have different values.
func differing(a, b map[string]string) (keys []string) {
	if maps.Equal(a, b) {
		return nil
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}
