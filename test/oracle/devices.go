package oracle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DevicesFollowPods is S37: a ResourceClaim that a manager makes belongs to a pod with an entry for it, which may have ended within the
// lag, and is the only one of that entry (RC-121, RC-122). It goes when its pod has ended, or with its namespace, and others never do
// (RC-134, RC-135). A reservation of a pod goes when the pod has ended, for which nothing is excused, because it is proved live (RC-130);
// one comes only for a pod that may run, or might within the lag (RC-127, MEND-31). Devices are given back, and the finalizer comes off,
// when the claim is reserved for nobody (RC-131 to RC-133). With PodGroups in the place of pods it is the same, which never end and may go
// (RC-160, RC-161).
func DevicesFollowPods() Oracle {
	return Oracle{"S37", "claims for devices are made once, go with their pods, and are reserved for pods that may run",
		func(j *judge) hooks {
			d := &deviceJudge{judge: j, pods: map[types.UID]*corev1.Pod{}, groups: map[types.UID]*schedulingv1beta1.PodGroup{},
				over: map[types.UID]time.Time{},
				made: map[string]map[identity]time.Time{}}
			return hooks{before: d.before, after: d.after}
		}}
}

// deviceJudge is what S37 remembers.
type deviceJudge struct {
	*judge
	pods map[types.UID]*corev1.Pod         // all, also those that are gone
	over map[types.UID]time.Time           // since when pods need their claims no more, and PodGroups are gone
	made map[string]map[identity]time.Time // the claims of an entry of a pod that are not being deleted

	groups map[types.UID]*schedulingv1beta1.PodGroup // all, also those that are gone
}

func (d *deviceJudge) before(r *revision) {
	c, ok := r.Object.(*resourcev1.ResourceClaim)
	if !ok || !r.manager {
		return
	}
	old, _ := r.old.(*resourcev1.ResourceClaim)
	if old == nil {
		d.creation(r, c)
		return
	}
	if r.deletes() {
		d.deletion(r, old)
	}
	if r.loses(resourcev1.Finalizer) {
		if d.judges(false); len(old.Status.ReservedFor) > 0 || old.Status.Allocation != nil {
			d.report(r, nil, "the finalizer comes off, and the claim is allocated or reserved")
		}
	}
	if r.Type == Modified {
		d.reservations(r, old, c)
	}
}

// creation judges a claim that is made.
func (d *deviceJudge) creation(r *revision, c *resourcev1.ResourceClaim) {
	ref, ok := controller(c)
	pod := d.pods[ref.UID]
	entry := c.Annotations[resourcev1.PodResourceClaimAnnotation]
	over, ended := d.over[ref.UID]
	switch {
	case ok && ref.Kind == PodGroup:
		d.creationForGroup(r, c, ref, entry)
	case !ok || ref.Kind != Pod || pod == nil || pod.Namespace != c.Namespace:
		d.judges(false)
		d.report(r, nil, "made for the pod %s with the uid %s, which never existed", ref.Name, ref.UID)
	case !slices.ContainsFunc(pod.Spec.ResourceClaims,
		func(e corev1.PodResourceClaim) bool { return e.Name == entry && e.ResourceClaimTemplateName != nil }):
		d.judges(false)
		d.report(r, d.of(pod), "made for the entry %q, which the pod does not have", entry)
	case ended && !d.recent(r, over, Pod):
		d.judges(false)
		d.report(r, d.of(pod), "made for a pod that has ended")
	case len(d.made[entryOf(c)]) > 0:
		d.judges(false)
		d.report(r, d.of(pod), "the second claim for the entry %q of the pod", entry)
	default:
		d.judges(ended)
	}
}

// creationForGroup does so where the claim is that of a PodGroup.
func (d *deviceJudge) creationForGroup(r *revision, c *resourcev1.ResourceClaim, ref metav1.OwnerReference, entry string) {
	group := d.groups[ref.UID]
	over, gone := d.over[ref.UID]
	has := func(e schedulingv1beta1.PodGroupResourceClaim) bool {
		return e.Name == entry && e.ResourceClaimTemplateName != nil
	}
	switch d.judges(gone); {
	case group == nil || group.Namespace != c.Namespace:
		d.report(r, nil, "made for the PodGroup %s with the uid %s, which never existed", ref.Name, ref.UID)
	case !slices.ContainsFunc(group.Spec.ResourceClaims, has):
		d.report(r, nil, "made for the entry %q, which the PodGroup does not have", entry)
	case gone && !d.recent(r, over, PodGroup):
		d.report(r, nil, "made for a PodGroup that is gone")
	case len(d.made[entryOf(c)]) > 0:
		d.report(r, nil, "the second claim for the entry %q of the PodGroup", entry)
	}
}

