package endpoints

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// TriggerTime is the annotation that says when the change took place that led to a write (EP-30).
const TriggerTime = "endpoints.kubernetes.io/last-change-trigger-time"

// SetTriggerTime puts the annotation in, or takes it out if there is none. The map is changed, and may be nil.
func SetTriggerTime(annotations map[string]string, trigger time.Time) map[string]string {
	delete(annotations, TriggerTime)
	if trigger.IsZero() {
		return annotations
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[TriggerTime] = trigger.UTC().Format(time.RFC3339Nano)
	return annotations
}

// SliceLabels returns the labels of a slice: those of the object that it is made from, and the two by which it is found
// (EPS-46, ESM-20).
func SliceLabels(from map[string]string, service, manager string) map[string]string {
	labels := make(map[string]string, len(from)+3)
	maps.Copy(labels, from)
	labels[discoveryv1.LabelServiceName] = service
	labels[discoveryv1.LabelManagedBy] = manager
	return labels
}

// foundBy selects the slices that are found like this one.
func foundBy(s *discoveryv1.EndpointSlice) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{
		discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName],
		discoveryv1.LabelManagedBy:   s.Labels[discoveryv1.LabelManagedBy],
	}}
}

// SelectorOf selects the slices of a Service that a controller manages.
func SelectorOf(service, managedBy string) labels.Selector {
	return labels.Set{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: managedBy}.AsSelector()
}

// NewSlice returns a slice that is still empty and belongs to an owner (EPS-45, ESM-22).
func NewSlice(owner metav1.OwnerReference, namespace, service string,
	family discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	prefix := service + "-"
	if len(validation.NameIsDNSSubdomain(prefix, true)) > 0 {
		prefix = service
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: prefix,
			OwnerReferences: []metav1.OwnerReference{owner}},
		AddressType: family,
	}
}

// PortsText is the same for lists of the same ports in any order, and for no others.
func PortsText(ports []discoveryv1.EndpointPort) string {
	var text []byte
	for _, p := range slices.SortedFunc(slices.Values(ports), ComparePorts) {
		if p.Port != nil {
			text = strconv.AppendInt(text, int64(*p.Port), 10)
		}
		for _, word := range []*string{p.Name, (*string)(p.Protocol), p.AppProtocol} {
			if text = append(text, ' '); word != nil {
				text = strconv.AppendQuote(text, *word)
			}
		}
		text = append(text, ',')
	}
	return string(text)
}

// ComparePorts orders ports, with all that they say.
func ComparePorts(a, b discoveryv1.EndpointPort) int {
	return cmp.Or(compareOptional(a.Name, b.Name), compareOptional(a.Port, b.Port),
		compareOptional((*string)(a.Protocol), (*string)(b.Protocol)),
		compareOptional(a.AppProtocol, b.AppProtocol))
}

// SamePorts reports whether two lists have the same ports, in any order (EPS-33).
func SamePorts(a, b []discoveryv1.EndpointPort) bool {
	same := func(a, b discoveryv1.EndpointPort) bool { return ComparePorts(a, b) == 0 }
	return len(a) == len(b) && (slices.EqualFunc(a, b, same) ||
		slices.EqualFunc(slices.SortedFunc(slices.Values(a), ComparePorts),
			slices.SortedFunc(slices.Values(b), ComparePorts), same))
}

// SlicePort is a port as a slice has it: all fields are set (EPS-32).
func SlicePort(name string, number int32, protocol corev1.Protocol, app *string) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: ptr.To(Protocol(protocol)), AppProtocol: app}
}

// SliceChanges are what becomes of the slices of one service and address type.
type SliceChanges struct {
	Create []*discoveryv1.EndpointSlice
	// Update are slices that get other endpoints.
	Update []SliceUpdate
	Delete []*discoveryv1.EndpointSlice
}

// SliceUpdate is a slice before and after its change.
type SliceUpdate struct{ Old, New *discoveryv1.EndpointSlice }

