package deployment

import (
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Annotations that this controller keeps.
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	maximumAnnotation  = "deployment.kubernetes.io/max-replicas"
	rollbackAnnotation = appsv1.DeprecatedRollbackTo
)

// longestHistory is how many characters of earlier revisions a ReplicaSet remembers (DEP-13).
const longestHistory = 2000

// private reports whether an annotation concerns its bearer alone: a Deployment does not hand it down, and a rollback
// does not bring it back (DEP-14, DEP-51).
func private(annotation string) bool {
	switch annotation {
	case corev1.LastAppliedConfigAnnotation, revisionAnnotation, historyAnnotation, desiredAnnotation,
		maximumAnnotation, rollbackAnnotation:
		return true
	}
	return false
}

// keepUp lets the new ReplicaSet follow the Deployment (DEP-12..16).
func (r *rollout) keepUp() {
	if r.new == nil {
		return
	}
	if revision, raised := r.revision(); raised {
		r.new.why = append(r.new.why, "raise to revision "+revision)
		r.say("raise new ReplicaSet %s to revision %s", r.new.Name, revision)
		r.new.annotate(revisionAnnotation, revision)
		if before, ok := revisionOf(r.new.ReplicaSet); ok && labels.Set(r.new.Annotations).Has(revisionAnnotation) {
			r.new.annotate(historyAnnotation, remember(r.new.Annotations[historyAnnotation], before))
		}
	}
	for k, v := range r.d.Annotations {
		if !private(k) {
			r.new.annotate(k, v)
		}
	}
	if r.new.Spec.MinReadySeconds != r.d.Spec.MinReadySeconds {
		r.new.edit().Spec.MinReadySeconds = r.d.Spec.MinReadySeconds
	}
}

// revision returns the revision of the new ReplicaSet in text, and whether it has to be raised to that: the present
// template is always the latest revision (DEP-12).
func (r *rollout) revision() (text string, raised bool) {
	var latest int64
	for _, s := range r.old {
		if n, ok := revisionOf(s.ReplicaSet); ok {
			latest = max(latest, n)
		}
	}
	if latest < math.MaxInt64 {
		latest++
	}
	if r.new == nil {
		return strconv.FormatInt(latest, 10), true
	}
	if n, ok := revisionOf(r.new.ReplicaSet); ok && n >= latest {
		return r.new.Annotations[revisionAnnotation], false
	}
	return strconv.FormatInt(latest, 10), true
}

// revisionOf reads a ReplicaSet's revision: zero if it has none, not ok if it is no number (DEP-11).
func revisionOf(rs *appsv1.ReplicaSet) (n int64, ok bool) {
	text, found := rs.Annotations[revisionAnnotation]
	if !found {
		return 0, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// remember appends an earlier revision to the history. What is too long loses its oldest entries (DEP-13).
func remember(history string, revision int64) string {
	if history != "" {
		history += ","
	}
	history += strconv.FormatInt(revision, 10)
	for len(history) > longestHistory {
		_, history, _ = strings.Cut(history, ",")
	}
	return history
}

// annotate sets an annotation, if that changes anything.
func (s *set) annotate(key, value string) {
	if labels.Set(s.Annotations).Has(key) && s.Annotations[key] == value {
		return
	}
	draft := s.edit()
	if draft.Annotations == nil {
		draft.Annotations = map[string]string{}
	}
	draft.Annotations[key] = value
}
