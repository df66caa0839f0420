package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// usageFile names, in the environment, the file for what commands have used. It is in a folder of the root of the repository.
const usageFile = "GATE_USAGE"

// Kinds of rows.
const (
	stepRow    = "step"    // a command of .ci/run, with all that it has started
	packageRow = "package" // a test binary, or another part of a step
)

// row is what a command has used.
type row struct {
	kind, name string
	cpu, wall  time.Duration
}

// measure runs a command as this process would: with its input and output, and with the signals that it gets.
func measure(args []string) error {
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	name := flags.String("as", "", "the name of the row; by default the package in whose folder the command runs")
	step := flags.Bool("step", false, "the command is a step of the gate")
	race := flags.Bool("race", false, "the command is a test under the race detector")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("measure: no command")
	}
	cmd := exec.Command(flags.Arg(0), slices.Concat(testLog(flags.Arg(0)), flags.Args()[1:])...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	began := time.Now()
	if err := startTied(cmd); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	err := cmd.Wait()
	r := row{packageRow, *name, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), time.Since(began)}
	if *step {
		r.kind = stepRow
	}
	file := os.Getenv(usageFile)
	if file == "" {
		return err
	}
	if r.name == "" {
		r.name = here(file)
	}
	if *race {
		r.name += " (race)"
	}
	return errors.Join(err, r.appendTo(file))
}

var inFolderOfGo = regexp.MustCompile(`/go-build\d+/b\d+/[^/]+\.test$`)

// testLog has a test that go test runs by -exec leave a list of what it has read. With -exec, go test looks for the list but does not ask
// for it; without the list it does not remember that the test has passed.
func testLog(program string) []string {
	if !inFolderOfGo.MatchString(filepath.ToSlash(program)) {
		return nil
	}
	return []string{"-test.testlogfile=" + filepath.Join(filepath.Dir(program), "testlog.txt")}
}

// here is the folder in which this runs, from the root of the repository.
func here(file string) string {
	dir, err := os.Getwd()
	if err != nil {
		return "unknown"
	}
	path, err := filepath.Rel(filepath.Dir(filepath.Dir(file)), dir)
	if err != nil {
		return dir
	}
	return filepath.ToSlash(path)
}

// appendTo appends the row to a file. A line is written at once, so that processes may do so at the same time.
func (r row) appendTo(file string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\t%s\t%d\t%d\n", r.kind, r.name, r.cpu.Milliseconds(), r.wall.Milliseconds())
	return errors.Join(err, f.Close())
}

// readRows returns the rows of a file in the order in which commands have ended.
func readRows(file string) (rows []row, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		var r row
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s: %q is no row", file, line)
		}
		var cpu, wall int64
		if _, err := fmt.Sscan(fields[2]+" "+fields[3], &cpu, &wall); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, line, err)
		}
		r.kind, r.name, r.cpu, r.wall = fields[0], fields[1], time.Duration(cpu)*time.Millisecond, time.Duration(wall)*time.Millisecond
		rows = append(rows, r)
	}
	return rows, nil
}

// dearest is how many packages the table has.
const dearest = 10

func printTable(args []string) error {
	if len(args) != 1 {
		return errors.New("table: name one file")
	}
	rows, err := readRows(args[0])
	if err != nil {
		return err
	}
	return writeTable(os.Stdout, rows)
}

// writeTable writes the steps, and the packages that have taken the most processor time. What a step has used beside its tests is the work
// of the compiler and the linker, and of programs that are no tests.
func writeTable(to io.Writer, rows []row) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	var all, tests row
	var packages []row
	fmt.Fprintln(w, "wall s\tCPU s\tof tests\t  step")
	for _, r := range rows {
		if r.kind == packageRow {
			packages = append(packages, r)
			tests.cpu += r.cpu
			continue
		}
		fmt.Fprintf(w, "%.0f\t%.0f\t%.0f\t  %s\n", r.wall.Seconds(), r.cpu.Seconds(), tests.cpu.Seconds(), r.name)
		all.wall += r.wall
		all.cpu += r.cpu
		tests.cpu = 0
	}
	fmt.Fprintf(w, "%.0f\t%.0f\t\t  all\n", all.wall.Seconds(), all.cpu.Seconds())
	slices.SortStableFunc(packages, func(a, b row) int { return cmp.Compare(b.cpu, a.cpu) })
	shown := packages[:min(dearest, len(packages))]
	fmt.Fprintf(w, "\t\t\t\nwall s\tCPU s\t\t  the dearest %d of %d packages that were tested\n", len(shown), len(packages))
	for _, r := range shown {
		fmt.Fprintf(w, "%.1f\t%.1f\t\t  %s\n", r.wall.Seconds(), r.cpu.Seconds(), r.name)
	}
	return w.Flush()
}
