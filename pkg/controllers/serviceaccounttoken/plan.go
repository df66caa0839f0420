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

// snapshot is a Secret and the ServiceAccount that it names, as one reconcile has observed them. Observe
// fills it, prove replaces the account by what was read live, and planSecret reads it. The objects belong to
// shared caches. The data of the Secret are no part of it.
type snapshot struct {
	Secret  *metav1.PartialObjectMetadata // nil if it is gone
	Missing []string                      // data that the Secret lacks, or that are not those that belong there
	Gone    string                        // the name of the Secret, if it was deleted
	Account *corev1.ServiceAccount        // that the Secret names; nil if there is none
	Unseen  bool                          // the cache lacks the account: its end may cause no event
}

// lookAgain is when a Secret is looked at again whose ServiceAccount exists, although the cache lacks it.
const lookAgain = time.Minute

// planSecret decides what becomes of a Secret.
func planSecret(_ time.Time, s snapshot) plan.Plan {
	switch {
	case s.Secret == nil:
		return planReference(s)
	case accountName(s.Secret) == "":
		return plan.Plan{Why: "the Secret names no ServiceAccount"}
	case s.Secret.DeletionTimestamp != nil:
		return plan.Plan{Why: "the Secret is being deleted"}
	case !names(s.Secret, s.Account):
		why := fmt.Sprintf("there is no ServiceAccount %s", accountName(s.Secret))
		if s.Account != nil {
			why = fmt.Sprintf("the ServiceAccount %s is another one than the Secret was made for", s.Account.Name)
		}
		return plan.Plan{
			Why: "delete the Secret: " + why,
			// TOK-12: the caches of Secrets and of ServiceAccounts may differ in age.
			Proof: []plan.Ref{accountOf(s.Secret)},
			Steps: []plan.Step{plan.Delete{Objects: []plan.Object{s.Secret}, CheckVersion: true, Why: why}},
		}
	}
	p, missing := plan.Plan{Why: "the Secret is complete"}, s.Missing
	if s.Unseen {
		p.Requeue = lookAgain
	}
	if len(missing) > 0 {
		p.Why = "set in the Secret: " + strings.Join(missing, ", ")
		if s.Secret.Annotations[corev1.ServiceAccountUIDKey] == "" {
			p.Proof = []plan.Ref{accountOf(s.Secret)} // the cache may show a ServiceAccount that was made anew since
		}
		p.Steps = []plan.Step{plan.Change{Old: s.Secret, New: annotated(s), Sign: missing,
			Why: "the Secret lacks " + strings.Join(missing, ", ")}}
	}
	return p
}

// missingKeys returns the data that a Secret lacks. The bundle has the certificate authorities that belong there, in
// PEM; empty for none. A token that is there is never looked at (TOK-13).
func missingKeys(data map[string][]byte, bundle string) (missing []string) {
	if bundle != "" && string(data[corev1.ServiceAccountRootCAKey]) != bundle {
		missing = append(missing, corev1.ServiceAccountRootCAKey)
	}
	if len(data[corev1.ServiceAccountNamespaceKey]) == 0 {
		missing = append(missing, corev1.ServiceAccountNamespaceKey)
	}
	if len(data[corev1.ServiceAccountTokenKey]) == 0 {
		missing = append(missing, corev1.ServiceAccountTokenKey)
	}
	return missing
}

// annotated returns the metadata of the Secret with the ServiceAccount that its token is of (TOK-15).
func annotated(s snapshot) *metav1.PartialObjectMetadata {
	after := s.Secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, corev1.ServiceAccountNameKey, s.Account.Name)
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, corev1.ServiceAccountUIDKey, string(s.Account.UID))
	return after
}

// planReference takes a Secret that is gone off the list of its ServiceAccount (TOK-11).
func planReference(s snapshot) plan.Plan {
	if s.Gone == "" || s.Account == nil {
		return plan.Plan{Why: "the Secret is gone"}
	}
	after := s.Account.DeepCopy()
	after.Secrets = slices.DeleteFunc(after.Secrets, func(r corev1.ObjectReference) bool { return r.Name == s.Gone })
	if len(after.Secrets) == len(s.Account.Secrets) {
		return plan.Plan{Why: "the Secret is gone, and its ServiceAccount does not refer to it"}
	}
	const why = "the Secret is gone: take it off the list of its ServiceAccount"
	return plan.Plan{Why: why, Steps: []plan.Step{plan.Change{Old: s.Account, New: after, Why: why}}}
}

// isToken reports whether a Secret is for the token of a ServiceAccount.
func isToken(s *corev1.Secret) bool { return s.Type == corev1.SecretTypeServiceAccountToken }

// accountName is the name of the ServiceAccount that a Secret is for, as its annotation says.
func accountName(s metav1.Object) string { return s.GetAnnotations()[corev1.ServiceAccountNameKey] }

// accountOf names the ServiceAccount of a Secret.
func accountOf(s metav1.Object) plan.Ref {
	kind := corev1.SchemeGroupVersion.WithKind("ServiceAccount")
	return plan.Ref{Kind: kind, Namespace: s.GetNamespace(), Name: accountName(s)}
}

// accountUID is the uid of that ServiceAccount, if the Secret names it.
func accountUID(s metav1.Object) types.UID {
	return types.UID(s.GetAnnotations()[corev1.ServiceAccountUIDKey])
}

// names reports whether the Secret is for this very ServiceAccount, which may be nil.
func names(s metav1.Object, a *corev1.ServiceAccount) bool {
	return a != nil && a.Name == accountName(s) && (accountUID(s) == "" || accountUID(s) == a.UID)
}
