package chaos

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/agreement"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

var (
	agreeFor     = flag.Duration("agreement", 0, "how long TestAgreement works; it is skipped if zero")
	agreeWith    = flag.String("agreement-leader", "", "program that leads in TestAgreement, such as the original; empty: ours")
	agreeMutants = flag.String("agreement-mutants", "", "program with all mutants, for TestAgreementNoticesMutants (make agreement-mutants)")
	agreeRound   = flag.Int("agreement-round", 0, "which mutant of each controller TestAgreementNoticesMutants switches on, from 0 on")
	agreeReport  = flag.String("agreement-report", "", "file to which TestAgreement writes what the observer has compared, as JSON")
)

const (
	agreementRound = 45 * time.Second // of random work
	// agreementRest is how long the last plans may take to be judged.
	agreementRest = 75 * time.Second
)

// TestAgreement has an observer compare its plans with what a leader does, under random work of all kinds. No disagreement may be
// unexplained.
func TestAgreement(t *testing.T) {
	if *agreeFor == 0 {
		t.Skip("runs with -agreement=DURATION")
	}
	c := cluster.Start(t)
	if *agreeWith == "" {
		c.Manager(t)
	} else {
		c.ManagerOf(t, *agreeWith, "--kubeconfig="+c.UpstreamRoles(t))
	}
	judgeAgreement(t, agreementOf(t, c))
}

// TestAgreementNoticesMutants gives each controller a process of its own with a known mistake, and has an observer without any beside
// them. It says which mistakes the observer notices; that it notices none is an error.
func TestAgreementNoticesMutants(t *testing.T) {
	if *agreeMutants == "" {
		t.Skip("runs with -agreement-mutants=PROGRAM")
	}
	c := cluster.Start(t)
	mutants, of := suite.Mutants(), map[string][]string{}
	for _, m := range mutants[len(suite.RuntimeMutants):] {
		of[m.Around] = append(of[m.Around], m.Name)
	}
	others, on := "*", map[string]string{}
	for controller, names := range of {
		if *agreeRound < len(names) {
			on[controller] = names[*agreeRound]
			others += ",-" + controller
		}
	}
	c.Manager(t, "--controllers="+others)
	for controller, name := range on {
		t.Setenv("MUTANT", name)
		c.ManagerOf(t, *agreeMutants, "--controllers="+controller)
	}
	t.Setenv("MUTANT", "")
	r := agreementOf(t, c)
	noticed := 0
	for _, controller := range slices.Sorted(maps.Keys(on)) {
		at := slices.IndexFunc(r.Disagreements, func(d agreement.Disagreement) bool {
			return d.Controller == controller && d.Row == "unexplained"
		})
		if at < 0 {
			t.Logf("not noticed: %s: %s", controller, on[controller])
			continue
		}
		noticed++
		t.Logf("noticed: %s: %s: %+v", controller, on[controller], r.Disagreements[at])
	}
	t.Logf("%d of %d mutants are noticed", noticed, len(on))
	for _, d := range r.Disagreements {
		if on[d.Controller] == "" {
			t.Errorf("a false alarm: %+v", d)
		}
	}
	if noticed == 0 {
		t.Error("no mutant is noticed")
	}
}

// agreementOf has an observer compare its plans with what leaders do that run, under random work.
func agreementOf(t *testing.T, c *cluster.Cluster) agreement.Report {
	t.Helper()
	c.ManagerExactly(t, "observe", "--kubeconfig="+c.AdminKubeconfig, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ManagerPort), "--authorization-always-allow-paths=/healthz,/readyz,/debug/agreement",
		"--root-ca-file="+c.CAFile, "--allocate-node-cidrs=true", "--cluster-cidr=10.0.0.0/8,fd00:64::/48",
		"--service-cluster-ip-range=10.0.0.0/24", "--authentication-kubeconfig="+c.AdminKubeconfig,
		"--authorization-kubeconfig="+c.AdminKubeconfig)
	work := &randomWork{Rand: rand.New(rand.NewPCG(*firstSeed, 2)), TB: t, client: c.Client,
		namespaces: []string{c.Namespace(t), c.Namespace(t)}}
	lasts := max(*agreeFor, agreementRound)
	for began := time.Now(); time.Since(began) < lasts; {
		work.run(t.Context(), agreementRound)
	}
	if err := work.settle(t.Context()); err != nil {
		t.Error(err)
	}
	time.Sleep(agreementRest) // for what is planned last to be done, or to count as not done
	report, err := compared(t.Context(), c.ManagerPort)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations with the seed %d", work.done.Load(), *firstSeed)
	return report
}

// judgeAgreement shows a report, and fails for what is unexplained.
func judgeAgreement(t *testing.T, r agreement.Report) {
	decisions := 0
	for _, one := range r.Controllers {
		decisions += one.Decisions
		t.Logf("%s: %d decisions, %v, %d pending", one.Controller, one.Decisions, one.Verdicts, one.Pending)
	}
	t.Logf("%d decisions; rows %v; %d dropped", decisions, r.Rows, r.Dropped)
	for _, d := range slices.Backward(r.Disagreements) {
		line := fmt.Sprintf("%s %s/%s: %s is %s: %s is planned %s, found %s (%s)", d.Controller, d.Namespace, d.Name, d.Step, d.Rule,
			d.Field, d.Planned, d.Found, d.Row)
		if d.Row == "unexplained" {
			t.Error(line)
		} else {
			t.Log(line)
		}
	}
	if decisions == 0 {
		t.Error("nothing was compared")
	}
	if *agreeReport == "" {
		return
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(*agreeReport, append(data, '\n'), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// compared asks an observer what it has compared.
func compared(ctx context.Context, port int) (r agreement.Report, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/debug/agreement", port), nil)
	if err != nil {
		return r, err
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // it is our own process, with a certificate that it has made
	answer, err := client.Do(request)
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return r, fmt.Errorf("the observer answers %s", answer.Status)
	}
	return r, json.NewDecoder(answer.Body).Decode(&r)
}
