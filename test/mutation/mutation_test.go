// Package mutation shows that the oracles bite: it makes known mistakes in the controllers, one at a time, and each must be
// found by the oracle that is named for it.
//
// A mistake is an edit of the source text. All of them are compiled into one program, in which the environment switches one on
// at a time. The compiler is given edited copies in the place of files (go test -overlay), so no mistake is ever in the code
// itself. The program is the simulation, which runs a script in which the mistake shows, and random scripts. Without any
// mistake, no oracle may complain.
package mutation

import (
	"context"
	"errors"
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

// runLimit is how long a run of the program may take, in real time. A mistake may keep the simulation from ending.
const runLimit = 3 * time.Minute

func TestMain(m *testing.M) {
	os.Exit(func() int {
		defer func() { _ = os.RemoveAll(programFolder) }()
		return m.Run()
	}())
}

// programFolder is where the program is, if it was built.
var programFolder string

// program compiles the simulation with all mutants, once for all tests.
var program = sync.OnceValues(func() (path string, err error) {
	if programFolder, err = os.MkdirTemp("", "mutants"); err != nil {
		return "", err
	}
	overlay, err := overlayOf(programFolder, mutants)
	if err != nil {
		return "", err
	}
	path = filepath.Join(programFolder, "simulation.test")
	command := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", path, "-overlay="+overlay, "./test/simulation")
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the simulation with all mutants does not compile: %w\n%s", err, output)
	}
	return path, nil
})

// doesNotEnd follows the output of a run that was ended: a mutant may work for ever at one moment of virtual time.
const doesNotEnd = "does not end"

// run runs the program with a mutant, or without any for an empty name, and reports whether an oracle, or anything else, complained.
func run(t *testing.T, mutant string, args ...string) (output string, failed bool) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	command := exec.CommandContext(ctx, path, args...)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), switchVariable+"="+mutant, "GOMAXPROCS=1")
	text, err := command.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Sprintf("%s\n%s", text, doesNotEnd), true
	case err != nil && !errors.As(err, &exit):
		t.Fatal(err)
	}
	return string(text), err != nil
}

func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the simulation and runs it for each mutant")
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

// examine runs the script of a mutant, and fails unless the named oracle complains.
func examine(t *testing.T, m suite.Mutant) finding {
	began := time.Now()
	output, failed := run(t, m.Name, "-test.run=^TestReplay$", "-script="+write(t, t.TempDir(), "script", m.Script))
	f := read(output, m.Oracle)
	f.took = time.Since(began)
	switch {
	case f.first != "":
	case failed:
		t.Errorf("%s does not find it, but %q:\n%s", m.Oracle, f.oracles, tail(output))
	default:
		t.Errorf("no oracle finds it; %s should", m.Oracle)
	}
	return f
}

// TestNoMutant is the control: without a mistake the scripts of all mutants pass, one after the other in one process.
func TestNoMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the simulation")
	}
	var scripts []string
	dir := t.TempDir()
	for i, m := range mutants {
		scripts = append(scripts, write(t, dir, strconv.Itoa(i), m.Script))
	}
	if output, failed := run(t, "", "-test.run=^TestReplay$", "-script="+strings.Join(scripts, ",")); failed {
		t.Errorf("a script fails without its mutant:\n%s", tail(output))
	}
}

// TestTable checks what can be checked quickly: that the texts are there, and that no oracle is left without a mutant.
func TestTable(t *testing.T) {
	if _, err := overlayOf(t.TempDir(), mutants); err != nil {
		t.Error(err)
	}
	named := map[string]bool{}
	for _, m := range mutants {
		named[m.Oracle] = true
	}
	ids := []string{"L2", "L4", "L5"} // which test/simulation judges itself
	for _, o := range oracle.All() {
		ids = append(ids, o.ID)
	}
	for _, id := range ids {
		if !named[id] {
			t.Errorf("no mutant for %s", id)
		}
	}
}

// write writes a script into a file.
func write(t *testing.T, dir, name, script string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte("seed 1\n"+script), 0o600); err != nil {
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
