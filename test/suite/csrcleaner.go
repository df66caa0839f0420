package suite

import (
	"fmt"
	"time"

	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// anHour is the age, in seconds, of decisions on requests that are deleted at once.
const anHour = 3600

func csrCleanerEntry() Entry {
	return Entry{
		Controller: "certificatesigningrequest-cleaner-controller",
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			name := fmt.Sprintf("%s-old-%d", app, g.IntN(3))
			g.Add(at, "csr %s kind=%s", name, workload.Pick(g, serving, stranger, foreign))
			g.Add(soon, "csrdecide %s do=%s ago=%d", name, workload.Pick(g, "approve", "deny"),
				workload.Pick(g, 0, 100, anHour-20, anHour, 24*anHour-20, 24*anHour))
		}}},
		Settled: cleaningSettled,
		Scenarios: []Scenario{{Name: "old requests for certificates", Play: func(u *User) {
			for i := range 3 {
				name := fmt.Sprint("old-", i)
				u.makeRequest(name, serving)
				u.deny(name, anHour-i)
			}
			for i := range 3 {
				u.waitRequestGone(fmt.Sprint("old-", i))
			}
		}}},
		Malformed: map[string]string{
			"certificatesigningrequests/undated": `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":${META},
				"spec":{"request":"","signerName":"","usages":null},"status":{"conditions":[{"type":"Approved","status":"True"}],"certificate":"AAAA"}}`,
		},
		Mutants: csrCleanerMutants,
		Budgets: []Budget{{
			Name: "30 requests for certificates are denied and go", Floor: floor.Writes{Other: 30},
			Prepare: func(u *User) {
				for i := range 30 {
					u.makeRequest(fmt.Sprint("old-", i), serving)
				}
			},
			Do: func(u *User) {
				for i := range 30 {
					u.deny(fmt.Sprint("old-", i), anHour)
				}
				for i := range 30 {
					u.waitRequestGone(fmt.Sprint("old-", i))
				}
			},
		}},
	}
}

const csrCleanerPlan = "pkg/controllers/csrcleaner/plan.go"

var csrCleanerMutants = []Mutant{
	{
		Name: "requests stay that were denied",
		Edits: []Edit{{csrCleanerPlan, "		case c.Type == certificatesv1.CertificateDenied:",
			"		case c.Type == certificatesv1.CertificateDenied && issued:"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=serving\n\t\t\tat 20s  csrdecide a do=deny ago=3600",
		Oracle: SettledOracle,
	},
	{
		Name:   "requests are deleted a minute after they were signed",
		Edits:  []Edit{{csrCleanerPlan, "add(updated, decided, \"it was approved, and", "add(updated, decided/60, \"it was approved, and"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=serving\n\t\t\tat 20s  csrdecide a do=approve ago=60",
		Oracle: SettledOracle,
	},
	{
		Name:   "a request that waits for its end is forgotten",
		Edits:  []Edit{{csrCleanerPlan, ",\n\t\t\tRequeue: min(e.At.Sub(now), longestWait)}", "}"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=serving\n\t\t\tat 20s  csrdecide a do=deny ago=3580",
		Oracle: SettledOracle,
	},
	{
		Name:   "a request that no signer answers is deleted after an hour",
		Edits:  []Edit{{csrCleanerPlan, "add(updated, undecided, \"it was approved, but", "add(updated, decided, \"it was approved, but"}},
		Script: withoutElection + "\n\t\t\tat 10s  csr a kind=foreign\n\t\t\tat 20s  csrdecide a do=approve ago=3600",
		Oracle: SettledOracle,
	},
}
