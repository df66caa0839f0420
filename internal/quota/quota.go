package quota

import (
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names that are charged in several ways.
const (
	countPrefix    = "count/"
	requestsPrefix = "requests."
	limitsPrefix   = "limits."
)

// The resources whose objects are charged with more than their number.
func Pods() schema.GroupResource { return schema.GroupResource{Resource: "pods"} }

// Services, Claims and ResourceClaims are resources that are charged with more than their number.
func Services() schema.GroupResource { return schema.GroupResource{Resource: "services"} }
func Claims() schema.GroupResource   { return schema.GroupResource{Resource: "persistentvolumeclaims"} }
func ResourceClaims() schema.GroupResource {
	return schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
}

// Gates are the feature gates that change what objects are charged with.
type Gates struct {
	PodLevelResources         bool // of pods replace the sum over their containers
	PodLevelResize            bool // the resources in the status of a pod count, too
	ExtendedResourcesByClaims bool // devices are charged to the extended resources that they stand for
}

// Item is what one object is charged with. The zero Item is charged with nothing.
type Item struct {
	// Usage is what the object is charged with now, by the names of quotas.
	Usage corev1.ResourceList
	// Traits are what scopes ask for.
	Traits Traits
	// Until is when Usage ends and Rest begins; zero for never.
	Until time.Time
	// Rest is what is left of the charge after Until.
	Rest corev1.ResourceList
}

// At returns what is charged at a moment.
func (i Item) At(now time.Time) corev1.ResourceList {
	if i.Ended(now) {
		return i.Rest
	}
	return i.Usage
}

// Ended reports whether the time of the first charge is over.
func (i Item) Ended(now time.Time) bool { return !i.Until.IsZero() && now.After(i.Until) }

// Rested returns what is charged when the time of the first charge is over.
func (i Item) Rested() Item { return Item{Usage: i.Rest, Traits: i.Traits} }

// Counted returns the name under which the objects of a resource are counted (RQ-19).
func Counted(resource schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName(countPrefix + resource.String())
}

// aliased reports whether the objects of a resource are also counted under a plain name (RQ-20).
func aliased(of schema.GroupResource) bool {
	if of.Group != "" {
		return false
	}
	switch of.Resource {
	case "configmaps", "resourcequotas", "replicationcontrollers", "secrets", "pods", "services",
		"persistentvolumeclaims":
		return true
	}
	return false
}

// Names returns the names under which an object of a resource is counted.
func Names(resource schema.GroupResource) []corev1.ResourceName {
	if aliased(resource) {
		return []corev1.ResourceName{Counted(resource), corev1.ResourceName(resource.Resource)}
	}
	return []corev1.ResourceName{Counted(resource)}
}

// one is what each object is charged with for its number.
func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

// Object returns what an object is charged with of which only the number counts.
func Object(of schema.GroupResource) Item {
	usage := corev1.ResourceList{}
	for _, name := range Names(of) {
		usage[name] = one()
	}
	return Item{Usage: usage}
}

// Charged returns the resources whose objects are charged to a name; none if the name means nothing to anybody.
func Charged(name corev1.ResourceName, g Gates) (all []schema.GroupResource) {
	if of, ok := counted(name); ok {
		return []schema.GroupResource{of}
	}
	if podName(name) {
		all = append(all, Pods())
	}
	if serviceName(name) {
		all = append(all, Services())
	}
	if claimName(name) {
		all = append(all, Claims())
	}
	if deviceName(name, g) {
		all = append(all, ResourceClaims())
	}
	return all
}

// counted returns the resource whose objects a name counts and nothing else.
func counted(name corev1.ResourceName) (schema.GroupResource, bool) {
	if of, ok := strings.CutPrefix(string(name), countPrefix); ok {
		return schema.ParseGroupResource(of), of != ""
	}
	of := schema.GroupResource{Resource: string(name)}
	return of, aliased(of)
}

// Add adds usage to a sum. A sum keeps the format of what was added first (RQ-44).
func Add(sum, usage corev1.ResourceList) {
	for name, q := range usage {
		total, ok := sum[name]
		if !ok {
			sum[name] = q.DeepCopy()
			continue
		}
		total.Add(q)
		sum[name] = total
	}
}

// Subtract takes usage out of a sum. The sum keeps names of which nothing is left.
func Subtract(sum, usage corev1.ResourceList) {
	for name, q := range usage {
		total := sum[name]
		total.Sub(q)
		sum[name] = total
	}
}

// Over returns what a has more than b.
func Over(a, b corev1.ResourceList) corev1.ResourceList {
	over := corev1.ResourceList{}
	for name, q := range a {
		more := q.DeepCopy()
		if more.Sub(b[name]); more.Sign() > 0 {
			over[name] = more
		}
	}
	return over
}

// Equal reports whether two lists have the same names and amounts, whatever their formats (RQ-39).
func Equal(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// quantity is a number as quotas have it.
func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// Version returns the resourceVersion of an object as a number, 0 if it is none.
func Version(o metav1.Object) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return n
}
