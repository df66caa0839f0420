package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// outcome says what came of it all.
func (w *world) outcome(began time.Time, rested bool) Outcome {
	o := Outcome{Took: time.Since(began), Changes: w.server.Version(), Notes: w.notes, Hash: w.record.hash()}
	o.Violations = w.judge(rested)
	if !rested {
		o.Violations = append([]string{fmt.Sprintf("L1 it does not come to rest within %v", restive)}, o.Violations...)
	}
	return o
}

// judge returns the rules that were broken.
func (w *world) judge(settled bool) []string {
	broken := slices.Clone(w.record.broken)
	options := oracle.Options{Settled: settled, End: time.Now(), TerminatedPodThreshold: w.script.Setting("terminated", 12500)}
	for _, i := range w.faulty {
		options.Outages = append(options.Outages, oracle.Interval{From: i.from, To: i.to})
	}
	for _, v := range oracle.Check(w.record.history(), options, oracle.All()...) {
		broken = append(broken, v.String())
	}
	return broken
}
