package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// printed is what TestSeeds prints when a seed fails.
const printed = `--- FAIL: TestSeeds (12.30s)
    simulation_test.go:152: seed 42: 2 violations, the first one:
        S6 Deployment shop/web has 1 available pods
    simulation_test.go:161: replay with: go test ./test/simulation -run TestReplay -seed 42 -faults=true -v
        or, shorter, with -script FILE and this in the file:
        seed 42
        set batch 500
        at 0s       create web replicas=2 image=good:2
        at 1.502s   image web slow:2

    simulation_test.go:120: 12 seeds, 1.0 a second
FAIL
`

func TestAFailingSeedBecomesAScript(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seeds")
	f, ok := found(printed)
	if !ok {
		t.Fatal("it is not found")
	}
	if err := f.write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "found-S6-42.script"))
	want := "# S6 Deployment shop/web has 1 available pods\nseed 42\nset batch 500\nat 0s       create web replicas=2 image=good:2\nat " +
		"1.502s   image web slow:2\n"
	if err != nil || string(text) != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
	for _, other := range []string{"", "panic: test timed out after 2h", strings.Split(printed, "seed 42\n")[0],
		strings.Replace(printed, "seed 42:", "seed x:", 1)} {
		if f, ok := found(other); ok {
			t.Errorf("found %+v in %q", f, other)
		}
	}
}

func TestBudgets(t *testing.T) {
	all := []step{{weight: 0}, {weight: 30}, {weight: 10}}
	for i, want := range []time.Duration{time.Minute, 30 * time.Minute, 40 * time.Minute} {
		if got := budget(all[i:], 40*time.Minute); got != want {
			t.Errorf("step %d of %v: %v, want %v", i, all, got, want)
		}
	}
	if got := budget(all[1:], -time.Hour); got != time.Minute {
		t.Errorf("a step that begins too late gets %v", got)
	}
}

// The page has a row for each step, in the same order.
func TestStepsAreInThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "| step | what it does |\n|---|---|\n")
	rows, _, end := strings.Cut(section, "\n\n")
	if !ok || !end {
		t.Fatal("the page has no table of steps")
	}
	var have, want []string
	for row := range strings.Lines(rows) {
		have = append(have, strings.Trim(strings.Split(row, "|")[1], " `"))
	}
	for _, s := range steps() {
		want = append(want, s.name)
	}
	if !slices.Equal(have, want) {
		t.Errorf("the page has the steps %q, the night %q", have, want)
	}
}

// The seeds that the night adds to those of the gate are all run, each once.
func TestFixedSeeds(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ran := filepath.Join(t.TempDir(), "ran")
	for _, workers := range []int{1, 2, 3, 7} {
		n := &night{dir: t.TempDir(), simulate: "echo >>" + ran, workers: workers, gateSeeds: 300}
		if o := fixed(n, log, 0); o.err != nil || o.ran != "500 seeds that are the same each night" {
			t.Errorf("%d workers: %+v", workers, o)
		}
		text, err := os.ReadFile(ran)
		if err != nil || os.Remove(ran) != nil {
			t.Fatal(err)
		}
		var seeds []int
		for _, part := range regexp.MustCompile(`-first=(\d+) -seeds=(\d+)`).FindAllStringSubmatch(string(text), -1) {
			first, _ := strconv.Atoi(part[1]) // digits
			count, _ := strconv.Atoi(part[2])
			for i := range count {
				seeds = append(seeds, first+i)
			}
		}
		slices.Sort(seeds)
		if len(seeds) != 500 || len(slices.Compact(seeds)) != 500 || seeds[0] != 301 || seeds[499] != 800 {
			t.Errorf("%d workers run %v", workers, seeds)
		}
	}
}

// Each process of the deaths must have run scenarios.
func TestDeaths(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	n := &night{dir: t.TempDir(), simulate: `echo '    --- PASS: TestCrashAtEveryWrite/x (1s)' #`}
	if o := deaths(n, log, 0); o.err != nil || o.ran != "2 scenarios, killed before and after each write" {
		t.Errorf("%+v", o)
	}
	n.simulate = `echo '--- PASS: TestCrashAtEveryWrite (0s)' #`
	if o := deaths(n, log, 0); o.err == nil {
		t.Errorf("nothing ran: %+v", o)
	}
}

// A night goes on after a step that fails, and tells of the files of cases that steps have left.
func TestSearch(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "--quiet", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	leave := func(name string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leave("pkg/a/testdata/fuzz/FuzzA/old")
	n := &night{dir: dir, logs: filepath.Join(dir, "bin"), workers: 2}
	lines, err := n.search([]step{
		{"fails", 0, func(_ *night, log *os.File, _ time.Duration) outcome {
			_, err := log.WriteString("why\n")
			return outcome{"half", errors.Join(errors.New("no good"), err)}
		}},
		{"finds", 1, func(*night, *os.File, time.Duration) outcome {
			leave("pkg/a/testdata/fuzz/FuzzA/new")
			leave("pkg/b/testdata/rapid/TestB/b.fail")
			leave("test/simulation/testdata/seeds/found-L1-7.script")
			leave("pkg/a/testdata/other")
			return outcome{"all", nil}
		}},
		{"good", 1, func(n *night, log *os.File, _ time.Duration) outcome {
			return n.until(time.Millisecond, log, "things", func(int) (int, []byte, error) { return 3, []byte("x"), nil })
		}},
		{"does nothing", 1, func(n *night, log *os.File, _ time.Duration) outcome {
			return n.until(0, log, "things", func(int) (int, []byte, error) { return 3, nil, nil })
		}},
	}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, l := range lines {
		results = append(results, l.result())
	}
	if want := []string{"FAILED: no good",
		"FOUND pkg/a/testdata/fuzz/FuzzA/new pkg/b/testdata/rapid/TestB/b.fail test/simulation/testdata/seeds/found-L1-7.script",
		"nothing found", "FAILED: nothing ran"}; !slices.Equal(results, want) {
		t.Errorf("got %q, want %q", results, want)
	}
	if text := table(lines); strings.Count(text, "\n") != len(lines)+2 || !strings.Contains(text, "half") {
		t.Errorf("the table is\n%s", text)
	}
	if log := tail(n.log("fails")); !strings.HasPrefix(log, "why\n") {
		t.Errorf("the log has %q", log)
	}
}

func TestInterruptedTestsThatHadFailed(t *testing.T) {
	const begun = "=== CONT  TestCrashAtEveryWrite/create/before_create_pods_1\n"
	if err := interrupted(begun); err != nil {
		t.Error(err)
	}
	err := interrupted(begun + "    judge_test.go:273: replay: go test ./test/chaos -run X\n    crash_test.go:46: it was not killed\n")
	if err == nil || !strings.Contains(err.Error(), "1 failures, the first one: judge_test.go:273: replay: go test ./test/chaos -run X") {
		t.Error(err)
	}
}
