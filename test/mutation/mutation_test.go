// Package mutation shows that the oracles bite: it makes known mistakes in the controllers, one at a time, and each must be
// found by the oracle that is named for it.
//
// A mistake is an edit of the source text. The compiler is given the edited copy in the place of the file (go test
// -overlay), so no mistake is ever in the code itself. Then a simulation runs a script in which the mistake shows. The same
// scripts are run without any mistake, and no oracle may complain.
package mutation

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// mutants are those of all entries of the suite.
var mutants = suite.Mutants()

// finding is what became of a mutant.
type finding struct {
	oracles []string // that complained, each once
	first   string   // complaint of the named oracle
	took    time.Duration
}

// root is the root of the module.
const root = "../.."

// seeds is how many a script is run with, one after the other, until the mistake is found: how long pods take, which names
// they get and thus which are deleted first depends on the seed, and a little on the moment.
const seeds = 4

// runLimit is how long the script of one mutant may run, in real time. A mistake may keep the simulation from ending.
const runLimit = 3 * time.Minute

func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the simulation once for each mutant")
	}
	var mu sync.Mutex
	found := map[string]finding{}
	t.Run("all", func(t *testing.T) {
		for _, m := range mutants {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				f := examine(t, m)
				mu.Lock()
				defer mu.Unlock()
				found[m.Name] = f
			})
		}
	})
	t.Logf("%d mutants:\n%s", len(mutants), table(found))
}

// examine compiles one mutant, runs its script, and fails unless the named oracle complains.
func examine(t *testing.T, m suite.Mutant) finding {
	dir := t.TempDir()
	overlay, err := overlayOf(dir, m.Edits)
	if err != nil {
		t.Fatal(err)
	}
	program := build(t, dir, "-overlay="+overlay)
	began := time.Now()
	var f finding
	for seed := range seeds {
		output, failed := run(t, program, write(t, dir, seed, m.Script))
		f = read(output, m.Oracle)
		f.took = time.Since(began)
		switch {
		case f.first != "":
			return f
		case failed:
			t.Errorf("%s does not find it, but %q:\n%s", m.Oracle, f.oracles, tail(output))
			return f
		}
	}
	t.Errorf("no oracle finds it; %s should", m.Oracle)
	return f
}

// randomSeeds is for TestMutantsAtRandom.
var randomSeeds = flag.Int("seeds", 0, "how many random scripts TestMutantsAtRandom runs with each mutant at most")

// TestMutantsAtRandom runs each mutant with the random scripts of the simulation instead of its own, and reports which seed is the
// first that finds it, and by which oracle. It fails if none finds half of them: then the random workload would be of no use.
func TestMutantsAtRandom(t *testing.T) {
	if *randomSeeds == 0 {
		t.Skip("takes minutes: runs with -seeds=N")
	}
	var mu sync.Mutex
	rows := map[string]string{}
	killed := 0
	t.Run("all", func(t *testing.T) {
		for _, m := range mutants {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				seed, id := firstSeed(t, m)
				mu.Lock()
				defer mu.Unlock()
				rows[m.Name] = fmt.Sprintf("> %d", *randomSeeds)
				if seed > 0 {
					killed++
					rows[m.Name] = fmt.Sprintf("%d\t%s", seed, id)
				}
			})
		}
	})
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MUTANT\tSEEDS TO KILL\tORACLE")
	for _, m := range mutants {
		fmt.Fprintf(w, "%s\t%s\n", m.Name, rows[m.Name])
	}
	w.Flush()
	t.Logf("%d of %d mutants are found at random:\n%s", killed, len(rows), text.String())
	if 2*killed < len(rows) {
		t.Errorf("random scripts find %d of %d mutants", killed, len(rows))
	}
}

var seedFailed = regexp.MustCompile(`seed (\d+): \d+ violations, the first one:\s+(\S+)`)

// firstSeed returns the first random script in which a mutant is found, and the oracle that does; 0 if none is.
func firstSeed(t *testing.T, m suite.Mutant) (seed int, id string) {
	dir := t.TempDir()
	overlay, err := overlayOf(dir, m.Edits)
	if err != nil {
		t.Fatal(err)
	}
	program := build(t, dir, "-overlay="+overlay)
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	command := exec.CommandContext(ctx, program, "-test.run=^TestSeeds$", fmt.Sprintf("-seeds=%d", *randomSeeds))
	command.Dir = dir
	command.Env = append(os.Environ(), "GOMAXPROCS=1", "SIM_TIME="+runLimit.String()) // one seed after the other
	output, _ := command.CombinedOutput()                                             // it fails when a seed does
	found := seedFailed.FindSubmatch(output)
	if found == nil {
		return 0, ""
	}
	seed, err = strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return seed, string(found[2])
}

