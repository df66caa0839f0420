package statefulset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a StatefulSet has observed. Observe fills it, and newRollout sorts it out
// for plan and report. The objects belong to shared caches.
type snapshot struct {
	Set *appsv1.StatefulSet
	// Pods are those that the set controls, by its uid, and the orphans of its namespace. Others do no harm.
	Pods []*corev1.Pod
	// Revisions are likewise those that the set controls, and the orphans of its namespace.
	Revisions []*appsv1.ControllerRevision
	// Data is that of a revision with the set's present template.
	Data []byte
	// Known is the name of the revision that the present template is known to have, whatever its encoding; empty if
	// it is not known.
	Known string
	// Taken has by name the revisions, whoever they belong to, whose names a new revision would get.
	Taken map[string]*appsv1.ControllerRevision
	// Named has by name the pods, whoever they belong to, that have the name of a member.
	Named map[string]*corev1.Pod
	// Claims has by name the claims of the set's pods, and of those that are missing.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Reported has the claims of which was already said that another owner controls them.
	Reported map[types.UID]bool
	// Refused are the ordinals of parallel pods of which the server has refused something, the latest refusal last.
	Refused []int

	MaxUnavailable   bool // the field of that name has an effect (STS-58)
	ByBytes          bool // templates are only compared by their encodings (STS-34)
	ReplaceStuckPods bool // as the option of that name says
}

// decision is what the snapshot means: which pods are the members of the set, and which revisions there are.
// planSet makes it; the report and the metrics resume with it.
type decision struct {
	revisions
	ownRevisions []*appsv1.ControllerRevision // all revisions of the set
	mine         []*corev1.Pod                // all members
	replicas     map[int]*corev1.Pod          // of these, the ones with a wanted ordinal
	condemned    []*corev1.Pod                // of these, the others, the highest ordinal first
	adoptions    []plan.Step                  // and releases
	// adopting says that something is adopted: then nothing else is done in this reconcile.
	adopting bool
	told     map[types.UID]bool // claims of which it is said by now that another owner controls them
	// invalid is what is wrong with the selector; then there is nothing else.
	invalid error
}

// rollout is a snapshot, what it means, and the plan that is being made of it. It lives for one call of plan
// or report.
type rollout struct {
	snapshot
	decision
	// now is the time of the reconcile, the only one that is asked for.
	now time.Time

	identifying bool // a pod gets back the labels of its identity

	ownerChanges map[*corev1.Pod][][]plan.Step // changes of the owners of a pod's claims, which do not stop one another
	independent  [][]plan.Step                 // deletions of pods that stop nothing else when they fail

	// why are the reasons that people read.
	why []string
	// next is when to reconcile again; zero waits for an event.
	next time.Duration
}

// planSet finds out what the snapshot means, once for all parts of the reconcile, and plans.
func planSet(now time.Time, s snapshot) (decision, plan.Plan) {
	r := newRollout(now, s)
	d := r.decision
	return d, r.plan()
}

// plan decides which pods and claims are created, changed and deleted, and which revisions (STS-4).
func (r *rollout) plan() plan.Plan {
	switch {
	case r.invalid != nil:
		return plan.Plan{Why: r.invalid.Error()}
	case r.Set.DeletionTimestamp != nil:
		return plan.Plan{Why: "being deleted, pods are left to the garbage collector"}
	case r.adopting:
		return plan.Plan{Steps: r.adoptions, Why: "adopts pods or revisions, the rest follows"}
	}
	steps := slices.Concat(r.adoptions, r.steps, r.planReplicas())
	if obsolete := r.truncateHistory(); obsolete != nil { // also if something else fails
		steps = []plan.Step{plan.Each{Sequences: [][]plan.Step{steps, obsolete}}}
	}
	return plan.Plan{Steps: steps, Requeue: r.next, Why: strings.Join(r.why, "; ")}
}

// newRollout finds the members of the set, and its revisions.
func newRollout(now time.Time, s snapshot) *rollout {
	r := &rollout{snapshot: s, now: now}
	r.told = told(s)
	var selector labels.Selector
	if selector, r.invalid = selectorOf(s.Set); r.invalid != nil {
		return r
	}
	r.findMembers(selector)
	r.placeMembers()
	slices.SortFunc(r.condemned, func(a, b *corev1.Pod) int { return ordinalOf(b) - ordinalOf(a) })
	r.revisions, r.invalid = r.findRevisions()
	return r
}

