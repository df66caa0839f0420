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
)

func main() {
	var o options
	flag.StringVar(&o.original, "original", "", "the binary of kube-controller-manager; empty to run ours alone")
	flag.StringVar(&o.only, "only", "crash,faults,random,stale,soak", "which suites to run")
	flag.IntVar(&o.seeds, "seeds", 12, "how many random scripts of faults")
	flag.DurationVar(&o.soak, "soak", time.Hour, "how long the soak lasts; only ours takes part in it")
	flag.StringVar(&o.page, "write", "", "the page to write the tables to")
	flag.Parse()
	if flag.NArg() > 0 || len(o.suites()) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := o.run(); err != nil {
		fmt.Fprintf(os.Stderr, "reliability: %v\n", err)
		os.Exit(1)
	}
}

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

// run prints the tables, also where a test has failed, which it then says. They are not written to a page if a test of ours
// did.
func (o options) run() error {
	work, err := os.MkdirTemp("", "reliability-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var results []table.Suite
	var failed []error
	for _, s := range o.suites() {
		result := table.Suite{Name: s.name}
		var testErr error
		if result.Ours, testErr, err = s.run(filepath.Join(work, s.name+"-ours"), ""); err != nil {
			return err
		}
		if testErr != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.test, testErr))
		}
		if o.original != "" && !s.oursOnly {
			// Its tests fail for the violations that the table shows.
			if result.Original, _, err = s.run(filepath.Join(work, s.name+"-original"), o.original); err != nil {
				return err
			}
		}
		results = append(results, result)
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
	changed, err := table.Replace(string(page), text)
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

// run runs the suite with a manager, ours if binary is empty. It shows what the test prints on standard error. An error of
// the test is one thing, that it has left no table another.
func (s suite) run(file, binary string) (t *table.Tally, testErr, err error) {
	args := append([]string{"test", "./test/chaos", "-count=1", "-v", "-timeout=0", "-run", "^" + s.test + "$"}, s.flags...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(append(os.Environ(), s.env...), "CHAOS_TABLE="+file)
	if binary != "" {
		cmd.Env = append(cmd.Env, "MANAGER_BINARY="+binary)
	}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	testErr = cmd.Run()
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s has left no table", s.test), testErr)
	}
	all, err := table.Parse(string(text))
	if err != nil {
		return nil, nil, fmt.Errorf("the table of %s: %w", s.test, err)
	}
	if len(all) != 1 || all[0].Runs == 0 {
		return nil, nil, errors.Join(fmt.Errorf("%s has left %d tables", s.test, len(all)), testErr)
	}
	return &all[0], testErr, nil
}