// deletion judges that a claim is deleted. Whom the garbage collector and the namespace controller delete is judged by other oracles, but
// no claim goes before its pod, unless that is deleted in the foreground.
func (d *deviceJudge) deletion(r *revision, c *resourcev1.ResourceClaim) {
	ref, owned := controller(c)
	pod, group := d.pods[ref.UID], d.groups[ref.UID]
	if d.ending[c.Namespace] || group != nil && has(group, metav1.FinalizerDeleteDependents) ||
		group == nil && owned && (ref.Kind != Pod || pod == nil || has(pod, metav1.FinalizerDeleteDependents)) {
		return
	}
	if d.judges(false); !owned || d.over[ref.UID].IsZero() {
		d.report(r, nil, "deleted before its pod or PodGroup, or without one")
	}
}

// reservations judges what becomes of the reservations of a claim, and of its devices.
func (d *deviceJudge) reservations(r *revision, old, c *resourcev1.ResourceClaim) {
	was, is := podsOf(old), podsOf(c)
	for uid, name := range was {
		if _, stays := is[uid]; stays || d.pods[uid] == nil {
			continue
		}
		if d.judges(false); d.over[uid].IsZero() {
			d.report(r, d.of(d.pods[uid]), "the reservation of the pod %s goes, which has not ended", name)
		}
	}
	for uid, name := range is {
		if _, before := was[uid]; before {
			continue
		}
		over, ended := d.over[uid]
		excused := ended && d.recent(r, over, Pod)
		if d.judges(excused); d.pods[uid] == nil || ended && !excused {
			d.report(r, nil, "reserved for the pod %s with the uid %s, which does not run", name, uid)
		}
	}
	for _, reserved := range c.Status.ReservedFor {
		if reserved.Resource != "podgroups" || slices.Contains(old.Status.ReservedFor, reserved) {
			continue
		}
		over, gone := d.over[reserved.UID]
		excused := gone && d.recent(r, over, PodGroup)
		if d.judges(excused); d.groups[reserved.UID] == nil || gone && !excused {
			d.report(r, nil, "reserved for the PodGroup %s with the uid %s, which is not there", reserved.Name, reserved.UID)
		}
	}
	for _, reserved := range old.Status.ReservedFor {
		if d.groups[reserved.UID] == nil || slices.Contains(c.Status.ReservedFor, reserved) {
			continue
		}
		if d.judges(false); d.over[reserved.UID].IsZero() {
			d.report(r, nil, "the reservation of the PodGroup %s goes, which is there", reserved.Name)
		}
	}
	if old.Status.Allocation != nil && c.Status.Allocation == nil {
		if d.judges(false); len(c.Status.ReservedFor) > 0 {
			d.report(r, nil, "the devices are given back, and the claim is reserved")
		}
	}
}

// podsOf returns the names of the pods that have reserved a claim.
func podsOf(c *resourcev1.ResourceClaim) map[types.UID]string {
	names := map[types.UID]string{}
	for _, r := range c.Status.ReservedFor {
		if r.APIGroup == "" && r.Resource == "pods" {
			names[r.UID] = r.Name
		}
	}
	return names
}

// entryOf names the entry of a pod that a claim was made for.
func entryOf(c *resourcev1.ResourceClaim) string {
	ref, _ := controller(c)
	return string(ref.UID) + "/" + c.Annotations[resourcev1.PodResourceClaimAnnotation]
}

func (d *deviceJudge) of(p *corev1.Pod) []string { return []string{Pod + "/" + keyOf(p)} }

// after notes which pods there are and since when they have ended, and which claims were made.
func (d *deviceJudge) after(r *revision) {
	switch o := r.Object.(type) {
	case *corev1.Pod:
		d.pods[o.UID] = o
		never := r.Type == Deleted || finished(o) || o.DeletionTimestamp != nil && o.Spec.NodeName == ""
		if never && d.over[o.UID].IsZero() {
			d.over[o.UID] = d.now
		}
	case *schedulingv1beta1.PodGroup:
		d.groups[o.UID] = o
		if r.Type == Deleted {
			d.over[o.UID] = d.now
		}
	case *resourcev1.ResourceClaim:
		if r.Type == Deleted || o.DeletionTimestamp != nil {
			delete(d.made[entryOf(o)], r.identity())
		} else if _, ok := controller(o); ok {
			put2(d.made, entryOf(o), r.identity(), d.now)
		}
	}
}
