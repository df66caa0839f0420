package legacyserviceaccounttokencleaner

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	trackingName = "kube-apiserver-legacy-service-account-token-tracking" // a ConfigMap in kube-system (LTC-3)
	sinceKey     = "since"

	lastUsedLabel = "kubernetes.io/legacy-token-last-used"     // the API server sets it (LTC-5)
	invalidLabel  = "kubernetes.io/legacy-token-invalid-since" // the API server refuses such a token (LTC-8)

	// cycle is the time between the end of one reconcile and the next (LTC-2).
	cycle = 24 * time.Hour
)

// snapshot is what there may be to clean in all namespaces, as one reconcile has listed it. Observe fills it,
// and planTokens reads it. Of Secrets only the metadata is there.
type snapshot struct {
	Period time.Duration
	// the day since which the API server tracks which tokens are used; empty if it does not say so
	Since   string
	Secrets []*corev1.Secret    // unused tokens that were made automatically
	Used    map[string][]string // names of the Secrets that pods use, by namespace
}

// planTokens marks tokens as invalid that nobody has used for long, and deletes those that were marked long ago.
func planTokens(now time.Time, s snapshot) plan.Plan {
	p := plan.Plan{Requeue: cycle}
	if !tracked(now, s.Since, s.Period) {
		p.Why = fmt.Sprintf("tokens are tracked since %q, not for %v yet", s.Since, s.Period)
		return p
	}
	var each plan.Each
	used := 0
	for _, secret := range s.Secrets {
		if slices.Contains(s.Used[secret.Namespace], secret.Name) {
			used++
			continue
		}
		if step := retire(now, secret, s.Period); step != nil {
			each.Sequences = append(each.Sequences, []plan.Step{step})
		}
	}
	if len(each.Sequences) > 0 {
		p.Steps = []plan.Step{each}
	}
	p.Why = fmt.Sprintf(
		"of %d tokens that were made automatically and not used for %v, pods refer to %d, and %d are marked or deleted",
		len(s.Secrets), s.Period, used, len(each.Sequences))
	return p
}

// retire returns the next step in the end of a token; nil if it is to wait.
func retire(now time.Time, secret *corev1.Secret, period time.Duration) plan.Step {
	marked := secret.Labels[invalidLabel]
	if !isDay(marked) {
		after := secret.DeepCopy()
		metav1.SetMetaDataLabel(&after.ObjectMeta, invalidLabel, day(now))
		return plan.Change{Old: secret, New: after, Why: "nobody uses the token"}
	}
	if marked < day(now.Add(-period)) {
		return plan.Delete{
			Objects: []plan.Object{secret}, CheckVersion: true, Why: "the token was marked as invalid long ago",
		}
	}
	return nil
}

// tracked reports whether the API server has tracked for the whole period which tokens are used (LTC-3).
func tracked(now time.Time, since string, period time.Duration) bool {
	first, err := time.Parse(time.DateOnly, since)
	return err == nil && !now.Before(first.AddDate(0, 0, 1).Add(period))
}

// unused reports whether a token is old and was not used in the period (LTC-4, LTC-5).
func unused(now time.Time, secret *corev1.Secret, period time.Duration) bool {
	begins := now.Add(-period)
	if secret.DeletionTimestamp != nil || !secret.CreationTimestamp.Time.Before(begins) {
		return false
	}
	last, known := secret.Labels[lastUsedLabel]
	return !known || isDay(last) && last < day(begins)
}

// madeAutomatically reports whether the token was made together with one of the ServiceAccounts: they list such
// tokens (LTC-6).
func madeAutomatically(secret *corev1.Secret, accounts []corev1.ServiceAccount) bool {
	uid := secret.Annotations[corev1.ServiceAccountUIDKey]
	return slices.ContainsFunc(accounts, func(a corev1.ServiceAccount) bool {
		return a.Name == secret.Annotations[corev1.ServiceAccountNameKey] && (uid == "" || uid == string(a.UID)) &&
			slices.ContainsFunc(a.Secrets, func(r corev1.ObjectReference) bool { return r.Name == secret.Name })
	})
}

// day is how labels have a date (LTC-10).
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// isDay reports whether a label has a date as the API server writes it.
func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}
