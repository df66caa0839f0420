package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// knownWithin is how long a manager may take to know and act without a fault: several requests and events of at most 200 ms
// each way, and a worker's turn.
const knownWithin = 3 * time.Second

// outcome says what came of it all.
func (w *world) outcome(began time.Time, rested bool) Outcome {
	o := Outcome{Took: time.Since(began), Changes: w.server.Version(), Notes: w.notes, Hash: w.record.hash()}
	o.Violations = slices.Concat(w.judge(rested), w.lateWork(), w.leaderless())
	if compares(w.script) {
		o.end = oracle.Final(w.record.history())
	}
	if !rested {
		o.Violations = append([]string{fmt.Sprintf("L1 it does not come to rest within %v", restive)}, o.Violations...)
	}
	return o
}

// judge returns the rules that were broken.
func (w *world) judge(settled bool) []string {
	broken := slices.Clone(w.record.broken)
	options := oracle.Options{
		Settled: settled, Unhindered: true, End: time.Now(), TerminatedPodThreshold: w.script.Setting("terminated", 12500),
		Lag: knownWithin, EndpointsLag: 10 * time.Second,
	}
	for _, i := range w.faulty {
		options.Outages = append(options.Outages, oracle.Interval{From: i.from, To: i.to})
	}
	for _, v := range oracle.Check(w.record.history(), options, oracle.All()...) {
		broken = append(broken, v.String())
	}
	if settled {
		broken = append(broken, w.unsettled()...)
	}
	return broken
}

// unsettled returns what the entries of the suite find wrong in a world at rest.
func (w *world) unsettled() (broken []string) {
	for _, e := range suite.Entries() {
		if e.Settled == nil {
			continue
		}
		for _, wrong := range e.Settled(w.server) {
			broken = append(broken, suite.SettledOracle+" "+wrong)
		}
	}
	return broken
}
