package deployment

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// planRollout decides what is written for a Deployment: which ReplicaSets it adopts or releases, the annotations of the
// newest, the sizes of all, which one is created and which are deleted. One reconcile decides one stage (DEP-4);
// every write enqueues the key again, so the next stage follows at once.
func planRollout(now time.Time, s snapshot) (*rollout, plan.Plan) {
	r := sortOut(now, s)
	r.Seen = s.Seen.renewed(r)
	switch r.course {
	case blocked, selectsAll:
		return r, r.plan()
	case adopting:
		r.say("adopts ReplicaSets, the rest follows")
		return r, r.plan()
	}
	r.keepUp()
	switch r.course {
	case deleting:
		r.say("being deleted, only the status is kept")
	case paused:
		r.say("paused")
		r.scale()
		r.cleanUp()
	case rollingBack:
		r.rollBack()
	case scaling:
		r.scale()
	case rolling:
		r.roll()
	case recreating:
		r.recreate()
	}
	return r, r.plan()
}

// snapshot is what one reconcile of a Deployment has observed. Observe fills it, and sortOut makes a rollout
// of it, which plan and report read. The objects belong to shared caches.
type snapshot struct {
	Deployment *appsv1.Deployment
	// ReplicaSets are those controlled by the Deployment's uid and the orphans that it selects. Others do no harm.
	ReplicaSets []*appsv1.ReplicaSet
	// Pods are those controlled by each of these ReplicaSets, by its uid: active, terminating and finished ones.
	Pods map[types.UID][]*corev1.Pod
	// NameConflict is the ReplicaSet, whoever it belongs to, under the name that nameToCheck returns; nil if there is
	// none.
	NameConflict *appsv1.ReplicaSet
	// TemplateMatches is what is known already of the templates. It only saves time.
	TemplateMatches templateMatches
	// Seen is what was seen of the progress before this reconcile.
	Seen lastSeen
	// Counted is what Pods add up to, for those ReplicaSets that observe has counted. Plan and report would otherwise
	// count again, which with many pods is most of their work.
	Counted map[types.UID]counted
	// TerminatingUncounted: the status does not say how many pods are terminating (CLI-65).
	TerminatingUncounted bool
}

// course is what one reconcile is about (DEP-4). Each reconcile takes exactly one.
type course string

const (
	blocked     course = "blocked"     // the spec makes no sense
	selectsAll  course = "selects all" // the selector is empty
	deleting    course = "deleting"
	adopting    course = "adopting" // orphans are taken first
	paused      course = "paused"
	rollingBack course = "rolling back" // by annotation
	scaling     course = "scaling"      // replicas has changed
	rolling     course = "rolling"      // RollingUpdate, also when there is nothing left to do
	recreating  course = "recreating"   // Recreate, likewise
	misguided   course = "misguided"    // a strategy that nobody knows
)

// choose takes the course.
func (r *rollout) choose() course {
	_, rollback := rollbackTo(r.d)
	switch {
	case r.d.DeletionTimestamp != nil:
		return deleting
	// the rest follows in the next reconcile: an object is written once in each
	case len(plan.Adopted(r.ownership)) > 0:
		return adopting
	case r.d.Spec.Paused:
		return paused
	case rollback:
		return rollingBack
	case r.scalingEvent() && r.scalable():
		return scaling
	}
	switch r.d.Spec.Strategy.Type {
	case appsv1.RollingUpdateDeploymentStrategyType:
		return rolling
	case appsv1.RecreateDeploymentStrategyType:
		return recreating
	}
	r.say("unknown strategy %q, nothing is rolled out", r.d.Spec.Strategy.Type)
	return misguided
}
