package bootstrapsigner

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func unsigned(m *corev1.ConfigMap) { delete(m.Data, "kubeconfig") }

// A row is a sentence.
func TestPlan(t *testing.T) {
	a, b := signed(kubeconfig, "aaaaaa"), signed(kubeconfig, "bbbbbb")
	both := signed(kubeconfig, "aaaaaa", "bbbbbb")
	foreign := tokenSecret("aaaaaa")
	foreign.Namespace = "shop"
	opaque := tokenSecret("aaaaaa")
	opaque.Type = corev1.SecretTypeOpaque
	for _, c := range []struct {
		name   string
		info   *corev1.ConfigMap
		tokens []*corev1.Secret
		want   map[string]string // the data beside the kubeconfig; nil if nothing is written
		next   time.Duration
	}{
		{"BOOT-15 each token signs", info(nil), []*corev1.Secret{tokenSecret("aaaaaa"), tokenSecret("bbbbbb")}, both, time.Hour},
		{"BOOT-16 the signatures are there", info(both), []*corev1.Secret{tokenSecret("bbbbbb"), tokenSecret("aaaaaa")}, nil, time.Hour},
		{"BOOT-15 the signature of a token that is gone goes", info(both), []*corev1.Secret{tokenSecret("bbbbbb")}, b, time.Hour},
		{"BOOT-15 the last one goes", info(a), nil, map[string]string{}, 0},
		{"BOOT-15 a key that only begins like one of ours goes", info(map[string]string{"jws-kubeconfig-": "", "jws-kubeconfig-?": "x"}),
			nil, map[string]string{}, 0},
		{"BOOT-15 other keys stay", info(map[string]string{"ca": "x", "jws-": "y"}), []*corev1.Secret{tokenSecret("aaaaaa")},
			map[string]string{"ca": "x", "jws-": "y", "jws-kubeconfig-aaaaaa": a["jws-kubeconfig-aaaaaa"]}, time.Hour},
		{"BOOT-22 all are made anew when the kubeconfig has changed", info(signed("old", "aaaaaa", "bbbbbb")),
			[]*corev1.Secret{tokenSecret("aaaaaa"), tokenSecret("bbbbbb")}, both, time.Hour},
		{"an empty kubeconfig is signed", info(map[string]string{"kubeconfig": ""}), []*corev1.Secret{tokenSecret("aaaaaa")},
			map[string]string{"kubeconfig": "", "jws-kubeconfig-aaaaaa": signed("", "aaaaaa")["jws-kubeconfig-aaaaaa"]}, time.Hour},
		{"BOOT-13 without a kubeconfig the signatures stay", info(a, unsigned), nil, nil, 0},
		{"BOOT-11 a missing ConfigMap is not created", nil, []*corev1.Secret{tokenSecret("aaaaaa")}, nil, 0},
		{"one that cannot be changed is left alone", info(nil, func(m *corev1.ConfigMap) { m.Immutable = ptr.To(true) }),
			[]*corev1.Secret{tokenSecret("aaaaaa")}, nil, time.Hour},

		{"BOOT-5 a Secret of another name does not sign", info(a), []*corev1.Secret{called(tokenSecret("aaaaaa"), "aaaaaa")},
			map[string]string{}, 0},
		{"BOOT-5 nor one whose name has an id that is too long", info(nil), []*corev1.Secret{tokenSecret("aaaaaaa")}, nil, 0},
		{"BOOT-5 nor one whose id has capitals", info(nil), []*corev1.Secret{tokenSecret("AAAAAA")}, nil, 0},
		{"BOOT-5 nor one of another namespace", info(nil), []*corev1.Secret{foreign}, nil, 0},
		{"BOOT-5 nor one of another type", info(nil), []*corev1.Secret{opaque}, nil, 0},
		{"BOOT-6 nor one whose name has another id", info(nil), []*corev1.Secret{tokenSecret("aaaaaa", "token-id", "bbbbbb")}, nil, 0},
		{"BOOT-7 nor one without a secret", info(nil), []*corev1.Secret{tokenSecret("aaaaaa", "token-secret", "")}, nil, 0},
		{"BOOT-7 a secret of any length signs", info(nil), []*corev1.Secret{tokenSecret("aaaaaa", "token-secret", "x")},
			map[string]string{
				"jws-kubeconfig-aaaaaa": "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFhYWFhYSJ9..Q3L87qBnBLQPm6F_Dl_sGAscUUxOZln-zaHWBc3QOuo"},
			time.Hour},
		{"BOOT-8 one that has expired at this moment does not sign", info(a), []*corev1.Secret{tokenSecret("aaaaaa", "expiration", at(0))},
			map[string]string{}, 0},
		{"BOOT-8 nor one whose expiration is no time", info(a), []*corev1.Secret{tokenSecret("aaaaaa", "expiration", "tomorrow")},
			map[string]string{}, 0},
		{"BOOT-8 one that never expires signs", info(nil), []*corev1.Secret{tokenSecret("aaaaaa", "expiration", "")}, a, 0},
		{"BOOT-9 one that is not for signing does not", info(a),
			[]*corev1.Secret{tokenSecret("aaaaaa", "usage-bootstrap-signing", "false")}, map[string]string{}, 0},
		{"BOOT-9 nor does one that says so in other words", info(nil),
			[]*corev1.Secret{tokenSecret("aaaaaa", "usage-bootstrap-signing", "True")}, nil, 0},
		{"BOOT-10 what else it is for does not matter", info(nil),
			[]*corev1.Secret{tokenSecret("aaaaaa", "usage-bootstrap-authentication", "false", "auth-extra-groups", "?")}, a, time.Hour},
		{"a malformed token does not stop the others", info(nil),
			[]*corev1.Secret{tokenSecret("bbbbbb", "token-secret", ""), tokenSecret("aaaaaa")}, a, time.Hour},
		{"BOOT-33 it is looked at again when the next one expires", info(both),
			[]*corev1.Secret{tokenSecret("aaaaaa", "expiration", at(2*time.Minute)), tokenSecret("bbbbbb", "expiration", at(time.Minute))},
			nil, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := observed(t, c.info, c.tokens...)
			p := planSignatures(epoch, s)
			if p.Why == "" || p.Requeue != c.next {
				t.Errorf("%q, reconciles again after %v, want %v", p.Why, p.Requeue, c.next)
			}
			var want *corev1.ConfigMap
			if c.want != nil {
				want = c.info.DeepCopy()
				want.Data = map[string]string{"kubeconfig": kubeconfig}
				maps.Copy(want.Data, c.want)
			}
			if diff := cmp.Diff(want, written(t, s, p, c.tokens...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The signature is the same byte for byte, whatever made it.
func TestBOOT18TheSignatureIsTheOneThatKubeadmComputes(t *testing.T) { // BOOT-17, BOOT-18, BOOT-19
	s := observed(t, info(map[string]string{"kubeconfig": "abc"}), tokenSecret("abcdef"))
	got := written(t, s, planSignatures(epoch, s), tokenSecret("abcdef")).Data["jws-kubeconfig-abcdef"]
	if want := "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..vwVSZtyNCgdKEp-DD5cFKgjGBpr91Q2VhGUckncRmxY"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The plan says which Secrets do not sign, and why, but not what they hold.
func TestTheReasonIsSaid(t *testing.T) {
	p := planSignatures(epoch,
		observed(t, info(nil), tokenSecret("aaaaaa", "token-id", "bbbbbb"), tokenSecret("bbbbbb", "token-secret", ""),
			tokenSecret("cccccc", "expiration", "tomorrow"), called(tokenSecret("dddddd"), "odd"), tokenSecret("eeeeee"),
			tokenSecret("ffffff", "usage-bootstrap-signing", "false")))
	want := "1 tokens sign; the Secret bootstrap-token-aaaaaa does not sign: its id is not the one in its name; " +
		"the Secret bootstrap-token-bbbbbb does not sign: it has no secret; the Secret bootstrap-token-cccccc does not sign: its " +
		"expiration is no time; " +
		"the Secret odd does not sign: it is not called after the id of a token; the signatures differ"
	if p.Why != want {
		t.Errorf("%s\nwant %s", p.Why, want)
	}
	var many []*corev1.Secret
	for i := range 100 {
		many = append(many, called(tokenSecret("x"), fmt.Sprint("odd-", i)))
	}
	if p := planSignatures(epoch, observed(t, info(nil), many...)); !strings.Contains(p.Why, "95 more Secrets do not sign") ||
		len(p.Why) > 1000 {
		t.Errorf("%s", p.Why)
	}
}

func TestEnqueues(t *testing.T) { // BOOT-11, BOOT-32
	other := info(nil, func(m *corev1.ConfigMap) { m.Name = "other" })
	foreign := info(nil, func(m *corev1.ConfigMap) { m.Namespace = "shop" })
	opaque := tokenSecret("aaaaaa")
	opaque.Type = corev1.SecretTypeOpaque
	for _, c := range []struct {
		name string
		keys []plan.Key
		want int
	}{
		{"a new ConfigMap", enqueuedByConfigMap(nil, info(nil)), 1},
		{"one that changes, or is delivered again", enqueuedByConfigMap(info(nil), info(nil)), 1},
		{"one that is gone, of which nothing is to be remembered", enqueuedByConfigMap(info(nil), nil), 1},
		{"a ConfigMap of another name", enqueuedByConfigMap(nil, other), 0},
		{"a ConfigMap of another namespace", enqueuedByConfigMap(foreign, foreign), 0},
		{"a new token", enqueuedBySecret(nil, tokenSecret("aaaaaa")), 1},
		{"a token of any name that changes", enqueuedBySecret(tokenSecret("aaaaaa"), called(tokenSecret("aaaaaa"), "x")), 1},
		{"a token that is gone", enqueuedBySecret(tokenSecret("aaaaaa"), nil), 1},
		{"another Secret", enqueuedBySecret(opaque, opaque), 0},
	} {
		if len(c.keys) != c.want || c.want == 1 && c.keys[0] != (plan.Key{Namespace: "kube-public", Name: "cluster-info"}) {
			t.Errorf("%s enqueues %v", c.name, c.keys)
		}
	}
}

func TestEntry(t *testing.T) {
	c := New(Options{})
	// BOOT-1
	if diff := cmp.Diff([]string{"bootstrap-signer-controller", "bootstrapsigner", "bootstrap-signer"},
		[]string{c.Name, c.Alias, c.Account}); diff != "" {
		t.Error(diff)
	}
	if !c.OffByDefault || c.Flags != nil { // BOOT-3
		t.Error("it is on by default, or has flags")
	}
}