// Recycle turns creations into changes of slices that would be deleted (EPS-40, ESM-19), which keep their names.
func (c *SliceChanges) Recycle() {
	for len(c.Create) > 0 && len(c.Delete) > 0 {
		fresh, old := c.Create[0], c.Delete[0]
		c.Create, c.Delete = c.Create[1:], c.Delete[1:]
		after := old.DeepCopy()
		after.Labels, after.OwnerReferences = fresh.Labels, fresh.OwnerReferences
		after.Endpoints, after.Ports = fresh.Endpoints, fresh.Ports
		c.Update = append(c.Update, SliceUpdate{old, after})
	}
}

// Steps carries the changes out: what is new first, so that no endpoint is missing meanwhile (EPS-42). While the
// owner is being deleted, nothing is created (EPS-43, ESM-19).
func (c SliceChanges) Steps(owner metav1.Object, events plan.Events, why string) (steps []plan.Step) {
	for _, s := range c.Create {
		if owner.GetDeletionTimestamp() == nil {
			steps = append(steps, plan.Create{Object: s, Selector: foundBy(s), Events: events, Why: why})
		}
	}
	for _, u := range c.Update {
		unowned := !metav1.IsControlledBy(u.Old, owner)
		steps = append(steps, plan.Change{Old: u.Old, New: u.New, Unowned: unowned, Events: events, Why: why})
	}
	return append(steps, DeleteSlices(c.Delete, owner, events, why)...)
}

// DeleteSlices deletes slices, whether or not the owner of the plan controls them. The owner may be nil.
func DeleteSlices(gone []*discoveryv1.EndpointSlice, owner metav1.Object, events plan.Events,
	why string) (steps []plan.Step) {
	var owned, unowned []plan.Object
	for _, s := range gone {
		if owner != nil && metav1.IsControlledBy(s, owner) {
			owned = append(owned, s)
		} else {
			unowned = append(unowned, s)
		}
	}
	if len(owned) > 0 {
		steps = append(steps, plan.Delete{Objects: owned, Events: events, Why: why})
	}
	if len(unowned) > 0 {
		steps = append(steps, plan.Delete{Objects: unowned, Unowned: true, Events: events, Why: why})
	}
	return steps
}

// ServiceOfSlice returns the key of the service that a slice belongs to, and whether it names one.
func ServiceOfSlice(o plan.Object) (plan.Key, bool) {
	name := o.GetLabels()[discoveryv1.LabelServiceName]
	return plan.Key{Namespace: o.GetNamespace(), Name: name}, name != ""
}

// SliceWatch says which services a change of a slice concerns.
type SliceWatch struct {
	Manager string                 // the value of the label managed-by
	Own     func(plan.Object) bool // whether this process has written the version
}

// Moved returns the services of slices that have been deleted, taken out of the manager's hands or given to it, or
// now belong to another service (EPS-16, EPS-17).
func (w SliceWatch) Moved(before, after plan.Object) (keys []plan.Key) {
	switch {
	case before == nil:
		return nil
	case after == nil:
		if key, ok := ServiceOfSlice(before); ok && w.manages(before) {
			return []plan.Key{key}
		}
		return nil
	}
	was, wasNamed := ServiceOfSlice(before)
	is, isNamed := ServiceOfSlice(after)
	if was == is && w.manages(before) == w.manages(after) {
		return nil
	}
	if wasNamed {
		keys = append(keys, was)
	}
	if isNamed && is != was {
		keys = append(keys, is)
	}
	return keys
}

// Edited returns the service of a slice of the manager that is new, or whose content somebody else has changed
// (EPS-15). The server raises the generation with the content and the labels.
func (w SliceWatch) Edited(before, after plan.Object) []plan.Key {
	if after == nil || !w.manages(after) || before != nil && before.GetGeneration() == after.GetGeneration() ||
		w.Own(after) {
		return nil
	}
	key, ok := ServiceOfSlice(after)
	if !ok {
		return nil
	}
	return []plan.Key{key}
}

// manages reports whether a slice has the label of the controller.
func (w SliceWatch) manages(o plan.Object) bool {
	return o.GetLabels()[discoveryv1.LabelManagedBy] == w.Manager
}
