package oracle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// The finalizers that protect what is used: VolumeAttributesClasses (ST-40), claims (SM-30) and volumes (SM-20).
const (
	attributesFinalizer = "kubernetes.io/vac-protection"
	claimFinalizer      = "kubernetes.io/pvc-protection"
	volumeFinalizer     = "kubernetes.io/pv-protection"
)

// StorageIsProtectedWhileUsed is S29: the claim of an ephemeral volume belongs to its pod. It is created for a pod that exists and has such
// a volume, which may have gone within the lag (ST-21, ST-22); a claim that was another one's, or nobody's, does not become that of a pod
// (ST-24); and it goes with its pod and not before, unless its whole namespace does. The finalizer of a VolumeAttributesClass that is being
// deleted comes off only when no claim and no volume refers to it that did so before the lag (ST-42, ST-43), that of a claim when no pod on
// a node uses it that did so before the lag (SM-36, SM-37), and that of a volume when it is not Bound (SM-22), for which the version of the
// volume speaks, so that nothing is excused.
func StorageIsProtectedWhileUsed() Oracle {
	return Oracle{"S29", "claims of ephemeral volumes belong to their pods, and classes, claims and volumes stay while they are used",
		func(j *judge) hooks {
			s := &storageJudge{judge: j, pods: map[types.UID]*corev1.Pod{}, ends: map[types.UID]time.Time{},
				placed: map[types.UID]time.Time{}, uses: map[string]map[identity]time.Time{}}
			return hooks{before: s.before, after: s.after}
		}}
}

// storageJudge is what S29 remembers.
type storageJudge struct {
	*judge
	pods   map[types.UID]*corev1.Pod // all, also those that are gone
	ends   map[types.UID]time.Time   // when they were gone
	uses   map[string]map[identity]time.Time
	placed map[types.UID]time.Time // when pods came to their nodes
}

func (s *storageJudge) before(r *revision) {
	if !r.manager {
		return
	}
	switch o := r.Object.(type) {
	case *corev1.PersistentVolumeClaim:
		if s.claim(r, o); r.loses(claimFinalizer) {
			s.claimReleased(r, r.old.(*corev1.PersistentVolumeClaim))
		}
	case *corev1.PersistentVolume:
		if old, _ := r.old.(*corev1.PersistentVolume); r.loses(volumeFinalizer) {
			if s.judges(false); old.Status.Phase == corev1.VolumeBound {
				s.report(r, nil, "the volume may go, though it is Bound")
			}
		}
	case *storagev1.VolumeAttributesClass:
		if r.loses(attributesFinalizer) {
			s.released(r, o.Name)
		}
	}
}

// loses reports whether the revision takes a finalizer off.
func (r *revision) loses(finalizer string) bool {
	return r.old != nil && has(r.old, finalizer) && (r.Type == Deleted || !has(r.Object, finalizer))
}

// claimReleased judges that a claim loses its finalizer.
func (s *storageJudge) claimReleased(r *revision, c *corev1.PersistentVolumeClaim) {
	excused := false
	for _, p := range s.podsIn[c.Namespace] {
		ref, _ := controller(c)
		own := ref.UID == p.UID
		uses := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name ||
				v.Ephemeral != nil && own && p.Name+"-"+v.Name == c.Name
		})
		if !uses || p.Spec.NodeName == "" || own && p.DeletionTimestamp != nil { // the pod and its claim would wait for one another
			continue
		}
		if s.recent(r, s.placed[p.UID], Pod) {
			excused = true
			continue
		}
		s.judges(false)
		s.report(r, s.of(p.Pod), "the claim may go, though the pod %s on the node %s has used it since %s", p.Name, p.Spec.NodeName,
			s.placed[p.UID].UTC().Format("15:04:05.000"))
		return
	}
	s.judges(excused)
}

// claim judges what a manager does to a claim.
func (s *storageJudge) claim(r *revision, c *corev1.PersistentVolumeClaim) {
	pod := s.ephemeralOf(c)
	old, _ := r.old.(*corev1.PersistentVolumeClaim)
	switch {
	case r.Type == Added:
		ref, ok := controller(c)
		if !ok || ref.Kind != Pod {
			return
		}
		end, gone := s.ends[ref.UID]
		switch {
		case pod == nil:
			s.judges(false)
			s.report(r, nil, "created for the pod %s with the uid %s, which has no such volume, or never existed", ref.Name, ref.UID)
		case gone && !s.recent(r, end, Pod):
			s.judges(false)
			s.report(r, s.of(pod), "created for a pod that is gone")
		default:
			s.judges(gone)
		}
	case old == nil || pod == nil:
	case r.Type != Deleted && s.ephemeralOf(old) == nil:
		s.judges(false)
		s.report(r, s.of(pod), "a claim of somebody else has become that of the pod %s", pod.Name)
	case r.deletes() && s.ends[pod.UID].IsZero() && !s.ending[c.Namespace]:
		s.judges(false)
		s.report(r, s.of(pod), "deleted before its pod")
	case r.deletes():
		s.judges(false)
	}
}

// ephemeralOf returns the pod that controls a claim, and has an ephemeral volume whose claim this is; nil if there is none.
func (s *storageJudge) ephemeralOf(c *corev1.PersistentVolumeClaim) *corev1.Pod {
	ref, ok := controller(c)
	pod := s.pods[ref.UID]
	if !ok || pod == nil || pod.Namespace != c.Namespace || !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Ephemeral != nil && pod.Name+"-"+v.Name == c.Name
	}) {
		return nil
	}
	return pod
}

func (s *storageJudge) of(p *corev1.Pod) []string { return []string{Pod + "/" + keyOf(p)} }

// released judges that a class loses the finalizer.
func (s *storageJudge) released(r *revision, class string) {
	excused := false
	for user, since := range s.uses[class] {
		if s.recent(r, since, user.kind) {
			excused = true
			continue
		}
		s.judges(false)
		s.report(r, nil, "the class may go, though the %s with the uid %s has referred to it since %s", user.kind, user.uid,
			since.UTC().Format("15:04:05.000"))
		return
	}
	s.judges(excused)
}

// after notes which pods there are, and who refers to which classes since when.
func (s *storageJudge) after(r *revision) {
	switch o := r.Object.(type) {
	case *corev1.Pod:
		if s.pods[o.UID] = o; r.Type == Deleted {
			s.ends[o.UID] = s.now
		}
		if o.Spec.NodeName != "" && s.placed[o.UID].IsZero() {
			s.placed[o.UID] = s.now
		}
	case *corev1.PersistentVolumeClaim:
		names := []string{ptr.Deref(o.Spec.VolumeAttributesClassName, ""), ptr.Deref(o.Status.CurrentVolumeAttributesClassName, "")}
		if m := o.Status.ModifyVolumeStatus; m != nil {
			names = append(names, m.TargetVolumeAttributesClassName)
		}
		s.refers(r, names...)
	case *corev1.PersistentVolume:
		s.refers(r, ptr.Deref(o.Spec.VolumeAttributesClassName, ""))
	}
}

// refers notes the classes that an object refers to.
func (s *storageJudge) refers(r *revision, classes ...string) {
	for class, users := range s.uses {
		if r.Type == Deleted || !slices.Contains(classes, class) {
			delete(users, r.identity())
		}
	}
	for _, class := range classes {
		if class == "" || r.Type == Deleted {
			continue
		}
		if _, ok := s.uses[class][r.identity()]; !ok {
			put2(s.uses, class, r.identity(), s.now)
		}
	}
}
