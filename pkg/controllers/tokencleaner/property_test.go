package tokencleaner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// anyToken draws a token that may expire around epoch.
func anyToken() *rapid.Generator[*corev1.Secret] {
	return rapid.Custom(func(t *rapid.T) *corev1.Secret {
		s := &corev1.Secret{}
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(s)
		s.Namespace, s.Type = "kube-system", "bootstrap.kubernetes.io/token"
		if rapid.Bool().Draw(t, "lives") {
			s.DeletionTimestamp = nil
		}
		if rapid.Bool().Draw(t, "sound") {
			text := rapid.SampledFrom([]string{"", "tomorrow", at(-time.Hour), at(-1), at(time.Second), at(time.Hour),
				at(100 * time.Hour)}).Draw(t, "expiration")
			s.Data = map[string][]byte{"expiration": []byte(text)}
		}
		return s
	})
}

// decision is what a plan comes to.
func decision(p plan.Plan) string { return p.Why + " " + p.Requeue.String() }

// A token goes as soon as it has expired, and never before.
func TestTokensGoWhenTheyExpire(t *testing.T) { // BOOT-24, BOOT-25
	rapid.Check(t, func(t *rapid.T) {
		s := observed(t, anyToken().Draw(t, "token"))
		now, steps := epoch, 0
		for p := planDeletion(now, s); p.Requeue > 0; p = planDeletion(now, s) {
			if !p.Empty() || !s.Expires.After(now) {
				t.Fatalf("at %v: %s", now, p.Why)
			}
			if now, steps = now.Add(p.Requeue), steps+1; steps > 1000 {
				return // it expires in the far future
			}
		}
		gone := !planDeletion(now, s).Empty()
		switch {
		case s.Secret.DeletionTimestamp != nil, s.Expires == nil && !s.Unreadable:
			if gone {
				t.Error("it goes, and should not")
			}
		case !gone:
			t.Errorf("it stays at %v, and should not", now)
		case steps > 0 && !s.Expires.Equal(now):
			t.Errorf("it goes at %v, and should at %v", now, s.Expires)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := observed(t, anyToken().Draw(t, "token"))
		if got, want := decision(planDeletion(epoch, plantest.Restored(t, s))), decision(planDeletion(epoch, s)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		secret := anyToken().Draw(t, "token")
		before := secret.DeepCopy()
		want := decision(planDeletion(epoch, observed(t, secret)))
		if diff := cmp.Diff(before, secret); diff != "" {
			t.Errorf("what was observed is changed: %s", diff)
		}
		o, err := kept.Project(secret)
		if err != nil {
			t.Fatal(err)
		}
		projected := o.(*corev1.Secret)
		if got := decision(planDeletion(epoch, observed(t, projected))); got != want || len(enqueuedBySecret(nil, projected)) != 1 {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
