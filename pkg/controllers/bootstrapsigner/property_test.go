package bootstrapsigner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cluster-bootstrap/token/jws"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var ids = []string{"aaaaaa", "bbbbbb", "cccccc", "0a1b2c"}

// anyToken draws a token that is sound in most of its data.
func anyToken() *rapid.Generator[*corev1.Secret] {
	return rapid.Custom(func(t *rapid.T) *corev1.Secret {
		s := tokenSecret(rapid.SampledFrom(ids).Draw(t, "id"))
		for key, values := range map[string][]string{
			"token-id": ids, "token-secret": {"", "x", "\x00\xff"},
			"expiration":              {"", "tomorrow", at(-time.Hour), at(0), at(time.Minute), at(50 * time.Hour)},
			"usage-bootstrap-signing": {"", "false", "1"},
		} {
			if rapid.IntRange(0, 5).Draw(t, key) == 0 {
				s.Data[key] = []byte(rapid.SampledFrom(values).Draw(t, "value"))
			}
		}
		return s
	})
}

func anyTokens(t *rapid.T) []*corev1.Secret {
	return rapid.SliceOfNDistinct(anyToken(), 0, 4, (*corev1.Secret).GetName).Draw(t, "tokens")
}

// anyInfo draws a ConfigMap, with signatures right and wrong.
func anyInfo(t *rapid.T) *corev1.ConfigMap {
	m := info(signed(rapid.SampledFrom([]string{kubeconfig, "old"}).Draw(t, "signed"),
		rapid.SliceOf(rapid.SampledFrom(ids)).Draw(t, "ids")...))
	for _, key := range rapid.SliceOf(rapid.SampledFrom([]string{"jws-kubeconfig-", "jws-kubeconfig-zzzzzz", "mine"})).Draw(t, "more") {
		m.Data[key] = "x"
	}
	if rapid.IntRange(0, 5).Draw(t, "kubeconfig") == 0 {
		delete(m.Data, "kubeconfig")
	}
	return m
}

// decision is what a plan comes to.
func decision(p plan.Plan) string {
	text := fmt.Sprint(p.Why, p.Requeue)
	for _, step := range p.Steps {
		text += fmt.Sprint(step.(plan.Change).New.(*corev1.ConfigMap).Data, step.(plan.Change).Sign)
	}
	return text
}

// Each signature can be verified with a token that is good at the time, and each such token has one. When it is written, nothing is
// left to do until the next token expires; what is not a signature stays.
func TestSignaturesAreThoseOfTheTokens(t *testing.T) { // BOOT-14, BOOT-15
	rapid.Check(t, func(t *rapid.T) {
		m, tokens := anyInfo(t), anyTokens(t)
		now := epoch.Add(time.Duration(rapid.IntRange(-1, 60).Draw(t, "seconds")) * time.Second)
		s := observed(t, m, tokens...)
		p := planSignatures(now, s)
		after := written(t, s, p, tokens...)
		if content, ok := m.Data["kubeconfig"]; !ok || after == nil {
			if !ok && after != nil {
				t.Error("BOOT-13: it is written without a kubeconfig")
			}
			if ok {
				checkSignatures(t, now, content, m.Data, tokens)
			}
			return
		}
		checkSignatures(t, now, m.Data["kubeconfig"], after.Data, tokens)
		for _, key := range []string{"kubeconfig", "mine"} {
			if m.Data[key] != after.Data[key] {
				t.Errorf("%s is changed", key)
			}
		}
		again := planSignatures(now, observed(t, after, tokens...))
		if !again.Empty() || again.Requeue != p.Requeue {
			t.Errorf("it is not done: %s", again.Why)
		}
	})
}

// checkSignatures verifies the signatures as kubeadm does.
func checkSignatures(t *rapid.T, now time.Time, content string, data map[string]string, tokens []*corev1.Secret) {
	left := map[string]bool{}
	for key := range data {
		left[key] = strings.HasPrefix(key, "jws-kubeconfig-")
	}
	for _, s := range tokens {
		id := strings.TrimPrefix(s.Name, "bootstrap-token-")
		expires, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
		good := string(s.Data["token-id"]) == id && len(s.Data["token-secret"]) > 0 &&
			string(s.Data["usage-bootstrap-signing"]) == "true" &&
			(len(s.Data["expiration"]) == 0 || err == nil && expires.After(now))
		signature, ok := data["jws-kubeconfig-"+id]
		if ok != good || ok && !jws.DetachedTokenIsValid(signature, content, id, string(s.Data["token-secret"])) {
			t.Errorf("the token %s is good: %t, its signature: %q", id, good, signature)
		}
		left["jws-kubeconfig-"+id] = false
	}
	for key, more := range left {
		if more {
			t.Errorf("%s is of no token", key)
		}
	}
}

func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, tokens := anyInfo(t), anyTokens(t)
		want := decision(planSignatures(epoch, observed(t, m, tokens...)))
		slices.Reverse(tokens)
		if got := decision(planSignatures(epoch, observed(t, m, tokens...))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// Snapshots can be stored, and have no secrets of tokens.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := observed(t, anyInfo(t), anyTokens(t)...)
		if got, want := decision(planSignatures(epoch, plantest.Restored(t, s))), decision(planSignatures(epoch, s)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		for what, o := range map[string]any{"snapshot": s, "plan": planSignatures(epoch, s)} {
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), secretKey) {
				t.Errorf("the secret of a token is in the %s", what)
			}
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		m, tokens := anyInfo(t), anyTokens(t)
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(&m.ManagedFields)
		before := m.DeepCopy()
		want := decision(planSignatures(epoch, observed(t, m, tokens...)))
		if diff := cmp.Diff(before, m); diff != "" {
			t.Errorf("what was observed is changed: %s", diff)
		}
		var projected []*corev1.Secret
		for _, s := range tokens {
			o, err := kept.Project(s)
			if err != nil {
				t.Fatal(err)
			}
			projected = append(projected, o.(*corev1.Secret))
		}
		o, err := kept.Project(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := decision(planSignatures(epoch, observed(t, o.(*corev1.ConfigMap), projected...))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
