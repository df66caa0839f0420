package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// steps are those of a night. The ones that take what they take come first, so that the others share what is left.
func steps() []step {
	return []step{
		{"platforms", 0, makes("verify-platforms", "windows and darwin compile")},
		{"release", 0, makes("verify-release STRICT=1", "two builds with two caches")},
		{"vulncheck", 0, makes("vulncheck VULNCHECK=-any-go", "known vulnerabilities in what the manager calls")},
		{"releases", 0, makes("releases", "integration tests on API servers of the releases before")},
		{"storage", 0, makes("storage", "volumes of a CSI driver")},
		{"observer", 0, makes("observer", "an observer beside all kinds of work")},
		{"chart", 0, makes("chart", "the Helm chart beside the other manifests, and on a control plane")},
		{"exam", 0, makes("exam", "problems whose cause controller-manager why has to name")},
		{"race", 0, makes("test-race", "all packages with goroutines or locks")},
		{"modules", 0, makes("test-modules GATE_STAMPS=", "alerts, ServiceMonitor, differential test")},
		{"writes", 0, makes("bench-writes", "all quick scenarios of the benchmark")},
		{"fixed", 0, fixed},
		{"deaths", 0, deaths},
		{"refusals", 0, refusals},
		{"outages", 0, outages},
		{"control", 0, control},
		{"upgrade", 0, makes("upgrade", "managers of two releases take turns")},
		{"mutants", 0, mutants},
		{"faults", 0, faults},
		{"restores", 0, restores},
		{"seeds", 30, seeds},
		{"rapid", 15, properties},
		{"fuzz", 15, fuzz},
		{"crashes", 20, crashes},
		{"soak", 20, soak},
	}
}

// makes runs a target of the Makefile.
func makes(target, ran string) func(*night, *os.File, time.Duration) outcome {
	return func(n *night, log *os.File, _ time.Duration) outcome {
		_, err := n.logged(log, n.command(context.Background(), nil, "make", strings.Fields(target)...))
		return outcome{ran, err}
	}
}

// logged runs a command, and returns what it has printed.
func (n *night) logged(log *os.File, cmd *exec.Cmd) (output string, err error) {
	fmt.Fprintln(log, "$", strings.Join(cmd.Args, " "))
	out, err := cmd.CombinedOutput()
	if _, err := log.Write(out); err != nil {
		return "", err
	}
	return string(out), err
}

// mutants looks with random scripts for all known mistakes: with the script that finds each, and with others for those that none finds.
func mutants(n *night, log *os.File, _ time.Duration) outcome {
	program := filepath.Join(n.logs, "simulation.test")
	if _, err := n.logged(log, n.command(context.Background(), nil, "sh", "-c", n.simulate+" -c -o '"+program+"'")); err != nil {
		return outcome{"", err}
	}
	out, err := n.logged(log,
		n.command(context.Background(), []string{"SIM_PROGRAM=" + program}, "go", "test", "-count=1", "-v", "-timeout=1h",
			"-run=^TestMutantsAtRandom$", "./test/mutation", "-others=20", fmt.Sprint("-first=", n.seed)))
	return counted(passed(out, "TestMutantsAtRandom/all/"), "mutants", err)
}

// outages compares outages of 5000 nodes in five zones, in virtual time, with their diaries.
func outages(n *night, log *os.File, _ time.Duration) outcome {
	out, err := n.logged(log, n.command(context.Background(), nil, "go", "test", "-count=1", "-v", "-timeout=30m", "-run=^TestOutages$",
		"./pkg/controllers/nodelifecycle", "-nodes=1000"))
	return counted(passed(out, "TestOutages/"), "outages of 5000 nodes", err)
}

