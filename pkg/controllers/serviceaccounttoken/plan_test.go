package serviceaccounttoken

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*corev1.Secret)

// secret is one that a user has just created for the ServiceAccount builder.
func secret(edits ...edit) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "token", UID: "secret", ResourceVersion: "5",
			Labels:      map[string]string{"app": "x"},
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "builder"}},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// of is the ServiceAccount that the Secret was made for.
func of(uid string) edit {
	return func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = uid }
}

func holding(pairs ...string) edit {
	return func(s *corev1.Secret) {
		s.Data = map[string][]byte{}
		for _, pair := range pairs {
			key, value, _ := strings.Cut(pair, "=")
			s.Data[key] = []byte(value)
		}
	}
}

func named(name string) edit { return func(s *corev1.Secret) { s.Name = name } }

func leaving(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: epoch} }

func nameless(s *corev1.Secret) { s.Annotations = nil }

// complete is as the controller leaves it.
func complete(s *corev1.Secret) {
	of("a1")(s)
	holding("ca.crt=CA", "namespace=shop", "token=T")(s)
}

func account(uid types.UID, secrets ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "builder", UID: uid, ResourceVersion: "3"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "token"}}}
	for _, name := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: name})
	}
	return a
}

// A row is a sentence. What is to be done is "" for nothing, "delete", or the data that the Secret has afterwards.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name string
		scene
		want string
	}{
		{"TOK-16 a Secret that asks for a token gets one", scene{Secret: secret(), Account: account("a1")},
			"ca.crt=CA namespace=shop token=T"},
		{"TOK-16 the same with the uid", scene{Secret: secret(of("a1")), Account: account("a1")}, "ca.crt=CA namespace=shop token=T"},
		{"TOK-13 all is there", scene{Secret: secret(complete), Account: account("a1")}, ""},
		{"TOK-13 a token is not looked at",
			scene{Secret: secret(complete, func(s *corev1.Secret) { s.Data["token"] = []byte("X") }), Account: account("a1")}, ""},
		{"TOK-13 another namespace is not looked at",
			scene{Secret: secret(complete, func(s *corev1.Secret) { s.Data["namespace"] = []byte("X") }), Account: account("a1")}, ""},
		{"TOK-17 other authorities", scene{Secret: secret(complete), Account: account("a1"), Bundle: "new"},
			"ca.crt=new namespace=shop token=T"},
		{"TOK-13 no authorities", scene{Secret: secret(complete), Account: account("a1"), Bundle: "none"}, ""},
		{"TOK-15 other data stay", scene{Secret: secret(holding("x=y", "token=old")), Account: account("a1")},
			"ca.crt=CA namespace=shop token=old x=y"},
		{"TOK-15 an empty token counts as none",
			scene{Secret: secret(complete, holding("ca.crt=CA", "namespace=shop", "token=")), Account: account("a1")},
			"ca.crt=CA namespace=shop token=T"},
		{"TOK-12 no ServiceAccount", scene{Secret: secret()}, "delete"},
		{"TOK-12 no ServiceAccount, and complete", scene{Secret: secret(complete)}, "delete"},
		{"TOK-12 another ServiceAccount of the name", scene{Secret: secret(complete), Account: account("a2")}, "delete"},
		{"TOK-24 a new ServiceAccount, and no uid", scene{Secret: secret(), Account: account("a2")}, "ca.crt=CA namespace=shop token=T"},
		{"TOK-7 no name", scene{Secret: secret(nameless)}, ""},
		{"it is being deleted", scene{Secret: secret(leaving), Account: account("a1")}, ""},
		{"it is gone", scene{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			switch c.Bundle {
			case "":
				c.Bundle = "CA"
			case "none":
				c.Bundle = ""
			}
			before := c.Secret.DeepCopy()
			p := planSecret(epoch, c.snapshot())
			if got := c.done(p); got != c.want {
				t.Errorf("%s: %q, want %q", p.Why, got, c.want)
			}
			if diff := cmp.Diff(before, c.Secret); diff != "" {
				t.Errorf("the plan changes what was observed: %s", diff)
			}
		})
	}
}

