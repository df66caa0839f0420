// Reliability runs the tests of test/chaos with our manager and with the original, and prints the tables of
// docs/reliability.md. With -write they take the place of those in the page.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/standalone-kcm/controller-manager/test/chaos/table"
	"github.com/standalone-kcm/controller-manager/test/generated"
)

func main() {
	var o options
	flag.StringVar(&o.original, "original", "", "the binary of kube-controller-manager; empty to run ours alone")
	flag.StringVar(&o.only, "only", everything, "which suites to run")
	flag.IntVar(&o.seeds, "seeds", 12, "how many random scripts of faults")
	flag.DurationVar(&o.soak, "soak", time.Hour, "how long the soak lasts; only ours takes part in it")
	flag.StringVar(&o.page, "write", "", "the page to write the tables to")
	flag.Parse()
	if flag.NArg() > 0 || len(o.suites()) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if all := (options{only: everything}); o.page != "" && (o.original == "" || len(o.suites()) < len(all.suites())) {
		fmt.Fprintln(os.Stderr, "reliability: -write needs all suites and the original")
		os.Exit(2)
	}
	if err := o.run(); err != nil {
		fmt.Fprintf(os.Stderr, "reliability: %v\n", err)
		os.Exit(1)
	}
}

// everything are the names of all suites.
const everything = "crash,faults,random,stale,soak"

// folder has the suites.
const folder = "test/chaos"

type options struct {
	original, only, page string
	seeds                int
	soak                 time.Duration
}

// suite is a test, with the flags and the environment that it takes.
type suite struct {
	name, test string
	env        []string
	flags      []string
	oursOnly   bool
}

// suites are those that are to run.
func (o options) suites() []suite {
	all := []suite{
		{name: "crash", test: "TestCrashAtEveryWrite"},
		{name: "faults", test: "TestFaults"},
		{name: "random", test: "TestRandomFaults", flags: []string{fmt.Sprint("-seeds=", o.seeds)}},
		{name: "stale", test: "TestStaleAPIServer", env: []string{"CHAOS_FULL=1"}},
		{name: "soak", test: "TestSoak", flags: []string{fmt.Sprint("-soak=", o.soak)}, oursOnly: true},
	}
	return slices.DeleteFunc(all, func(s suite) bool { return !slices.Contains(strings.Split(o.only, ","), s.name) })
}

// run prints the tables of the suites that have left some, and says what has failed. They are written to a page only if no test
// of ours has failed.
func (o options) run() error {
	work, err := os.MkdirTemp("", "reliability-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// They are compiled once, so that all run the same code.
	tests := filepath.Join(work, "chaos.test")
	build := exec.Command("go", "test", "-c", "-o", tests, "./"+folder)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("compile the suites: %w", err)
	}
	var results []table.Suite
	var failed []error
	for _, s := range o.suites() {
		ours, err := s.run(tests, filepath.Join(work, s.name+"-ours"), "")
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.test, err))
		}
		var original *table.Tally
		if o.original != "" && !s.oursOnly {
			// Its tests also fail for the violations that the table shows.
			if original, err = s.run(tests, filepath.Join(work, s.name+"-original"), o.original); original == nil {
				failed = append(failed, fmt.Errorf("%s with the original: %w", s.test, err))
			}
		}
		if ours != nil {
			results = append(results, table.Suite{Name: s.name, Ours: ours, Original: original})
		}
	}
	text := o.heading() + table.Render(results)
	fmt.Print(text)
	if err := errors.Join(failed...); err != nil || o.page == "" {
		return err
	}
	page, err := os.ReadFile(o.page)
	if err != nil {
		return err
	}
	changed, err := generated.Replace(string(page), "make reliability", text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.page, err)
	}
	return os.WriteFile(o.page, []byte(changed), 0o644)
}

// heading says what was compared, and when.
func (o options) heading() string {
	commit, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		commit = []byte("an unknown commit")
	}
	text := fmt.Sprintf("%s, commit %s.", time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)))
	if o.original != "" {
		if version, err := exec.Command(o.original, "--version").Output(); err == nil {
			text += fmt.Sprintf(" The original is %s.", strings.TrimSpace(string(version)))
		}
	}
	return text + "\n\n"
}

// run runs the suite with a manager, ours if binary is empty. What the test prints goes to standard error. If the test fails, there
// is an error, and mostly a table as well.
func (s suite) run(tests, file, binary string) (*table.Tally, error) {
	cmd := exec.Command(tests, append([]string{"-test.v", "-test.timeout=0", "-test.run=^" + s.test + "$"}, s.flags...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CHAOS_TABLE="+file, "CHAOS_WITHOUT=", "CHAOS_FULL=", "MANAGER_BINARY="+binary)
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	testErr := cmd.Run()
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.Join(testErr, errors.New("it has left no table"))
	}
	all, err := table.Parse(string(text))
	if err != nil {
		return nil, errors.Join(testErr, fmt.Errorf("its table: %w", err))
	}
	if len(all) != 1 || all[0].Runs == 0 {
		return nil, errors.Join(testErr, fmt.Errorf("it has left %d tables", len(all)))
	}
	return &all[0], testErr
}
