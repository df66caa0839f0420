package ttl

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// annotation is what the kubelet of a node reads (TTL-1).
const annotation = corev1.ObjectTTLAnnotationKey

// steps is how many classes of sizes there are.
const steps = 5

// unknown stands for the class of a cluster whose nodes have not been counted yet.
const unknown = -1

// class is how many nodes a cluster may have that belongs to it, and for how many seconds their kubelets may cache.
// Classes overlap, so that a node that comes and goes does not change all the others.
type class struct{ fewest, most, seconds int }

// classes returns the classes, smaller ones first (TTL-3..7).
func classes() [steps]class {
	return [steps]class{{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, math.MaxInt, 300}}
}

// fits reports whether a cluster with so many nodes may belong to the class (TTL-8).
func (c class) fits(nodes int) bool { return c.fewest <= nodes && nodes <= c.most }

// nextClass returns the class of a cluster that was of another one, and now has so many nodes.
func nextClass(before, nodes int) int {
	if before == unknown {
		return unknown
	}
	all := classes()
	for nodes > all[before].most {
		before++
	}
	for nodes < all[before].fewest {
		before--
	}
	return before
}

// firstClass returns the class of a cluster with so many nodes of which nobody remembers the class. Where two fit, it
// is the one that more nodes have the annotation of: most likely the one before the process began (TTL-15).
func firstClass(nodes int, annotated [steps]int) int {
	found := unknown
	for i, c := range classes() {
		if c.fits(nodes) && (found == unknown || annotated[i] > annotated[found]) {
			found = i
		}
	}
	return found
}

// snapshot is a node, and the size of the cluster as the term has it. Observe fills it, and planAnnotation
// reads it. The object belongs to a shared cache.
type snapshot struct {
	Node  *corev1.Node
	Nodes int // how many there are
	// Class is that of the cluster's size; unknown until the nodes were counted.
	Class int
}

// planAnnotation brings the annotation to what it should be (TTL-10). The precondition is the uid of the node.
func planAnnotation(_ time.Time, s snapshot) plan.Plan {
	switch {
	case s.Node == nil:
		return plan.Plan{Why: "the node is gone"}
	case s.Class == unknown:
		return plan.Plan{Why: "the nodes have not been counted yet"}
	case right(s.Node, s.Class):
		return plan.Plan{Why: "the annotation is as it should be"}
	}
	seconds := strconv.Itoa(classes()[s.Class].seconds)
	after := *s.Node // the rest is shared with it
	after.Annotations = maps.Clone(s.Node.Annotations)
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[annotation] = seconds
	why := fmt.Sprintf("with %d nodes, kubelets may cache for %ss", s.Nodes, seconds)
	if now, ok := s.Node.Annotations[annotation]; ok {
		why += fmt.Sprintf(", and the annotation says %q", now)
	}
	return plan.Plan{Why: "annotate the node: " + why,
		Steps: []plan.Step{plan.Change{Old: s.Node, New: &after, Why: why}}}
}

// right reports whether the annotation of a node is that of a class. If the class is unknown, nothing is wrong
// (TTL-10).
func right(node *corev1.Node, class int) bool {
	if class == unknown {
		return true
	}
	seconds, err := strconv.Atoi(node.Annotations[annotation])
	return err == nil && seconds == classes()[class].seconds
}
