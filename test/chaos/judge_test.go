package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// tally is what becomes of the runs of a test.
type tally struct {
	mu         sync.Mutex
	faults     string // what was done to the manager
	runs       int
	injections int
	violations map[string]int // by oracle
	broken     map[string]int // runs with a violation, by oracle
	counts     oracle.Counts  // what there was to judge
	looked     map[string]int // objects that Settled has looked at, by controller
}

// looks notes at how many objects of a controller Settled has looked.
func (y *tally) looks(controller string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.looked[controller] += n
}

// newTally returns a tally that is logged when the test ends, and appended to the file that CHAOS_TABLE names. The test fails if one of
// the oracles that it promises to ask, here or in the list of all promises, has had nothing to judge, unless fewer runs were made than
// the test has, because a pattern has left some out. A run without faults may count for another test.
func newTally(t *testing.T, faults string, has int, promised ...string) *tally {
	t.Helper()
	listed, ok := promises[t.Name()]
	if !ok {
		t.Errorf("%s promises nothing", t.Name())
	}
	promised = append(strings.Fields(listed), promised...)
	y := &tally{faults: faults, violations: map[string]int{}, broken: map[string]int{}, counts: oracle.Counts{}, looked: map[string]int{}}
	t.Cleanup(func() {
		for _, id := range promised {
			if y.runs >= has && y.counts[id].Judged == 0 {
				t.Errorf("in %d runs %s had nothing to judge, and was excused %d times", y.runs, id, y.counts[id].Excused)
			}
		}
		table := y.String()
		t.Log("\n" + table)
		if file := os.Getenv("CHAOS_TABLE"); file != "" {
			if err := appendTo(file, table); err != nil {
				t.Error(err)
			}
		}
	})
	return y
}

// leavesNothing are the controllers whose scenarios end without an object that Settled could look at.
var leavesNothing = []string{
	"legacy-serviceaccount-token-cleaner-controller", "persistentvolume-protection-controller", "podgroup-protection-controller",
	"selinux-warning-controller", // which writes only events, so no crash is at a write of it
	"service-cidr-controller",
	"storageversion-garbage-collector-controller", "volumeattributesclass-protection-controller",
}

// looksEverywhere fails the test if Settled has looked at no object of a controller, though its scenarios were played.
func (y *tally) looksEverywhere(t *testing.T) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, e := range suite.Entries() {
		plays := e.Settled != nil && len(e.Scenarios) > 0 && !slices.Contains(leavesNothing, e.Controller)
		if plays && y.runs >= len(scenarios()) && y.looked[e.Controller] == 0 {
			t.Errorf("nobody has looked at what %s has left", e.Controller)
		}
	}
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Close()
}

// String is a table in Markdown.
func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	manager := "controller-manager"
	if binary := os.Getenv("MANAGER_BINARY"); binary != "" {
		manager = filepath.Base(binary)
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"### %s: %s\n\n%d runs, %d faults injected\n\n| oracle | what holds | judged | excused | violations | in runs |\n| --- | --- | --- "+
			"| --- | --- | --- |\n",
		manager, y.faults, y.runs, y.injections)
	row := func(id, claim string) {
		n := y.counts[id]
		if n.Judged == 0 {
			fmt.Fprintf(&b, "| %s | %s | - | %d | - | - |\n", id, claim, n.Excused)
			return
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d |\n", id, claim, n.Judged, n.Excused, y.violations[id], y.broken[id])
	}
	for _, o := range oracle.All() {
		row(o.ID, o.Claim)
	}
	row("L2", "the end is that of the run without faults")
	row("L4", "after a fault the work is done within the longest back-off")
	row("L5", "a new leader works within a bounded time")
	row(suite.SettledOracle, "each controller has left its objects as they should be")
	row(unfinishedOracle, "the work is done in time, and no process ends by itself")
	b.WriteString("\n")
	return b.String()
}

