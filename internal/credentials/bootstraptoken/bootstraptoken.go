package bootstraptoken

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/util/secrets"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Namespace has all bootstrap tokens (BOOT-5).
const Namespace = metav1.NamespaceSystem

// longestWait is after how long a token that has not expired is looked at again at the latest. A timer does not
// notice that a clock was set, nor that a machine was suspended.
const longestWait = time.Hour

// Kind is that of Secrets.
func Kind() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Secret") }

// Fields are what is read of the Secrets.
func Fields() []string { return []string{"type", "data"} }

// Selector selects the Secrets of bootstrap tokens, so that caches hold no others (BOOT-34).
func Selector() fields.Selector {
	return fields.AndSelectors(fields.OneTermEqualSelector("metadata.namespace", Namespace),
		fields.OneTermEqualSelector("type", string(api.SecretTypeBootstrapToken)))
}

// Is reports whether the object is a Secret of a bootstrap token (BOOT-5).
func Is(o plan.Object) bool {
	s, ok := o.(*corev1.Secret)
	return ok && s.Namespace == Namespace && s.Type == api.SecretTypeBootstrapToken
}

// Expiration returns when the token of the Secret expires, nil for never; false if what the Secret says is no time
// (BOOT-8).
func Expiration(s *corev1.Secret) (*time.Time, bool) {
	text := secrets.GetData(s, api.BootstrapTokenExpirationKey)
	if text == "" {
		return nil, true
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, false
	}
	return &at, true
}

// Expired reports whether a token that expires then has done so, and if it has not, after how long to ask again; zero
// for never.
func Expired(now time.Time, expires *time.Time) (expired bool, again time.Duration) {
	switch {
	case expires == nil:
		return false, 0
	case !expires.After(now):
		return true, 0
	}
	return false, min(expires.Sub(now), longestWait)
}
