package endpointslice

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// family is what becomes of the slices of one address family.
type family struct {
	// name is the type of its addresses.
	name discoveryv1.AddressType
	// existing are the slices that there are, by name.
	existing []*discoveryv1.EndpointSlice
	// changes are the slices that are created, changed and deleted.
	changes endpoints.SliceChanges
	// unchanged are the slices that stay as they are.
	unchanged []*discoveryv1.EndpointSlice
	events    []plan.Event
	// homeless counts the pods that are left out because their nodes do not exist.
	homeless int
}

// reconcileFamily decides what the slices of one address family must be.
func reconcileFamily(s snapshot, m *members, name discoveryv1.AddressType,
	existing []*discoveryv1.EndpointSlice) *family {
	f := &family{name: name, existing: existing, homeless: len(m.homeless)}
	p := pack(m, name, s, existing)
	labels := labelsFor(s.Service)
	owner := *metav1.NewControllerRef(s.Service, corev1.SchemeGroupVersion.WithKind("Service"))
	for _, g := range p.groups {
		for _, d := range g.drafts {
			f.add(s, g, d, labels, owner)
		}
	}
	f.changes.Delete = p.spare
	f.changes.Recycle()
	f.hint(s)
	for _, fresh := range f.changes.Create {
		fresh.Annotations = endpoints.SetTriggerTime(nil, s.Trigger)
	}
	for _, u := range f.changes.Update {
		u.New.Annotations = annotate(u.Old.Annotations, s.Trigger)
	}
	return f
}

// add makes a slice of a draft.
func (f *family) add(s snapshot, g *group, d *draft, labels map[string]string, owner metav1.OwnerReference) {
	switch {
	case d.old == nil:
		fresh := endpoints.NewSlice(owner, s.Key.Namespace, s.Key.Name, f.name)
		fresh.Labels, fresh.Ports, fresh.Endpoints = labels, g.ports, d.endpoints
		f.changes.Create = append(f.changes.Create, fresh)
	case d.changed || !maps.Equal(d.old.Labels, labels):
		d.own()
		after := rewrite(d.old, d.endpoints)
		after.Labels = labels
		f.changes.Update = append(f.changes.Update, endpoints.SliceUpdate{Old: d.old, New: after})
	default:
		f.unchanged = append(f.unchanged, d.old)
	}
}

// rewrite returns a slice with other endpoints, which become its own.
func rewrite(s *discoveryv1.EndpointSlice, all []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta: s.TypeMeta, ObjectMeta: *s.ObjectMeta.DeepCopy(), AddressType: s.AddressType, Ports: s.Ports,
		Endpoints: all,
	}
}

// annotate returns a slice's annotations with the time of the change, and all others as they are (EPS-47).
func annotate(annotations map[string]string, trigger time.Time) map[string]string {
	return endpoints.SetTriggerTime(maps.Clone(annotations), trigger)
}

// lists are the slices in the form in which hints are given.
func (f *family) lists() (create, update []*discoveryv1.EndpointSlice) {
	for _, u := range f.changes.Update {
		update = append(update, u.New)
	}
	return f.changes.Create, update
}

// setUpdates takes over the slices that are to be changed, after hints were given.
func (f *family) setUpdates(update, unchanged []*discoveryv1.EndpointSlice) {
	old := make(map[types.UID]*discoveryv1.EndpointSlice, len(f.unchanged))
	for _, u := range f.changes.Update {
		old[u.Old.UID] = u.Old
	}
	for _, s := range f.unchanged {
		old[s.UID] = s
	}
	f.changes.Update, f.unchanged = nil, unchanged
	for _, s := range update {
		f.changes.Update = append(f.changes.Update, endpoints.SliceUpdate{Old: old[s.UID], New: s})
	}
}

// why says what is done, for people.
func (f *family) why() string {
	c := f.changes
	return fmt.Sprintf("%s: %d to create, %d to change, %d to delete", f.name, len(c.Create), len(c.Update),
		len(c.Delete))
}

// String says in words how many endpoints a family has, and in how many slices.
func (f *family) String() string {
	n, count := 0, len(f.unchanged)+len(f.changes.Create)+len(f.changes.Update)
	create, update := f.lists()
	for _, list := range [][]*discoveryv1.EndpointSlice{create, update, f.unchanged} {
		for _, s := range list {
			n += len(s.Endpoints)
		}
	}
	text := fmt.Sprintf("%s: %d endpoints in %d slices", f.name, n, count)
	if f.homeless > 0 {
		text += fmt.Sprintf(", %d pods wait for their nodes to appear", f.homeless)
	}
	return text
}