// unfinishedOracle stands for the oracle that a run ends well.
const unfinishedOracle = "end"

// count counts a run, with the oracles of its violations, and what there was to judge.
func (y *tally) count(ids []string, injections int, counts oracle.Counts) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts.Add(counts)
	y.counts.Add(oracle.Counts{unfinishedOracle: {Judged: 1}})
	y.runs++
	y.injections += injections
	for _, id := range ids {
		y.violations[id]++
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		y.broken[id]++
	}
}

// differences compares the end of a history with that of the run without faults, if there was one (L2).
func (r *run) differences(h *oracle.History) []string {
	if r.reference == nil {
		return nil
	}
	sameNamespace := func(string) string { return "" }
	return oracle.Diff(final(r.reference), final(h), sameNamespace)
}

// judge checks a history with all oracles, and its end against that of the run without faults, if there was one.
func (r *run) judge(h *oracle.History, o oracle.Options) {
	r.Helper()
	r.judged = true
	unfinished := r.Failed()
	o = runOptions(o)
	o.Outages = append(o.Outages, r.own(r.proxy.Outages(), time.Time{})...)
	violations, counts := oracle.CheckAndCount(h, o, oracle.All()...)
	ids := report(r.T, violations)
	if r.reference != nil {
		counts.Add(oracle.Counts{"L2": {Judged: 1}})
		if differences := r.differences(h); len(differences) > 0 {
			r.Errorf("L2: the end differs from that of the run without faults:\n%s", strings.Join(differences, "\n"))
			ids = append(ids, "L2")
		}
	}
	if over := r.unhindered(); !over.IsZero() {
		counts.Add(oracle.Counts{"L4": {Judged: 1}})
		for kind, took := range oracle.Recoveries(h, o, over) {
			if took > r.waits(kind, over) {
				r.Errorf("L4: the last write of a %s came %v after the last fault", kind, took.Round(time.Millisecond))
				ids = append(ids, "L4")
			}
		}
	}
	for _, lost := range oracle.Cover(h, o).Problems() {
		r.Error(lost)
	}
	if _, err := r.recording.gap(nil); err != nil {
		r.Error(err)
	}
	for controller, n := range r.looked {
		counts.Add(oracle.Counts{suite.SettledOracle: {Judged: n}})
		r.tally.looks(controller, n)
	}
	for _, text := range r.unsettled {
		r.Error(text)
		ids = append(ids, suite.SettledOracle)
	}
	if unfinished {
		ids = append(ids, unfinishedOracle)
	}
	if r.Failed() {
		r.keep(h)
	}
	r.tally.count(ids, len(r.proxy.Injections()), counts)
}

// slack is how exact times are that are measured here.
const slack = time.Second

// waits is how long after the last fault a manager may still write objects of a kind (L4). The longest wait of all is a minute. That of
// a quota begins when the manager sees what admission has reserved: if watches break so that objects are listed again, the manager does
// not see those that were created and deleted meanwhile, and they could also be under way (TestAListDoesNotTellWhatWillCome of the
// controller). So the time until its watch of the quota is back comes on top, as far as that is in time.
func (r *run) waits(kind string, over time.Time) time.Duration {
	if kind != oracle.ResourceQuota {
		return longestBackOff
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return longestBackOff + slack + backAfter(over, r.looks["resourcequotas"])
}

// backAfter is how long after a time the last look was, of those that came no later than a manager may be.
func backAfter(over time.Time, looks []time.Time) (longest time.Duration) {
	for _, at := range looks {
		if d := at.Sub(over); d <= knownWithin {
			longest = max(longest, d)
		}
	}
	return longest
}

func TestTheMinuteOfAQuotaBeginsWhenItsWatchIsBack(t *testing.T) {
	over := time.Now()
	r := &run{looks: map[string][]time.Time{}}
	for _, step := range []struct {
		look time.Duration
		want time.Duration
	}{{-time.Second, longestBackOff + slack}, {2 * time.Second, longestBackOff + slack + 2*time.Second},
		{time.Minute, longestBackOff + slack + 2*time.Second}} {
		r.looks["resourcequotas"] = append(r.looks["resourcequotas"], over.Add(step.look))
		if got := r.waits(oracle.ResourceQuota, over); got != step.want {
			t.Errorf("after a look at %v it may wait for %v, want %v", step.look, got, step.want)
		}
	}
	if got := r.waits(oracle.Pod, over); got != longestBackOff {
		t.Errorf("the wait of a Pod is %v", got)
	}
}

// unhindered is when the last fault was over and the user had done all; zero if there was no fault.
func (r *run) unhindered() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disturbed.To.IsZero() || r.disturbed.To.After(r.acted) {
		return r.disturbed.To
	}
	return r.acted
}

