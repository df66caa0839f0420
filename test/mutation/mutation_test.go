package mutation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
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
	failed  bool     // whether anything has complained
	tail    string   // of what the program has printed
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

// compiled names, in the environment, a simulation that was compiled with the overlay of test/overlay/cmd.
const compiled = "SIM_PROGRAM"

// program compiles the simulation with all mutants, once for all tests, unless there is one that was.
var program = sync.OnceValues(func() (path string, err error) {
	if path := os.Getenv(compiled); path != "" {
		return path, nil
	}
	if programFolder, err = os.MkdirTemp("", "mutants"); err != nil {
		return "", err
	}
	overlay, err := Overlay(root, programFolder, mutants)
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
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	found := map[string]finding{}
	var workers sync.WaitGroup
	for first := range runtime.NumCPU() {
		workers.Go(func() {
			var share []int
			for n := first; n < len(mutants); n += runtime.NumCPU() {
				share = append(share, n)
			}
			for n, o := range runAll(t, path, share, runLimit) {
				mu.Lock()
				found[mutants[n].Name] = o.finding(mutants[n].Oracle)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			switch f, ran := found[m.Name]; {
			case !ran:
				t.Error("it was not run")
			case f.first != "":
			case f.failed:
				t.Errorf("%s does not find it, but %q:\n%s", m.Oracle, f.oracles, f.tail)
			default:
				t.Errorf("no oracle finds it; %s should", m.Oracle)
			}
		})
	}
	t.Logf("%d mutants:\n%s", len(mutants), table(found))
}

// output is what the program has printed while a mutant was on.
type output struct {
	strings.Builder
	took   time.Duration
	failed bool
}

// runAll has the program run the scripts of mutants, given by their numbers, one after the other. A process that takes too long with one,
// or that one ends, is followed by another process for the rest.
func runAll(t *testing.T, path string, numbers []int, limit time.Duration) map[int]*output {
	all := map[int]*output{}
	for rest := numbers; len(rest) > 0; {
		did := runSome(t, path, rest, all, limit)
		if did == 0 {
			t.Error("the program runs no mutant")
			break
		}
		rest = rest[did:]
	}
	return all
}

var (
	mutantBegins = regexp.MustCompile(`^=== RUN +TestMutants/(\d+)\n`)
	mutantEnds   = regexp.MustCompile(`^ *--- (PASS|FAIL): TestMutants/(\d+) `)
)

// runSome runs one process, and returns how many mutants it has begun with.
func runSome(t *testing.T, path string, numbers []int, all map[int]*output, limit time.Duration) (begun int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
	command := exec.CommandContext(ctx, path, "-mutants="+list, "-test.run=^TestMutants$", "-test.v", "-test.timeout=0")
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), switchVariable+"=", "GOMAXPROCS=1")
	read, write, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return 0
	}
	defer read.Close()
	command.Stdout, command.Stderr = write, write
	if err := errors.Join(command.Start(), write.Close()); err != nil {
		t.Error(err)
		return 0
	}
	watchdog := time.AfterFunc(limit, cancel)
	var now *output
	began := time.Now()
	lines := bufio.NewReader(read)
	for {
		line, err := lines.ReadString('\n')
		if match := mutantBegins.FindStringSubmatch(line); match != nil {
			n, _ := strconv.Atoi(match[1]) // digits
			now, began = &output{failed: true}, time.Now()
			all[n] = now
			begun++
			watchdog.Reset(limit)
		}
		if now != nil {
			now.WriteString(line)
			now.took = time.Since(began)
			if match := mutantEnds.FindStringSubmatch(line); match != nil {
				now.failed = match[1] == "FAIL"
			}
		}
		if err != nil {
			break
		}
	}
	watchdog.Stop()
	if err := command.Wait(); now == nil {
		t.Errorf("the program runs no mutant: %v", err)
	}
	return begun
}

// A mutant that ends the process, and one that does not end, are found by no oracle, and keep no other one from being found.
func TestProcessesThatEnd(t *testing.T) {
	const program = `#!/bin/sh
for n in $(echo ${1#-mutants=} | tr , ' '); do
	echo "=== RUN   TestMutants/$n"
	case $n in
	1) echo panic; exit 2;;
	2) exec sleep 100;;
	3) echo "    --- PASS: TestMutants/3 (0.00s)";;
	*) echo "    mutants_test.go:1: violation: S1 of $n"; echo "    --- FAIL: TestMutants/$n (0.00s)";;
	esac
done
exit 1
`
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	all := runAll(t, path, []int{0, 1, 2, 3, 4}, time.Second)
	for n, want := range []finding{{first: "of 0", failed: true}, {failed: true}, {failed: true}, {}, {first: "of 4", failed: true}} {
		if all[n] == nil {
			t.Errorf("%d was not run", n)
		} else if got := all[n].finding("S1"); got.first != want.first || got.failed != want.failed {
			t.Errorf("%d: %+v, want %+v", n, got, want)
		}
	}
}

// finding reads what the oracles said.
func (o *output) finding(named string) finding {
	f := finding{took: o.took, failed: o.failed, tail: tail(o.String())}
	for _, match := range violation.FindAllStringSubmatch(o.String(), -1) {
		if !slices.Contains(f.oracles, match[1]) {
			f.oracles = append(f.oracles, match[1])
		}
		if f.first == "" && match[1] == named {
			f.first = match[2]
		}
	}
	return f
}

// TestNoMutant is the control: without a mistake the scripts of all mutants pass, one after the other in a process for each processor.
func TestNoMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the simulation")
	}
	shares := make([][]string, runtime.NumCPU())
	dir := t.TempDir()
	for i, m := range mutants {
		share := &shares[i%len(shares)]
		*share = append(*share, write(t, dir, strconv.Itoa(i), m.Script))
	}
	for i, share := range shares {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			if output, failed := run(t, "", "-test.run=^TestReplay$", "-script="+strings.Join(share, ",")); failed {
				t.Errorf("a script fails without its mutant:\n%s", tail(output))
			}
		})
	}
}

// TestTable checks what can be checked quickly: that the texts are there, and that no oracle is left without a mutant.
func TestTable(t *testing.T) {
	if _, err := Overlay(root, t.TempDir(), mutants); err != nil {
		t.Error(err)
	}
	named := map[string]bool{}
	for _, m := range mutants {
		named[m.Oracle] = true
	}
	ids := []string{"L2", "L4", "L5", "Locks"} // which test/simulation judges itself
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
