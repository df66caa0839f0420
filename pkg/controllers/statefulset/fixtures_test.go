package statefulset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

type edit = func(*appsv1.StatefulSet)

type podEdit = func(*corev1.Pod)

// web builds a StatefulSet as a server would default it.
func web(replicas int32, edits ...edit) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: plantest.Namespace, Name: "web", UID: "uid-web", Generation: 1},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            &replicas,
			ServiceName:         "web",
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			Template:            plantest.Template("web", "v1"),
			PodManagementPolicy: appsv1.OrderedReadyPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0)},
			},
			RevisionHistoryLimit: ptr.To[int32](10),
		},
	}
	for _, e := range edits {
		e(set)
	}
	return set
}

func image(image string) edit {
	return func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

func size(n int32) edit { return func(set *appsv1.StatefulSet) { set.Spec.Replicas = &n } }

func from(n int32) edit {
	return func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}

func partition(n int32) edit {
	return func(set *appsv1.StatefulSet) {
		if set.Spec.UpdateStrategy.RollingUpdate == nil {
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
		set.Spec.UpdateStrategy.RollingUpdate.Partition = &n
	}
}

// most is how many pods may be unavailable in an update.
func most(text string) edit {
	return func(set *appsv1.StatefulSet) {
		n := intstr.Parse(text)
		if set.Spec.UpdateStrategy.RollingUpdate == nil {
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &n
	}
}

func recreate(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RecreateStatefulSetStrategyType}
}

func minReady(seconds int32) edit {
	return func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = seconds }
}

func keeps(n int32) edit {
	return func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = &n }
}

