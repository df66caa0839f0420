package simulation

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/shrink"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

var (
	seedFlag   = flag.String("seed", "", "for TestReplay: the seeds to replay, separated by commas")
	scriptFlag = flag.String("script", "", "for TestReplay: the files of the scripts to replay, separated by commas")
	firstFlag  = flag.Uint64("first", 1, "for TestSeeds: the first seed")
	seedsFlag  = flag.Uint64("seeds", 40, "for TestSeeds: how many seeds; with SIM_TIME at most so many")
	faultsFlag = flag.Bool("faults", true, "for TestSeeds and -seed: whether random scripts have faults")
	aroundFlag = flag.String("around", "", "for TestSeeds and -seed: the controller with which random scripts stay; by default a few")
	shrinkFlag = flag.Int("shrink", 150, "for TestSeeds: how many runs it may take to make a failing script shorter")
	logFlag    = flag.Int("log", -1, "verbosity of the managers' log; by default there is none")
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // a run is short and makes much garbage
	if seedBubble != nil {
		runtime.GOMAXPROCS(1) // or goroutines run at the same time
	} else if os.Getenv("SIM_OVERLAY") == "required" {
		panic("this was compiled without the overlay of test/overlay")
	}
	var level klog.Level
	if _ = level.Set(strconv.Itoa(*logFlag)); *logFlag < 0 {
		klog.SetLogger(logr.Discard())
	}
	// made here, and not by the first world: it takes long, and the names of temporary files must be chosen by chance
	suite.TokenKeyFile()
	cluster.Main(m, cluster.WithoutKwok) // which would write to the nodes that are compared
	if err := suite.RemoveFiles(); err != nil {
		panic(err)
	}
}

// TestSeeds runs random scripts, as many as -seeds says, or those of a search: as many as there is time for in SIM_TIME. A failing one is
// shrunk and printed.
func TestSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time")
	}
	least, deadline := *seedsFlag, time.Now().Add(365*24*time.Hour)
	if text := os.Getenv("SIM_TIME"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("SIM_TIME: %v", err)
		}
		least, deadline = 1, time.Now().Add(d)
	}
	var next atomic.Uint64
	var sum totals
	next.Store(*firstFlag)
	began := time.Now()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for time.Now().Before(deadline) && !t.Failed() {
				seed := next.Add(1) - 1
				if seed >= *firstFlag+*seedsFlag {
					return
				}
				o := Run(t, random(seed), controllers.Registry)
				sum.add(o)
				if len(o.Violations) > 0 {
					report(t, seed, o)
				}
			}
		})
	}
	workers.Wait()
	if !t.Failed() && sum.done < least {
		t.Errorf("%d seeds were run, fewer than %d", sum.done, least)
	}
	sum.log(t, time.Since(began))
}

// enough seeds give each oracle something to judge.
const enough = 200

// totals are sums over seeds.
type totals struct {
	mu             sync.Mutex
	done, changes  uint64
	took, impaired time.Duration
	counts         oracle.Counts
}

func (s *totals) add(o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	s.changes += o.Changes
	s.took += o.Took
	s.impaired += o.Impaired
	if s.counts == nil {
		s.counts = oracle.Counts{}
	}
	s.counts.Add(o.Counts)
}

// log shows the totals. The test fails if an oracle had nothing to judge in many seeds.
func (s *totals) log(t *testing.T, real time.Duration) {
	n := float64(s.done)
	t.Logf("%d seeds, %.1f a second, each on average %v of virtual time and %.0f changes; %.0f %% of the time lies in outages",
		s.done, n/real.Seconds(), (time.Duration(float64(s.took) / n)).Round(time.Second), float64(s.changes)/n,
		100*s.impaired.Seconds()/s.took.Seconds())
	for _, rule := range oracle.All() {
		count := s.counts[rule.ID]
		t.Logf("%-3s judged %7d times, excused %6d times", rule.ID, count.Judged, count.Excused)
		if s.done >= enough && count.Judged == 0 {
			t.Errorf("in %d seeds %s had nothing to judge", s.done, rule.ID)
		}
	}
}

