package serviceaccounttoken

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// accountsOf returns the ServiceAccount that a Secret names, with its namespace, as the index of Secrets has it.
func accountsOf(s *corev1.Secret) []string {
	if name := accountName(s); isToken(s) && name != "" {
		return []string{plan.Key{Namespace: s.Namespace, Name: name}.String()}
	}
	return nil
}

// enqueuedBySecret returns the Secret itself if tokens are kept in it (TOK-6). The cache has no others.
func enqueuedBySecret(before, after plan.Object) []plan.Key {
	o := cmp.Or(after, before)
	if s, ok := o.(*corev1.Secret); !ok || !isToken(s) {
		return nil
	}
	return []plan.Key{plan.KeyOf(o)}
}

// enqueuedByAccount returns the Secrets of a ServiceAccount that is new, was deleted, or was replaced by another one
// of its name (TOK-5).
func (k *caches) enqueuedByAccount(before, after plan.Object) (keys []plan.Key) {
	account := after
	switch {
	case after == nil:
		account = before
	case before != nil && before.GetUID() == after.GetUID():
		return nil
	}
	for _, s := range k.secrets.By(plan.KeyOf(account).String()) {
		keys = append(keys, plan.KeyOf(s))
	}
	return keys
}
