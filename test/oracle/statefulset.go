package oracle

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// StatefulSetsKeepOrder is S22: a StatefulSet has at most one pod for each ordinal, whatever its state (STS-49, STS-53). With ordered pods
// it creates one only above ready ones (STS-45, STS-46), and deletes those that are too many from the highest down, each when the one
// before is gone, and none that is not ready while a lower one of them is not ready either (STS-47). It deletes a wanted pod only when
// it has finished, or to update it, above the partition (STS-55..57), as long as
// fewer of the others than maxUnavailable are not ready; one that is not ready itself, with parallel pods, whatever the others are
// (STS-58), and pods below the partition do not count (MEND-5). With the strategy Recreate it may delete all pods of earlier revisions at
// once, and creates none while one of them is left (STS-76). It is judged by each spec that the manager may have seen; what the environment
// or another controller did to a pod within the lag is excused.
func StatefulSetsKeepOrder() Oracle {
	return Oracle{"S22", "a StatefulSet has one pod for each identity, in order", func(j *judge) hooks {
		s := &statefulJudge{judge: j, sets: map[types.UID]*statefulSet{}}
		return hooks{before: s.judgePod, after: s.note}
	}}
}

// ClaimsFollowRetention is S23: a claim that a manager writes gets the StatefulSet as its owner only if that has the policy to delete
// claims with it, and a pod only if the policy is to delete claims with pods (STS-23, STS-24), by a spec that the manager may have seen.
// Nobody but the garbage collector, which S16 judges, deletes a claim (STS-25).
func ClaimsFollowRetention() Oracle {
	return Oracle{"S23", "claims are deleted only as the retention policy says", func(j *judge) hooks {
		s := &statefulJudge{judge: j, sets: map[types.UID]*statefulSet{}}
		return hooks{before: s.judgeClaim, after: s.note}
	}}
}

// statefulJudge is what S22 and S23 remember.
type statefulJudge struct {
	*judge
	sets map[types.UID]*statefulSet // gone ones too
}

// statefulSet is a StatefulSet with the specs that it has had.
type statefulSet struct {
	*appsv1.StatefulSet
	specs    []spec
	wasReady map[int]time.Time // by ordinal, when a ready pod was last there
	// by ordinal, when the environment, or a controller of other objects, last changed a pod that this one had not deleted
	wasTurned map[int]time.Time
	doomed    map[types.UID]bool // pods that a manager has deleted
}

// spec is what a StatefulSet has asked for until a time.
type spec struct {
	appsv1.StatefulSetSpec
	generation int64
	until      time.Time // zero for the present one
}

// note remembers the specs of StatefulSets and the readiness of their pods.
func (s *statefulJudge) note(r *revision) {
	switch o := r.Object.(type) {
	case *appsv1.StatefulSet:
		set := s.sets[o.UID]
		if set == nil {
			set = &statefulSet{wasReady: map[int]time.Time{}, wasTurned: map[int]time.Time{}, doomed: map[types.UID]bool{}}
			s.sets[o.UID] = set
		}
		if set.StatefulSet == nil || set.Generation != o.Generation {
			if n := len(set.specs); n > 0 {
				set.specs[n-1].until = s.now
			}
			set.specs = append(set.specs, spec{StatefulSetSpec: o.Spec, generation: o.Generation})
		}
		set.StatefulSet = o
	case *corev1.Pod:
		for _, p := range []Object{r.old, r.Object} {
			if set, ordinal := s.memberOf(p); set != nil {
				if ready(p.(*corev1.Pod)) {
					set.wasReady[ordinal] = s.now
				}
				switch own := r.manager && !s.byAnother(r); {
				case own && r.goes():
					set.doomed[r.uid] = true
				case !own && !set.doomed[r.uid]:
					set.wasTurned[ordinal] = s.now
				}
			}
		}
	}
}

// byAnother reports whether another controller of the manager may have changed a pod: it has evicted the pod, or marked it as not ready.
func (s *statefulJudge) byAnother(r *revision) bool {
	before, _ := r.old.(*corev1.Pod)
	after, _ := r.Object.(*corev1.Pod)
	if before == nil {
		return false
	}
	return r.goes() && s.others(&pod{Pod: before}) || after != nil && ready(before) && !ready(after)
}

