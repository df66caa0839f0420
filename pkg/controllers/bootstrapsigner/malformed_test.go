package bootstrapsigner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cluster-bootstrap/token/jws"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

// Whatever the objects are, nothing panics, and a sound token signs.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		odd, m := &corev1.Secret{}, &corev1.ConfigMap{}
		fill(odd)
		fill(m)
		odd.Namespace, odd.Type = "kube-system", "bootstrap.kubernetes.io/token"
		m.Namespace, m.Name, m.Immutable = "kube-public", "cluster-info", nil
		if rapid.Bool().Draw(t, "for signing") {
			odd.Data = map[string][]byte{"usage-bootstrap-signing": []byte("true")}
			fill(&odd.Name)
		}
		if content, ok := m.Data["kubeconfig"]; ok || rapid.Bool().Draw(t, "kubeconfig") {
			m.Data = map[string]string{"kubeconfig": content}
		}
		s := observed(t, m, odd, tokenSecret("aaaaaa"))
		after := written(t, s, planSignatures(epoch, s), odd, tokenSecret("aaaaaa"))
		if content, ok := m.Data["kubeconfig"]; ok &&
			after.Data["jws-kubeconfig-aaaaaa"] != signed(content, "aaaaaa")["jws-kubeconfig-aaaaaa"] {
			t.Error("a sound token does not sign")
		}
		enqueuedByConfigMap(nil, m)
		enqueuedBySecret(odd, nil)
	})
}

// FuzzSigning: whatever a Secret and the kubeconfig hold, a signature is one that kubeadm accepts, and none is empty (BOOT-18, BOOT-35).
func FuzzSigning(f *testing.F) {
	f.Add("abcdef", "abcdef", secretKey, "true", at(0), kubeconfig)
	f.Add("abcdef", "abcdef", secretKey, "true", "", "")
	f.Add("ABCDEF", "ABCDEF", "", "true", "", "\xff\x00")
	f.Add("", "", "\x00", "true", "x", "x")
	f.Fuzz(func(t *testing.T, id, named, key, usage, expiration, content string) {
		secret := called(tokenSecret(id, "token-secret", key, "usage-bootstrap-signing", usage, "expiration", expiration),
			"bootstrap-token-"+named)
		s := observed(t, info(map[string]string{"kubeconfig": content}), secret)
		after := written(t, s, planSignatures(epoch, s), secret)
		if after == nil {
			return
		}
		if id != named || len(after.Data) != 2 || !jws.DetachedTokenIsValid(after.Data["jws-kubeconfig-"+id], content, id, key) {
			t.Errorf("%q", after.Data)
		}
	})
}
