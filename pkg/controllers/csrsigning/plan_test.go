package csrsigning

import (
	"bytes"
	"encoding/json"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/testing/csrtest"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const year = 365 * 24 * time.Hour

func edit(f func(*csrutil.Request)) func(*csrutil.Request) { return f }

func signed(r *csrutil.Request) { r.Status.Certificate = []byte("C") }

// A row is a sentence.
func TestPlan(t *testing.T) {
	type edits []func(*csrutil.Request)
	const nodes = "subject organization is not system:nodes"
	strange := csrtest.Node()
	strange.Subject.Organization = nil
	for _, c := range []struct {
		name   string
		edits  edits
		issues bool
		fails  string
	}{
		{"CSR-15 approved", edits{csrtest.Approved}, true, ""},
		{"CSR-15 not decided", nil, false, ""},
		{"CSR-15 denied", edits{csrtest.Condition("Denied", epoch)}, false, ""},
		{"CSR-15 given up before", edits{csrtest.Approved, csrtest.Condition("Failed", epoch)}, false, ""},
		{"CSR-4 signed before", edits{csrtest.Approved, signed}, false, ""},
		{"CSR-26 another signer", edits{csrtest.Approved, csrtest.Signer("example.com/x", "client auth")}, false, ""},
		{"CSR-26 another signer of Kubernetes", edits{csrtest.Approved, csrtest.Signer("kubernetes.io/x", "client auth")}, false, ""},
		{"CSR-16 CSR-23 another organization", edits{csrtest.Approved, csrtest.Asks(strange)}, false, nodes},
		{"CSR-16 CSR-52 no request at all", edits{csrtest.Approved, edit(func(r *csrutil.Request) { r.Spec.Request = []byte("x") })}, false,
			"the request is not a PEM block of the type CERTIFICATE REQUEST"},
		{"CSR-28 CSR-52 a usage that is not known", edits{csrtest.Approved, csrtest.Signer(csrutil.LegacyUnknown, "x")}, false,
			`unrecognized usage values: ["x"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := csrtest.Kubelet(c.edits...)
			p := planCertificate(epoch, snapshot{Request: r})
			if p.Why == "" || p.Requeue != 0 || p.Empty() == (c.issues || c.fails != "") {
				t.Fatalf("%+v", p)
			}
			if p.Empty() {
				return
			}
			change := p.Steps[0].(plan.Change)
			want := r.DeepCopy()
			if got := slices.Equal(change.Sign, []string{certificate}); got != c.issues { // CSR-17
				t.Errorf("asks for %v", change.Sign)
			}
			if !c.issues {
				want.Status.Conditions = append(want.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
					Type: "Failed", Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: c.fails,
					LastUpdateTime: metav1.NewTime(epoch),
				})
			}
			if diff := cmp.Diff(plan.Object(want), change.New); diff != "" || change.Subresource != "status" || len(p.Steps) != 1 {
				t.Errorf("%s %s", change.Subresource, diff)
			}
		})
	}
	if p := planCertificate(epoch, snapshot{}); !p.Empty() {
		t.Errorf("gone: %s", p.Why)
	}
}

func TestLifetime(t *testing.T) {
	forever := epoch.Add(100 * year)
	for _, c := range []struct {
		name        string
		asked       *int32
		longest     time.Duration
		end         time.Time // of the authority
		from, until time.Duration
	}{
		{"CSR-10 CSR-19 CSR-20 nothing is asked", nil, year, forever, -5 * time.Minute, year - 5*time.Minute},
		{"CSR-19 more than the flag allows", ptr.To[int32](1 << 30), year, forever, -5 * time.Minute, year - 5*time.Minute},
		{"CSR-19 less than ten minutes", ptr.To[int32](1), year, forever, -5 * time.Minute, 10 * time.Minute},
		{"CSR-19 less than nothing", ptr.To[int32](-1 << 31), year, forever, -5 * time.Minute, 10 * time.Minute},
		{"CSR-20 less than eight hours", ptr.To[int32](7 * 3600), year, forever, -5 * time.Minute, 7 * time.Hour},
		{"CSR-20 eight hours", ptr.To[int32](8 * 3600), year, forever, -5 * time.Minute, 8*time.Hour - 5*time.Minute},
		{"CSR-20 the authority expires before", nil, year, epoch.Add(time.Hour), -5 * time.Minute, time.Hour},
		{"CSR-10 a short time for all", nil, time.Minute, forever, -5 * time.Minute, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, violation := read(csrtest.Kubelet(edit(func(r *csrutil.Request) { r.Spec.ExpirationSeconds = c.asked })))
			if violation != "" {
				t.Fatal(violation)
			}
			got := o.template(epoch, c.longest, c.end)
			if !got.NotBefore.Equal(epoch.Add(c.from)) || !got.NotAfter.Equal(epoch.Add(c.until)) {
				t.Errorf("from %v until %v", got.NotBefore.Sub(epoch), got.NotAfter.Sub(epoch))
			}
		})
	}
}

func TestEnqueues(t *testing.T) { // CSR-4, CSR-9, CSR-50
	k := &signing{name: certificatesv1.KubeAPIServerClientKubeletSignerName}
	candidate, done := csrtest.Kubelet(csrtest.Approved), csrtest.Kubelet(csrtest.Approved, signed)
	for _, c := range []struct {
		name string
		keys []plan.Key
		want int
	}{
		{"an approved request", k.enqueued(nil, candidate), 1},
		{"one that becomes approved", k.enqueued(csrtest.Kubelet(), candidate), 1},
		{"one that nobody has approved", k.enqueued(nil, csrtest.Kubelet()), 0},
		{"one that was signed since", k.enqueued(candidate, done), 1},
		{"one that was signed before", k.enqueued(done, done), 0},
		{"one that is gone", k.enqueued(candidate, nil), 1},
		{"one of another signer",
			k.enqueued(nil, csrtest.Kubelet(csrtest.Approved, csrtest.Signer(certificatesv1.KubeletServingSignerName))), 0},
	} {
		if len(c.keys) != c.want || c.want == 1 && c.keys[0] != (plan.Key{Name: "join"}) {
			t.Errorf("%s enqueues %v", c.name, c.keys)
		}
	}
}

// draw is any snapshot.
func draw(t *rapid.T) snapshot {
	asked := csrtest.Node()
	if rapid.Bool().Draw(t, "names") {
		asked.DNSNames, asked.IPAddresses, asked.URIs = []string{"n"}, []net.IP{{10, 0, 0, 1}}, []*url.URL{{Scheme: "x", Host: "y"}}
	}
	asked.Subject.Organization = rapid.SliceOfN(rapid.SampledFrom([]string{"system:nodes", "system:masters"}), 0, 2).Draw(t,
		"organizations")
	r := csrtest.Kubelet(csrtest.Approved, csrtest.Asks(asked))
	if rapid.IntRange(0, 3).Draw(t, "anything") == 0 {
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(r)
	}
	r.Spec.SignerName = rapid.SampledFrom(append(csrutil.Signers(), "x")).Draw(t, "signer")
	return snapshot{Request: r}
}

// Whatever the request is: planning does not panic or change it.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		before := s.Request.DeepCopy()
		p := planCertificate(epoch, s)
		if diff := cmp.Diff(before, s.Request); diff != "" {
			t.Errorf("changed: %s", diff)
		}
		if p.Why == "" || p.Requeue < 0 {
			t.Errorf("%q, again in %v", p.Why, p.Requeue)
		}
	})
}

// A certificate is only issued if the request was approved and no rule is broken, and when the plan was carried out, nothing is left to do.
func TestSignsOnlyWhatIsApproved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		p := planCertificate(epoch, s)
		if p.Empty() {
			return
		}
		change := p.Steps[0].(plan.Change)
		after := change.New.(*csrutil.Request)
		if len(change.Sign) > 0 {
			after = after.DeepCopy()
			after.Status.Certificate = []byte("C")
		}
		if _, violation := read(s.Request); !csrutil.Approved(s.Request) || len(after.Status.Certificate) > 0 && violation != "" {
			t.Errorf("%s: %+v", p.Why, s.Request)
		}
		s.Request = after
		if again := planCertificate(epoch, s); !again.Empty() {
			t.Errorf("it is not done: %s", again.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if a, b := planCertificate(epoch, s), planCertificate(epoch, plantest.Restored(t, s)); a.Why != b.Why {
			t.Errorf("%s, and after it was stored: %s", a.Why, b.Why)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := projection.New(
		projection.Fields{Kinds: map[schema.GroupVersionKind][]string{client.KindFor[*certificatesv1.CertificateSigningRequest](): {}}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		whole := planCertificate(epoch, s)
		o, err := kept.Project(s.Request.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		s.Request = o.(*csrutil.Request)
		if p := planCertificate(epoch, s); p.Why != whole.Why {
			t.Errorf("%s, and with what is cached: %s", whole.Why, p.Why)
		}
	})
}

// The certificate is filled in right before the write: what was observed and planned does not hold it.
func TestPlansHoldNoCertificate(t *testing.T) {
	ca := csrtest.NewAuthority("ca", epoch.Add(-year), epoch.Add(10*year))
	s := snapshot{Request: csrtest.Kubelet(csrtest.Approved)}
	ordered, violation := read(s.Request)
	if violation != "" {
		t.Fatal(violation)
	}
	if _, err := (&issuer{ca.Cert, ca.Key}).sign(epoch, ordered, year); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]any{"snapshot": s, "plan": planCertificate(epoch, s)} {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(`"certificate":"`)) {
			t.Errorf("the %s has a certificate: %s", what, text)
		}
	}
}
