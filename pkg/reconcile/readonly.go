package reconcile

import (
	"context"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// stillPlannedAfter is how long after a plan that was not carried out the key is reconciled again, unless a change has
// led to that before: by then, the plan may be another one.
const stillPlannedAfter = time.Minute

// unhurried is the least that a reconcile of a process that only observes counts for the cooldown of its key: nobody
// waits for what it plans, so it looks at a key ten times a second at most.
const unhurried = 100 * time.Millisecond

// plannedOnly ends a reconcile of a process that only observes. It keeps what is planned, or else reported, as steps
// that were not carried out. Whoever leads carries them out, and that enqueues the key.
func (r *run[K, S, D, M]) plannedOnly(ctx context.Context, o Observation[S, M], d D, p plan.Plan) error {
	r.record.Inferred, r.steps = true, p.Steps
	if len(r.steps) > 0 {
		r.did.Err = client.ErrReadOnly
	} else if r.runner.Planned != nil { // there is nothing to take from other keys, but something to know for them
		if err := r.runner.Planned(o.Snapshot, d); err != nil {
			return err
		}
	}
	if len(r.steps) == 0 && r.runner.Report != nil {
		rep := r.runner.Report(r.record.Time, o.Snapshot, d, r.did)
		if r.next, r.steps = plan.Sooner(r.next, rep.Requeue), rep.Steps; rep.Why != "" {
			r.record.Why = rep.Why
		}
		if len(r.steps) > 0 {
			r.reported.Err = client.ErrReadOnly
		}
	}
	r.hold(p.Hold)
	if r.runner.Aliases != nil {
		r.recordAliases(r.runner.Aliases(o.Snapshot, d))
	}
	if len(r.steps) > 0 {
		r.next = plan.Sooner(r.next, stillPlannedAfter)
	} else if r.runner.Applied != nil {
		r.runner.Applied(ctx, o.Snapshot, d, r.did, r.reported)
	}
	memory, ok := r.runner.Remember(r.record.Time, o.Snapshot, d, o.Memory, r.did, r.reported)
	if ok {
		r.runner.keys.Commit(r.state, memory, r.runner.subjectOf(o.Snapshot))
	}
	return nil
}
