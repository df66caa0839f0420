package tokencleaner

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is the expiration of a token so long after epoch.
func at(after time.Duration) string { return epoch.Add(after).Format(time.RFC3339) }

// token is a bootstrap token as kubeadm makes it.
func token(name, expiration string, edits ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID("uid-" + name)},
		Type:       "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "expiration": []byte(expiration),
			"usage-bootstrap-signing": []byte("true"), "usage-bootstrap-authentication": []byte("true"), "description": []byte("x"),
			"auth-extra-groups": []byte("system:bootstrappers:kubeadm:default-node-token"),
		},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

const name = "bootstrap-token-abcdef"

func without(key string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { delete(s.Data, key) }
}

// observed is what the controller observes of a Secret.
func observed(t interface{ Fatal(...any) }, s *corev1.Secret) snapshot {
	k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0))
	if err == nil {
		err = k.secrets.Informer().GetStore().Add(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	o, err := k.observe(context.Background(), reconcile.Request[struct{}]{Key: plan.Key{Namespace: s.Namespace, Name: s.Name}, Now: epoch})
	if err != nil || !o.Exists {
		t.Fatal(err)
	}
	return o.Snapshot
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name    string
		secret  *corev1.Secret
		deletes bool
		next    time.Duration
	}{
		{"BOOT-24 a token that has expired goes", token(name, at(-time.Second)), true, 0},
		{"BOOT-24 it has expired at the moment of its expiration", token(name, at(0)), true, 0},
		{"BOOT-25 one that expires in a second is looked at then", token(name, at(time.Second)), false, time.Second},
		{"BOOT-25 one that expires tomorrow is looked at each hour", token(name, at(24*time.Hour)), false, time.Hour},
		{"BOOT-25 one without an expiration stays", token(name, "", without("expiration")), false, 0},
		{"BOOT-8 one with an empty expiration stays", token(name, ""), false, 0},
		{"BOOT-8 one whose expiration is no time goes", token(name, "tomorrow"), true, 0},
		{"BOOT-23 its name does not matter", token("x", at(0)), true, 0},
		{"BOOT-10 what it is for does not matter", token(name, at(0), without("usage-bootstrap-signing"), without("token-id")), true, 0},
		{"one that is being deleted is left alone",
			token(name, at(0), func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: epoch} }), false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := observed(t, c.secret)
			p := planDeletion(epoch, s)
			if p.Why == "" || p.Requeue != c.next {
				t.Errorf("%q, reconciles again after %v, want %v", p.Why, p.Requeue, c.next)
			}
			var want []plan.Step
			if c.deletes { // BOOT-24
				want = []plan.Step{plan.Delete{Objects: []plan.Object{s.Secret}, CheckVersion: true, Why: p.Steps[0].(plan.Delete).Why}}
			}
			if diff := cmp.Diff(want, p.Steps); diff != "" {
				t.Error(diff)
			}
			if s.Secret.Name != c.secret.Name || s.Secret.UID != c.secret.UID || len(s.Secret.Data) > 0 {
				t.Errorf("the snapshot has %v", s.Secret)
			}
		})
	}
	if p := planDeletion(epoch, snapshot{}); !p.Empty() || p.Why == "" {
		t.Errorf("a token that is gone: %+v", p)
	}
}

func TestEnqueues(t *testing.T) { // BOOT-23, BOOT-5
	own := token(name, "")
	other := token(name, "", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
	foreign := token(name, "", func(s *corev1.Secret) { s.Namespace = "shop" })
	for _, c := range []struct {
		name string
		keys []plan.Key
		want int
	}{
		{"a new token", enqueuedBySecret(nil, own), 1},
		{"a token that changes, or is delivered again", enqueuedBySecret(own, own), 1},
		{"a token that is gone, of which nothing is to be remembered", enqueuedBySecret(own, nil), 1},
		{"a Secret of another type", enqueuedBySecret(nil, other), 0},
		{"a Secret of another namespace", enqueuedBySecret(nil, foreign), 0},
		{"another object", enqueuedBySecret(nil, &corev1.ConfigMap{}), 0},
	} {
		if len(c.keys) != c.want || c.want == 1 && c.keys[0] != (plan.Key{Namespace: "kube-system", Name: name}) {
			t.Errorf("%s enqueues %v", c.name, c.keys)
		}
	}
}

func TestEntry(t *testing.T) {
	c := New(Options{})
	// BOOT-2
	if diff := cmp.Diff([]string{"token-cleaner-controller", "tokencleaner", "token-cleaner"},
		[]string{c.Name, c.Alias, c.Account}); diff != "" {
		t.Error(diff)
	}
	if !c.OffByDefault || c.Flags != nil { // BOOT-3
		t.Error("it is on by default, or has flags")
	}
}