// control has the original give 1000 nodes their ranges while no answer to a patch arrives, as the step faults has ours. What it does
// wrong is a figure, and no failure.
func control(n *night, log *os.File, _ time.Duration) outcome {
	localcluster := []string{"-C", "hack/localcluster", "run", "."}
	if _, err := n.logged(log,
		n.command(context.Background(), nil, "go", append(localcluster, "build", "--with-upstream")...)); err != nil {
		return outcome{"", err}
	}
	original, err := n.command(context.Background(), nil, "go", append(localcluster, "path", "kube-controller-manager")...).Output()
	if err != nil {
		return outcome{"", err}
	}
	out, _ := n.logged(log,
		n.command(context.Background(), []string{"MANAGER_BINARY=" + strings.TrimSpace(string(original))}, "go", "test", "-count=1", "-v",
			"-timeout=30m", "-run=^TestRangesOfNodes$/^every_patch", "./test/chaos", "-ranged=1000"))
	figures := regexp.MustCompile(`figures: (.*? faults)`).FindStringSubmatch(out)
	if figures == nil {
		return outcome{"", errors.New("the original has no figures")}
	}
	return outcome{"the original, no answer to a patch: " + figures[1], nil}
}

// faults runs all of test/chaos but for the crashes and the soak: faults of the network and the API server, random ones, stale API
// servers, evictions.
func faults(n *night, log *os.File, _ time.Duration) outcome {
	out, err := n.logged(log, n.command(context.Background(), []string{"CHAOS_FULL=1"}, "go", "test", "-count=1", "-v", "-timeout=2h",
		"-skip=^(TestCrashAtEveryWrite|TestSoak)$", "./test/chaos", fmt.Sprint("-seed=", n.seed)))
	return counted(passed(out, "Test"), "tests and runs", err)
}

// restores puts a control plane back to a backup again and again while a manager works.
func restores(n *night, log *os.File, _ time.Duration) outcome {
	out, err := n.logged(log,
		n.command(context.Background(), nil, "go", "test", "-count=1", "-v", "-timeout=1h", "./test/chaos/restore", "-restores=20"))
	return counted(strings.Count(out, "work had gone on"), "restores", err)
}

// passed is how many tests with such a beginning have passed.
func passed(output, name string) int {
	return len(regexp.MustCompile(`(?m)^ *--- PASS: `+regexp.QuoteMeta(name)).FindAllString(output, -1))
}

// counted is the outcome of a step that must have done something.
func counted(count int, what string, err error) outcome {
	if count == 0 && err == nil {
		err = errors.New("nothing ran")
	}
	return outcome{fmt.Sprintf("%d %s", count, what), err}
}

// seedsAtOnce is how many random scripts a process runs: so few that it ends soon after the time is over.
const seedsAtOnce = 150

// seeds runs random scripts in virtual time.
func seeds(n *night, log *os.File, budget time.Duration) outcome {
	return n.until(budget, log, "seeds", func(i int) (int, []byte, error) {
		return n.runSeeds([]string{"SIM_TIME=24h"}, n.seed*100_000+uint64(i*seedsAtOnce), seedsAtOnce)
	})
}

// runSeeds runs random scripts until one fails, writes that where it is committed, and returns how many it has run.
func (n *night) runSeeds(env []string, first, seeds uint64) (count int, out []byte, err error) {
	out, err = n.command(context.Background(), env, "sh", "-c",
		fmt.Sprintf("%s -timeout=2h -run '^TestSeeds$' -first=%d -seeds=%d", n.simulate, first, seeds)).CombinedOutput()
	if err == nil {
		return int(seeds), out, nil
	}
	f, ok := found(string(out))
	if !ok {
		return 0, out, fmt.Errorf("seeds from %d on: %w", first, err)
	}
	return int(f.seed-first) + 1, out, f.write(filepath.Join(n.dir, "test", "simulation", "testdata", "seeds"))
}

// fixedSeeds is up to which seed random scripts are the same each night. Those that the gate runs do not run again.
const fixedSeeds = 800

