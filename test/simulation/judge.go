package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/panics"
	"github.com/standalone-kcm/controller-manager/test/lockorder"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// knownWithin is how long a manager may take to know and act without a fault: several requests and events of at most 200 ms
// each way, and a worker's turn.
const knownWithin = 3 * time.Second

// outcome says what came of it all.
func (w *world) outcome(began time.Time, rested bool) Outcome {
	o := Outcome{Took: time.Since(began), Changes: w.server.Version(), Notes: w.notes, Writes: w.writes, record: w.record}
	for _, p := range w.processes {
		o.Deaths += max(0, p.lives-1)
	}
	outages := w.outagesUntilNow()
	o.Impaired = oracle.Impaired(outages, time.Now())
	o.Violations, o.Counts = w.judge(rested, outages)
	o.Violations = slices.Concat(o.Violations, w.lateWork(), w.leaderless())
	if compares(w.script) {
		o.end = oracle.Final(w.record.history())
	}
	o.Violations = append(o.Violations, w.unsafe()...)
	if !rested {
		restless := fmt.Sprintf("L1 it does not come to rest within %v and %d changes", restive, restless)
		o.Violations = append([]string{restless}, o.Violations...)
	}
	return o
}

// unsafe tells what was no fault of this world only because it went well: locks that were taken in another order than before, in this
// world or an earlier one of this program, and panics that ended at one object.
func (w *world) unsafe() (found []string) {
	for _, problem := range lockorder.Problems() {
		found = append(found, "Locks "+problem)
	}
	if n := panics.Total() - w.panics; n > 0 {
		found = append(found, fmt.Sprintf("Panics: %d, see the log", n))
	}
	return found
}

// outagesUntilNow are the times in which processes could not see or act.
func (w *world) outagesUntilNow() []oracle.Outage {
	all := w.outages
	for _, p := range w.processes {
		all = append(all, p.outages()...)
	}
	return all
}

// judge returns the rules that were broken, and how often each was judged.
func (w *world) judge(settled bool, outages []oracle.Outage) ([]string, oracle.Counts) {
	broken := slices.Clone(w.record.broken)
	options := oracle.Options{
		Settled: settled, Unhindered: true, End: time.Now(), NodeGrace: nodeGrace, NodeStartupGrace: nodeGrace,
		TerminatedPodThreshold: w.script.Setting("terminated", 12500),
		Lag:                    knownWithin, EndpointsLag: 10 * time.Second, Outages: outages, Slices: w.only == nil ||
			w.only["endpointslice-controller"],
		Binds: w.only == nil || w.only["persistentvolume-binder-controller"],
	}
	h := w.record.history()
	broken = append(broken, oracle.Cover(h, options).Problems()...)
	violations, counts := oracle.CheckAndCount(h, options, oracle.All()...)
	for _, v := range violations {
		broken = append(broken, v.String())
	}
	if settled {
		wrong, looked := suite.Unsettled(source{w.server, w.eventsLost.Load()}, w.runs)
		for controller, n := range looked {
			counts.Add(oracle.Counts{suite.SettledOracle + " " + controller: {Judged: n}})
		}
		broken = append(broken, wrong...)
	}
	return broken, counts
}

// runs reports whether a controller runs.
func (w *world) runs(controller string) bool { return w.only == nil || w.only[controller] }