// TOK-12: an account that the cache lacks is there. As its end may cause no event, the Secret is looked at again.
func TestUnseenAccounts(t *testing.T) {
	for _, c := range []struct {
		scene
		live []plan.Object
		want string
		time.Duration
	}{
		{scene{Secret: secret(complete), Bundle: "CA"}, nil, "delete", 0},
		{scene{Secret: secret(complete), Bundle: "CA"}, []plan.Object{account("a1")}, "", lookAgain},
		{scene{Secret: secret(), Bundle: "CA"}, []plan.Object{account("a1")}, "ca.crt=CA namespace=shop token=T", lookAgain},
		{scene{Secret: secret(complete), Bundle: "CA"}, []plan.Object{account("a2")}, "delete", 0},
	} {
		read := map[plan.Ref]reconcile.Reading{accountOf(c.Secret): {Objects: c.live}}
		p := planSecret(epoch, prove(observation{Snapshot: c.snapshot()}, reconcile.Proof{Read: read}).Snapshot)
		if got := c.done(p); got != c.want || p.Requeue != c.Duration {
			t.Errorf("%s: %q, again in %v, want %q", p.Why, got, p.Requeue, c.want)
		}
	}
}

// scene is a Secret, whole, and what there is besides it.
type scene struct {
	Secret  *corev1.Secret
	Account *corev1.ServiceAccount
	Bundle  string
}

// snapshot is what is observed.
func (c scene) snapshot() snapshot {
	s := snapshot{Account: c.Account}
	if c.Secret != nil {
		s.Secret, s.Missing = metadataOf(c.Secret), missingKeys(c.Secret.Data, c.Bundle)
	}
	return s
}

// written is the Secret as a change leaves it, with T for a token.
func (c scene) written(change plan.Change) *corev1.Secret {
	sent, err := withSigned(change, c.Secret, c.Bundle, func(*corev1.ServiceAccount) (string, error) { return "T", nil })
	if err != nil {
		panic(err)
	}
	return sent.New.(*corev1.Secret)
}

// done says what a plan does to a Secret.
func (c scene) done(p plan.Plan) string {
	if p.Empty() {
		return ""
	}
	if d, ok := p.Steps[0].(plan.Delete); ok {
		switch {
		case !d.CheckVersion:
			return "delete whatever has the name"
		case !slices.Equal(p.Proof, []plan.Ref{{Kind: client.KindFor[*corev1.ServiceAccount](), Namespace: "shop", Name: "builder"}}):
			return fmt.Sprintf("delete without a live read of the ServiceAccount: %v", p.Proof)
		}
		return "delete"
	}
	var all []string
	for key, value := range c.written(p.Steps[0].(plan.Change)).Data {
		all = append(all, fmt.Sprintf("%s=%s", key, value))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestTOK15Annotations(t *testing.T) {
	s := scene{Secret: secret(func(s *corev1.Secret) { s.Annotations["team"] = "a" }), Account: account("a1"), Bundle: "CA"}
	after := s.written(planSecret(epoch, s.snapshot()).Steps[0].(plan.Change))
	want := map[string]string{corev1.ServiceAccountNameKey: "builder", corev1.ServiceAccountUIDKey: "a1", "team": "a"}
	if diff := cmp.Diff(want, after.GetAnnotations()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(s.Secret.Labels, after.GetLabels()); diff != "" {
		t.Error(diff)
	}
}

func TestTOK11References(t *testing.T) {
	for _, c := range []struct {
		name string
		snapshot
		want []corev1.ObjectReference
	}{
		{"the only one", snapshot{Gone: "token", Account: account("a1", "token")}, []corev1.ObjectReference{}},
		{"one of several", snapshot{Gone: "token", Account: account("a1", "a", "token", "b")},
			[]corev1.ObjectReference{{Name: "a"}, {Name: "b"}}},
		{"none", snapshot{Gone: "token", Account: account("a1", "a")}, nil},
		{"no ServiceAccount", snapshot{Gone: "token"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planSecret(epoch, c.snapshot)
			if p.Empty() {
				if c.want != nil {
					t.Errorf("nothing is done: %s", p.Why)
				}
				return
			}
			after := p.Steps[0].(plan.Change).New.(*corev1.ServiceAccount)
			if diff := cmp.Diff(c.want, after.Secrets); diff != "" {
				t.Error(diff)
			}
			if len(after.ImagePullSecrets) != 1 {
				t.Error("imagePullSecrets have changed")
			}
		})
	}
}

// draw is any scene.
func draw(t *rapid.T) (s scene) {
	fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
	some := func(o plan.Object, what string) bool {
		fill(o)
		o.SetNamespace("shop") // no server has one without
		return rapid.Bool().Draw(t, what)
	}
	one, a := &corev1.Secret{}, &corev1.ServiceAccount{}
	if some(one, "Secret") {
		s.Secret = one
	}
	if some(a, "account") {
		s.Account = a
	}
	if s.Secret != nil && s.Account != nil && rapid.Bool().Draw(t, "matches") {
		s.Secret.DeletionTimestamp = nil
		s.Secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: a.Name, corev1.ServiceAccountUIDKey: string(a.UID)}
	}
	s.Bundle = rapid.SampledFrom([]string{"", "CA"}).Draw(t, "bundle")
	return s
}

// drawSnapshot is what is observed of any scene.
func drawSnapshot(t *rapid.T) (scene, snapshot) {
	c := draw(t)
	s := c.snapshot()
	if s.Secret == nil && rapid.Bool().Draw(t, "gone") {
		s.Gone = "token"
		if s.Account != nil && rapid.Bool().Draw(t, "listed") {
			s.Account.Secrets = append(s.Account.Secrets, corev1.ObjectReference{Name: "token"})
		}
	}
	return c, s
}

// Whatever the objects are, planning does not panic or change them.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := drawSnapshot(t)
		secret, account := c.Secret.DeepCopy(), c.Account.DeepCopy()
		p := planSecret(epoch, s)
		if diff := cmp.Diff(secret, c.Secret) + cmp.Diff(account, c.Account); diff != "" || p.Why == "" || p.Requeue != 0 {
			t.Errorf("%q, again in %v, changed: %s", p.Why, p.Requeue, diff)
		}
	})
}

