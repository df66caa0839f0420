package bootstraptoken

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/cluster-bootstrap/util/secrets"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func secret(namespace, kind string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Type: corev1.SecretType(kind)}
}

func expiring(text string) *corev1.Secret {
	s := secret(Namespace, "bootstrap.kubernetes.io/token")
	s.Data = map[string][]byte{"expiration": []byte(text)}
	return s
}

func TestOnlySecretsOfBootstrapTokensAreMeant(t *testing.T) { // BOOT-5
	for _, c := range []struct {
		name string
		o    plan.Object
		want bool
	}{
		{"a bootstrap token of any name", secret("kube-system", "bootstrap.kubernetes.io/token"), true},
		{"one of another namespace", secret("kube-public", "bootstrap.kubernetes.io/token"), false},
		{"a Secret of another type", secret("kube-system", "Opaque"), false},
		{"a ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"}}, false},
		{"nothing", nil, false},
	} {
		if Is(c.o) != c.want {
			t.Errorf("%s: %t", c.name, !c.want)
		}
		s, ok := c.o.(*corev1.Secret)
		if ok &&
			Selector().Matches(fields.Set{"metadata.namespace": s.Namespace, "metadata.name": s.Name, "type": string(s.Type)}) != c.want {
			t.Errorf("%s: the selector says %t", c.name, !c.want)
		}
	}
}

// A row is a sentence.
func TestExpiration(t *testing.T) {
	for _, c := range []struct {
		name, text string
		readable   bool
		expired    bool
		again      time.Duration
	}{
		{"BOOT-8 an empty expiration is none", "", true, false, 0},
		{"BOOT-25 it is over at this moment", "2026-01-01T12:00:00Z", true, true, 0},
		{"BOOT-25 it is over in a second", "2026-01-01T12:00:01Z", true, false, time.Second},
		{"it is over in less than a second", "2026-01-01T12:00:00.25Z", true, false, 250 * time.Millisecond},
		{"it has an offset", "2026-01-01T13:00:00+01:00", true, true, 0},
		{"it is further ahead than a timer should wait", "2026-01-02T12:00:00Z", true, false, time.Hour},
		{"it is further ahead than a duration can say", "9999-12-31T23:59:59Z", true, false, time.Hour},
		{"it is the zero time", "0001-01-01T00:00:00Z", true, true, 0},
		{"BOOT-8 it is no time", "tomorrow", false, false, 0},
		{"BOOT-8 it is a day", "2026-01-02", false, false, 0},
		{"BOOT-8 it has a space at the end", "2026-01-01T12:00:00Z ", false, false, 0},
	} {
		at, readable := Expiration(expiring(c.text))
		if readable != c.readable {
			t.Errorf("%s: readable %t", c.name, readable)
		}
		if !readable {
			continue
		}
		if expired, again := Expired(epoch, at); expired != c.expired || again != c.again {
			t.Errorf("%s: expired %t, again after %v", c.name, expired, again)
		}
	}
	if at, readable := Expiration(&corev1.Secret{}); at != nil || !readable {
		t.Errorf("BOOT-8 a Secret without an expiration expires at %v (%t)", at, readable)
	}
}

// FuzzExpiration: whatever a Secret says and whenever it is asked, a token has expired for us exactly when it has for the library by
// which the API server and kubeadm read it, and one that has not is looked at again in time.
func FuzzExpiration(f *testing.F) {
	for _, text := range []string{"", "2026-01-01T12:00:00Z", "2026-01-01T12:00:00.5+23:59", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
		"x", "2026-02-30T00:00:00Z", "\x00"} {
		f.Add(text, epoch.Unix())
	}
	f.Add("1970-01-01T00:00:00Z", int64(math.MaxInt32))
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		now, s := time.Unix(unix%(1<<36), 0), expiring(text)
		at, readable := Expiration(s)
		remaining, theirs := secrets.GetExpiration(s, now)
		if !readable {
			if !theirs {
				t.Errorf("%q has not expired for others", text)
			}
			return
		}
		expired, again := Expired(now, at)
		if expired != theirs || again < 0 || again > remaining || !expired && at != nil && again == 0 {
			t.Errorf("%q at %v: expired %t after %v, and for others %t after %v", text, now, expired, again, theirs, remaining)
		}
	})
}
