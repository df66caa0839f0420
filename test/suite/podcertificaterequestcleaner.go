package suite

import (
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

type podCertificateRequest = certificatesv1.PodCertificateRequest

// aQuarter is the age, in seconds, of requests for the certificates of pods that are deleted at once (CSR-43).
const aQuarter = 900

func podCertificateRequestCleanerEntry() Entry {
	return Entry{
		Controller: "podcertificaterequest-cleaner-controller",
		Operations: map[string]Operation{
			"podcert": podCert, // NAMESPACE NAME ago=SECONDS: a request for the certificate of a pod, made so long ago; do=deny, delete
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			place := workload.Pick(g, metav1.NamespaceDefault, metav1.NamespaceDefault, metav1.NamespaceSystem)
			name := fmt.Sprintf("%s %s-cert-%d", place, app, g.IntN(3))
			ago := workload.Pick(g, 0, aQuarter-60, aQuarter-20, aQuarter-1, aQuarter, 2*aQuarter, 100*aQuarter)
			g.Add(at, "podcert %s ago=%d", name, ago)
			g.Add(soon, "podcert %s do=%s", name, workload.Pick(g, "deny", "deny", "delete"))
		}}},
		Settled: podCertificateRequestsSettled,
		Scenarios: []Scenario{{Name: "old requests for certificates of pods", Play: func(u *User) {
			u.oldPodCertificateRequests(3, func(i int) int { return aQuarter - i })
			u.Create(newPodCertificateRequest("young"))
			u.awaitPodCertificateRequestsGone(3)
		}}},
		Malformed: map[string]string{
			"podcertificaterequests/undated": `{"apiVersion":"certificates.k8s.io/v1","kind":"PodCertificateRequest","metadata":{"creationTimestamp":null,${META}},
				"spec":{"signerName":"","podName":"","stubPKCS10Request":""},"status":{"conditions":[{"type":"Issued","status":""}]}}`,
		},
		Mutants: podCertificateRequestMutants,
		Budgets: []Budget{{
			Name: "30 requests for certificates of pods grow old", Floor: floor.Writes{Other: 30},
			Do: func(u *User) {
				u.oldPodCertificateRequests(30, func(int) int { return aQuarter })
				u.awaitPodCertificateRequestsGone(30)
			},
		}},
	}
}

// newPodCertificateRequest returns a request as a kubelet makes it.
func newPodCertificateRequest(name string) *podCertificateRequest {
	block, _ := pem.Decode(pemRequests()[foreign])
	return &podCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.PodCertificateRequestSpec{
		SignerName: "example.com/signer", PodName: "web-0", PodUID: "0a1b2c3d-0000-4000-8000-000000000001",
		ServiceAccountName: "default", ServiceAccountUID: "0a1b2c3d-0000-4000-8000-000000000002",
		NodeName: "node-0", NodeUID: "0a1b2c3d-0000-4000-8000-000000000003", StubPKCS10Request: block.Bytes,
	}}
}

// podCert makes a request, as if that was some time ago, denies or deletes it.
func podCert(u *User, l script.Line) error {
	inside, name := u, l.Arg(1)
	if u.Alone { // who is not has one namespace
		inside = u.in(u.namespaceOf(l.Arg(0)))
	}
	switch do, _ := l.Get("do"); do {
	case "deny":
		return edit(inside, name, func(r *podCertificateRequest) {
			r.Status.Conditions = []metav1.Condition{{Type: certificatesv1.PodCertificateRequestConditionTypeDenied, Reason: "People",
				Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		}, "status")
	case "delete":
		return remove[*podCertificateRequest](inside, name)
	}
	if err := create(inside, newPodCertificateRequest(name)); err != nil {
		return err
	}
	ago, _ := l.Int("ago")
	return backdate[*podCertificateRequest](inside, name, time.Duration(ago)*time.Second)
}

// oldPodCertificateRequests makes requests, as if each was made so many seconds ago.
func (u *User) oldPodCertificateRequests(n int, ago func(i int) int) {
	u.Helper()
	for i := range n {
		name := fmt.Sprint("cert-", i)
		u.Create(newPodCertificateRequest(name))
		u.Try(name+" is old", func() error {
			return ignoreNotFound(backdate[*podCertificateRequest](u, name, time.Duration(ago(i))*time.Second))
		})
	}
}

func (u *User) awaitPodCertificateRequestsGone(n int) {
	u.Helper()
	for i := range n {
		AwaitGone[*podCertificateRequest](u, fmt.Sprint("cert-", i))
	}
}

// podCertificateRequestsSettled says which requests are still there that should be gone (CSR-43).
func podCertificateRequestsSettled(s *View) (wrong []string) {
	const late = 5 * time.Second
	for _, r := range subjects[*podCertificateRequest](s) {
		age := time.Since(r.CreationTimestamp.Time)
		if !r.CreationTimestamp.IsZero() && age > aQuarter*time.Second+late && r.DeletionTimestamp == nil {
			wrong = append(wrong, fmt.Sprintf("the request %s/%s is there, and was made %v ago", r.Namespace, r.Name, age))
		}
	}
	return wrong
}

const podCertificateRequestPlan = "pkg/controllers/podcertificaterequestcleaner/plan.go"

var podCertificateRequestMutants = []Mutant{
	{
		Name:   "requests for certificates of pods go a minute early",
		Edits:  []Edit{{podCertificateRequestPlan, "CreationTimestamp.Add(lifetime)", "CreationTimestamp.Add(lifetime - time.Minute)"}},
		Script: withoutElection + "\n\t\t\tat 10s  podcert default a ago=860",
		Oracle: "S38",
	},
	{
		Name:   "the age of a request for a pod counts from the beginning of the hour",
		Edits:  []Edit{{podCertificateRequestPlan, "CreationTimestamp.Add(lifetime)", "CreationTimestamp.Truncate(time.Hour).Add(lifetime)"}},
		Script: withoutElection + "\n\t\t\tat 10s  podcert default a ago=840",
		Oracle: "S38",
	},
	{
		Name:   "a young request for a pod is not looked at again",
		Edits:  []Edit{{podCertificateRequestPlan, ", Requeue: wait}", "}"}},
		Script: withoutElection + "\n\t\t\tat 10s  podcert default a ago=880",
		Oracle: SettledOracle,
	},
	{
		Name:   "requests for pods stay that are very old",
		Edits:  []Edit{{podCertificateRequestPlan, "wait > 0 {", "wait > 0 || wait < -time.Hour {"}},
		Script: withoutElection + "\n\t\t\tat 10s  podcert default a ago=90000",
		Oracle: SettledOracle,
	},
	{
		Name: "requests for pods of other namespaces are not found",
		Edits: []Edit{{"pkg/controllers/podcertificaterequestcleaner/observe.go", "k.requests.Get(r.Key.Namespace, r.Key.Name)",
			`k.requests.Get("default", r.Key.Name)`}},
		Script: withoutElection + "\n\t\t\tat 10s  podcert kube-system a ago=900",
		Oracle: SettledOracle,
	},
}