// TestNoMutant is the control: without a mistake the scripts of all mutants pass.
func TestNoMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the simulation")
	}
	dir := t.TempDir()
	program := build(t, dir)
	for _, m := range mutants {
		for seed := range seeds {
			if output, failed := run(t, program, write(t, dir, seed, m.Script)); failed {
				t.Errorf("the script of %q with seed %d fails without it:\n%s", m.Name, seed, tail(output))
			}
		}
	}
}

// TestTable checks what can be checked quickly: that the texts are there, and that no oracle that judges the simulation is
// left without a mutant.
func TestTable(t *testing.T) {
	named := map[string]bool{}
	for _, m := range mutants {
		named[m.Oracle] = true
		if _, err := overlayOf(t.TempDir(), m.Edits); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	for _, o := range oracle.All() {
		if !named[o.ID] {
			t.Errorf("no mutant for %s: %s", o.ID, o.Claim)
		}
	}
}

// TestOverlay: an edit whose text is not there, or not only once, is an error.
func TestOverlay(t *testing.T) {
	const file = "test/mutation/mutation_test.go"
	for text, want := range map[string]string{
		"package " + "mutation\n": "", "no such" + " text": "0 times", "func ": "times",
	} {
		_, err := overlayOf(t.TempDir(), []suite.Edit{{File: file, Old: text}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// overlayOf writes the edited files into a folder, and the file that tells the compiler of them.
func overlayOf(dir string, edits []suite.Edit) (string, error) {
	texts := map[string]string{}
	for _, e := range edits {
		path, err := filepath.Abs(filepath.Join(root, e.File))
		if err != nil {
			return "", err
		}
		if texts[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], e.Old); n != 1 {
			return "", fmt.Errorf("%s has this text %d times, not once:\n%s", e.File, n, e.Old)
		}
		texts[path] = strings.Replace(texts[path], e.Old, e.New, 1)
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for path, text := range texts {
		edited := filepath.Join(dir, fmt.Sprintf("%d-%s", len(overlay.Replace), filepath.Base(path)))
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = edited
	}
	content, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, content, 0o600)
}

// build compiles the simulation and returns the program.
func build(t *testing.T, dir string, flags ...string) string {
	program := filepath.Join(dir, "simulation.test")
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program}, flags...)
	command := exec.CommandContext(t.Context(), "go", append(args, "./test/simulation")...)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("does not compile: %v\n%s", err, output)
	}
	return program
}

// run runs a script, and reports whether an oracle, or anything else, complained.
func run(t *testing.T, program, script string) (output string, failed bool) {
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	command := exec.CommandContext(ctx, program, "-test.run=^TestReplay$", "-script="+script)
	command.Dir = t.TempDir()
	text, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), err != nil
}

func write(t *testing.T, dir string, seed int, script string) string {
	file := filepath.Join(dir, "script")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("seed %d\n%s", seed, script)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

var violation = regexp.MustCompile(`(?m)violation: (\S+) (.*)$`)

// read reads what the oracles said.
func read(output, named string) (f finding) {
	for _, match := range violation.FindAllStringSubmatch(output, -1) {
		if !slices.Contains(f.oracles, match[1]) {
			f.oracles = append(f.oracles, match[1])
		}
		if f.first == "" && match[1] == named {
			f.first = match[2]
		}
	}
	return f
}

// table shows which oracles have found what, and where the named one first did.
func table(found map[string]finding) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MUTANT\tORACLE\tALSO\tRAN\tFIRST")
	for _, m := range mutants {
		f := found[m.Name]
		also := slices.DeleteFunc(f.oracles, func(o string) bool { return o == m.Oracle })
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1fs\t%.110s\n", m.Name, m.Oracle, strings.Join(also, " "), f.took.Seconds(), f.first)
	}
	w.Flush()
	return text.String()
}

func tail(text string) string { return text[max(0, len(text)-4000):] }
