package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Hooks get what a controller does, for metrics. Each may be nil; none but Applying may block. No argument takes more
// values in a larger cluster.
type Hooks struct {
	Reconciled func(result Result, took time.Duration) // one reconcile of a key has ended
	Retry      func()                                  // a failed reconcile will be repeated
	// Write: one request that writes has ended. The verb is create, update, patch or delete; the code is that of
	// HTTP, "<error>" if the server did not answer.
	Write func(verb, resource, code string)
	Stale func(resource schema.GroupResource) // a reconcile was put off: the cache lacks own writes (RS-9)
	// Applying: a plan with steps is about to be carried out, and is as soon as this returns. Of the decision, Did says
	// nothing yet. Many workers call it at the same time.
	Applying func(context.Context, Decision)
	// Decided: a reconcile has ended that came to a plan. It is called by many workers at the same time, and what it
	// gets is not to be changed.
	Decided func(Decision)
}

// AlsoDecided returns hooks that also have a function get decisions, after whoever gets them already.
func (h Hooks) AlsoDecided(decided func(Decision)) Hooks {
	first := h.Decided
	h.Decided = func(d Decision) {
		if first != nil {
			first(d)
		}
		decided(d)
	}
	return h
}

// Decision is what one reconcile has planned, and what became of that.
type Decision struct {
	Key    plan.Key    // as people name it
	Owner  plan.Object // the object of the key, as it was seen; nil for a controller without Owner
	Record explain.Record
	Steps  []plan.Step   // of the plan and of its report; none if nothing was to be done
	Did    []plan.Result // the writes; none in a process that only observes
}

// Result is what became of one reconcile.
type Result string

// The results of a reconcile.
const (
	Wrote     Result = "wrote"     // something was written, or tried without an error that stopped the plan
	Unchanged Result = "unchanged" // nothing was to be written: the plan was empty
	Waiting   Result = "waiting"   // the cache lacks own writes, or the right to write was gone
	Failed    Result = "error"
	Panicked  Result = "panic"
)

// Results lists all results.
func Results() []Result { return []Result{Wrote, Unchanged, Waiting, Failed, Panicked} }

func (h Hooks) reconciled(rec *explain.Record, err error, panicked bool, took time.Duration) {
	if h.Reconciled != nil {
		h.Reconciled(resultOf(rec, err, panicked), took)
	}
}

func (h Hooks) retry() {
	if h.Retry != nil {
		h.Retry()
	}
}

func resultOf(rec *explain.Record, err error, panicked bool) Result {
	switch {
	case panicked:
		return Panicked
	case rec.Waiting != "" || executor.Silent(err):
		return Waiting
	case err != nil:
		return Failed
	case rec.Wrote > 0:
		return Wrote
	}
	return Unchanged
}
