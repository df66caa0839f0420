package bootstrapsigner

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"

	"github.com/standalone-kcm/controller-manager/internal/credentials/bootstraptoken"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	configMaps informers.Store[*corev1.ConfigMap]
	secrets    informers.Store[*corev1.Secret] // of bootstrap tokens
}

// newCaches asks for the cache of the one ConfigMap, and for that of the Secrets of bootstrap tokens. Other
// objects of both kinds are not cached.
func newCaches(f *informers.Factory) (*caches, error) {
	configMaps, err1 := informers.Objects[*corev1.ConfigMap](informers.Selecting(f, selector()))
	secrets, err2 := informers.Objects[*corev1.Secret](informers.Selecting(f, bootstraptoken.Selector()),
		bootstraptoken.Fields()...)
	return &caches{configMaps, secrets}, errors.Join(err1, err2)
}

// observe finds the ConfigMap, and which tokens may sign it and have. The secrets of the tokens are not in the
// snapshot.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}],
	err error) {
	m := k.configMaps.Get(r.Key.Namespace, r.Key.Name)
	if m == nil {
		return o, nil
	}
	o.Exists, o.Snapshot.ConfigMap = true, m
	content, ok := m.Data[api.KubeConfigKey]
	if !ok {
		return o, nil
	}
	for secret := range k.secrets.All() {
		if bootstraptoken.Is(secret) {
			o.Snapshot.add(secret, m.Data, content)
		}
	}
	slices.SortFunc(o.Snapshot.Tokens, func(a, b token) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(o.Snapshot.Unusable, func(a, b unusable) int { return cmp.Compare(a.Secret, b.Secret) })
	return o, nil
}

// add adds the token of a Secret, if the token is for signing (BOOT-14). No two Secrets can have tokens of the same
// id, because the name of a Secret must have the id, too.
func (s *snapshot) add(secret *corev1.Secret, signed map[string]string, content string) {
	data := func(key string) string { return bootstrapsecrets.GetData(secret, key) }
	if data(api.BootstrapTokenUsageSigningKey) != "true" {
		return
	}
	refuse := func(why string) { s.Unusable = append(s.Unusable, unusable{Secret: secret.Name, Why: why}) }
	id, named := bootstrapsecrets.ParseName(secret.Name)
	key := data(api.BootstrapTokenSecretKey)
	expires, readable := bootstraptoken.Expiration(secret)
	switch {
	case !named:
		refuse("it is not called after the id of a token")
		return
	case data(api.BootstrapTokenIDKey) != id:
		refuse("its id is not the one in its name")
		return
	case key == "":
		refuse("it has no secret")
		return
	case !readable:
		refuse("its expiration is no time")
		return
	}
	signature, err := jws.ComputeDetachedSignature(content, id, key)
	if err != nil {
		refuse("its secret cannot sign")
		return
	}
	s.Tokens = append(s.Tokens,
		token{ID: id, Expires: expires, Signed: signed[api.JWSSignatureKeyPrefix+id] == signature})
}
