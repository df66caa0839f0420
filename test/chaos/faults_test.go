package chaos

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

var (
	faultsLast = flag.Duration("faults", 3*time.Second, "how long the faults of TestFaults last; up to ten minutes make sense")
	seeds      = flag.Int("seeds", 0, "how many random scripts TestRandomFaults runs; with CHAOS_FULL=1 by default 10")
	firstSeed  = flag.Uint64("seed", 1, "the first seed of random scripts, and that of the soak")
	scriptFile = flag.String("script", "", "a file with the one script that TestRandomFaults is to run instead")
)

// faults are the scripts of TestFaults. D stands for how long the faults last, and HALF for half of it.
var faults = []struct {
	name, script string
	election     bool // the manager has to hold a lease, and may end when it loses it
}{
	{name: "pods frozen", script: "event pods times=1 : freeze D"},
	{name: "replicasets frozen", script: "event replicasets times=1 : freeze D"},
	{name: "deployments frozen", script: "event deployments times=1 : freeze D"},
	{name: "services and endpoints frozen", script: "event services,endpoints times=2 : freeze D"},
	{name: "all events late", script: "event * for=D : delay HALF"},
	{name: "pods lost until relist", script: "event pods times=1 : drop D"},
	{name: "replicasets lost until relist", script: "event replicasets times=1 : drop D"},
	{name: "everything lost until relist, twice", script: "event * for=D times=12 : drop HALF"},
	{name: "watches gone", script: "event * for=D every=3 : gone\nwatch * for=D p=0.5 : gone"},
	{name: "connections cut", script: "write * for=D every=3 : cut\nevent * for=D every=7 : cut"},
	{name: "connection silent", script: "write * nth=4 : blackhole D"},
	{name: "conflicts", script: "write * for=D p=0.4 : answer 409"},
	{name: "too many requests", script: "write,get * for=D p=0.5 : answer 429 1"},
	{name: "internal errors", script: "write,get,list,watch * for=D p=0.5 : answer 500"},
	{name: "unavailable", script: "* * for=D : answer 503"},
	{name: "unreachable", script: "* * for=D : cut"},
	{name: "carried out, answered by timeout", script: "write * for=D p=0.4 : commit timeout"},
	{name: "carried out, not answered", script: "write * for=D p=0.4 : commit cut"},
	{name: "carried out, answered never", script: "write * for=D p=0.2 : commit hang D"},
	{name: "carried out, not answered, and events late", script: "write * for=D p=0.4 : commit cut\nevent * for=D : delay HALF"},
	{name: "killed again and again", script: "write * for=D every=6 : kill before"},
	{name: "killed while events are late", script: "write * for=D every=8 : kill after\nevent * for=D : delay HALF"},
	{name: "leases slow", script: "* leases for=D : delay 700ms", election: true},
	{name: "leases fail", script: "* leases for=D : answer 500", election: true},
	{name: "leases carried out, not answered", script: "* leases for=D : commit cut", election: true},
}

// TestFaults rolls out and scales under each kind of fault. When the fault is over, the work must be done in bounded time,
// with no rule broken, and end as it does without faults.
func TestFaults(t *testing.T) {
	c := cluster.Start(t)
	tally := newTally(t, fmt.Sprintf("faults for %v", *faultsLast), len(faults),
		strings.Fields("S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S13 S14 L1 L2 L3 L4")...)
	reference, _ := underFaults.undisturbed(t, c, tally)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			half := (*faultsLast / 2).String()
			script := "seed 1\n" + strings.NewReplacer("=D", "="+faultsLast.String(), " D", " "+faultsLast.String(), "HALF", half).Replace(f.script)
			r := newRun(t, c, tally, "", podgcThreshold)
			if f.election {
				r.elect()
			}
			t.Cleanup(func() { r.replayBy("", "-faults="+faultsLast.String()) })
			r.reference = reference
			r.disturb(script, true)
		})
	}
}