// TestEntries runs a few random scripts of each entry of the suite alone, also with -short: a new entry is tried at once.
func TestEntries(t *testing.T) {
	for _, e := range suite.Entries() {
		t.Run(e.Controller, func(t *testing.T) {
			for seed := range uint64(plantest.Tries(3, 1)) {
				for _, v := range Run(t, suite.MixOf(e).Random(seed), controllers.Registry).Violations {
					t.Errorf("seed %d: %s", seed, v)
				}
			}
		})
	}
}

// report shrinks the script of a failing seed and says how to replay it.
func report(t *testing.T, seed uint64, o Outcome) {
	rule := ruleOf(o.Violations[0])
	t.Errorf("seed %d: %d violations, the first one:\n%s", seed, len(o.Violations), o.Violations[0])
	short := shrink.Script(random(seed), *shrinkFlag, func(s script.Script) bool {
		for _, v := range Run(t, s, controllers.Registry).Violations {
			if ruleOf(v) == rule {
				return true
			}
		}
		return false
	})
	t.Logf("replay with: go test -overlay=$(go run ./test/overlay/cmd bin/.overlay) ./test/simulation -run TestReplay -seed %d -faults=%v "+
		"-around=%s -v\nor, shorter, with -script FILE and this in the file:\n%s",
		seed, *faultsFlag, *aroundFlag, short)
}

// random is the random script of a seed, with a focus on a few controllers, and without its faults if the flags ask for none.
func random(seed uint64) script.Script {
	s := suite.RandomFocused(seed)
	if *aroundFlag != "" {
		all := controllers.Registry() // that it has none of that name is a mistake of who asks
		c := all[slices.IndexFunc(all, func(c manager.Controller) bool { return c.Name == *aroundFlag })]
		s = suite.RandomAround(c.Name, c.Rights(), seed)
	}
	if !*faultsFlag {
		s = withoutFaults(s)
	}
	return s
}

// ruleOf is the name of the rule that was broken.
func ruleOf(violation string) string {
	rule, _, _ := strings.Cut(violation, " ")
	return rule
}

// TestReplay runs the given seeds and scripts, and shows what came of them.
func TestReplay(t *testing.T) {
	scripts := given(t)
	if len(scripts) == 0 {
		t.Skip("for replays: give it -seed or -script")
	}
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		t.Run(name, func(t *testing.T) {
			replay(t, scripts[name])
		})
	}
}

// replay runs a script and shows what came of it.
func replay(t *testing.T, s script.Script) {
	o := Run(t, s, controllers.Registry)
	t.Logf("script:\n%s\nremarks:\n%s\n%v of virtual time, %d changes", s, strings.Join(o.Notes, "\n"), o.Took, o.Changes)
	for _, v := range o.Violations {
		t.Errorf("violation: %s", v)
	}
}

// given are the scripts that the flags name, by seed or file.
func given(t *testing.T) map[string]script.Script {
	scripts := map[string]script.Script{}
	for seed := range strings.SplitSeq(*seedFlag, ",") {
		if seed == "" {
			continue
		}
		n, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		scripts[seed] = random(n)
	}
	for file := range strings.SplitSeq(*scriptFlag, ",") {
		if file != "" {
			scripts[file] = read(t, file)
		}
	}
	return scripts
}

// TestFoundSeeds runs the scripts in testdata/seeds: what a search has found, as it printed it.
func TestFoundSeeds(t *testing.T) {
	files, err := filepath.Glob("testdata/seeds/*.script")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, v := range Run(t, read(t, file), controllers.Registry).Violations {
				t.Error(v)
			}
		})
	}
}

func read(t *testing.T, file string) script.Script {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := script.Parse(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s
}
