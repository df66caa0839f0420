package csrapproving

import (
	"cmp"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// snapshot is a request and what the API server says of who has made it. Observe fills it, and planApproval
// reads it. The object belongs to a shared cache.
type snapshot struct {
	Request *csrutil.Request
	Allowed bool      // the API server says that who asks may have the certificate
	Message string    // of the approval
	Refused string    // why the API server says that they may not
	Next    time.Time // when it is asked again
}

// memory is how often the API server has refused who asks, and when it is asked again. Observe makes it and
// reads it. A change of the request begins anew; a resync does not.
type memory struct {
	// UID and Version are those of the request that was asked about.
	UID     types.UID
	Version string
	// Times is how often the answer was no, in a row. The wait doubles with it.
	Times int
	Next  time.Time // when it is asked again
	Why   string
}

// Between two questions about one request the time doubles (CSR-5, CSR-33).
const (
	firstWait   = 200 * time.Millisecond
	longestWait = 1000 * time.Second
)

// about reports whether the memory is of the request as it is.
func (m *memory) about(r *csrutil.Request) bool {
	return m != nil && m.UID == r.UID && m.Version == r.ResourceVersion
}

// refused returns the memory of one more refusal.
func (m *memory) refused(now time.Time, r *csrutil.Request, reason string) *memory {
	next := &memory{UID: r.UID, Version: r.ResourceVersion, Times: 1, Why: cmp.Or(reason, "no role allows it")}
	if m.about(r) {
		next.Times = m.Times + 1
	}
	next.Next = now.Add(plan.Doubling(firstWait, longestWait, next.Times-1))
	return next
}

// candidate reports whether the controller may have something to decide (CSR-4, CSR-29).
func candidate(r *csrutil.Request) bool {
	return r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && !csrutil.Decided(r) &&
		len(r.Status.Certificate) == 0
}

// question is one that is asked of the API server, and the message of the approval that follows if the answer
// is yes. One yes is enough.
type question struct {
	Spec    authorizationv1.SubjectAccessReviewSpec
	Message string
}

// subresource distinguishes the two questions in error messages.
func (q question) subresource() string { return q.Spec.ResourceAttributes.Subresource }

// questions returns what is to be asked about a request, in order; or what keeps it from being approved by anybody
// but people.
func questions(r *csrutil.Request) (all []question, violation string) {
	parsed, err := csrutil.Parse(r.Spec.Request)
	if err != nil {
		return nil, err.Error()
	}
	if violation := csrutil.KubeletViolation(r.Spec.Usages, parsed); violation != "" {
		return nil, violation
	}
	if r.Spec.Username == parsed.Subject.CommonName {
		all = append(all,
			question{review(r, "selfnodeclient"),
				"Auto approving self kubelet client certificate after SubjectAccessReview."})
	}
	return append(all,
		question{review(r, "nodeclient"), "Auto approving kubelet client certificate after SubjectAccessReview."}), ""
}

// review asks whether the user who has made the request may have requests of this sort approved (CSR-30).
func review(r *csrutil.Request, subresource string) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: "certificates.k8s.io", Version: "*", Resource: "certificatesigningrequests",
			Subresource: subresource,
		},
	}
	for key, values := range r.Spec.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	return spec
}

// planApproval approves a request, or waits until the API server is asked again.
func planApproval(now time.Time, s snapshot) plan.Plan {
	if s.Request == nil || !candidate(s.Request) {
		return plan.Plan{Why: "there is nothing to approve"}
	}
	if _, violation := questions(s.Request); violation != "" {
		return plan.Plan{Why: "left to people: it is no request for the client certificate of a kubelet: " + violation}
	}
	if !s.Allowed {
		return plan.Plan{
			Why: "who has made the request may not have the certificate: " + s.Refused + "; asks again at " +
				s.Next.UTC().Format(time.RFC3339),
			Requeue: max(s.Next.Sub(now), time.Millisecond),
		}
	}
	after := s.Request.DeepCopy()
	after.Status.Conditions = append(after.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved",
		Message: s.Message,
	})
	const why = "approve: who has made the request may have the client certificate of a kubelet"
	return plan.Plan{Why: why, Steps: []plan.Step{
		plan.Change{Old: s.Request, New: after, Subresource: "approval", Why: why},
	}}
}