// knownWithin is how long a manager may take to know and act without a fault, on a machine that has much to do.
const knownWithin = 5 * time.Second

// runOptions are the options of all runs.
func runOptions(o oracle.Options) oracle.Options {
	o.Manager = func(oracle.Request) bool { return true } // only its requests are recorded
	o.Identity = byUser
	o.Settled, o.Unhindered, o.Slices, o.Binds = true, true, true, true
	o.Lag, o.EndpointsLag = knownWithin, 10*time.Second
	o.TerminatedPodThreshold = suite.TerminatedThreshold
	return o
}

// giveUp counts a run that has failed before it could be judged.
func (r *run) giveUp() {
	if !r.judged && r.Failed() {
		r.tally.count([]string{unfinishedOracle}, len(r.proxy.Injections()), nil)
	}
}

// report lets the test fail for the first violation of each oracle, and returns the oracles of all. Those that
// CHAOS_WITHOUT names, such as S3,S13, are counted but don't let it fail: for a manager that is known to break them.
func report(t *testing.T, violations []oracle.Violation) (ids []string) {
	t.Helper()
	tolerated := strings.Split(os.Getenv("CHAOS_WITHOUT"), ",")
	for _, v := range violations {
		if !slices.Contains(ids, v.Oracle) && !slices.Contains(tolerated, v.Oracle) {
			t.Errorf("%s", v)
		}
		ids = append(ids, v.Oracle)
	}
	return ids
}

// final is the end of a history without what depends on when the manager saw what: a ReplicaSet that is empty keeps the
// annotations of the last time at which it was sized, and Endpoints the time of what triggered their last change.
func final(h *oracle.History) (objects []oracle.Object) {
	for _, o := range oracle.Final(h) {
		o = o.DeepCopyObject().(oracle.Object)
		annotations := o.GetAnnotations()
		if set, ok := o.(*appsv1.ReplicaSet); ok && *set.Spec.Replicas == 0 {
			delete(annotations, "deployment.kubernetes.io/desired-replicas")
			delete(annotations, "deployment.kubernetes.io/max-replicas")
		}
		delete(annotations, "endpoints.kubernetes.io/last-change-trigger-time")
		if len(annotations) == 0 {
			o.SetAnnotations(nil)
		}
		objects = append(objects, o)
	}
	return objects
}

// replayBy logs how to repeat the run, if it has failed.
func (r *run) replayBy(environment string, flags ...string) {
	if !r.Failed() {
		return
	}
	parts := strings.Split(r.T.Name(), "/")
	var pattern []string
	for _, part := range parts[:len(parts)-1] {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	// It is compared with the run without faults, which belongs to it.
	pattern = append(pattern, "^("+undisturbedName+"|"+regexp.QuoteMeta(parts[len(parts)-1])+")$")
	command := append([]string{"go test ./test/chaos -count=1 -v"}, flags...)
	r.Logf("replay: %s%s -run '%s'", environment, strings.Join(command, " "), strings.Join(pattern, "/"))
}
