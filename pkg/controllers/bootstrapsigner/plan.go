package bootstrapsigner

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cluster-bootstrap/token/api"

	"github.com/standalone-kcm/controller-manager/internal/credentials/bootstraptoken"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is the ConfigMap and what is known of the tokens, as one reconcile has observed it. Observe fills
// it, and planSignatures reads it. The ConfigMap belongs to a shared cache.
type snapshot struct {
	ConfigMap *corev1.ConfigMap // nil if there is none
	Tokens    []token           // that are for signing, by their ids
	Unusable  []unusable        // that should be for signing, and cannot be, by their names
}

// token is a bootstrap token that can sign. Its secret part is not kept: whether the signature is right is
// found out in Observe.
type token struct {
	ID      string
	Expires *time.Time // nil for never
	Signed  bool       // the ConfigMap has its signature
}

// unusable says why a Secret does not have a token that can sign. It is only for the explanation of the plan.
type unusable struct{ Secret, Why string }

// planSignatures brings the signatures of the ConfigMap to those of the tokens that have not expired (BOOT-15). It is
// done again when the next of them expires (BOOT-33).
func planSignatures(now time.Time, s snapshot) plan.Plan {
	if s.ConfigMap == nil {
		return plan.Plan{Why: "there is no ConfigMap to sign"}
	}
	if _, ok := s.ConfigMap.Data[api.KubeConfigKey]; !ok {
		return plan.Plan{Why: "the ConfigMap has no kubeconfig to sign"}
	}
	data := maps.Clone(s.ConfigMap.Data)
	maps.DeleteFunc(data, func(key, _ string) bool { return strings.HasPrefix(key, api.JWSSignatureKeyPrefix) })
	var p plan.Plan
	var unsigned []string // the ids of tokens that are to sign
	signing := 0
	for _, t := range s.Tokens {
		expired, again := bootstraptoken.Expired(now, t.Expires)
		if expired {
			continue
		}
		if t.Signed {
			data[api.JWSSignatureKeyPrefix+t.ID] = s.ConfigMap.Data[api.JWSSignatureKeyPrefix+t.ID]
		} else {
			unsigned = append(unsigned, t.ID)
		}
		signing++
		p.Requeue = plan.Sooner(p.Requeue, again)
	}
	p.Why = fmt.Sprintf("%d tokens sign%s", signing, explain(s.Unusable))
	switch {
	case len(unsigned) == 0 && maps.Equal(data, s.ConfigMap.Data):
		return p
	case s.ConfigMap.Immutable != nil && *s.ConfigMap.Immutable:
		p.Why += "; the signatures differ, but the ConfigMap cannot be changed"
		return p
	}
	p.Why += "; the signatures differ"
	after := s.ConfigMap.DeepCopy()
	after.Data = data
	p.Steps = []plan.Step{plan.Change{Old: s.ConfigMap, New: after, Sign: unsigned,
		Why: "the signatures are not those of the tokens"}}
	return p
}

// mostExplained is how many Secrets an explanation names.
const mostExplained = 5

// explain says which Secrets do not have a token that can sign, as far as that fits into a line.
func explain(all []unusable) string {
	var text strings.Builder
	for i, one := range all {
		if i == mostExplained {
			fmt.Fprintf(&text, "; %d more Secrets do not sign", len(all)-i)
			break
		}
		fmt.Fprintf(&text, "; the Secret %s does not sign: %s", one.Secret, one.Why)
	}
	return text.String()
}