func parallel(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func onDelete(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

func deleted(set *appsv1.StatefulSet) { set.DeletionTimestamp = &metav1.Time{Time: plantest.Epoch} }

// claims gives the set a claim template for each name.
func claims(names ...string) edit {
	return func(set *appsv1.StatefulSet) {
		set.Spec.VolumeClaimTemplates = nil
		for _, name := range names {
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates,
				corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
}

// policy sets the retention policy: "Delete/Retain" is what happens when the set is scaled, and when it is deleted.
func policy(text string) edit {
	scaled, gone, _ := strings.Cut(text, "/")
	return func(set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled:  appsv1.PersistentVolumeClaimRetentionPolicyType(scaled),
			WhenDeleted: appsv1.PersistentVolumeClaimRetentionPolicyType(gone),
		}
	}
}

// revision is that of a set with the image, as the controller makes it.
func revision(img string, number int64, set *appsv1.StatefulSet) *appsv1.ControllerRevision {
	set = set.DeepCopy()
	image(img)(set)
	r, err := history.New(set, setKind(), &set.Spec.Template, number)
	if err != nil {
		panic(err)
	}
	r.Name, r.Labels[hashLabel] = revisionName(set, r.Data.Raw, 0)
	r.UID = types.UID("uid-" + r.Name)
	return r
}

// pod builds a running and ready pod of the set, of the revision with that image.
func pod(set *appsv1.StatefulSet, ordinal int, img string, edits ...podEdit) *corev1.Pod {
	c := revision(img, 1, set)
	p := newPod(set, ordinal, &set.Spec.Template, c.Name)
	p.UID = types.UID("uid-" + p.Name)
	plantest.Ready(plantest.Epoch)(p)
	p.Status.StartTime = &metav1.Time{Time: plantest.Epoch.Add(-time.Minute)}
	for _, e := range edits {
		e(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

// stuck makes the pod one that has never been ready.
func stuck(p *corev1.Pod) {
	unready(p)
	p.Status.StartTime = &p.Status.Conditions[0].LastTransitionTime
}

func orphan(p *corev1.Pod) { p.OwnerReferences = nil }

func relabelled(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} }

func claim(name string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: plantest.Namespace, Name: name,
		UID: types.UID("uid-" + name)}}
	for _, e := range edits {
		e(c)
	}
	return c
}

// ownedBy adds references: "set", "pod NAME", "old set", "old pod NAME", "other", "plain set".
func ownedBy(owners ...string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		for _, owner := range owners {
			c.OwnerReferences = append(c.OwnerReferences, reference(owner))
		}
	}
}

func reference(owner string) metav1.OwnerReference {
	kind, uid := setKind(), "uid-web"
	words := strings.Fields(owner)
	name := "web"
	switch last := words[len(words)-1]; {
	case strings.Contains(owner, "pod"):
		kind, name, uid = podKind(), last, "uid-"+last
	case last == "other":
		name, uid = "other", "uid-other"
	}
	if words[0] == "old" {
		uid = "old-" + uid
	}
	ref := *metav1.NewControllerRef(&metav1.ObjectMeta{Name: name, UID: types.UID(uid)}, kind)
	if words[0] == "plain" {
		ref.Controller, ref.BlockOwnerDeletion = nil, nil
	}
	return ref
}

// see is what the controller observes if the objects are all there is.
func see(set *appsv1.StatefulSet, objects ...plan.Object) snapshot {
	data, err := history.Data(&set.Spec.Template)
	if err != nil {
		panic(err)
	}
	s := snapshot{
		Set: set, Data: data, Taken: map[string]*appsv1.ControllerRevision{}, Named: map[string]*corev1.Pod{},
		Claims: map[string]*corev1.PersistentVolumeClaim{},
	}
	for _, o := range objects {
		ref := metav1.GetControllerOf(o)
		concerns := ref == nil || ref.UID == set.UID
		switch o := o.(type) {
		case *corev1.Pod:
			s.Named[o.Name] = o
			if concerns {
				s.Pods = append(s.Pods, o)
			}
		case *appsv1.ControllerRevision:
			s.Taken[o.Name] = o
			if concerns {
				s.Revisions = append(s.Revisions, o)
			}
		case *corev1.PersistentVolumeClaim:
			s.Claims[o.Name] = o
		}
	}
	return s
}

// lines renders steps for people. Steps that do not stop one another are in the same line.
func lines(steps []plan.Step) (all []string) {
	for _, step := range steps {
		all = append(all, line(step))
	}
	return all
}

func line(step plan.Step) string {
	switch s := step.(type) {
	case plan.Create:
		return "create " + label(s.Object)
	case plan.Change:
		if s.Subresource != "" {
			return s.Subresource + " " + label(s.New)
		}
		if s.Adopt {
			return "adopt " + label(s.New)
		}
		return "change " + label(s.New) + ownersOf(s.New)
	case plan.Delete:
		var names []string
		for _, o := range s.Objects {
			names = append(names, label(o))
		}
		return "delete " + strings.Join(names, " ")
	case plan.RecordEvent:
		return s.Event.Type + " " + s.Event.Reason + ": " + s.Event.Message
	case plan.Each:
		var sequences []string
		for _, sequence := range s.Sequences {
			sequences = append(sequences, strings.Join(lines(sequence), ", "))
		}
		return strings.Join(sequences, " | ")
	}
	return fmt.Sprintf("%T", step)
}

func label(o plan.Object) string {
	if r, ok := o.(*appsv1.ControllerRevision); ok {
		return fmt.Sprintf("revision %d", r.Revision)
	}
	return o.GetName()
}

// ownersOf names the owners of a claim.
func ownersOf(o plan.Object) string {
	if _, ok := o.(*corev1.PersistentVolumeClaim); !ok {
		return ""
	}
	var names []string
	for _, ref := range o.GetOwnerReferences() {
		names = append(names, string(ref.UID))
	}
	slices.Sort(names)
	return " of [" + strings.Join(names, " ") + "]"
}

// planned is the plan for what was observed, without the decision.
func planned(now time.Time, s snapshot) plan.Plan {
	_, p := planSet(now, s)
	return p
}

// reported is the report that follows from the decision on what was observed.
func reported(now time.Time, s snapshot, did plan.Outcome) plan.Plan {
	d, _ := planSet(now, s)
	return reportStatus(now, s, d, did)
}

// applied sets the gauges for what was observed.
func applied(ctx context.Context, c collectors, s snapshot) {
	d, _ := planSet(time.Now(), s)
	c.applied(ctx, s, d, plan.Outcome{}, plan.Outcome{})
}
