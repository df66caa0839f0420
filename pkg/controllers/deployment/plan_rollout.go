package deployment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// rollout is the decision about a Deployment: its snapshot sorted out, and what one reconcile makes of it.
// sortOut makes it, the courses add to it, and report and memory read it. It lives for that reconcile.
type rollout struct {
	snapshot
	d *appsv1.Deployment
	// now is the time of the reconcile, the only one that is asked for.
	now time.Time
	// course is what this reconcile is about.
	course course
	// replicas is how many pods the Deployment should have.
	replicas    int64
	surge       int64 // how many pods more than replicas a rolling update may have
	unavailable int64 // how many pods fewer than replicas it may have available
	new         *set  // the ReplicaSet of the present template; nil if there is none
	// old are the other ReplicaSets of the Deployment, oldest first.
	old []*set
	// ownership are the steps that adopt and release ReplicaSets.
	ownership []plan.Step

	tail []plan.Step // what follows the changes of the ReplicaSets
	// next is when to reconcile again; zero waits for an event.
	next time.Duration
	// words are the reasons that people read.
	words []string
}

// set is a ReplicaSet, what its pods add up to, and what becomes of it in this reconcile.
type set struct {
	*appsv1.ReplicaSet
	// size is how many pods it should have, by its spec.
	size int64
	// pods are those that match its selector, and counts what they add up to.
	pods   []*corev1.Pod
	counts podutil.Counts

	// available decides. It is never more than size: the cache may still show pods that a scale-down, already written,
	// will take away.
	available int64

	draft *appsv1.ReplicaSet // the one change of this reconcile (DEP-16, DEP-33); nil while nothing changes
	// event is about the change, and why are its reasons.
	event plan.Event
	why   []string
}

// sortOut separates own ReplicaSets from others, the new one from the old ones, and takes the course.
func sortOut(now time.Time, s snapshot) *rollout {
	r := &rollout{snapshot: s, d: s.Deployment, now: now, replicas: number(s.Deployment.Spec.Replicas)}
	selector, err := metav1.LabelSelectorAsSelector(r.d.Spec.Selector)
	switch {
	case err != nil:
		r.say("selector: %v", err)
		r.course = blocked
		return r
	case r.d.Spec.Selector == nil:
		r.say("no selector")
		r.course = blocked
		return r
	case selector.Empty():
		r.say("an empty selector selects all pods, nothing is done")
		r.course = selectsAll
		return r
	}
	var problem string
	r.surge, r.unavailable, problem = bounds(r.d, r.replicas)
	r.say("%s", problem)

	var mine []*appsv1.ReplicaSet
	mine, r.ownership = plan.Claim(r.d, appsv1.SchemeGroupVersion.WithKind("Deployment"), selector, s.candidates())
	for _, rs := range mine {
		one := newSet(rs, s.count(rs, now))
		r.requeueAfter(one.counts.Next)
		// Of several with the present template the oldest is the new one; all others are old (DEP-10).
		if r.new == nil && s.TemplateMatches.matches(rs, &r.d.Spec.Template) {
			r.new = one
		} else {
			r.old = append(r.old, one)
		}
	}
	if r.new == nil && !r.wouldSelect(selector) {
		// It would be released as soon as it is made, and another one made in its place, without end.
		r.say("the selector does not match the labels that its ReplicaSet would get, nothing is done")
		r.course, r.ownership = blocked, nil
		return r
	}
	r.course = r.choose()
	return r
}

// wouldSelect reports whether a selector matches a new ReplicaSet.
func (r *rollout) wouldSelect(s labels.Selector) bool {
	_, hash := r.TemplateMatches.newName(r.d)
	return s.Matches(labels.Set(hashed(r.d.Spec.Template.Labels, hash)))
}

// candidates are the ReplicaSets to claim from, oldest first. The one that has the new one's name is among them: it
// comes from the same cache, but not from the same moment.
func (s snapshot) candidates() []*appsv1.ReplicaSet {
	all := slices.Clone(s.ReplicaSets)
	known := func(rs *appsv1.ReplicaSet) bool { return rs.UID == s.NameConflict.UID }
	if s.NameConflict != nil && !slices.ContainsFunc(all, known) {
		all = append(all, s.NameConflict)
	}
	slices.SortFunc(all, byAge)
	return all
}

// nameToCheck returns the name under which observe has to look for snapshot.NameConflict, empty if no new ReplicaSet is
// going to be created.
func (s snapshot) nameToCheck() string {
	d := s.Deployment
	selector, err := matcher(d.Spec.Selector)
	if err != nil || d.DeletionTimestamp != nil || d.Spec.Paused {
		return ""
	}
	for _, rs := range s.ReplicaSets {
		if metav1.IsControlledBy(rs, d) && selector.Matches(labels.Set(rs.Labels)) &&
			s.TemplateMatches.matches(rs, &d.Spec.Template) {
			return ""
		}
	}
	name, _ := s.TemplateMatches.newName(d)
	return name
}

