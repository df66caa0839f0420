package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/keystate"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Records returns what the runner remembers of its reconciles.
func (r *TypedRunner[K, S, D, M]) Records() []*explain.Records {
	return []*explain.Records{r.explained}
}

// request is what Observe gets for a key of which so much is remembered.
func (r *TypedRunner[K, S, D, M]) request(key K, now time.Time, of keystate.Observed[M, Change]) TypedRequest[K, M] {
	return TypedRequest[K, M]{
		Key: key, Now: now, Reader: r.reader,
		Memory: of.Memory, Changes: of.Changes, Missed: of.Missed, Failure: of.Failure, Failures: of.Failures,
	}
}

// keepRecord keeps the record of a reconcile, if it is to be kept.
func (r *run[K, S, D, M]) keepRecord() {
	name, ok := r.name, !r.gone
	if r.runner.RecordName != nil && ok {
		name, ok = r.runner.RecordName(r.key, &r.record)
	}
	if ok {
		r.record.Planned(r.steps)
		r.record.Did(r.did)
		r.record.Did(r.reported)
		r.runner.explained.Put(name, r.record)
	} else {
		r.runner.explained.Forget(name)
	}
}

// recordAliases keeps the answers for people who ask for the key by other names, and forgets names that it does not
// have any more.
func (r *run[K, S, D, M]) recordAliases(now map[plan.Key]string) {
	for _, name := range r.state.Aliases {
		if _, ok := now[name]; !ok {
			r.runner.explained.Forget(name)
		}
	}
	for name, why := range now {
		r.runner.explained.Put(name, explain.Record{Time: r.record.Time, Why: why})
	}
	r.state.Aliases = slices.Collect(maps.Keys(now))
}

// detail observes a key and plans for it. It writes nothing, and does not read what the plan asks for. It runs beside a
// reconcile of the same key.
func (r *TypedRunner[K, S, D, M]) detail(ctx context.Context, key K) (d explain.Detail, err error) {
	r.mu.Lock()
	keys, running := r.keys, r.queue != nil && r.queue.Activity().Running
	r.mu.Unlock()
	if !running {
		return d, errors.New("the controller does not run in this process")
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	now := r.shared.Clock.Now()
	o, err := r.observeKey(ctx, key, now, keys.Peek(key))
	if err != nil {
		return d, err
	}
	if !o.Exists {
		return d, errors.New("there is no such object")
	}
	decision, p := r.Plan(now, o.Snapshot)
	var report *plan.Plan
	if r.Report != nil && p.Empty() {
		rep := r.Report(now, o.Snapshot, decision, plan.Outcome{})
		report = &rep
	}
	mapping := func(kind schema.GroupVersionKind) (client.Mapping, error) { return r.shared.Mapper.Mapping(ctx, kind) }
	return explain.NewDetail(now, o.Snapshot, decision, p, report, mapping), nil
}
