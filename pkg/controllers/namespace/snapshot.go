package namespace

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// snapshot is what one round has found. Observe fills it; planContent and reportConditions read it. Nothing
// of it is from a cache.
type snapshot struct {
	Namespace *corev1.Namespace // read live
	SettledAt time.Time         // before this, objects may still come into the namespace
	Discovery *failure          // nil: all resources are known
	// of resources that have objects, or of which it is not known; pods alone while there are any
	Contents []content
	// all resources were listed after the last object went and nothing could come any more, and are empty
	Complete bool
	Unlisted []schema.GroupVersionKind // can be deleted, but not listed; looked for when the round is complete
	Rounds   int                       // in a row that have found no fewer objects
	Longest  time.Duration             // between two rounds
}

// failure says what could not be discovered.
type failure struct {
	Groups  int // zero: none could
	Message string
}

// content is what a namespace has of one kind: counts, and a few names. It is made page by page, so that its
// size does not follow the number of objects.
type content struct {
	// Kind and Resource name the same, as clients and as messages do.
	Kind     schema.GroupVersionKind
	Resource string
	// Count is how many objects there are, those included that are being deleted.
	Count     int
	Undeleted bool // some objects are not being deleted yet
	Unmoved   bool // some are not, although the last round has deleted all, and there are no fewer objects than then
	// Finalizers counts the objects that have each of them.
	Finalizers map[string]int
	Examples   []string    // names, for people
	GoneBy     metav1.Time // when the grace period of the last object ends that has one
	Error      string      // why it is not known
}

// examples is how many names are kept of each kind.
const examples = 3

// add counts an object.
func (c *content) add(o *metav1.PartialObjectMetadata) {
	c.Count++
	c.Undeleted = c.Undeleted || o.DeletionTimestamp == nil
	for _, name := range o.Finalizers {
		if c.Finalizers == nil {
			c.Finalizers = map[string]int{}
		}
		c.Finalizers[name]++
	}
	if len(c.Examples) < examples {
		c.Examples = append(c.Examples, o.Name)
	}
	if o.DeletionTimestamp != nil && o.DeletionGracePeriodSeconds != nil && *o.DeletionGracePeriodSeconds > 0 &&
		c.GoneBy.Before(o.DeletionTimestamp) {
		c.GoneBy = *o.DeletionTimestamp
	}
}

// groupResource names the kind as messages do.
func (c content) groupResource() schema.GroupResource {
	return c.Kind.GroupVersion().WithResource(c.Resource).GroupResource()
}

// hasFinalizers reports whether the namespace is to be emptied: it has finalizers in its spec, those of others alone
// included (NS-12).
func (s snapshot) hasFinalizers() bool { return len(s.Namespace.Spec.Finalizers) > 0 }

// released reports whether the finalizer of this controller is gone.
func (s snapshot) released() bool {
	return !slices.Contains(s.Namespace.Spec.Finalizers, corev1.FinalizerKubernetes)
}

// undeleted reports whether any object is not being deleted yet.
func (s snapshot) undeleted() bool {
	return slices.ContainsFunc(s.Contents, func(c content) bool { return c.Undeleted })
}

// deletesMore reports whether something is to be deleted of which it is not known that this has no effect.
func (s snapshot) deletesMore() bool {
	return slices.ContainsFunc(s.Contents, func(c content) bool { return c.Undeleted && !c.Unmoved })
}

// finalizersLeft are the finalizers that stay when the namespace is released, each once and sorted (NS-36).
func (s snapshot) finalizersLeft() []corev1.FinalizerName {
	left := slices.DeleteFunc(slices.Clone(s.Namespace.Spec.Finalizers),
		func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	slices.Sort(left)
	return slices.Compact(left)
}

// stays reports whether the namespace will still exist when it has been released, because others hold it.
func (s snapshot) stays() bool { return len(s.finalizersLeft()) > 0 || len(s.Namespace.Finalizers) > 0 }
