package chaos

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
)

var (
	faultsLast = flag.Duration("faults", 3*time.Second, "how long the faults of TestFaults last; up to ten minutes make sense")
	seeds      = flag.Int("seeds", 0, "how many random scripts TestRandomFaults runs; with CHAOS_FULL=1 by default 40")
	firstSeed  = flag.Uint64("seed", 1, "the first seed of random scripts, and that of the soak")
	scriptFile = flag.String("script", "", "a file with the one script that TestRandomFaults is to run instead, beside each scenario")
)

// fault is a script of TestFaults. In its lines D stands for how long the faults last, HALF for half of it, and OBJECTS for the
// resource of which the manager writes most.
type fault struct {
	name     string
	lines    []string
	needs    string // a verb that the manager must use, or a resource that the scenario must have
	election bool   // the manager has to hold a lease, and may end when it loses it
}

var allFaults = []fault{
	{name: "objects frozen", lines: []string{"0s freeze OBJECTS for=D"}},
	{name: "objects late", lines: []string{"0s delay OBJECTS HALF for=D"}},
	{name: "objects lost until relist", lines: []string{"0s freeze OBJECTS for=D hide=true"}},
	{name: "pods frozen", lines: []string{"0s freeze pods for=D"}, needs: "pods"},
	{name: "replicasets frozen", lines: []string{"0s freeze replicasets for=D"}, needs: "replicasets"},
	{name: "all frozen", lines: []string{"0s freeze all for=D"}},
	{name: "all events late", lines: []string{"0s delay all HALF for=D"}},
	{name: "pods lost until relist", lines: []string{"0s freeze pods for=D hide=true"}, needs: "pods"},
	{name: "everything lost until relist, twice",
		lines: []string{"0s freeze all for=HALF hide=true", "HALF freeze all for=HALF hide=true"}},
	{name: "watches expire", lines: []string{"0s expire all", "HALF expire all"}},
	{name: "watches break", lines: []string{"0s cut all", "300ms cut all", "HALF cut all"}},
	{name: "connections break", lines: []string{"0s refuse each=1 code=0 for=D"}},
	{name: "connections silent", lines: []string{"0s silent for=D"}},
	{name: "conflicts", lines: []string{"0s refuse each=2 code=409 for=D"}, needs: "patch or update"},
	{name: "conflicts, and events late", lines: []string{"0s refuse each=1 code=409 for=D", "0s delay all HALF for=D"},
		needs: "patch or update"},
	{name: "too many requests", lines: []string{"0s refuse each=1 code=429 verb=all for=D"}},
	{name: "internal errors", lines: []string{"0s refuse each=2 code=500 verb=all for=D"}},
	{name: "unavailable", lines: []string{"0s refuse code=503 verb=all for=D"}},
	{name: "unreachable", lines: []string{"0s down for=D"}},
	{name: "requests slow", lines: []string{"0s slow 700ms for=D"}},
	{name: "carried out, answered by timeout", lines: []string{"0s refuse each=1 code=504 after=true for=D"}},
	{name: "carried out, answered by an error", lines: []string{"0s refuse each=1 code=500 after=true for=D"}},
	{name: "carried out, not answered", lines: []string{"0s refuse each=1 code=0 after=true for=D"}},
	{name: "carried out, answered never", lines: []string{"0s refuse each=1 code=-1 after=true for=D"}},
	{name: "carried out, not answered, and events late",
		lines: []string{"0s refuse each=1 code=0 after=true for=D", "0s delay all HALF for=D"}},
	{name: "the process stands still", lines: []string{"0s pause for=D"}},
	{name: "stopped, and killed when it is back", lines: []string{"0s stop back=0s", "1s crash writes=1 after=true back=0s"}},
	{name: "killed again and again",
		lines: []string{"0s crash writes=0 after=true back=0s", "1s crash writes=0 after=false back=0s",
			"HALF crash writes=1 after=true back=0s"}},
	{name: "killed while events are late",
		lines: []string{"0s delay all HALF for=D", "0s crash writes=1 after=true back=0s", "HALF crash writes=0 after=true back=0s"}},
	{name: "leases slow", lines: []string{"0s slow 700ms resource=leases for=D"}, election: true},
	{name: "leases fail", lines: []string{"0s refuse code=500 verb=all resource=leases for=D"}, election: true},
	{name: "leases carried out, not answered", lines: []string{"0s refuse code=0 after=true verb=all resource=leases for=D"},
		election: true},
}

