package podgroupprotection

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// The finalizers of PodGroups (PGP-1) and of CompositePodGroups (PGP-7).
const (
	podGroupProtection  plan.Protection = "scheduling.k8s.io/podgroup-protection"
	compositeProtection plan.Protection = "scheduling.k8s.io/compositepodgroup-protection"
)

const (
	// patience is for how long after its deletion a group waits for caches that show a later state. Where many pods
	// change, they soon do. Where few change, the API server says so once a minute; then live lists cost little.
	patience = time.Second
	// lookAgain is how often the caches are asked meanwhile.
	lookAgain = 250 * time.Millisecond
	// listAgain is how long after a live list has shown a member that no cache did. Its end may cause no event.
	listAgain = 5 * time.Second
)

type (
	pod      = corev1.Pod
	podGroup = schedulingv1beta1.PodGroup
	// group is a PodGroup or a CompositePodGroup.
	group interface {
		comparable
		plan.Object
	}
)

// snapshot is a group and, if it is being deleted, who keeps it. Observe fills it from the caches, prove from live
// lists, and planFinalizer reads it. The object belongs to a shared cache.
type snapshot[G group] struct {
	Group   G
	Members members
	Proved  bool          // what is known of the members is later than the deletion
	Wait    time.Duration // for which the caches may still take to show that; not positive if they have had their time
	Listed  bool          // the members were listed live
}

// members are the objects that keep a group: how many, and one of them for people.
type members struct {
	Count int
	First string // by kind and name
}

func (m *members) add(of member, o plan.Object) {
	name := fmt.Sprintf("the %s %s", of.kind.Kind, o.GetName())
	if m.Count++; m.Count == 1 || name < m.First {
		m.First = name
	}
}

// member is a kind of objects that keep groups.
type member struct {
	kind   schema.GroupVersionKind
	fields string                   // selects, of the objects of the kind, those that may keep one
	keeps  func(plan.Object) string // the name of the group that an object keeps; empty for none, and for no object
}

// list names all objects of the kind in a namespace that may keep a group. Many groups are deleted together, and a
// list that began after the deletion of one was seen will do for it.
func (m member) list(namespace string) plan.Ref {
	return plan.Ref{Kind: m.kind, Namespace: namespace, All: true, Fields: m.fields, Shared: true}
}

// pods are the members of PodGroups.
func pods() member {
	const running = "status.phase!=Succeeded,status.phase!=Failed"
	return member{corev1.SchemeGroupVersion.WithKind("Pod"), running, keptByPod}
}

// podGroups and composites are the members of CompositePodGroups.
func podGroups() member {
	return member{schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"), "", parent}
}

func composites() member { return member{compositeKind(), "", parent} }

// keptByPod names the PodGroup of a pod that has not ended (PGP-3).
func keptByPod(o plan.Object) string {
	p, _ := o.(*pod)
	if p == nil || p.Spec.SchedulingGroup == nil || podutil.Finished(p) {
		return ""
	}
	return ptr.Deref(p.Spec.SchedulingGroup.PodGroupName, "")
}

// parent names the CompositePodGroup that a group is in (PGP-7).
func parent(o plan.Object) string {
	switch g := o.(type) {
	case *podGroup:
		return ptr.Deref(g.Spec.ParentCompositePodGroupName, "")
	case *compositePodGroup:
		return ptr.Deref(g.Spec.ParentCompositePodGroupName, "")
	case *unstructured.Unstructured: // a CompositePodGroup that was read live
		name, _, _ := unstructured.NestedString(g.Object, "spec", "parentCompositePodGroupName")
		return name
	}
	return ""
}

// planner is what there is to know of a kind of groups to plan for one.
type planner struct {
	protection plan.Protection
	members    []member
}

// planFinalizer takes the finalizer off a group that is being deleted when nobody keeps it. The change is an update of
// the version that was observed. That API servers give the finalizer to new groups is enough (PGP-2).
func planFinalizer[G group](of planner) func(time.Time, snapshot[G]) plan.Plan {
	return func(_ time.Time, s snapshot[G]) (p plan.Plan) {
		switch g := s.Group; {
		case g.GetDeletionTimestamp() == nil || !of.protection.Due(g):
			p.Why = "there is nothing to do"
		case s.Members.Count > 0:
			p.Why = "the group is being deleted, and stays because of " + s.Members.String()
			if s.Listed {
				p.Requeue = listAgain
			}
		case !s.Proved && s.Wait > 0:
			p.Why = "the group is being deleted, and waits until the caches show a state that is later"
			p.Requeue = lookAgain
		case !s.Proved:
			p.Why = "the group is being deleted, and waits for live lists of what may keep it"
			for _, m := range of.members {
				p.Proof = append(p.Proof, m.list(g.GetNamespace()))
			}
		default:
			p.Why = "the group is being deleted and nothing keeps it: take its finalizer off"
			p.Steps = []plan.Step{of.protection.Toggle(s.Group, p.Why)}
		}
		return p
	}
}

// String names one of the members, and says how many others there are.
func (m members) String() string {
	if m.Count == 1 {
		return m.First
	}
	return fmt.Sprintf("%s and %d others", m.First, m.Count-1)
}