// fixed runs the random scripts of the seeds that follow those of the gate, by as many processes as there are workers.
func fixed(n *night, log *os.File, _ time.Duration) outcome {
	var shares [][2]uint64 // the first seed, and how many
	for first, each := n.gateSeeds+1, (fixedSeeds-n.gateSeeds)/uint64(n.workers)+1; first <= fixedSeeds; first += each {
		shares = append(shares, [2]uint64{first, min(each, fixedSeeds-first+1)})
	}
	return n.each(len(shares), log, "seeds that are the same each night", func(i int) (int, []byte, error) {
		return n.runSeeds(nil, shares[i][0], shares[i][1])
	})
}

// deaths kills the manager before and after each write of all scenarios, in virtual time. A process has one processor, so there are two.
func deaths(n *night, log *os.File, _ time.Duration) outcome {
	names := []string{"[A-Ma-m]", "[^A-Ma-m]"} // how those of scenarios begin
	return n.each(len(names), log, "scenarios, killed before and after each write", func(i int) (int, []byte, error) {
		out, err := n.command(context.Background(), nil, "sh", "-c",
			fmt.Sprintf("%s -v -timeout=4h -run '^TestCrashAtEveryWrite$/^%s' -crashes=all", n.simulate, names[i])).CombinedOutput()
		count := passed(string(out), "TestCrashAtEveryWrite/")
		if count == 0 {
			err = errors.Join(err, fmt.Errorf("no scenario of %s has passed", names[i]))
		}
		return count, out, err
	})
}

// refusals has each kind of writes be refused in all ways, and once in each other scenario, in virtual time.
func refusals(n *night, log *os.File, _ time.Duration) outcome {
	out, err := n.logged(log,
		n.command(context.Background(), nil, "sh", "-c", n.simulate+" -v -timeout=4h -run '^TestRefusalOfEveryWrite$' -refusals=all"))
	return counted(passed(out, "TestRefusalOfEveryWrite/"), "refusals of writes", err)
}

// each calls do with 0 to count-1, all at the same time.
func (n *night) each(count int, log *os.File, what string, do func(i int) (count int, out []byte, err error)) outcome {
	var mu sync.Mutex
	var sum int
	var failed []error
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			did, out, err := do(i)
			mu.Lock()
			defer mu.Unlock()
			sum += did
			_, cannot := log.Write(out)
			failed = append(failed, err, cannot)
		})
	}
	all.Wait()
	return counted(sum, what, errors.Join(failed...))
}