// TOK-11, TOK-12, TOK-13, TOK-15: a token that is there stays, the Secret of a living ServiceAccount is not deleted, and when the plan
// was carried out, nothing is left to do.
func TestTokensStayAndPlansAreDoneAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := drawSnapshot(t)
		p := planSecret(epoch, s)
		if p.Empty() {
			return
		}
		change, ok := p.Steps[0].(plan.Change)
		if !ok {
			if names(c.Secret, c.Account) {
				t.Error("the Secret of a living ServiceAccount is deleted")
			}
			return
		}
		if after, ok := change.New.(*corev1.ServiceAccount); ok {
			s.Account = after
		} else {
			after := c.written(change)
			if token := c.Secret.Data["token"]; len(token) > 0 && string(after.Data["token"]) != string(token) {
				t.Error("a token was replaced")
			}
			c.Secret = after
			s = c.snapshot()
		}
		if again := planSecret(epoch, s); !again.Empty() {
			t.Errorf("it is not done: %s", again.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, s := drawSnapshot(t)
		plantest.Same(t, planSecret(epoch, s), planSecret(epoch, plantest.Restored(t, s)))
	})
}

// Secrets and ServiceAccounts are cached whole, but for managedFields. The controller is off without a key, as in
// managertest.Projection, so that stands here, too.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := projection.New(projection.Fields{Kinds: map[schema.GroupVersionKind][]string{client.KindFor[*corev1.Secret](): {},
		client.KindFor[*corev1.ServiceAccount](): {}}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		c, s := drawSnapshot(t)
		if c.Account != nil {
			c.Account.ManagedFields = nil
		}
		cached := scene{plantest.Kept(t, kept, c.Secret), plantest.Kept(t, kept, c.Account), c.Bundle}.snapshot()
		cached.Gone = s.Gone
		if s.Secret != nil {
			s.Secret.ManagedFields = nil
		}
		plantest.Same(t, planSecret(epoch, s), planSecret(epoch, cached))
	})
}

// BenchmarkPlan plans for a Secret that lacks nothing.
func BenchmarkPlan(b *testing.B) {
	s := scene{Secret: secret(complete), Account: account("a1"), Bundle: "CA"}.snapshot()
	for b.Loop() {
		if p := planSecret(epoch, s); !p.Empty() {
			b.Fatal(p.Why)
		}
	}
}

// The token is signed right before the write, and other data are put in then: what was observed and planned does not hold them.
func TestPlansHoldNoCredential(t *testing.T) {
	const secretly, signed = "cGFzc3dvcmQ", "T0KEN"
	c := scene{Secret: secret(holding("password=" + secretly)), Account: account("a1"), Bundle: "CA"}
	s := c.snapshot()
	p := planSecret(epoch, s)
	sent, err := withSigned(p.Steps[0].(plan.Change), c.Secret, c.Bundle,
		func(*corev1.ServiceAccount) (string, error) { return signed, nil })
	if err != nil || string(sent.New.(*corev1.Secret).Data["token"]) != signed {
		t.Fatalf("sent: %+v, %v", sent.New, err)
	}
	for what, o := range map[string]any{"snapshot": s, "plan": p} {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, credential := range []string{secretly, signed} {
			if bytes.Contains(text, []byte(credential)) ||
				bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(credential)))) {
				t.Errorf("the %s holds a credential: %s", what, text)
			}
		}
	}
}
