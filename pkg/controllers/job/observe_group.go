package job

import (
	"cmp"
	"errors"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// gate is the feature gate with which pods of Jobs are scheduled as groups (JOB-111).
const gate = "WorkloadWithJob"

// groupAPIs are what it takes to do so.
func groupAPIs() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		schedulingv1beta1.SchemeGroupVersion.WithResource("workloads"),
		schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"),
	}
}

// groupCaches are read only with the gate.
type groupCaches struct {
	workloads informers.OwnedStore[*schedulingv1beta1.Workload]
	podGroups informers.OwnedStore[*schedulingv1beta1.PodGroup]
}

func newGroupCaches(f *informers.Factory) (*groupCaches, error) {
	workloads, err1 := informers.OwnedObjects[*schedulingv1beta1.Workload](f)
	podGroups, err2 := informers.OwnedObjects[*schedulingv1beta1.PodGroup](f, "spec.schedulingPolicy.gang.minCount")
	return &groupCaches{workloads, podGroups}, errors.Join(err1, err2)
}

// watches are those of Workloads and PodGroups.
func (k *caches) groupWatches() []reconcile.Watch {
	if k.groups == nil {
		return nil
	}
	return []reconcile.Watch{k.groups.workloads.Watch(k.jobsByGroup), k.groups.podGroups.Watch(k.jobsByGroup)}
}

// scheduling finds the Workload and the PodGroup of a Job; nil while pods are not scheduled as groups.
func (k *caches) scheduling(j *batchv1.Job) *scheduling {
	g := k.groups
	if g == nil || g.workloads.Missing() || g.podGroups.Missing() || !mayGroup(j) {
		return nil
	}
	workload, name := g.workloadOf(j)
	group := podGroupName(j.UID, name, groupTemplate(j, workload))
	s := &scheduling{Workload: workload, PodGroup: own(g.podGroups, j, group)}
	s.WorkloadTaken = workload == nil && g.workloads.Get(j.Namespace, name) != nil
	s.PodGroupTaken = s.PodGroup == nil && g.podGroups.Get(j.Namespace, group) != nil
	return s
}

// workloadOf returns the Workload of a Job, nil if there is none, and its name, if that is known: its own, the one
// that it names, or the one of whoever controls it.
func (g *groupCaches) workloadOf(j *batchv1.Job) (found *schedulingv1beta1.Workload, name string) {
	name = j.Annotations[workloadNameAnnotation]
	switch {
	case !delegated(j):
		name = workloadName(j)
		found = own(g.workloads, j, name)
	case name != "":
		found = g.workloads.Get(j.Namespace, name)
	default:
		for _, w := range g.workloads.In(j.Namespace) {
			if describes(w, metav1.GetControllerOfNoCopy(j)) {
				found = w
			}
		}
	}
	if found != nil {
		name = found.Name
	}
	return found, name
}

// own returns the object of that name, if the Job controls it, or else the oldest that it controls: another manager
// may have made it, whose names follow other rules.
func own[T interface {
	comparable
	plan.Object
}](all informers.OwnedStore[T], j *batchv1.Job, name string) (found T) {
	var none T
	if found = all.Get(j.Namespace, name); found != none && metav1.IsControlledBy(found, j) {
		return found
	}
	controlled := all.OwnedBy(j.Namespace, j.UID)
	if len(controlled) == 0 {
		return none
	}
	return slices.MinFunc(controlled, func(a, b T) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
			cmp.Compare(a.GetName(), b.GetName()))
	})
}

// describes reports whether a Workload is that of an owner.
func describes(w *schedulingv1beta1.Workload, owner *metav1.OwnerReference) bool {
	of := w.Spec.ControllerRef
	if of == nil || owner == nil {
		return false
	}
	group, _ := schema.ParseGroupVersion(owner.APIVersion)
	return of.APIGroup == group.Group && of.Kind == owner.Kind && of.Name == owner.Name
}

// jobsByGroup returns the keys of the Jobs that a Workload or a PodGroup concerns: of the one that controls it, or of
// those that would use what has its name.
func (k *caches) jobsByGroup(before, after plan.Object) (keys []plan.Key) {
	owners := informers.Owners[*batchv1.Job]{Kind: jobKind.Kind, Get: k.jobs.Get}
	if keys = owners.Enqueues(before, after); len(keys) > 0 {
		return keys
	}
	o := cmp.Or(after, before)
	for _, j := range k.jobs.In(o.GetNamespace()) {
		if !mayGroup(j) || leftAlone(j) {
			continue
		}
		workload, name := k.groups.workloadOf(j)
		if o.GetName() == name || o.GetName() == podGroupName(j.UID, name, groupTemplate(j, workload)) {
			keys = append(keys, plan.KeyOf(j))
		}
	}
	return keys
}