// byAge orders ReplicaSets oldest first.
func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// newSet returns a ReplicaSet with its pods counted, and no change yet.
func newSet(rs *appsv1.ReplicaSet, c counted) *set {
	size := number(rs.Spec.Replicas)
	return &set{ReplicaSet: rs, size: size, pods: c.Pods, counts: c.Counts,
		available: min(int64(c.Counts.Available), size)}
}

// counted are the pods of a ReplicaSet that match its selector, and what they add up to at the time of the snapshot.
type counted struct {
	Pods   []*corev1.Pod
	Counts podutil.Counts
}

// countPods counts the pods of a ReplicaSet that match its selector.
func countPods(rs *appsv1.ReplicaSet, pods []*corev1.Pod, now time.Time) counted {
	mine := selected(rs.Spec.Selector, pods)
	return counted{mine, podutil.Count(mine, rs.Spec.MinReadySeconds, now)}
}

// count returns the pods of a ReplicaSet, counted.
func (s snapshot) count(rs *appsv1.ReplicaSet, now time.Time) counted {
	if c, ok := s.Counted[rs.UID]; ok {
		return c
	}
	return countPods(rs, s.Pods[rs.UID], now)
}

// selected returns the objects that a selector matches: the pods of a ReplicaSet, which will release the others, or the
// ReplicaSets that a Deployment may adopt.
func selected[T metav1.Object](by *metav1.LabelSelector, objects []T) []T {
	if len(objects) == 0 {
		return nil
	}
	selector, err := matcher(by)
	if err != nil {
		return nil
	}
	strange := func(o T) bool { return !selector.Matches(labels.Set(o.GetLabels())) }
	if !slices.ContainsFunc(objects, strange) {
		return objects
	}
	return slices.DeleteFunc(slices.Clone(objects), strange)
}

// matcher returns a function that reports whether the labels of objects match. It is asked for several times in each
// reconcile, so it does not check the syntax of matchLabels, which takes longer than all else: what is no valid label
// is on no object.
func matcher(s *metav1.LabelSelector) (labels.Selector, error) {
	if s != nil && len(s.MatchLabels) > 0 && len(s.MatchExpressions) == 0 {
		return labels.SelectorFromValidatedSet(s.MatchLabels), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// sets are the own ReplicaSets, the new one first, then the old ones, oldest first.
func (r *rollout) sets() []*set {
	if r.new == nil {
		return r.old
	}
	return append([]*set{r.new}, r.old...)
}

// total is the sum of all sizes.
func (r *rollout) total() int64 { return sizes(r.sets()) }

// sizes adds up the sizes of ReplicaSets.
func sizes(sets []*set) (sum int64) {
	for _, s := range sets {
		sum += s.size
	}
	return sum
}

// edit returns the copy of the ReplicaSet in which the changes of this reconcile are collected.
func (s *set) edit() *appsv1.ReplicaSet {
	if s.draft == nil {
		draft := *s.ReplicaSet // its parts belong to the cache: they are replaced, not changed
		draft.Annotations = maps.Clone(draft.Annotations)
		s.draft = &draft
	}
	return s.draft
}

// resize gives the ReplicaSet its size for this reconcile, and what scaling in proportion needs to know of it (DEP-33).
func (r *rollout) resize(s *set, size int64) {
	size = int64(fit(size))
	r.note(s)
	if size == s.size {
		return
	}
	verb := "up"
	if size < s.size {
		verb = "down"
	}
	s.edit().Spec.Replicas = pointer(size)
	s.event = plan.Event{Type: corev1.EventTypeNormal, Reason: "ScalingReplicaSet",
		Message: fmt.Sprintf("Scaled %s replica set %s from %d to %d", verb, s.Name, s.size, size)}
	s.why = append(s.why, fmt.Sprintf("scale from %d to %d", s.size, size))
	age := "old"
	if s == r.new {
		age = "new"
	}
	r.say("scale %s ReplicaSet %s from %d to %d", age, s.Name, s.size, size)
}

// plan puts together what was decided: first adoptions and releases, then the changes of ReplicaSets, then
// what follows them. The changes of one ReplicaSet are one step.
func (r *rollout) plan() plan.Plan {
	steps := slices.Clone(r.ownership)
	for _, s := range r.sets() {
		if s.draft != nil {
			steps = append(steps, plan.Change{
				Old: s.ReplicaSet, New: s.draft, Events: plan.Events{Done: s.event}, Why: strings.Join(s.why, ", "),
			})
		}
	}
	return plan.Plan{Steps: append(steps, r.tail...), Requeue: r.next, Why: strings.Join(r.words, "; ")}
}

// say adds to the reasons that people read.
func (r *rollout) say(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); s != "" {
		r.words = append(r.words, s)
	}
}

// requeueAfter has the Deployment reconciled again after d; zero asks for nothing.
func (r *rollout) requeueAfter(d time.Duration) {
	r.next = plan.Sooner(r.next, max(0, d))
}

// number reads a count that the server has defaulted to 1.
func number(n *int32) int64 {
	if n == nil {
		return 1
	}
	return max(0, int64(*n))
}

// pointer returns a number as a spec has it.
func pointer(n int64) *int32 {
	small := fit(n)
	return &small
}