// memberOf returns the StatefulSet that controls a pod, and the pod's ordinal; nil if there is none.
func (s *statefulJudge) memberOf(o Object) (*statefulSet, int) {
	p, ok := o.(*corev1.Pod)
	if !ok || p == nil {
		return nil, 0
	}
	ref, ok := controller(p)
	set := s.sets[ref.UID]
	if !ok || set == nil {
		return nil, 0
	}
	ordinal, err := strconv.Atoi(strings.TrimPrefix(p.Name, set.Name+"-"))
	if err != nil {
		return nil, 0
	}
	return set, ordinal
}

// seen are the specs that the manager may have acted upon: those since the lag, and those since the generation that the status says was
// observed.
func (s *statefulJudge) seen(r *revision, set *statefulSet) (seen []spec) {
	since := s.lag(r, StatefulSet, Pod)
	for _, spec := range set.specs {
		if spec.until.IsZero() || !spec.until.Before(since) || spec.generation >= set.Status.ObservedGeneration {
			seen = append(seen, spec)
		}
	}
	return seen
}

// judgePod judges the creation or deletion of a pod of a StatefulSet. The world is as it was before.
func (s *statefulJudge) judgePod(r *revision) {
	if r.kind != Pod || !r.manager {
		return
	}
	created := r.old == nil && r.Type == Added
	set, ordinal := s.memberOf(r.Object)
	if set == nil || !created && !r.goes() {
		return
	}
	before := s.pods[r.key]
	excused := !created && (before == nil || before.UID != r.uid || before.DeletionTimestamp != nil || s.others(before) || r.forced())
	if s.judges(excused); excused {
		return
	}
	if twin := s.twin(r, set, ordinal); created && twin != "" {
		s.report(r, []string{StatefulSet + "/" + keyOf(set)}, "created beside %s, which has the same ordinal", twin)
		return
	}
	var problem string
	for _, spec := range s.seen(r, set) {
		if created {
			problem = s.wrongCreation(r, set, spec, ordinal)
		} else {
			problem = s.wrongDeletion(r, set, spec, before, ordinal)
		}
		if problem == "" {
			return
		}
	}
	s.report(r, []string{StatefulSet + "/" + keyOf(set)}, "%s", problem)
}

// twin names another pod of the set with the ordinal.
func (s *statefulJudge) twin(r *revision, set *statefulSet, ordinal int) string {
	for _, p := range s.podsOf[set.UID] {
		if _, n := s.memberOf(p.Pod); n == ordinal && p.UID != r.uid {
			return p.Name
		}
	}
	return ""
}

// bounds are the first wanted ordinal and the one after the last.
func (p spec) bounds() (from, to int) {
	if p.Ordinals != nil {
		from = int(p.Ordinals.Start)
	}
	return from, from + int(ptr.Deref(p.Replicas, 1))
}

func (p spec) recreates() bool {
	return p.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType
}

func (p spec) ordered() bool { return p.PodManagementPolicy != appsv1.ParallelPodManagement }

// partition is the index below which pods are not updated.
func (p spec) partition() int {
	if u := p.UpdateStrategy.RollingUpdate; u != nil {
		return int(ptr.Deref(u.Partition, 0))
	}
	return 0
}

// wrongCreation says what is wrong with the creation of a pod, by one spec.
func (s *statefulJudge) wrongCreation(r *revision, set *statefulSet, spec spec, ordinal int) string {
	from, to := spec.bounds()
	if ordinal < from || ordinal >= to {
		return fmt.Sprintf("created, and wanted are the ordinals from %d to %d", from, to-1)
	}
	for _, other := range s.podsOf[set.UID] {
		if revision := other.Labels[appsv1.StatefulSetRevisionLabel]; spec.recreates() && other.UID != r.uid &&
			revision != r.Object.GetLabels()[appsv1.StatefulSetRevisionLabel] {
			return fmt.Sprintf("created beside %s, which has the revision %s, and Recreate is asked for", other.Name, revision)
		}
	}
	for lower := from; spec.ordered() && lower < ordinal; lower++ {
		if !s.isReady(r, set, lower) {
			return fmt.Sprintf("created while the pod with the ordinal %d is not ready", lower)
		}
	}
	return ""
}

