package suite

import (
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func csrApprovingEntry() Entry {
	return Entry{
		Controller: "certificatesigningrequest-approving-controller",
		Operations: map[string]Operation{
			"csr":           request,    // NAME kind= seconds=; do=label, delete
			"csrpermission": permission, // do=revoke, grant
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			name := fmt.Sprintf("%s-%d", app, g.IntN(3))
			if g.IntN(4) == 0 { // long after the right was taken away
				g.Add(at, "csrpermission do=revoke")
				g.Add(at+80*time.Second+g.Early(), "csr late-%s kind=%s", name, kubelet)
				return
			}
			g.Add(at, "csr %s kind=%s", name, workload.Pick(g, requestKinds...))
			g.Add(soon, "csr %s do=%s", name, workload.Pick(g, "label", "label", "delete"))
			if g.IntN(3) == 0 {
				g.Add(workload.Pick(g, g.Early(), at-time.Second), "csrpermission do=revoke")
				if g.IntN(2) == 0 {
					g.Add(soon, "csrdecide %s do=deny", name)
				}
				// or it would be asked about too long after that
				g.Add(soon+time.Duration(g.IntN(20))*time.Second, "csrpermission do=grant")
			}
		}}},
		Settled: approvalsSettled,
		Scenarios: []Scenario{{Name: "kubelets ask for certificates", Play: func(u *User) {
			for i := range 5 {
				u.makeRequest(fmt.Sprint("join-", i), kubelet)
			}
			for i := range 5 {
				u.waitCertificate(fmt.Sprint("join-", i))
			}
		}}},
		Malformed: map[string]string{
			"certificatesigningrequests/nothing": `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":${META},
				"spec":{"request":"","signerName":"kubernetes.io/kube-apiserver-client-kubelet","usages":[""],"username":"system:node:x","extra":{"":null}}}`,
		},
		Mutants: csrApprovingMutants,
		Budgets: []Budget{{
			Name: "50 kubelets ask for certificates", Floor: floor.Writes{Status: 50, Other: 50}, // the certificate, the approval
			Do: func(u *User) {
				u.Each(50, func(i int) error {
					u.makeRequest(fmt.Sprint("join-", i), kubelet)
					return nil
				})
				for i := range 50 {
					u.waitCertificate(fmt.Sprint("join-", i))
				}
			},
		}},
	}
}

func (u *User) makeRequest(name, kind string) {
	u.Helper()
	u.Create(u.newRequest(name, kind))
	u.Cleanup(func() { _ = remove[*signingRequest](u, u.unique(name)) }) // no namespace takes it along
}

// Approve approves a request that was made for the user.
func (u *User) Approve(name string) {
	u.Helper()
	u.Try("approve the request "+name, func() error { return u.decide(name, "approve", 0) })
}

// deny denies a request, as if that was so many seconds ago.
func (u *User) deny(name string, ago int) {
	u.Helper()
	u.Try("deny the request "+name, func() error { return u.decide(name, "deny", ago) })
}

func (u *User) waitCertificate(name string) {
	u.Helper()
	Await(u, u.unique(name), func(r *signingRequest) error { return unless(len(r.Status.Certificate) > 0, r.Status) })
}

func (u *User) waitGivenUp(name string) {
	u.Helper()
	Await(u, u.unique(name), func(r *signingRequest) error {
		return unless(requestCondition(r, certificatesv1.CertificateFailed) != nil, r.Status)
	})
}

func (u *User) waitRequestGone(name string) {
	u.Helper()
	AwaitGone[*signingRequest](u, u.unique(name))
}

const csrApproving = "pkg/controllers/csrapproving/"

var csrApprovingMutants = []Mutant{
	{
		Name:   "a request is approved though who asks may not have the certificate",
		Edits:  []Edit{{csrApproving + "observe.go", "if answer.Allowed && !answer.Denied {", "if !answer.Denied {"}},
		Script: withoutElection + "\n\t\t\tat 1s   csrpermission do=revoke\n\t\t\tat 80s  csr a kind=kubelet",
		Oracle: SettledOracle,
	},
	{
		Name: "a request is approved that is not like that of a kubelet",
		Edits: []Edit{{csrApproving + "plan.go", "violation := csrutil.KubeletViolation(r.Spec.Usages, parsed); violation != \"\" {",
			"violation := csrutil.KubeletViolation(r.Spec.Usages, parsed); violation != \"\" && r.Name == \"\" {"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=strange",
		Oracle: SettledOracle,
	},
	{
		Name: "certificates with which kubelets serve are approved",
		Edits: []Edit{
			{csrApproving + "plan.go",
				"return r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && !csrutil.Decided(r)",
				"return !csrutil.Decided(r)"},
			{csrApproving + "plan.go", "violation := csrutil.KubeletViolation(r.Spec.Usages, parsed); violation != \"\" {",
				"violation := csrutil.Violation(r.Spec.SignerName, r.Spec.Usages, parsed); violation != \"\" {"},
		},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=serving",
		Oracle: SettledOracle,
	},
	{
		Name:  "who was refused a certificate is not asked about again",
		Edits: []Edit{{csrApproving + "plan.go", "Requeue: max(s.Next.Sub(now), time.Millisecond),", "Requeue: 0 * s.Next.Sub(now),"}},
		Script: withoutElection +
			"\n\t\t\tat 5s   csrpermission do=revoke\n\t\t\tat 10s  csr a kind=kubelet\n\t\t\tat 20s  csrpermission do=grant",
		Oracle: SettledOracle,
	},
	{
		Name:  "a request is approved that was denied",
		Edits: []Edit{{csrApproving + "plan.go", "&& !csrutil.Decided(r)", "&& !csrutil.Has(r, certificatesv1.CertificateApproved)"}},
		Script: withoutElection +
			"\n\t\t\tat 5s   csrpermission do=revoke\n\t\t\tat 10s  csr a kind=kubelet\n\t\t\tat 15s  csrdecide a do=deny\n\t\t\tat 20s  " +
			"csrpermission do=grant",
		Oracle: SettledOracle,
	},
}
