package csrapproving

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/internal/testing/csrtest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func by(user string) func(*csrutil.Request) {
	return func(r *csrutil.Request) { r.Spec.Username = user }
}

func TestQuestions(t *testing.T) {
	strange := csrtest.Node()
	strange.Subject.Organization = []string{"system:masters"}
	named := csrtest.Node()
	named.DNSNames = []string{"n"}
	for _, c := range []struct {
		name string
		r    *csrutil.Request
		want []string // subresources
	}{
		{"CSR-30 CSR-31 a kubelet that renews its own certificate", csrtest.Kubelet(), []string{"selfnodeclient", "nodeclient"}},
		{"CSR-30 CSR-31 somebody else asks for a node", csrtest.Kubelet(by("system:bootstrap:abcdef")), []string{"nodeclient"}},
		{"CSR-29 another organization", csrtest.Kubelet(csrtest.Asks(strange)), nil},
		{"CSR-29 a DNS name", csrtest.Kubelet(csrtest.Asks(named)), nil},
		{"CSR-29 another usage",
			csrtest.Kubelet(func(r *csrutil.Request) { r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageCertSign) }), nil},
		{"CSR-29 no request at all", csrtest.Kubelet(func(r *csrutil.Request) { r.Spec.Request = []byte("x") }), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, violation := questions(c.r)
			var got []string
			for _, q := range all {
				got = append(got, q.subresource())
			}
			if diff := cmp.Diff(c.want, got); diff != "" || (violation == "") != (c.want != nil) {
				t.Errorf("%q, %s", violation, diff)
			}
		})
	}
}

// Who has made the request is asked about with all that the API server knows of them.
func TestReview(t *testing.T) { // CSR-30, CSR-31
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "system:node:n", UID: "uid-user", Groups: []string{"system:nodes", "system:authenticated"},
		Extra: map[string]authorizationv1.ExtraValue{"scope": {"a", "b"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: "certificates.k8s.io", Version: "*", Resource: "certificatesigningrequests", Subresource: "nodeclient",
		},
	}
	if diff := cmp.Diff(want, review(csrtest.Kubelet(), "nodeclient")); diff != "" {
		t.Error(diff)
	}
}

// A row is a sentence.
func TestPlan(t *testing.T) {
	const message = "Auto approving kubelet client certificate after SubjectAccessReview."
	allowed := func(r *csrutil.Request) snapshot { return snapshot{Request: r, Allowed: true, Message: message} }
	foreign := csrtest.Signer(certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature)
	for _, c := range []struct {
		name     string
		s        snapshot
		approves bool
		next     time.Duration
	}{
		{"a request that is gone", snapshot{}, false, 0},
		{"CSR-32 who asks may have the certificate", allowed(csrtest.Kubelet()), true, 0},
		{"CSR-33 who asks may not", snapshot{Request: csrtest.Kubelet(), Refused: "no", Next: epoch.Add(time.Minute)}, false, time.Minute},
		{"CSR-29 it is approved", allowed(csrtest.Kubelet(csrtest.Approved)), false, 0},
		{"CSR-29 it is denied", allowed(csrtest.Kubelet(csrtest.Condition("Denied", epoch))), false, 0},
		{"CSR-29 another signer", allowed(csrtest.Kubelet(foreign)), false, 0},
		{"CSR-29 it does not look like a kubelet's", allowed(csrtest.Kubelet(func(r *csrutil.Request) { r.Spec.Usages = nil })), false, 0},
		{"CSR-4 it has a certificate", allowed(csrtest.Kubelet(func(r *csrutil.Request) { r.Status.Certificate = []byte("x") })), false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planApproval(epoch, c.s)
			if p.Why == "" || p.Requeue != c.next || p.Empty() == c.approves {
				t.Fatalf("%+v", p)
			}
			if !c.approves {
				return
			}
			change := p.Steps[0].(plan.Change)
			after := change.New.(*csrutil.Request)
			want := []certificatesv1.CertificateSigningRequestCondition{{ // without times: the API server sets them
				Type: "Approved", Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
			}}
			if diff := cmp.Diff(want, after.Status.Conditions); diff != "" || change.Subresource != "approval" || len(p.Steps) != 1 {
				t.Errorf("%s %s", change.Subresource, diff)
			}
		})
	}
}

// The time between two questions doubles, up to a limit; a change of the request begins anew.
func TestRefusals(t *testing.T) { // CSR-5, CSR-33
	r := csrtest.Kubelet()
	var m *memory
	var waits []time.Duration
	for range 15 {
		m = m.refused(epoch, r, "")
		waits = append(waits, m.Next.Sub(epoch))
	}
	if waits[0] != 200*time.Millisecond || waits[1] != 400*time.Millisecond || waits[12] != 819200*time.Millisecond ||
		waits[14] != 1000*time.Second {
		t.Error(waits)
	}
	changed := csrtest.Kubelet(func(r *csrutil.Request) { r.ResourceVersion = "8" })
	if m.about(changed) || !m.about(r) || m.refused(epoch, changed, "").Times != 1 {
		t.Error("a change does not begin anew")
	}
	anew := csrtest.Kubelet(func(r *csrutil.Request) { r.UID = "other" })
	if (*memory)(nil).about(r) || m.about(anew) {
		t.Error("the memory is of another request")
	}
}

func TestEnqueues(t *testing.T) { // CSR-4, CSR-29
	candidate, decided := csrtest.Kubelet(), csrtest.Kubelet(csrtest.Approved)
	for _, c := range []struct {
		name string
		keys []plan.Key
		want int
	}{
		{"a new request", enqueued(nil, candidate), 1},
		{"one that is delivered again", enqueued(candidate, candidate), 1},
		{"one that was approved since", enqueued(candidate, decided), 1},
		{"one that was approved before", enqueued(decided, decided), 0},
		{"one that is gone", enqueued(candidate, nil), 1},
		{"one that was approved and is gone", enqueued(decided, nil), 0},
		{"one for another signer", enqueued(nil, csrtest.Kubelet(csrtest.Signer("example.com/x"))), 0},
	} {
		if len(c.keys) != c.want || c.want == 1 && c.keys[0] != (plan.Key{Name: "join"}) {
			t.Errorf("%s enqueues %v", c.name, c.keys)
		}
	}
}