// wrongDeletion says what is wrong with the deletion of a pod, by one spec.
func (s *statefulJudge) wrongDeletion(r *revision, set *statefulSet, spec spec, p *pod, ordinal int) string {
	from, to := spec.bounds()
	wanted := ordinal >= from && ordinal < to
	switch {
	case finished(p.Pod):
		return ""
	case !wanted && (!spec.ordered() || spec.recreates() && s.outdated(r, set, p)):
		return ""
	case !wanted:
		for _, other := range s.podsOf[set.UID] {
			_, n := s.memberOf(other.Pod)
			tooMany := n < from || n >= to
			switch {
			case !tooMany || s.turned(r, set, n):
			case n > ordinal:
				return fmt.Sprintf("deleted while %s, which is too many as well, is there", other.Name)
			case n < ordinal && !ready(p.Pod) && !ready(other.Pod) && !finished(other.Pod) && !s.turned(r, set, ordinal):
				return fmt.Sprintf("deleted while neither it nor %s, which is too many as well, is ready", other.Name)
			}
		}
		return ""
	case spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return "deleted, though it is wanted, and pods are updated on deletion"
	}
	if !s.outdated(r, set, p) {
		return "deleted, though it is wanted and up to date"
	}
	if ordinal-from < spec.partition() {
		return fmt.Sprintf("deleted below the partition %d", spec.partition())
	}
	if spec.recreates() || !spec.ordered() && !ready(p.Pod) {
		return ""
	}
	return s.tooManyDown(r, set, spec, ordinal)
}

// tooManyDown says which pods are not ready, so that no other one may be deleted to be updated.
func (s *statefulJudge) tooManyDown(r *revision, set *statefulSet, spec spec, ordinal int) string {
	from, to := spec.bounds()
	from += spec.partition()
	most := 1
	if u := spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxUnavailable != nil {
		most = max(1, int(share(u.MaxUnavailable, int32(max(0, to-from)), math.Floor)))
	}
	down := 0
	for other := from; other < to; other++ {
		if other == ordinal || s.isReady(r, set, other) {
			continue
		}
		if down++; down >= most {
			return fmt.Sprintf("deleted while the pod with the ordinal %d is not ready", other)
		}
	}
	return ""
}

// outdated reports whether a pod may be one of an earlier template: it does not have the revision that the status names, or the template
// has changed lately.
func (s *statefulJudge) outdated(r *revision, set *statefulSet, p *pod) bool {
	seen := s.seen(r, set)
	for _, other := range seen[1:] {
		if !equality.Semantic.DeepEqual(other.Template, seen[0].Template) {
			return true
		}
	}
	return p.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision
}

// isReady reports whether the pod with an ordinal is ready and stays, or was so within the lag and the environment has changed that since.
func (s *statefulJudge) isReady(r *revision, set *statefulSet, ordinal int) bool {
	p := s.pods[set.Namespace+"/"+set.Name+"-"+strconv.Itoa(ordinal)]
	if p != nil && ready(p.Pod) && p.DeletionTimestamp == nil {
		return true
	}
	return s.turned(r, set, ordinal) && !set.wasReady[ordinal].Before(s.lag(r, Pod))
}

// turned reports whether the environment has changed the pod with an ordinal within the lag.
func (s *statefulJudge) turned(r *revision, set *statefulSet, ordinal int) bool {
	return s.recent(r, set.wasTurned[ordinal], Pod)
}

// judgeClaim judges what a manager does to a claim.
func (s *statefulJudge) judgeClaim(r *revision) {
	if r.kind != PersistentVolumeClaim || !r.manager || r.by != nil && collects(r.by.Request) {
		return
	}
	if r.deletes() {
		if s.judges(s.ending[r.Object.GetNamespace()]); !s.ending[r.Object.GetNamespace()] {
			s.report(r, nil, "a manager has deleted a claim")
		}
		return
	}
	had := map[types.UID]bool{}
	if r.old != nil {
		for _, ref := range r.old.GetOwnerReferences() {
			had[ref.UID] = true
		}
	}
	for _, ref := range r.Object.GetOwnerReferences() {
		if !had[ref.UID] {
			s.judgeOwner(r, ref)
		}
	}
	s.judges(false)
}

// judgeOwner judges a new owner of a claim.
func (s *statefulJudge) judgeOwner(r *revision, ref metav1.OwnerReference) {
	set, withPods := s.sets[ref.UID], false
	if ref.Kind == Pod {
		withPods = true
		for _, p := range s.pods {
			if p.UID == ref.UID {
				set, _ = s.memberOf(p.Pod)
			}
		}
	}
	if set == nil {
		return
	}
	for _, spec := range s.seen(r, set) {
		policy := spec.PersistentVolumeClaimRetentionPolicy
		deletes := policy != nil && (withPods && policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType ||
			!withPods && policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
		if deletes {
			return
		}
	}
	s.report(r, []string{StatefulSet + "/" + keyOf(set)}, "got %s %s as its owner, which the retention policy does not say", ref.Kind,
		ref.Name)
}
