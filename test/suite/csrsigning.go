package suite

import (
	"fmt"
	"time"

	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func csrSigningEntry() Entry {
	return Entry{
		Controller: "certificatesigningrequest-signing-controller",
		Operations: map[string]Operation{
			"csrdecide": decide, // NAME do=approve, deny; ago=, in seconds
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			name := fmt.Sprintf("%s-sign-%d", app, g.IntN(3))
			g.Add(at, "csr %s kind=%s seconds=%d", name, workload.Pick(g, requestKinds...), 600*(1+g.IntN(100)))
			g.Add(soon, "csrdecide %s do=%s", name, workload.Pick(g, "approve", "approve", "approve", "deny"))
		}}},
		Settled: certificatesSettled,
		Scenarios: []Scenario{{Name: "people approve requests for certificates", Play: func(u *User) {
			for i, kind := range []string{serving, stranger, purposes} {
				name := fmt.Sprint("sign-", i)
				u.makeRequest(name, kind)
				u.Approve(name)
				if kind == serving {
					u.waitCertificate(name)
				} else {
					u.waitGivenUp(name)
				}
			}
		}}},
		Malformed: map[string]string{
			"certificatesigningrequests/unsignable": `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":${META},
				"spec":{"request":"AAAA","signerName":"kubernetes.io/kubelet-serving","usages":["x"],"expirationSeconds":-2147483648},
				"status":{"conditions":[{"type":"Approved","status":"False"},{"type":"","status":""}]}}`,
		},
		Mutants: csrSigningMutants,
		Budgets: []Budget{{
			Name: "20 requests that people approve are signed, 10 are given up", Floor: floor.Writes{Status: 30},
			Prepare: func(u *User) {
				for i := range 20 {
					u.makeRequest(fmt.Sprint("sign-", i), serving)
				}
				for i := range 10 {
					u.makeRequest(fmt.Sprint("bad-", i), purposes)
				}
			},
			Do: func(u *User) {
				for i := range 20 {
					u.Approve(fmt.Sprint("sign-", i))
					u.waitCertificate(fmt.Sprint("sign-", i))
				}
				for i := range 10 {
					u.Approve(fmt.Sprint("bad-", i))
					u.waitGivenUp(fmt.Sprint("bad-", i))
				}
			},
		}},
	}
}

const csrSigning = "pkg/controllers/csrsigning/"

var csrSigningMutants = []Mutant{
	{
		Name:   "a certificate is issued that nobody has approved",
		Edits:  []Edit{{csrSigning + "plan_order.go", "&& csrutil.Approved(r) &&", "&& !csrutil.Has(r, \"Denied\") &&"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=serving",
		Oracle: SettledOracle,
	},
	{
		Name: "a certificate is issued that breaks the rules of its signer",
		Edits: []Edit{{csrSigning + "plan_order.go", "r.Spec.Usages, parsed); violation != \"\" {",
			"r.Spec.Usages, parsed); violation != \"\" && r.Name == \"\" {"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=strange\n\t\t\tat 15s  csrdecide a do=approve",
		Oracle: SettledOracle,
	},
	{
		Name: "a request that breaks the rules is not given up",
		Edits: []Edit{{csrSigning + "plan.go", "	after := s.Request.DeepCopy()\n",
			"	if !now.IsZero() {\n		return plan.Plan{Why: \"nothing is done\"}\n	}\n	after := s.Request.DeepCopy()\n"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=purpose\n\t\t\tat 15s  csrdecide a do=approve",
		Oracle: SettledOracle,
	},
	{
		Name: "a certificate is valid for longer than was asked for",
		Edits: []Edit{{csrSigning + "plan_order.go", "	default:\n		return asked\n",
			"	default:\n		return max(asked, longest)\n"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=kubelet seconds=3600",
		Oracle: SettledOracle,
	},
	{
		Name:   "a certificate does not say what it is for",
		Edits:  []Edit{{csrSigning + "plan_order.go", "KeyUsage: o.Usage, ExtKeyUsage: o.Purposes,", "KeyUsage: o.Usage,"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=kubelet",
		Oracle: SettledOracle,
	},
}