// script is the fault as a script for a scenario.
func (f fault) script(s scenario) string {
	half := (*faultsLast / 2).String()
	text := ""
	for _, line := range f.lines {
		at, rest, _ := strings.Cut(line, " ")
		text += fmt.Sprintf("at %s fault %s %s\n", at, manager0, rest)
	}
	return strings.NewReplacer("=D", "="+faultsLast.String(), "HALF", half, "OBJECTS", s.mainResource()).Replace(text)
}

// suits reports whether the scenario has what the fault needs: the resource, or a write with the verb from where the fault begins.
func (f fault) suits(s scenario) bool {
	if f.needs == "" {
		return true
	}
	begins := slices.Index(s.points, s.middle())
	for i, p := range s.points {
		if p.resource == f.needs || i >= begins && strings.Contains(f.needs, p.verb) {
			return true
		}
	}
	return false
}

// meetings is how many faults each scenario meets. Neighbours in the list are of one kind, so it meets some that are far apart.
func meetings() int {
	if full {
		return len(allFaults)
	}
	return 2
}

// faultsFor are the faults that the scenario of a number meets. Together the scenarios meet all faults about equally often.
func faultsFor(number int, s scenario) (some []fault) {
	n, wanted := len(allFaults), meetings()
	for m := range wanted {
		for i := range n { // the next one that suits it and is not among them
			f := allFaults[(number+m*n/wanted+i)%n]
			known := slices.ContainsFunc(some, func(other fault) bool { return other.name == f.name })
			if f.suits(s) && !known {
				some = append(some, f)
				break
			}
		}
	}
	return some
}

// TestFaults plays the scenarios of all entries, each under some of the faults. When the faults are over, the work must be done in
// bounded time, with no rule broken, and end as it does without faults.
func TestFaults(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	played := withFaults()
	tally := newTally(t, fmt.Sprintf("faults for %v", *faultsLast), meetings()*len(played))
	for i, s := range played {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.undisturbed(t, c, tally)
			for _, f := range faultsFor(i, s) {
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					r := newRun(t, c, tally)
					if f.election {
						r.elect()
					}
					t.Cleanup(func() { r.replayBy("", "-faults="+faultsLast.String()) })
					s.disturb(r, f.script(s), *faultsLast, true)
				})
			}
		})
	}
}

// withFaults are the scenarios that TestFaults plays. Gadgets are a resource of the whole cluster, and runs would change at the same time
// in which version they are stored. The simulation plays migrations under faults.
func withFaults() []scenario {
	return slices.DeleteFunc(slices.Clone(scenarios()), func(s scenario) bool { return s.Name == "gadgets are migrated" })
}

// TestRandomFaults does the same under scripts made from seeds.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	if full && *seeds == 0 {
		*seeds = 40
	}
	if *scriptFile == "" && *seeds == 0 {
		t.Skip("runs with -seeds=N, -script=FILE or CHAOS_FULL=1")
	}
	c := cluster.Start(t)
	has := len(scenarios())
	if *scriptFile == "" && *seeds >= len(richest) { // fewer may leave out what is promised
		has = len(richest)
	}
	tally := newTally(t, "random scripts of faults", has)
	for i, s := range dealt() {
		scripts := randomScripts(t, i)
		if len(scripts) == 0 {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.undisturbed(t, c, tally)
			for name, text := range scripts {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					r := newRun(t, c, tally)
					t.Cleanup(func() {
						if r.Failed() {
							r.Logf("the script:\n%s", text)
						}
						if *scriptFile != "" {
							r.replayBy("", "-script="+*scriptFile)
						} else {
							r.replayBy("", "-faults="+faultsLast.String(), fmt.Sprintf("-seeds=%d -seed=%d", *seeds, *firstSeed))
						}
					})
					s.disturb(r, text, *faultsLast, false)
				})
			}
		})
	}
}

// richest are the scenarios that give most oracles something to judge. They get the first seeds, so that few seeds are worth something.
var richest = []string{"rolling update", "a volume moves to another node", "run a Job", "claims and volumes are bound, released and freed"}

