package agreement

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// item is the planned write of one object, or of several alike that get their names from the server.
type item struct {
	verb        plan.Verb
	kind        schema.GroupVersionKind
	namespace   string
	name        string    // or how it begins
	uid         types.UID // of what is changed or deleted
	owner       types.UID // that controls what is created or deleted; empty if none does
	ownerName   string    // its kind and name
	subresource string
	generated   bool           // the server makes up the name
	collection  bool           // all objects of the kind
	count       int            // of objects alike
	want        []field        // of a change: the new values
	was         []field        // of a change: the old ones of the same fields
	object      map[string]any // that is created
	size        int            // about how many bytes it takes

	since   time.Time // it was first planned, or some of it was last done
	planned time.Time // it was last planned
	judged  bool      // it has counted as a disagreement
	excused bool      // it has counted as hindered
}

// String says what is planned, for people.
func (i *item) String() string {
	what := string(i.verb) + " "
	switch {
	case i.collection:
		return what + "all of kind " + i.kind.Kind + " in " + i.namespace
	case i.subresource != "":
		what += "the " + i.subresource + " of "
	}
	what += i.kind.Kind + " " + i.namespace + "/" + i.name
	if i.namespace == "" {
		what = strings.Replace(what, " /", " ", 1)
	}
	return what
}

// id distinguishes the items of a key: the same id in two plans is the same write.
func (i *item) id() string {
	sum := fnv.New64a()
	for _, f := range i.want {
		value := f.value
		if _, ok := moment(value); ok {
			value = "time" // it is another one in each plan
		}
		fmt.Fprintf(sum, "%s=%s;", f.path, value)
	}
	if i.generated { // several may differ in what is in them
		fmt.Fprint(sum, i.owner, encode(i.object))
	}
	return fmt.Sprintf("%s|%s|%s|%s|%s|%s|%x", i.verb, i.kind, i.namespace, i.name, i.uid, i.subresource, sum.Sum64())
}

// itemsOf returns the writes of steps, by id. Events are none, and neither is a touch, after which nothing differs.
func itemsOf(steps []plan.Step, project func(plan.Object) plan.Object) map[string]*item {
	all := map[string]*item{}
	add := func(i *item) {
		if before := all[i.id()]; before != nil && i.generated {
			before.count += i.count
			return
		}
		i.size = 512 + i.size
		all[i.id()] = i
	}
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Create:
			add(created(s.Object, max(s.Count, 1), project))
		case plan.CreateAll:
			for _, o := range s.Objects {
				add(created(o, 1, project))
			}
		case plan.Change:
			if i := changing(s, project); i != nil {
				add(i)
			}
		case plan.Delete:
			for _, o := range s.Objects {
				add(&item{verb: plan.Deleted, kind: kindOf(o), namespace: o.GetNamespace(), name: o.GetName(),
					uid: o.GetUID(), owner: ownerOf(o), count: 1})
			}
		case plan.DeleteCollection:
			add(&item{verb: plan.Deleted, kind: s.Kind, namespace: s.Namespace, collection: true, count: 1})
		case plan.Each:
			for _, sequence := range s.Sequences {
				for _, i := range itemsOf(sequence, project) {
					add(i)
				}
			}
		}
	}
	return all
}

func created(o plan.Object, count int, project func(plan.Object) plan.Object) *item {
	i := &item{verb: plan.Created, kind: kindOf(o), namespace: o.GetNamespace(), name: o.GetName(), count: count,
		owner: ownerOf(o), ownerName: ownerNameOf(o)}
	if i.name == "" {
		i.name, i.generated = o.GetGenerateName(), true
	}
	i.object = tree(project(o))
	if metadata, ok := i.object["metadata"].(map[string]any); ok {
		delete(metadata, "generateName")
	}
	if i.size = len(encode(i.object)); i.size > mostTree {
		i.object, i.size = nil, 0
	}
	return i
}

// changing returns the item of a change; nil if nothing can be seen of it in the caches.
func changing(s plan.Change, project func(plan.Object) plan.Object) *item {
	i := &item{verb: plan.Changed, kind: s.Kind, namespace: s.New.GetNamespace(), name: s.New.GetName(),
		uid: s.New.GetUID(), subresource: s.Subresource, count: 1}
	own := i.kind.Empty()
	if own {
		i.kind = kindOf(s.New)
	}
	from, to := s.Old, s.New
	if own {
		if to = project(to); from != nil {
			from = project(from)
		}
	}
	i.want = changed(from, to)
	if s.Apply != nil {
		i.want = applied(i.want)
	}
	if len(i.want) == 0 {
		return nil
	}
	if from != nil {
		before := leaves(tree(from))
		for _, f := range i.want {
			i.was = append(i.was, field{f.path, valueAt(before, f.path)})
		}
	}
	for _, f := range i.want {
		i.size += 2 * (len(f.path) + len(f.value))
	}
	return i
}

// applied returns the fields that server-side apply sets: what it leaves out stays as it is.
func applied(want []field) (set []field) {
	for _, f := range want {
		if f.value != absent {
			set = append(set, f)
		}
	}
	return set
}

func kindOf(o plan.Object) schema.GroupVersionKind {
	if kinds, _, err := scheme.Scheme.ObjectKinds(o); err == nil {
		return kinds[0]
	}
	return o.GetObjectKind().GroupVersionKind()
}

// ownerOf returns the uid of what controls an object; empty if nothing does.
func ownerOf(o metav1.Object) types.UID { return controllingRef(o).UID }

// ownerNameOf returns its kind and name.
func ownerNameOf(o metav1.Object) string {
	return controllingRef(o).Kind + " " + controllingRef(o).Name
}

func controllingRef(o metav1.Object) metav1.OwnerReference {
	return ptr.Deref(metav1.GetControllerOfNoCopy(o), metav1.OwnerReference{})
}
