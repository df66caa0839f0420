// Bench measures a controller manager beside another, ours beside the original, on the same machine, in turn, doing the
// same work on real control planes. It prints a table of medians and ratios and writes all single results as JSON. See
// docs/performance.md.
//
//	go -C test/bench run . -quick
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/test/bench/cpufloor"
)

// scenario is a part of the benchmark that can be run by itself.
type scenario struct {
	name, help string
	quick      bool // part of the quick benchmark
	run        func(ctx context.Context, b *bench) error
}

func scenarios() []scenario {
	return []scenario{
		{"writes", "writes against the logical floor, latency, CPU, invariants", true, writes},
		{"growth", "CPU for each update with 250, 1000 and 3000 Deployments", false, growth},
		{"loaded", "20,000 pods: start, memory, relist, takeover", false, loaded},
		{"defaults", "one Deployment from 0 to 3000 pods with default flags", false, defaultFlags},
		{"endpoints", "from a pod's readiness to its Endpoints", true, endpoints},
		{"takeover", "an empty cluster: memory, CPU, takeover", false, takeover},
		{"orphans", "5000 finished pods, and a node that vanishes", false, orphans},
		{"accounts", "2000 namespaces in a row; memory with 20,000 Secrets and ConfigMaps", false, accounts},
		{"namespaces", "empty namespaces, one with 2000 objects of 20 kinds, and 200 others beside it", false, namespaces},
		{"garbage", "a Deployment of 2000 pods deleted in the background, 10,000 objects without owners", false, garbage},
		{"tenants", "what a tenant with little waits for beside one with much: 100,000 dependents, 1000 Deployments, slow metrics, " +
			"flapping sets, a rollout without an end; and beside much at rest under a fresh leader", false, tenants},
		{"everything", "20,000 pods, 20,000 Secrets and ConfigMaps, 50 custom kinds: memory with all controllers", false, everything},
		{"daemonsets", "a DaemonSet on 5000 nodes is created, one on 1000 is updated", false, daemonSets},
		{"statefulsets", "50 StatefulSets of 5 pods are created and updated", false, statefulSets},
		{"job", "a Job of 1000 pods, 100 at a time; Jobs of one pod, from its end", false, runJobs},
		{"reactions", "a workload grows by one pod, a moment after it was reconciled", false, reactions},
		{"cronjobs", "300 CronJobs that are due at the same minute", false, cronJobs},
		{"slices", "EndpointSlices of a Service of 5000 pods, and of one that is updated", false, endpointSlices},
		{"protection", "1000 claims that pods use are deleted, and then the pods", false, protection},
		{"budgets", "a namespace of 10,000 pods and 500 PodDisruptionBudgets", false, budgets},
		{"certificates", "500 kubelets ask for their client certificates", false, certificates},
		{"nodettl", "1980 nodes come and report their status, and the cluster grows past a limit", false, nodeTTLs},
		{"nodes", "1000 nodes get ranges of addresses, and 100 of them with 10 pods each are tainted", false, nodesAndTaints},
		{"heartbeats", "5000 nodes are well for a minute, and 200 of them with 30 pods each are lost", false, heartbeats},
		{"attachments", "2000 volumes are attached to 40 nodes, move to 40 others at once, and a node of 50 is drained", false,
			attachments},
		{"volumes", "500 claims that name their volumes, and 1000 whose volumes a driver makes, also among 10,000 Released volumes", false,
			volumes},
		{"devices", "1000 pods with a claim of a template each come and end", false, devices},
		{"pools", "100 requests for the status of 1000 pools of devices", false, devicePools},
		{"podgroups", "1000 PodGroups that a pod keeps are deleted, and then the pods", false, podGroups},
		{"devicetaints", "1000 pods with a device each, all of which get a taint", false, deviceTaints},
		{"clusterroles", "100 ClusterRoles are added to view, edit and admin, beside 2000 others that change", false, clusterRoles},
		{"autoscalers", "2000 HorizontalPodAutoscalers, whose metrics an aggregated API server has", false, autoscalers},
		{"ranges", "a ServiceCIDR with 5000 addresses is deleted, and then they are", false, serviceRanges},
		{"policies", "500 admission policies are made, and then changed", false, policies},
		{"quotas", "pods of a namespace of 10,000 with 5 quotas are deleted", false, quotas},
	}
}

// bench is a run of the program.
type bench struct {
	quick      bool
	cpuFloor   bool // measure it, too
	runs       int
	contenders []contender // in the order of their turns
	launcher   *launcher
	samples    []sample
	log        io.Writer
}

// turn is a contender's run of a scenario.
type turn struct {
	contender
	run int // from 1
}