// dealt are the scenarios in the order in which they get seeds.
func dealt() []scenario {
	place := func(s scenario) int {
		if i := slices.Index(richest, s.Name); i >= 0 {
			return i
		}
		return len(richest)
	}
	all := slices.Clone(scenarios())
	slices.SortStableFunc(all, func(a, b scenario) int { return cmp.Compare(place(a), place(b)) })
	return all
}

func TestTheRichestScenariosGetTheFirstSeeds(t *testing.T) {
	all := dealt()
	for i, name := range richest {
		if all[i].Name != name {
			t.Errorf("the seed %d is for %q, not for %q", i, all[i].Name, name)
		}
	}
	if len(all) != len(scenarios()) {
		t.Errorf("%d of %d scenarios get seeds", len(all), len(scenarios()))
	}
}

// randomScripts are those for the scenario of a number, in the order of [dealt]: the seeds are dealt out.
func randomScripts(t *testing.T, number int) map[string]string {
	t.Helper()
	if *scriptFile != "" {
		text, err := os.ReadFile(*scriptFile)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{"script": string(text)}
	}
	scripts := map[string]string{}
	for i := number; i < *seeds; i += len(scenarios()) {
		seed := *firstSeed + uint64(i)
		scripts[fmt.Sprintf("seed %d", seed)] = shortened(workload.Faults(seed, 3+int(seed%4), *faultsLast), *faultsLast/2,
			*faultsLast/2).String()
	}
	return scripts
}

// shortened returns a script whose faults last no longer than a time, so that several fit into a test, and whose slow requests are
// under way no longer than another: a write that arrives after the lease of its sender would look like one that was sent then.
func shortened(s script.Script, longest, slowest time.Duration) script.Script {
	for i, l := range s.Lines {
		l.Words = slices.Clone(l.Words)
		for j, word := range l.Words {
			key, value, isKey := strings.Cut(word, "=")
			if !isKey {
				key, value = "", word
			}
			most := longest
			if l.Arg(1) == "slow" && !isKey {
				most = min(longest, slowest)
			}
			if d, err := time.ParseDuration(value); err == nil && d > most {
				l.Words[j] = strings.TrimPrefix(key+"="+most.String(), "=")
			}
		}
		s.Lines[i] = l
	}
	return s
}

// elect makes the manager hold a lease of its own, which it loses while leases fail.
func (r *run) elect() {
	r.mayEnd = true
	r.flags = append(r.flags, "--leader-elect=true", "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=2s",
		"--leader-elect-retry-period=500ms", "--leader-elect-resource-name="+r.ns, "--leader-elect-resource-namespace="+leaseNamespace)
}

// A fault of changes needs one after its beginning: while a node is drained by a taint, all changes may be before the first deletion.
func TestFaultsThatFindNothingAreNotPlayed(t *testing.T) {
	conflicts := fault{needs: "patch or update"}
	patch, remove := writePoint{verb: "patch", resource: "pods"}, writePoint{verb: "delete", resource: "pods"}
	for _, row := range []struct {
		points []writePoint
		suits  bool
	}{{[]writePoint{patch, remove}, false}, {[]writePoint{remove, patch}, true}} {
		s := scenario{baseline: &baseline{points: row.points, objects: map[string]map[string]bool{"pods": {"a": true}}}}
		if conflicts.suits(s) != row.suits {
			t.Errorf("%v: %t", row.points, !row.suits)
		}
	}
}

// TestEveryFaultMeetsScenarios: none is left over, and none meets a single scenario only.
func TestEveryFaultMeetsScenarios(t *testing.T) {
	met := map[string]int{}
	for i, s := range scenarios() {
		s.baseline = &baseline{
			points:  []writePoint{{verb: "create", resource: "replicasets"}, {verb: "patch", resource: "pods"}},
			objects: map[string]map[string]bool{"pods": {"web": true}},
		}
		for _, f := range faultsFor(i, s) {
			met[f.name]++
		}
	}
	for _, f := range allFaults {
		if met[f.name] < 2 {
			t.Errorf("%q meets %d scenarios", f.name, met[f.name])
		}
	}
}
