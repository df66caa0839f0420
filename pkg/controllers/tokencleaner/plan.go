package tokencleaner

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/credentials/bootstraptoken"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is a Secret and when its token expires. Observe fills it, without what the Secret holds;
// planDeletion and the log read it.
type snapshot struct {
	Secret     *corev1.Secret // its metadata; nil if it is gone. The metadata belong to a shared cache.
	Expires    *time.Time     // nil for never
	Unreadable bool           // nobody knows when it expires
}

// planDeletion deletes a token that has expired. The preconditions are its uid and its version, so that a token that
// has changed meanwhile is looked at again and not deleted (BOOT-24).
func planDeletion(now time.Time, s snapshot) plan.Plan {
	switch {
	case s.Secret == nil:
		return plan.Plan{Why: "the token is gone"}
	case s.Secret.DeletionTimestamp != nil:
		return plan.Plan{Why: "the token is being deleted"}
	case s.Unreadable:
		return deletion(s, "its expiration is no time, so it counts as expired")
	case s.Expires == nil:
		return plan.Plan{Why: "the token never expires"}
	}
	at := s.Expires.UTC().Format(time.RFC3339)
	if expired, again := bootstraptoken.Expired(now, s.Expires); !expired {
		return plan.Plan{Why: "the token expires at " + at, Requeue: again}
	}
	return deletion(s, "it has expired at "+at)
}

// deletion deletes the Secret in the version that was observed.
func deletion(s snapshot, why string) plan.Plan {
	return plan.Plan{Why: "delete the token: " + why, Steps: []plan.Step{
		plan.Delete{Objects: []plan.Object{s.Secret}, CheckVersion: true, Why: why},
	}}
}
