package serviceaccounttoken

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// sign signs the token that a Secret lacks, and puts it in with the other data. The Secret must still be the one that
// was planned for.
func (k *caches) sign(_ time.Time, c plan.Change) (plan.Change, error) {
	secret := k.secrets.Get(c.Old.GetNamespace(), c.Old.GetName())
	if secret == nil || secret.UID != c.Old.GetUID() || secret.ResourceVersion != c.Old.GetResourceVersion() {
		return c, plan.ErrStale
	}
	return withSigned(c, secret, k.bundle.Get(),
		func(a *corev1.ServiceAccount) (string, error) { return k.key.Now().token(a, secret) })
}

// withSigned returns the change of the Secret with all that it lacks (TOK-15).
func withSigned(
	c plan.Change, secret *corev1.Secret, bundle string, sign func(*corev1.ServiceAccount) (string, error),
) (plan.Change, error) {
	after := secret.DeepCopy()
	after.Annotations = c.New.GetAnnotations()
	if after.Data == nil {
		after.Data = map[string][]byte{}
	}
	for _, key := range c.Sign {
		switch key {
		case corev1.ServiceAccountRootCAKey:
			after.Data[key] = []byte(bundle)
		case corev1.ServiceAccountNamespaceKey:
			after.Data[key] = []byte(secret.Namespace)
		case corev1.ServiceAccountTokenKey:
			token, err := sign(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
				Namespace: secret.Namespace, Name: accountName(after), UID: accountUID(after),
			}})
			if err != nil {
				return c, err
			}
			after.Data[key] = []byte(token)
		}
	}
	c.Old, c.New = secret, after
	return c, nil
}
