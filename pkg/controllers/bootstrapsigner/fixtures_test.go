package bootstrapsigner

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/cluster-bootstrap/token/jws"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is the expiration of a token so long after epoch.
func at(after time.Duration) string { return epoch.Add(after).Format(time.RFC3339) }

const (
	kubeconfig = "apiVersion: v1\nkind: Config\n"
	secretKey  = "0123456789abcdef"
)

// info is the ConfigMap cluster-info with these data besides the kubeconfig.
func info(data map[string]string, edits ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info", UID: "info", Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{"kubeconfig": kubeconfig},
		BinaryData: map[string][]byte{"x": {1}},
	}
	maps.Copy(m.Data, data)
	for _, edit := range edits {
		edit(m)
	}
	return m
}

// tokenSecret is a bootstrap token as kubeadm makes it, with some of its data changed: a key and a value after the other.
func tokenSecret(id string, changes ...string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id, UID: types.UID(id)},
		Type:       "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte(secretKey), "expiration": []byte(at(time.Hour)), "description": []byte("x"),
			"usage-bootstrap-signing": []byte("true"), "usage-bootstrap-authentication": []byte("true"),
		},
	}
	for i := 0; i < len(changes); i += 2 {
		s.Data[changes[i]] = []byte(changes[i+1])
	}
	return s
}

func called(s *corev1.Secret, name string) *corev1.Secret {
	s.Name = name
	return s
}

// signed are the data that tokens with these ids make of a kubeconfig, by the library that kubeadm verifies them with.
func signed(content string, ids ...string) map[string]string {
	data := map[string]string{}
	for _, id := range ids {
		signature, err := jws.ComputeDetachedSignature(content, id, secretKey)
		if err != nil {
			panic(err)
		}
		data["jws-kubeconfig-"+id] = signature
	}
	return data
}

type failer interface{ Fatal(...any) }

// observed is what the controller observes of these objects; m may be nil.
func observed(t failer, m *corev1.ConfigMap, tokens ...*corev1.Secret) snapshot {
	s, _ := seenIn(t, m, tokens...)
	return s
}

// seenIn is likewise what the controller observes, and its caches.
func seenIn(t failer, m *corev1.ConfigMap, tokens ...*corev1.Secret) (snapshot, *caches) {
	k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0))
	if err != nil {
		t.Fatal(err)
	}
	if m != nil {
		err = k.configMaps.Informer().GetStore().Add(m)
	}
	for _, s := range tokens {
		if err == nil {
			err = k.secrets.Informer().GetStore().Add(s)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	o, err := k.observe(context.Background(), reconcile.Request[struct{}]{Key: clusterInfo(), Now: epoch})
	if err != nil || o.Exists != (m != nil) {
		t.Fatal("the ConfigMap exists:", o.Exists, err)
	}
	return o.Snapshot, k
}

// written is the ConfigMap as the plan leaves it, with the signatures of these tokens; nil if it writes nothing.
func written(t failer, s snapshot, p plan.Plan, tokens ...*corev1.Secret) *corev1.ConfigMap {
	if p.Empty() {
		return nil
	}
	change := p.Steps[0].(plan.Change)
	if len(p.Steps) != 1 || change.Old != plan.Object(s.ConfigMap) || change.New == change.Old {
		t.Fatal("it does not change what was observed")
	}
	_, k := seenIn(t, s.ConfigMap, tokens...)
	sent, err := k.sign(epoch, change)
	if err != nil {
		t.Fatal(err)
	}
	return sent.New.(*corev1.ConfigMap)
}