// resume returns the rollout of a snapshot of which it is decided what it means.
func resume(now time.Time, s snapshot, d decision) *rollout {
	s.Revisions = d.ownRevisions
	return &rollout{snapshot: s, decision: d, now: now}
}

// selectorOf returns the set's selector. One that does not select the pods of the template is an error, too.
func selectorOf(set *appsv1.StatefulSet) (labels.Selector, error) {
	selector, err := plan.Selector(set.Spec.Selector)
	switch {
	case err != nil:
		return nil, err
	case !selector.Matches(labels.Set(set.Spec.Template.Labels)):
		return nil, errors.New("left alone, the selector does not match the labels of the template")
	}
	return selector, nil
}

// placeMembers separates the members with a wanted ordinal from the others.
func (r *rollout) placeMembers() {
	r.replicas = map[int]*corev1.Pod{}
	for _, p := range r.mine {
		if ordinal := ordinalOf(p); ordinal >= start(r.Set) && ordinal < end(r.Set) {
			r.replicas[ordinal] = p
		} else {
			r.condemned = append(r.condemned, p)
		}
	}
}

// ordinalOf is the ordinal of a member, by its name.
func ordinalOf(p *corev1.Pod) int {
	_, ordinal, _ := splitName(p.Name)
	return ordinal
}

// named reports whether the pod has the name of a member.
func (s snapshot) named(p *corev1.Pod) bool {
	set, _, ok := splitName(p.Name)
	return ok && set == s.Set.Name
}

// findMembers finds the set's own pods and revisions, and plans what makes them so (STS-10, STS-32).
func (r *rollout) findMembers(selector labels.Selector) {
	var candidates []*corev1.Pod
	for _, p := range r.Pods {
		switch owned := metav1.IsControlledBy(p, r.Set); {
		case r.named(p) && (owned || !podutil.Owns(r.Set, r.Pods, p)):
			candidates = append(candidates, p)
		case owned && r.Set.DeletionTimestamp == nil && p.Namespace == r.Set.Namespace: // the name is that of no member
			_, release := plan.Claim(r.Set, setKind(), labels.Nothing(), []*corev1.Pod{p})
			r.adoptions = append(r.adoptions, release...)
		}
	}
	mine, steps := plan.Claim(r.Set, setKind(), selector, candidates)
	r.mine, r.adoptions = mine, append(r.adoptions, steps...)
	matching := slices.DeleteFunc(slices.Clone(r.Revisions), func(c *appsv1.ControllerRevision) bool {
		return !selector.Matches(labels.Set(c.Labels))
	})
	revisions, steps := plan.Claim(r.Set, setKind(), selector, matching)
	r.Revisions, r.ownRevisions, r.adoptions = revisions, revisions, append(r.adoptions, steps...)
	r.adopting = len(plan.Adopted(r.adoptions)) > 0
}

// say adds to what is decided and what is being waited for, for people.
func (r *rollout) say(format string, args ...any) {
	r.why = append(r.why, fmt.Sprintf(format, args...))
}

// requeueAfter has the set reconciled again after some time.
func (r *rollout) requeueAfter(d time.Duration) {
	r.next = plan.Sooner(r.next, max(0, d))
}

// ready reports whether the pod runs and is ready, whether or not it is being deleted (STS-60b).
func ready(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && podutil.Ready(p) }

// available reports whether the pod has been ready for minReadySeconds (STS-60c).
func (r *rollout) available(p *corev1.Pod) bool {
	return ready(p) && podutil.Available(p, r.Set.Spec.MinReadySeconds, r.now)
}

// waits says what an existing pod waits for; it is empty for one that is available and not being deleted (STS-45 c..e).
func (r *rollout) waits(p *corev1.Pod) string {
	switch {
	case p.DeletionTimestamp != nil:
		return "is being deleted"
	case !ready(p):
		return "is not running and ready"
	case !r.available(p):
		r.requeueAfter(podutil.AvailableIn(p, r.Set.Spec.MinReadySeconds, r.now))
		return "is not ready for long enough yet"
	}
	return ""
}

// revisionOf is the name of the revision that a pod was made of.
func revisionOf(p *corev1.Pod) string { return p.Labels[appsv1.StatefulSetRevisionLabel] }
