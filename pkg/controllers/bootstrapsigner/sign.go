package bootstrapsigner

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// sign signs with the tokens whose ids the change names. A token that is gone meanwhile leads to another plan.
func (k *caches) sign(_ time.Time, c plan.Change) (plan.Change, error) {
	after, ok := c.New.DeepCopyObject().(*corev1.ConfigMap)
	if !ok {
		return c, fmt.Errorf("no token signs a %T", c.New)
	}
	if after.Data == nil {
		after.Data = map[string]string{}
	}
	for _, id := range c.Sign {
		secret := k.secrets.Get(metav1.NamespaceSystem, api.BootstrapTokenSecretPrefix+id)
		if secret == nil {
			return c, plan.ErrStale
		}
		key := bootstrapsecrets.GetData(secret, api.BootstrapTokenSecretKey)
		signature, err := jws.ComputeDetachedSignature(after.Data[api.KubeConfigKey], id, key)
		if err != nil {
			return c, fmt.Errorf("sign with the token %s: %w", id, err)
		}
		after.Data[api.JWSSignatureKeyPrefix+id] = signature
	}
	c.New = after
	return c, nil
}
