package simulation

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/shrink"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
)

var (
	seedFlag   = flag.String("seed", "", "for TestReplay: the seed to replay")
	scriptFlag = flag.String("script", "", "for TestReplay: the file of the script to replay")
	firstFlag  = flag.Uint64("first", 1, "for TestSeeds: the first seed")
	logFlag    = flag.Int("log", -1, "verbosity of the managers' log; by default there is none")
)

func TestMain(m *testing.M) {
	flag.Parse()
	var level klog.Level
	if _ = level.Set(strconv.Itoa(*logFlag)); *logFlag < 0 {
		klog.SetLogger(logr.Discard())
	}
	m.Run()
}

// budget is how long TestSeeds may take: SIM_TIME in the environment, without which it does not run ("make simulate").
func budget(t *testing.T) time.Duration {
	text := os.Getenv("SIM_TIME")
	if text == "" {
		t.Skip("runs for the time in SIM_TIME")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SIM_TIME: %v", err)
	}
	return d
}

// TestSeeds runs one random script after the other until its time is up. A failing one is shrunk and printed.
func TestSeeds(t *testing.T) {
	deadline := time.Now().Add(budget(t))
	var next, done, changes atomic.Uint64
	var virtual atomic.Int64
	next.Store(*firstFlag)
	began := time.Now()
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for time.Now().Before(deadline) && !t.Failed() {
				seed := next.Add(1) - 1
				o := Run(t, workload.Random(seed), controllers.Registry)
				done.Add(1)
				changes.Add(o.Changes)
				virtual.Add(int64(o.Took))
				if len(o.Violations) > 0 {
					report(t, seed, o)
				}
			}
		})
	}
	workers.Wait()
	n := float64(done.Load())
	t.Logf("%d seeds, %.1f a second, each on average %v of virtual time and %.0f changes",
		done.Load(), n/time.Since(began).Seconds(), (time.Duration(float64(virtual.Load()) / n)).Round(time.Second), float64(changes.Load())/n)
}

// report shrinks the script of a failing seed and says how to replay it.
func report(t *testing.T, seed uint64, o Outcome) {
	rule := ruleOf(o.Violations[0])
	t.Errorf("seed %d: %d violations, the first one:\n%s", seed, len(o.Violations), o.Violations[0])
	short := shrink.Script(workload.Random(seed), 150, func(s script.Script) bool {
		for _, v := range Run(t, s, controllers.Registry).Violations {
			if ruleOf(v) == rule {
				return true
			}
		}
		return false
	})
	t.Logf("replay with: go test ./test/simulation -run TestReplay -seed %d -v\nor, shorter, with -script FILE and this in the file:\n%s", seed, short)
}

// ruleOf is the name of the rule that was broken.
func ruleOf(violation string) string {
	rule, _, _ := strings.Cut(violation, " ")
	return rule
}

// TestReplay runs one seed or one script, and shows what came of it.
func TestReplay(t *testing.T) {
	var s script.Script
	switch {
	case *scriptFlag != "":
		f, err := os.Open(*scriptFlag)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if s, err = script.Parse(f); err != nil {
			t.Fatalf("%s: %v", *scriptFlag, err)
		}
	case *seedFlag != "":
		seed, err := strconv.ParseUint(*seedFlag, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		s = workload.Random(seed)
	default:
		t.Skip("for replays: give it -seed or -script")
	}
	o := Run(t, s, controllers.Registry)
	t.Logf("script:\n%s\nremarks:\n%s\n%v of virtual time, %d changes, hash %x", s, strings.Join(o.Notes, "\n"), o.Took, o.Changes, o.Hash)
	for _, v := range o.Violations {
		t.Error(fmt.Sprint(v))
	}
}
