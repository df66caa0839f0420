package job

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

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
	byOwner   informers.IndexedStore[*schedulingv1beta1.Workload] // by whose they are
	jobs      informers.IndexedStore[*batchv1.Job]                // by what they are scheduled with, see groupValues
}

func newGroupCaches(f *informers.Factory) (*groupCaches, error) {
	var k groupCaches
	var errs [4]error
	k.workloads, errs[0] = informers.OwnedObjects[*schedulingv1beta1.Workload](f)
	k.podGroups, errs[1] = informers.OwnedObjects[*schedulingv1beta1.PodGroup](f, "spec.schedulingPolicy.gang.minCount")
	k.byOwner, errs[2] = informers.IndexedObjects(f, "of", ownerValues)
	k.jobs, errs[3] = informers.IndexedObjects(f, "group", groupValues)
	return &k, errors.Join(errs[:]...)
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
	switch {
	case g == nil || !mayGroup(j):
		return nil
	case g.workloads.Missing() || g.podGroups.Missing():
		return &scheduling{Unserved: true}
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
		if all := g.byOwner.By(ownerOf(j)); len(all) > 0 {
			found = oldest(all)
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
	return oldest(controlled)
}

// oldest returns the same one of several each time.
func oldest[T plan.Object](all []T) T {
	return slices.MinFunc(all, func(a, b T) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
			cmp.Compare(a.GetName(), b.GetName()))
	})
}

// ownerValue is that of an index: whose Workload something is.
func ownerValue(namespace, group, kind, name string) string {
	return strings.Join([]string{"owner", namespace, group, kind, name}, "/")
}

// ownerValues is the index of Workloads by whose they are.
func ownerValues(w *schedulingv1beta1.Workload) []string {
	if of := w.Spec.ControllerRef; of != nil {
		return []string{ownerValue(w.Namespace, of.APIGroup, of.Kind, of.Name)}
	}
	return nil
}

// ownerOf is the value of the Workload of whoever controls a Job; empty if nobody does.
func ownerOf(j *batchv1.Job) string {
	owner := metav1.GetControllerOfNoCopy(j)
	if owner == nil {
		return ""
	}
	group, _ := schema.ParseGroupVersion(owner.APIVersion)
	return ownerValue(j.Namespace, group.Group, owner.Kind, owner.Name)
}

// nameValue is that of an index: the name of a Workload or PodGroup.
func nameValue(kind, namespace, name string) string {
	return strings.Join([]string{kind, namespace, name}, "/")
}

// groupValues is the index of Jobs by the Workload and the PodGroup that they use or would make. What a template is
// called that somebody else's Workload has decides nothing before that is there.
func groupValues(j *batchv1.Job) []string {
	if !mayGroup(j) || leftAlone(j) {
		return nil
	}
	name, template := j.Annotations[workloadNameAnnotation], groupTemplate(j, nil)
	switch {
	case !delegated(j):
		name = workloadName(j)
	case name == "":
		return []string{ownerOf(j)}
	case len(name) > longestName || len(template) > longestTemplate:
		return nil // there can be no such object
	}
	return []string{nameValue(workloadKind, j.Namespace, name),
		nameValue(podGroupKind, j.Namespace, podGroupName(j.UID, name, template))}
}

// The kinds of the values of the index.
const (
	workloadKind = "workload"
	podGroupKind = "podgroup"
)

// jobsByGroup returns the keys of the Jobs that a Workload or a PodGroup concerns: of the one that controls it, and of
// those that would use what has its name.
func (k *caches) jobsByGroup(before, after plan.Object) (keys []plan.Key) {
	owners := informers.Owners[*batchv1.Job]{Kind: jobKind.Kind, Get: k.jobs.Get}
	found := sets.New(owners.Enqueues(before, after)...)
	for _, o := range []plan.Object{before, after} {
		var values []string
		switch o := o.(type) {
		case *schedulingv1beta1.Workload:
			values = append(ownerValues(o), nameValue(workloadKind, o.Namespace, o.Name))
		case *schedulingv1beta1.PodGroup:
			values = []string{nameValue(podGroupKind, o.Namespace, o.Name)}
		}
		for _, value := range values {
			for _, j := range k.groups.jobs.By(value) {
				found.Insert(plan.KeyOf(j))
			}
		}
	}
	return found.UnsortedList()
}
