package deployment

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lastSeen is what the reconciles of a Deployment, up to the present one, have seen of its progress. Reports are
// debounced, so by the time that one is written, what it reports may be past. The zero lastSeen is that of a process
// that has just begun.
type lastSeen struct {
	UID    types.UID               // of the Deployment
	New    types.UID               // of its new ReplicaSet; of the last one while there is none
	Counts appsv1.DeploymentStatus // as the present reconcile has found them
	// when New was first seen in the place of another, or of none; zero if it was there from the start
	Began      time.Time
	Had        int32     // how many pods New had then
	Progressed time.Time // when that, or better counts, were last seen; zero if never
}

// renewed adds what the present reconcile sees.
func (l lastSeen) renewed(r *rollout) lastSeen {
	counts := r.status()
	if l.UID != r.d.UID { // nothing is known of what was before
		l = lastSeen{UID: r.d.UID, Counts: counts}
		if r.new != nil {
			l.New = r.new.UID
		}
	}
	if r.new != nil && r.new.UID != l.New {
		l.New, l.Began, l.Had, l.Progressed = r.new.UID, r.now, r.new.counts.Active, r.now
	}
	if progressed(&l.Counts, &counts) {
		l.Progressed = r.now
	}
	l.Counts = counts
	return l
}

// seenAt is the time of what this report is about, which was first seen at the given time: that time, if it is not
// older than what the status reports, else now. While paused, nobody waits for progress: the deadline begins when that
// ends (DEP-56).
func (r *rollout) seenAt(at time.Time) time.Time {
	reported := find(r.d.Status.Conditions, appsv1.DeploymentProgressing)
	switch {
	// nothing was observed then, or it was created in this reconcile
	case at.IsZero(), r.new != nil && r.new.UID != r.Seen.New:
		return r.now
	case reported == nil && r.behind():
		return at
	case reported != nil && reported.Reason != isPaused &&
		!at.Truncate(time.Second).Before(reported.LastUpdateTime.Truncate(time.Second)):
		return at
	}
	return r.now
}

// progressed reports whether anything has come closer to the end (DEP-72b).
func progressed(before, after *appsv1.DeploymentStatus) bool {
	return after.UpdatedReplicas > before.UpdatedReplicas ||
		after.Replicas-after.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		after.ReadyReplicas > before.ReadyReplicas ||
		after.AvailableReplicas > before.AvailableReplicas
}

// storedCounts are the counts that the status reports. If it does not report the rollout to the new ReplicaSet yet, the
// updated ones are those that this had when the rollout began, however many the one before it had.
func (r *rollout) storedCounts() *appsv1.DeploymentStatus {
	stored := r.d.Status
	switch {
	case r.new == nil:
		stored.UpdatedReplicas = 0
	case !r.begins():
	case r.madeForThis():
		stored.UpdatedReplicas = 0
	case r.Seen.New == r.new.UID && !r.Seen.Began.IsZero():
		stored.UpdatedReplicas = r.Seen.Had
	}
	return &stored
}

// begins reports whether the status does not report the rollout to the new ReplicaSet yet. That is recognised by the
// revision, which the Deployment does not show yet: so going back to a ReplicaSet that still exists begins a rollout
// like any other, and can time out. A ReplicaSet that takes the place of one that was lost has the same revision: then
// Progressing reports another one, or of an earlier time.
func (r *rollout) begins() bool {
	reported := find(r.d.Status.Conditions, appsv1.DeploymentProgressing)
	switch {
	case r.new == nil:
		return false
	case reported == nil:
		return r.behind()
	case r.behind() && r.alreadyReported(reported):
		return false
	}
	name := reportedIn(reported)
	_, raised := r.revision()
	replaced := reported.Reason != isPaused && r.Seen.New == r.new.UID &&
		r.Seen.Began.Truncate(time.Second).After(reported.LastUpdateTime.Time)
	if r.behind() {
		// If somebody has taken the Deployment's revision away, or has put an older one there, as a full update from a
		// manifest does, no rollout begins (DEP-75).
		return name != r.new.Name || raised || replaced || reported.Reason == notCreated
	}
	return name != "" && name != r.new.Name || reported.Reason == notCreated || replaced
}

// alreadyReported reports whether the condition reports the rollout to the new ReplicaSet, although the Deployment does
// not show its revision: the ReplicaSet could not be given one.
func (r *rollout) alreadyReported(c *appsv1.DeploymentCondition) bool {
	_, raised := r.revision()
	underWay := c.Reason == found || c.Reason == created || c.Reason == updated || c.Reason == timedOut
	return raised && underWay && reportedIn(c) == r.new.Name
}

// behind reports whether the Deployment does not show the revision of its new ReplicaSet.
func (r *rollout) behind() bool {
	if r.new == nil {
		return false
	}
	revision, _ := r.revision()
	return r.d.Annotations[revisionAnnotation] != revision
}

// reportedIn returns the name of the ReplicaSet that the condition Progressing names (DEP-69), empty if it names none.
func reportedIn(c *appsv1.DeploymentCondition) string {
	for _, kind := range []string{`ReplicaSet "`, `replica set "`} {
		if _, rest, ok := strings.Cut(c.Message, kind); ok {
			name, _, _ := strings.Cut(rest, `"`)
			return name
		}
	}
	return ""
}
