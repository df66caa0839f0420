package suite

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
)

// View is what Entry.Settled looks at: what there is in a cluster when nothing happens any more, and how it came about. It counts
// what was looked at, so that it shows if that was nothing.
type View struct {
	Source
	Looked int
}

// Source is where a View comes from: the API server of a simulation, or a client.
type Source interface {
	// Objects returns the objects of a kind, by namespace and name.
	Objects(kind schema.GroupVersionKind) []Object
	// Everything returns the objects of all resources but events; of their contents only the metadata.
	Everything() []Stored
	// Changes returns what was done to the objects of a resource, in order; nothing if nobody has recorded it.
	Changes(resource string) []Change
	// Authority is the file with the certificates of the authority.
	Authority() string
	// EventsLost reports whether an event of a manager may have been lost on its way.
	EventsLost() bool
}

// Stored is an object with the resource that it belongs to.
type Stored struct {
	Resource string
	metav1.Object
}

// Change is something that was done to an object.
type Change struct {
	Object  Object // as it is after the change; of a deleted one the last state
	Before  Object // nil if it is new
	Deleted bool
	Managed bool // a manager has done it
	Version uint64
	Time    time.Time
}

// all returns the objects of a kind.
func all[T Object](v *View) []T {
	objects := v.Objects(kindOf(empty[T]()))
	typed := make([]T, len(objects))
	for i, o := range objects {
		typed[i] = o.(T)
	}
	return typed
}

// subjects returns the objects of the kind that is judged.
func subjects[T Object](v *View) []T {
	found := all[T](v)
	v.Looked += len(found)
	return found
}

// one returns an object, nil if it is not there.
func one[T Object](v *View, namespace, name string) (found T) {
	for _, o := range all[T](v) {
		if o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	return found
}

// writes returns what managers have done to the objects of a resource.
func (v *View) writes(resource string) (writes []Change) {
	for _, c := range v.Changes(resource) {
		if c.Managed {
			writes = append(writes, c)
		}
	}
	v.Looked += len(writes)
	return writes
}

// past returns the objects of a resource as they were at a version.
func (v *View) past(resource string, version uint64) (objects []Object) {
	there := map[types.UID]Object{}
	for _, c := range v.Changes(resource) {
		if c.Version > version {
			break
		}
		if there[c.Object.GetUID()] = c.Object; c.Deleted {
			delete(there, c.Object.GetUID())
		}
	}
	for _, o := range there {
		objects = append(objects, o)
	}
	slices.SortFunc(objects, byName)
	return objects
}

func byName(a, b Object) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}

// Unsettled asks the entries of the controllers that run what is wrong when nothing happens any more. It says how much each has looked
// at, by its controller.
func Unsettled(source Source, runs func(controller string) bool) (wrong []string, looked map[string]int) {
	looked = map[string]int{}
	for _, e := range Entries() {
		if e.Settled == nil || !runs(e.Controller) {
			continue
		}
		v := &View{Source: source}
		for _, text := range e.Settled(v) {
			wrong = append(wrong, SettledOracle+" "+text)
		}
		looked[e.Controller] = v.Looked
	}
	return wrong, looked
}

// Source is what the user sees: the own namespace and those that belong to it, what of the whole cluster is the user's, and all nodes.
// Nobody records changes for it. Requests that fail fail the test.
func (u *User) Source(authority string) Source {
	return &clientSource{u, authority, map[schema.GroupVersionKind][]Object{}}
}

type clientSource struct {
	user      *User
	authority string
	known     map[schema.GroupVersionKind][]Object // what was read
}

// Authority implements Source.
func (s *clientSource) Authority() string { return s.authority }

// EventsLost implements Source.
func (s *clientSource) EventsLost() bool { return true }

// Changes implements Source.
func (s *clientSource) Changes(string) []Change { return nil }

// sees reports whether an object is the user's.
func (s *clientSource) sees(o metav1.Object) bool {
	u := s.user
	place := o.GetNamespace()
	switch a := o.(type) {
	case *trustBundle: // which are everybody's
		return true
	case *storagev1.VolumeAttachment: // whose name says nothing
		place = a.Spec.NodeName
	}
	if place == "" {
		place = o.GetName()
	}
	return place == u.Namespace || u.Alone || strings.HasPrefix(place, u.unique("")) || strings.HasPrefix(place, "kube-")
}

// Objects implements Source.
func (s *clientSource) Objects(kind schema.GroupVersionKind) []Object {
	if found, ok := s.known[kind]; ok {
		return found
	}
	var found []Object
	s.user.Try("list all objects of the kind "+kind.Kind, func() (err error) {
		found, err = s.user.in(metav1.NamespaceAll).listKind(kind)
		return err
	})
	found = slices.DeleteFunc(found, func(o Object) bool { return kind.Kind != "Node" && !s.sees(o) })
	slices.SortFunc(found, byName)
	s.known[kind] = found
	return found
}

// Everything implements Source.
func (s *clientSource) Everything() (everything []Stored) {
	u := s.user
	u.Try("list everything", func() error {
		everything = nil
		served, err := u.Client.Discovery().ServerPreferredResources()
		if err != nil {
			return err
		}
		for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, served) {
			version, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				return err
			}
			for _, r := range list.APIResources {
				objects, err := u.metadata(version.WithResource(r.Name))
				if err != nil {
					return err
				}
				for _, o := range objects {
					if s.sees(&o) && r.Name != "events" {
						everything = append(everything, Stored{r.Name, &o})
					}
				}
			}
		}
		return nil
	})
	return everything
}

// ended reports whether a pod has ended.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// readyCondition says since when a pod is ready, or is not; nil if nobody has said so.
func readyCondition(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func ready(p *corev1.Pod) bool {
	c := readyCondition(p)
	return c != nil && c.Status == corev1.ConditionTrue
}

// available reports whether a pod has been ready for so many seconds.
func available(p *corev1.Pod, seconds int32) bool {
	return ready(p) && (seconds == 0 || time.Since(readyCondition(p).LastTransitionTime.Time) >= time.Duration(seconds)*time.Second)
}
