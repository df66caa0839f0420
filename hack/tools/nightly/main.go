// Nightly searches for mistakes with what differs each time: random scripts, inputs and faults, and what takes too long for each
// commit. It goes on after a step that fails, prints one table at the end, and fails if anything was found. What it has found it
// writes in the form in which it is committed, where "make test" runs it from then on: scripts to test/simulation/testdata/seeds, and
// inputs to testdata/rapid and testdata/fuzz of their packages.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// night is one search.
type night struct {
	dir      string // of the main module
	logs     string // a folder with the output of each step
	seed     uint64
	simulate string // the command that runs the tests of the simulation
	workers  int

	gateSeeds uint64 // how many random scripts the gate runs
}

// step is a part of the search.
type step struct {
	name string
	// weight is its share of the time that is left when it begins, beside those of the steps after it. Without one it takes what it
	// takes.
	weight int
	run    func(n *night, log *os.File, budget time.Duration) outcome
}

// outcome says what a step has done. A step that has found something has failed; so has one that could not search.
type outcome struct {
	ran string
	err error
}

// line is one of the table.
type line struct {
	step  string
	took  time.Duration
	finds []string // the files that it has written
	outcome
}

func main() {
	duration := flag.Duration("time", 2*time.Hour, "how long all steps together may take")
	seed := flag.Uint64("seed", 1, "decides what is drawn at random")
	simulate := flag.String("simulate", "", "the command that runs the tests of the simulation")
	gateSeeds := flag.Uint64("gate-seeds", 0, "how many random scripts the gate runs")
	only := flag.String("only", "", "the steps to run, separated by commas; by default all")
	flag.Parse()
	if flag.NArg() != 1 || *simulate == "" {
		fmt.Fprintln(os.Stderr, "usage: nightly -time T -seed N -simulate COMMAND [-only STEPS] REPOSITORY")
		os.Exit(2)
	}
	dir := flag.Arg(0)
	n := &night{dir: dir, logs: filepath.Join(dir, "bin", "nightly"), seed: *seed, simulate: *simulate, workers: runtime.NumCPU(),
		gateSeeds: *gateSeeds}
	all := slices.DeleteFunc(steps(), func(s step) bool {
		return *only != "" && !slices.Contains(strings.Split(*only, ","), s.name)
	})
	fmt.Printf("The search takes %v. To repeat it: make nightly NIGHTLY=%v NIGHTLY_SEED=%d\n", *duration, *duration, *seed)
	lines, err := n.search(all, *duration)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(1)
	}
	fmt.Print(table(lines))
	if slices.ContainsFunc(lines, line.bad) {
		fmt.Println("CONTRIBUTING.md, \"The gate and the search\", says what to do with a find.")
		os.Exit(1)
	}
}

// search runs the steps one after the other.
func (n *night) search(all []step, duration time.Duration) (lines []line, err error) {
	if err := os.RemoveAll(n.logs); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(n.logs, 0o755); err != nil {
		return nil, err
	}
	end := time.Now().Add(duration)
	for i, s := range all {
		known, err := n.cases()
		if err != nil {
			return lines, err
		}
		log, err := os.Create(n.log(s.name))
		if err != nil {
			return lines, err
		}
		began := time.Now()
		fmt.Printf("=== %s (%s)\n", s.name, began.UTC().Format(time.TimeOnly))
		l := line{step: s.name, outcome: s.run(n, log, budget(all[i:], time.Until(end)))}
		l.took = time.Since(began)
		if err := log.Close(); err != nil {
			return lines, err
		}
		now, err := n.cases()
		if err != nil {
			return lines, err
		}
		l.finds = slices.DeleteFunc(now, func(name string) bool { return slices.Contains(known, name) })
		if l.bad() {
			fmt.Printf("%s\n%s", l.result(), tail(n.log(s.name)))
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// budget is the time of the first step if all of them have so much.
func budget(all []step, left time.Duration) time.Duration {
	sum := 0
	for _, s := range all {
		sum += s.weight
	}
	return max(time.Minute, left*time.Duration(all[0].weight)/time.Duration(max(1, sum)))
}

// cases are the files in folders of cases that are not committed.
func (n *night) cases() ([]string, error) {
	cmd := exec.Command("git", "ls-files", "--others", "--exclude-standard", "--",
		":(glob)**/testdata/fuzz/**", ":(glob)**/testdata/rapid/**", ":(glob)**/testdata/seeds/**")
	cmd.Dir = n.dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.Fields(string(out)), nil
}

func (n *night) log(step string) string { return filepath.Join(n.logs, step+".log") }

// tail is the end of a log.
func tail(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return err.Error() + "\n"
	}
	lines := slices.Collect(strings.Lines(string(text)))
	return strings.Join(lines[max(0, len(lines)-60):], "") + "The whole output is in " + name + "\n"
}

func (l line) bad() bool { return l.err != nil || len(l.finds) > 0 }

func (l line) result() string {
	switch {
	case len(l.finds) > 0:
		return "FOUND " + strings.Join(l.finds, " ")
	case l.err != nil:
		return "FAILED: " + l.err.Error()
	}
	return "nothing found"
}

func table(lines []line) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "step\tran\tseconds\tresult")
	var sum time.Duration
	for _, l := range lines {
		sum += l.took
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%s\n", l.step, l.ran, l.took.Seconds(), l.result())
	}
	fmt.Fprintf(t, "all\t\t%.0f\t\n", sum.Seconds())
	_ = t.Flush() // a strings.Builder takes everything
	return b.String()
}

// command runs in the main module, with some more environment variables.
func (n *night) command(ctx context.Context, env []string, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = n.dir, append(os.Environ(), env...)
	return cmd
}