type options struct {
	quick, judge, cpuFloor    bool
	only, out, ours, original string
	profiles, write           string
	controllers               string
	runs                      int
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false,
		"small sizes, one run, and without -only just the scenarios marked quick: less than five minutes")
	flag.StringVar(&o.only, "only", "", "run only these scenarios, by name, separated by commas:\n"+listScenarios())
	flag.IntVar(&o.runs, "runs", 0, "runs of each contender, in turn (default 2, quick 1); long scenarios have one")
	flag.StringVar(&o.out, "out", "", "write all single results to this JSON file")
	flag.StringVar(&o.write, "write", "", "write the table into this page, such as ../../docs/performance.md, in the place of the last one")
	flag.StringVar(&o.ours, "ours", "", `program to measure (default bin/controller-manager, from "make build")`)
	flag.StringVar(&o.original, "original", "",
		`program to compare with (default kube-controller-manager from hack/localcluster; "none" for none)`)
	flag.StringVar(&o.profiles, "profiles", "", "write CPU profiles of the managers into this folder, taken while their writes are counted")
	flag.StringVar(&o.controllers, "controllers", strings.Join(defaultControllers(), ","),
		"what --controllers is given to all contenders, beside the controllers\nof a scenario; by default what ours has on by default; "+
			"\"*\": what each one has")
	flag.BoolVar(&o.judge, "judge", true, "fail if ours breaks a limit that does not depend on the machine's speed")
	flag.BoolVar(&o.cpuFloor, "cpu-floor", true,
		"measure the CPU floor of each piece of work in the scenario writes, which takes as long as the work did")
	flag.Parse()
	if flag.Arg(0) == replay {
		exit(cpufloor.Main(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := o.run(ctx)
	stop()
	exit(err)
}

// defaultControllers are those that ours has on by default. All contenders have these: one that has more is not to pay for it.
func defaultControllers() (names []string) {
	for _, c := range controllers.Registry() {
		if c.OnByDefault() {
			names = append(names, c.Name)
		}
	}
	return names
}

func exit(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func listScenarios() string {
	var b strings.Builder
	for _, s := range scenarios() {
		quick := ""
		if s.quick {
			quick = " (quick)"
		}
		fmt.Fprintf(&b, "  %-12s %s%s\n", s.name, s.help, quick)
	}
	return b.String()
}

// run measures and prints. What was measured before a failure is printed, too.
func (o options) run(ctx context.Context) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	chosen, err := o.choose(scenarios())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{quick: o.quick, cpuFloor: o.cpuFloor, runs: o.runs, log: os.Stderr}
	if b.runs == 0 {
		b.runs = 2
		if o.quick {
			b.runs = 1
		}
	}
	if b.launcher, err = newLauncher(ctx, dir); err != nil {
		return err
	}
	b.launcher.controllers = o.controllers
	if b.launcher.profiles.dir = o.profiles; o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return err
		}
	}
	if b.contenders, err = o.contenders(ctx, b.launcher); err != nil {
		return err
	}
	for _, c := range b.contenders {
		b.say("%s is %s, %s", c.Name, c.Binary, c.Build) // a binary that somebody has forgotten to build anew is seen
	}
	began := time.Now()
	failed := b.runAll(ctx, chosen)
	fmt.Print(table(b.samples))
	if o.write != "" && failed == nil {
		failed = writePage(o.write, results(b.samples, began))
	}
	if o.out != "" {
		failed = errors.Join(failed, writeReport(o.out, b, began))
	}
	if limits := broken(b.samples); o.judge && len(limits) > 0 {
		failed = errors.Join(failed, errors.New("limits are broken:\n"+strings.Join(limits, "\n")))
	}
	return failed
}

// runAll goes on after a failure, so that one run shows all.
func (b *bench) runAll(ctx context.Context, chosen []scenario) error {
	var failed []error
	for _, s := range chosen {
		if ctx.Err() != nil {
			break
		}
		began := time.Now()
		if err := s.run(ctx, b); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
			b.say("%s failed: %v", s.name, err)
		}
		b.say("%s took %v", s.name, time.Since(began).Round(time.Second))
	}
	return errors.Join(append(failed, context.Cause(ctx))...)
}

// choose picks the scenarios that the flags ask for.
func (o options) choose(all []scenario) ([]scenario, error) {
	if o.runs < 0 {
		return nil, fmt.Errorf("-runs=%d: it must be positive", o.runs)
	}
	if o.only == "" {
		return slices.DeleteFunc(all, func(s scenario) bool { return o.quick && !s.quick }), nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(o.only, ",") {
		i := slices.IndexFunc(all, func(s scenario) bool { return s.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no scenario %q; there are\n%s", name, listScenarios())
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// contenders finds the programs: the original first, as it is what the other is compared with.
func (o options) contenders(ctx context.Context, l *launcher) (all []contender, err error) {
	if o.original == "" {
		if o.original, err = l.run(ctx, "path", "kube-controller-manager"); err != nil {
			return nil, fmt.Errorf("%w\nBuild it with: go -C hack/localcluster run . build --with-upstream", err)
		}
	}
	if o.ours == "" {
		o.ours = filepath.Join(l.source, "..", "..", "bin", "controller-manager")
	}
	for _, c := range []contender{{Name: original, Binary: o.original}, {Name: ours, Binary: o.ours}} {
		if c.Name == original && c.Binary == "none" {
			continue
		}
		if c.Binary, err = filepath.Abs(c.Binary); err != nil {
			return nil, err
		}
		for flag, says := range map[string]*string{"--version": &c.Version, "--version=raw": &c.Build} {
			out, err := exec.CommandContext(ctx, c.Binary, flag).Output()
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", c.Binary, flag, err)
			}
			*says = strings.TrimSpace(string(out))
		}
		all = append(all, c)
	}
	return all, nil
}

// inTurn lets the contenders run one after the other, as often as asked for, each second time in reverse order: A B B A.
func (b *bench) inTurn(ctx context.Context, run func(ctx context.Context, t turn) error) error {
	return b.inTurnTimes(ctx, b.runs, run)
}

func (b *bench) inTurnTimes(ctx context.Context, runs int, run func(ctx context.Context, t turn) error) error {
	for n := range runs {
		contenders := slices.Clone(b.contenders)
		if n%2 == 1 {
			slices.Reverse(contenders)
		}
		for _, c := range contenders {
			if err := run(ctx, turn{c, n + 1}); err != nil {
				return fmt.Errorf("%s, run %d: %w", c.Name, n+1, err)
			}
		}
	}
	return nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.log, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
