package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// stillPlannedAfter is the least time between a plan that was not carried out and the next one of its key, unless a
	// change enqueues the key. A shorter Requeue of the plan does not count: it is meant for when the steps are done.
	stillPlannedAfter = time.Minute

	// A reconcile of a process that only observes counts for the cooldown of its key as one that took unhurried, if it
	// was costly: nobody waits for what it plans. So such a key is looked at ten times a second at most.
	costly    = 500 * time.Microsecond
	unhurried = 100 * time.Millisecond
)

// plannedOnly ends a reconcile of a process that only observes. It keeps what is planned, or else reported, as steps
// that were not carried out. Whoever leads carries them out, and that enqueues the key. Events count as recorded, as
// nobody sees from here whether they are.
func (r *run[K, S, D, M]) plannedOnly(ctx context.Context, o Observation[S, M], d D, p plan.Plan) error {
	if r.steps = withoutEvents(p.Steps); len(r.steps) > 0 {
		r.did.Err = client.ErrReadOnly
	} else if err := r.noStepsPlanned(o.Snapshot, d); err != nil {
		return err
	}
	r.hold(p.Hold)
	if r.runner.Aliases != nil {
		r.recordAliases(r.runner.Aliases(o.Snapshot, d))
	}
	if len(r.steps) > 0 {
		r.next = max(r.next, stillPlannedAfter)
	} else if r.runner.Applied != nil {
		r.runner.Applied(ctx, o.Snapshot, d, r.did, r.reported)
	}
	memory, ok := r.runner.Remember(r.record.Time, o.Snapshot, d, o.Memory, r.did, r.reported)
	if ok {
		r.runner.keys.Commit(r.state, memory, r.runner.subjectOf(o.Snapshot))
	}
	return nil
}

// noStepsPlanned has the term know what was decided, as nothing is taken from other keys, and makes the report.
func (r *run[K, S, D, M]) noStepsPlanned(s S, d D) error {
	if r.runner.Planned != nil {
		if err := r.runner.Planned(s, d); err != nil {
			return err
		}
	}
	if r.runner.Report == nil {
		return nil
	}
	rep := r.runner.Report(r.record.Time, s, d, r.did)
	if r.next = plan.Sooner(r.next, rep.Requeue); rep.Why != "" {
		r.record.Why = rep.Why
	}
	if r.steps = withoutEvents(rep.Steps); len(r.steps) > 0 {
		r.reported.Err = client.ErrReadOnly
	}
	return nil
}

// withoutEvents returns the steps but for those that only record an event.
func withoutEvents(steps []plan.Step) (others []plan.Step) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.RecordEvent:
			continue
		case plan.Each:
			var sequences [][]plan.Step
			for _, sequence := range s.Sequences {
				sequences = append(sequences, withoutEvents(sequence))
			}
			sequences = slices.DeleteFunc(sequences, func(s []plan.Step) bool { return len(s) == 0 })
			if step = (plan.Each{Sequences: sequences}); len(sequences) == 0 {
				continue
			}
		}
		others = append(others, step)
	}
	return others
}