// until calls do with 0, 1, 2 and so on, by several workers, until the time is over. Do returns how much it has done, what it has
// printed, and an error if something failed for which there is no file.
func (n *night) until(budget time.Duration, log *os.File, what string, do func(i int) (count int, out []byte, err error)) outcome {
	end := time.Now().Add(budget)
	var mu sync.Mutex
	var next, sum int
	var failed []error
	var workers sync.WaitGroup
	for range n.workers {
		workers.Go(func() {
			for time.Now().Before(end) {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				count, out, err := do(i)
				mu.Lock()
				sum += count
				failed = append(failed, err)
				_, err = log.Write(out)
				failed = append(failed, err)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return counted(sum, what, errors.Join(failed...))
}

// checks is how many inputs each property is tried with: the gate tries 100.
const checks = 2000

// properties checks the properties of all packages with other inputs than the gate.
func properties(n *night, log *os.File, budget time.Duration) outcome {
	list, err := n.command(context.Background(), nil, "go", "list", "-f", "{{.ImportPath}} {{.TestImports}} {{.XTestImports}}",
		"./...").Output()
	if err != nil {
		return outcome{"", fmt.Errorf("go list: %w", err)}
	}
	var packages []string
	for line := range strings.Lines(string(list)) {
		if strings.Contains(line, "pgregory.net/rapid") {
			packages = append(packages, strings.Fields(line)[0])
		}
	}
	if len(packages) == 0 {
		return outcome{"", errors.New("no package has properties")}
	}
	what := fmt.Sprintf("packages of %d, %d inputs each property", len(packages), checks)
	return n.until(budget, log, what, func(i int) (int, []byte, error) {
		// The first is another one each night, as there may not be time for all.
		pkg, round := packages[(n.seed+uint64(i))%uint64(len(packages))], uint64(i/len(packages))
		env := []string{fmt.Sprint("RAPID_SEED=", n.seed+round), fmt.Sprint("RAPID_CHECKS=", checks)}
		out, err := n.command(context.Background(), env, "go", "test", "-count=1", "-timeout=30m", pkg).CombinedOutput()
		if err != nil {
			return 0, out, fmt.Errorf("%s %s: %w", env[0], pkg, err)
		}
		return 1, out, nil
	})
}

func fuzz(n *night, log *os.File, budget time.Duration) outcome {
	cmd := n.command(context.Background(), nil, "go", "run", "./fuzz", "-time", budget.Truncate(time.Second).String(), n.dir)
	cmd.Dir = filepath.Join(n.dir, "hack", "tools")
	out, err := n.logged(log, cmd)
	ran := regexp.MustCompile(`(?m)^(\d+ fuzz targets), .* (\S+) each`).FindStringSubmatch(out)
	if ran == nil {
		return outcome{"", errors.Join(err, errors.New("it does not say what it has fuzzed"))}
	}
	return outcome{ran[1] + ", " + ran[2] + " each", err}
}

// crashes kills the manager at the writes of each scenario on a real control plane: in one night before they are carried out, in
// the next one after it. All of them take longer than there is time for; those that there was no time for are left out.
func crashes(n *night, log *os.File, budget time.Duration) outcome {
	half := []string{"before", "after"}[n.seed%2]
	binary := filepath.Join(n.logs, "chaos.test")
	if _, err := n.logged(log, n.command(context.Background(), nil, "go", "test", "-c", "-o", binary, "./test/chaos")); err != nil {
		return outcome{"", err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	cmd := n.command(ctx, []string{"CHAOS_FULL=1"}, binary, "-test.v", "-test.timeout=0",
		"-test.run=^TestCrashAtEveryWrite$/./^(undisturbed|"+half+")")
	cmd.Dir = filepath.Join(n.dir, "test", "chaos")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // with which the control plane ends, too
	cmd.WaitDelay = time.Minute
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if _, err := log.Write(out.Bytes()); err != nil {
		return outcome{"", err}
	}
	if ctx.Err() != nil {
		err = interrupted(out.String())
	}
	return counted(len(regexp.MustCompile(`(?m)^=== CONT +TestCrashAtEveryWrite/.*/`+half).FindAllString(out.String(), -1)),
		"crashes "+half+" a write", err)
}

// interrupted is the error of tests that were stopped when the time was over. The results of parallel tests are printed when all have
// ended, but how to replay a failure is printed at once.
func interrupted(output string) error {
	if failures := regexp.MustCompile(`(?m)^.*_test\.go:\d+: replay: .*$`).FindAllString(output, -1); len(failures) > 0 {
		return fmt.Errorf("%d failures, the first one: %s", len(failures), strings.TrimSpace(failures[0]))
	}
	return nil
}

func soak(n *night, log *os.File, budget time.Duration) outcome {
	const rest = 3 * time.Minute // to start, and to finish the last epoch
	out, err := n.logged(log,
		n.command(context.Background(), nil, "go", "test", "-count=1", "-v", "-timeout=0", "-run=^TestSoak$", "./test/chaos",
			fmt.Sprint("-soak=", max(2*time.Minute, budget-rest).Truncate(time.Second)), fmt.Sprint("-seed=", n.seed)))
	ran := regexp.MustCompile(`\d+ epochs`).FindString(out)
	if ran == "" && err == nil {
		err = errors.New("it does not say how many epochs there were")
	}
	return outcome{ran, err}
}
