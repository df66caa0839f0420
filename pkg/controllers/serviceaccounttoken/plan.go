package serviceaccounttoken

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is what one reconcile of a Secret has observed. The objects belong to shared caches.
type snapshot struct {
	Secret  *corev1.Secret         // nil if it is gone
	Gone    *corev1.Secret         // as it was when it was deleted, if Secret is nil
	Account *corev1.ServiceAccount // that the Secret names; nil if there is none
	Bundle  string                 // the certificate authorities that belong into the Secret, in PEM; empty for none
	Token   string                 // for the Secret, if it has none
}

// planSecret decides what becomes of a Secret.
func planSecret(_ time.Time, s snapshot) plan.Plan {
	switch {
	case s.Secret == nil:
		return planReference(s)
	case accountName(s.Secret) == "": // TOK-7
		return plan.Plan{Why: "the Secret names no ServiceAccount"}
	case s.Secret.DeletionTimestamp != nil:
		return plan.Plan{Why: "the Secret is being deleted"}
	case !names(s.Secret, s.Account): // TOK-12
		why := fmt.Sprintf("there is no ServiceAccount %s", accountName(s.Secret))
		if s.Account != nil {
			why = fmt.Sprintf("the ServiceAccount %s is another one than the Secret was made for", s.Account.Name)
		}
		return plan.Plan{Why: "delete the Secret: " + why, Steps: []plan.Step{
			plan.Delete{Objects: []plan.Object{s.Secret}, Version: true, Why: why},
		}}
	}
	missing := lacks(s)
	if len(missing) == 0 {
		return plan.Plan{Why: "the Secret is complete"}
	}
	return plan.Plan{Why: "set in the Secret: " + strings.Join(missing, ", "), Steps: []plan.Step{
		plan.Change{Old: s.Secret, New: filled(s), Why: "the Secret lacks " + strings.Join(missing, ", ")},
	}}
}

// lacks returns the data that the Secret lacks. A token that is there is never looked at (TOK-13).
func lacks(s snapshot) (missing []string) {
	data := s.Secret.Data
	if s.Bundle != "" && string(data[corev1.ServiceAccountRootCAKey]) != s.Bundle {
		missing = append(missing, corev1.ServiceAccountRootCAKey)
	}
	if len(data[corev1.ServiceAccountNamespaceKey]) == 0 {
		missing = append(missing, corev1.ServiceAccountNamespaceKey)
	}
	if len(data[corev1.ServiceAccountTokenKey]) == 0 && s.Token != "" {
		missing = append(missing, corev1.ServiceAccountTokenKey)
	}
	return missing
}

// filled returns the Secret with all that it lacks (TOK-15).
func filled(s snapshot) *corev1.Secret {
	after := s.Secret.DeepCopy()
	if after.Data == nil {
		after.Data = map[string][]byte{}
	}
	for _, key := range lacks(s) {
		switch key {
		case corev1.ServiceAccountRootCAKey:
			after.Data[key] = []byte(s.Bundle)
		case corev1.ServiceAccountNamespaceKey:
			after.Data[key] = []byte(s.Secret.Namespace)
		case corev1.ServiceAccountTokenKey:
			after.Data[key] = []byte(s.Token)
		}
	}
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, corev1.ServiceAccountNameKey, s.Account.Name)
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, corev1.ServiceAccountUIDKey, string(s.Account.UID))
	return after
}

// planReference takes a Secret that is gone off the list of its ServiceAccount (TOK-11).
func planReference(s snapshot) plan.Plan {
	if s.Gone == nil || s.Account == nil {
		return plan.Plan{Why: "the Secret is gone"}
	}
	after := s.Account.DeepCopy()
	after.Secrets = slices.DeleteFunc(after.Secrets, func(r corev1.ObjectReference) bool { return r.Name == s.Gone.Name })
	if len(after.Secrets) == len(s.Account.Secrets) {
		return plan.Plan{Why: "the Secret is gone, and its ServiceAccount does not refer to it"}
	}
	const why = "the Secret is gone: take it off the list of its ServiceAccount"
	return plan.Plan{Why: why, Steps: []plan.Step{plan.Change{Old: s.Account, New: after, Why: why}}}
}

func isToken(s *corev1.Secret) bool { return s.Type == corev1.SecretTypeServiceAccountToken }

func accountName(s *corev1.Secret) string { return s.Annotations[corev1.ServiceAccountNameKey] }

func accountUID(s *corev1.Secret) types.UID {
	return types.UID(s.Annotations[corev1.ServiceAccountUIDKey])
}

// names reports whether the Secret is for this very ServiceAccount, which may be nil.
func names(s *corev1.Secret, a *corev1.ServiceAccount) bool {
	return a != nil && a.Name == accountName(s) && (accountUID(s) == "" || accountUID(s) == a.UID)
}