// TestRandomFaults does the same under scripts made from seeds.
func TestRandomFaults(t *testing.T) {
	scripts := randomScripts(t)
	if len(scripts) == 0 {
		t.Skip("runs with -seeds=N, -script=FILE or CHAOS_FULL=1")
	}
	c := cluster.Start(t)
	tally := newTally(t, "random scripts of faults", 5, "S1", "S3", "S4", "S5", "S10", "L1", "L2", "L3", "L4")
	reference, _ := underFaults.undisturbed(t, c, tally)
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, c, tally, "", podgcThreshold)
			t.Cleanup(func() {
				if r.Failed() {
					r.Logf("the script:\n%s", script)
				}
				if *scriptFile != "" {
					r.replayBy("", "-script="+*scriptFile)
				} else {
					r.replayBy("", "-faults="+faultsLast.String(), "-seeds=1", "-seed="+strings.TrimPrefix(name, "seed "))
				}
			})
			r.reference = reference
			r.disturb(script, false)
		})
	}
}

func randomScripts(t *testing.T) map[string]string {
	t.Helper()
	if *scriptFile != "" {
		text, err := os.ReadFile(*scriptFile)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{"script": string(text)}
	}
	if full && *seeds == 0 {
		*seeds = 10
	}
	scripts := map[string]string{}
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		s, err := proxy.Generate(seed, *faultsLast, *faultsLast/2)
		if err != nil {
			t.Fatal(err)
		}
		scripts[fmt.Sprintf("seed %d", seed)] = s.String()
	}
	return scripts
}

// underFaults is what is done while there are faults: a rollout that is scaled in its middle, and one by Recreate. The end
// does not depend on which states of the Deployments the manager gets to see.
var underFaults = scenario{name: "rollout", play: func(r *run) {
	u := r.user()
	u.Expose("web")
	u.Create(suite.Deployment("web", 4, suite.Rolling(2, 1)))
	u.Create(suite.Deployment("batch", 3, suite.Recreate))
	u.WaitComplete("web")
	u.WaitComplete("batch")
	u.Season()
	r.disturbance.begin()
	u.SetImage("web", "web:2")
	u.SetImage("batch", "web:2")
	time.Sleep(*faultsLast / 2) // whatever has become of it
	u.Patch("web", `{"spec":{"replicas":6}}`)
	time.Sleep(*faultsLast / 2)
	r.disturbance.end()
	r.wait("the rollouts end", recovery, func() error { return errors.Join(suite.Complete(u.Get("web")), suite.Complete(u.Get("batch"))) })
}}

const (
	// longestBackOff is when a manager tries again at the latest (L4).
	longestBackOff = 60 * time.Second
	// recovery is how long a test waits for a manager to get over faults.
	recovery = longestBackOff + 15*time.Second
)

// disturbance is what a run does to its manager for a while.
type disturbance struct{ begin, end func() }

// disturb plays the work under a script of faults and judges what has happened. One made at random may find nothing that its
// rules apply to; the others must inject something.
func (r *run) disturb(script string, injects bool) {
	r.Helper()
	parsed, err := proxy.Parse(script)
	if err != nil {
		r.Fatal(err)
	}
	r.disturbance = disturbance{
		begin: func() {
			r.disturbed.From = time.Now()
			r.proxy.Run(parsed)
		},
		end: func() {
			r.proxy.Calm()
			r.disturbed.To = time.Now().Add(*faultsLast) // what has been frozen near the end thaws so much later
		},
	}
	h := underFaults.run(r)
	o := oracle.Options{Lease: leaseNamespace + "/" + r.ns}
	if took := oracle.Recovery(h, o, r.disturbed.To); took > 0 {
		r.Logf("the last write came %v after the last fault", took.Round(time.Millisecond))
	}
	if n := len(r.proxy.Injections()); n == 0 && injects {
		r.Errorf("no fault was injected")
	}
	r.judge(h, o)
}

// elect makes the manager hold a lease of its own.
func (r *run) elect() {
	r.mayEnd = true
	r.flags = append(r.flags, "--leader-elect=true", "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s",
		"--leader-elect-retry-period=500ms", "--leader-elect-resource-name="+r.ns, "--leader-elect-resource-namespace="+leaseNamespace)
}
