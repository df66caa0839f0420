package why

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Deletions are the objects that are being deleted, or are about to be, in the order of time.
type Deletions struct {
	metav1.TypeMeta `json:",inline"`

	Namespace string            `json:"namespace,omitempty"` // empty for all
	Summary   string            `json:"summary"`
	Items     []PendingDeletion `json:"items"`
	Unread    []string          `json:"unread,omitempty"`
	Source    string            `json:"source"`
	Time      metav1.Time       `json:"time"`
}

// PendingDeletion is one object that goes.
type PendingDeletion struct {
	Object Ref          `json:"object"`
	Rule   string       `json:"rule"`             // by which it goes
	At     *metav1.Time `json:"at,omitempty"`     // when it goes; nil: now, or when what holds it lets it go
	HeldBy []string     `json:"heldBy,omitempty"` // finalizers
	Since  *metav1.Time `json:"since,omitempty"`  // when it was deleted; nil: it is about to be
}

// AskDeletions finds what is being deleted in a namespace, or in all, and what is about to be: by a time in the object,
// or because its owners are gone. What a controller decides by flags or by its memory is not among it. What could not
// be read is named in the answer; it is an error only if nothing could.
func AskDeletions(
	ctx context.Context, r client.Reader, mapper Mapper, now time.Time, namespace string,
) (Deletions, error) {
	w := newWorld(r, mapper, now)
	all := Deletions{TypeMeta: metav1.TypeMeta{APIVersion: Schema, Kind: "Deletions"}, Namespace: namespace,
		Time: metav1.Time{Time: now}, Items: []PendingDeletion{}}
	going := 0
	for _, o := range w.deletable(ctx, namespace) {
		if o.GetDeletionTimestamp() != nil {
			going++
		}
		if p, ok := w.pending(ctx, o); ok {
			all.Items = append(all.Items, p)
		}
	}
	slices.SortStableFunc(all.Items, func(a, b PendingDeletion) int { return a.when(now).Compare(b.when(now)) })
	all.Summary = fmt.Sprintf("%s being deleted, %s about to be", count(going, "object"),
		count(len(all.Items)-going, "object"))
	if all.Unread = w.unreadNames(); len(all.Unread) > 0 {
		all.Summary += ", and some could not be read"
	}
	all.Unread = append(all.Unread, "Secrets, custom resources and other kinds that are not looked at")
	return all, w.blind()
}

// when is the time by which deletions are sorted.
func (p PendingDeletion) when(now time.Time) time.Time {
	switch {
	case p.Since != nil:
		return p.Since.Time
	case p.At != nil:
		return p.At.Time
	}
	return now
}

// deletable are the objects that may be about to go.
func (w *world) deletable(ctx context.Context, namespace string) []plan.Object {
	all := w.contents(ctx, namespace)
	if namespace == "" {
		all = slices.Concat(all, plan.Objects(list[*corev1.Namespace](ctx, w, "", nil)),
			plan.Objects(list[*corev1.PersistentVolume](ctx, w, "", nil)), plan.Objects(list[*corev1.Node](ctx, w, "",
				nil)))
	}
	for _, kind := range []string{"ConfigMap", "ServiceAccount"} {
		all = slices.Concat(all, w.listAny(ctx, schema.GroupVersionKind{Version: "v1", Kind: kind}, namespace))
	}
	return all
}

// pending says whether an object is being deleted, or is about to be, and by which rule.
func (w *world) pending(ctx context.Context, o plan.Object) (p PendingDeletion, ok bool) {
	p = PendingDeletion{Object: refOf(o), HeldBy: o.GetFinalizers()}
	if o.GetDeletionTimestamp() != nil {
		p.Since, p.Rule = &metav1.Time{Time: deletedAt(o)}, w.deletedBy(ctx, o)
		if p.Rule == "" {
			p.Rule = "somebody deleted it: the API does not show who"
		}
		return p, true
	}
	if owners := o.GetOwnerReferences(); len(owners) > 0 && w.orphaned(ctx, o.GetNamespace(), owners) {
		p.Rule = fmt.Sprintf("garbage collection: its owner %s %s is gone", owners[0].Kind, owners[0].Name)
		return p, true
	}
	switch o := o.(type) {
	case *batchv1.Job:
		return w.expires(o, p)
	case *corev1.Pod:
		return w.evicted(ctx, o, p)
	case *corev1.PersistentVolume:
		if o.Status.Phase == corev1.VolumeReleased &&
			o.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			p.Rule = "its claim is gone, and its reclaim policy is Delete"
			return p, true
		}
	}
	return p, false
}

// expires says when a Job goes that has a time to live after it has finished.
func (w *world) expires(j *batchv1.Job, p PendingDeletion) (PendingDeletion, bool) {
	if j.Spec.TTLSecondsAfterFinished == nil {
		return p, false
	}
	for _, t := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if c := jobCondition(j, t); c != nil {
			lives := workloads.Seconds(*j.Spec.TTLSecondsAfterFinished)
			p.At = &metav1.Time{Time: c.LastTransitionTime.Add(lives)}
			p.Rule = fmt.Sprintf("ttlSecondsAfterFinished: it has finished, and lives %s longer", short(lives))
			return p, true
		}
	}
	return p, false
}

// evicted says when a pod goes because of a taint of its node, and that one goes whose node does not exist.
func (w *world) evicted(ctx context.Context, pod *corev1.Pod, p PendingDeletion) (PendingDeletion, bool) {
	if pod.Spec.NodeName == "" || podutil.Finished(pod) {
		return p, false
	}
	n, is := get[*corev1.Node](ctx, w, "", pod.Spec.NodeName)
	if is == absent {
		p.Rule = fmt.Sprintf("pod garbage collection: its node %s does not exist", pod.Spec.NodeName)
		return p, true
	}
	if is != present {
		return p, false
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		lasts, tolerated := toleratedFor(pod, t)
		if tolerated && lasts == nil {
			continue
		}
		p.Rule = fmt.Sprintf("taint eviction: taint %s of node %s", t.ToString(), n.Name)
		if tolerated && t.TimeAdded != nil {
			p.At = &metav1.Time{Time: t.TimeAdded.Add(*lasts)}
			p.Rule += fmt.Sprintf(", which it tolerates for %s", short(*lasts))
		}
		return p, true
	}
	return p, false
}

// toleratedFor says whether a pod tolerates a taint, and for how long; nil for ever.
func toleratedFor(p *corev1.Pod, t corev1.Taint) (lasts *time.Duration, tolerated bool) {
	for _, own := range p.Spec.Tolerations {
		if !own.ToleratesTaint(logr.Discard(), &t, true) {
			continue
		}
		if own.TolerationSeconds == nil {
			return nil, true
		}
		d := max(0, workloads.Seconds(*own.TolerationSeconds))
		if lasts == nil || d < *lasts {
			lasts = &d
		}
		tolerated = true
	}
	return lasts, tolerated
}
