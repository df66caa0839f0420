package garbagecollector

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// explainName is that of the controller's records in /debug/explain.
const explainName = "garbage_collector"

// pool is a queue with its workers.
type pool struct {
	name    string
	queue   *queue.Queue[item]
	process func(context.Context, item) (again time.Duration, err error)

	mu       sync.Mutex
	running  bool
	busy     map[item]time.Time // since when
	failures map[item]int
	active   time.Time // when an item was last taken or done
}

func newPool(name string, process func(context.Context, item) (time.Duration, error)) *pool {
	return &pool{
		name: name, process: process, busy: map[item]time.Time{}, failures: map[item]int{}, active: time.Now(),
		queue: queue.New(name, func(i item) string { return i.key().Namespace }),
	}
}

// add queues an item. It is called under the lock of the graph.
func (p *pool) add(i item) {
	p.queue.AddWithPriority(i, queue.Priority{Level: queue.Changed, Owner: i.owner()})
}

// run works until ctx ends.
func (p *pool) run(ctx context.Context, workers int) {
	p.setRunning(true)
	defer p.setRunning(false)
	defer context.AfterFunc(ctx, p.queue.ShutDown)()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for p.next(ctx) {
			}
		})
	}
	all.Wait()
}

func (p *pool) setRunning(running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = running
}

// next processes one item. It returns false when the queue has been shut down.
func (p *pool) next(ctx context.Context) bool {
	i, end := p.queue.Get()
	if end {
		return false
	}
	defer p.queue.Done(i)
	if ctx.Err() != nil {
		return false
	}
	p.note(func(now time.Time) { p.busy[i] = now })
	again, err := p.safely(ctx, i)
	failures := 0
	p.note(func(time.Time) {
		delete(p.busy, i)
		if err == nil {
			delete(p.failures, i)
			return
		}
		p.failures[i]++
		failures = p.failures[i]
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log(ctx, p.name, i, err, failures)
		p.queue.AddAfter(i, queue.Backoff(failures, err))
	case again > 0:
		p.queue.AddAfter(i, again)
	}
	return true
}

// lasting is after how many tries a failure is not just a moment too early.
const lasting = 10

// failuresOf returns how often in a row an item has failed before.
func (p *pool) failuresOf(i item) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures[i]
}

// log says once that an item fails, when it is not just a moment too early.
func log(ctx context.Context, name string, i item, err error, failures int) {
	if failures != lasting || executor.Silent(err) {
		return
	}
	klog.FromContext(ctx).Info("Garbage collection fails, will retry", "queue", name, "object", i.key(), "ownerKind", i.statedOwner.kind, "err", err.Error())
}

func (p *pool) note(change func(now time.Time)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = time.Now()
	change(p.active)
}

// safely has a panic end at its item.
func (p *pool) safely(ctx context.Context, i item) (again time.Duration, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			klog.FromContext(ctx).Error(err, "Garbage collection has panicked", "queue", p.name, "object", i.key())
		}
	}()
	return p.process(ctx, i)
}

// status tells how the workers do, if something was written at the given time.
func (p *pool) status(written time.Time) reconcile.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	s := reconcile.Status{Name: p.name, Running: p.running, Failing: len(p.failures), Queued: p.queue.Len()}
	for i, since := range p.busy {
		if written.After(since) {
			since = written
		}
		if stuck := now.Sub(since); stuck > s.Stuck {
			s.Key, s.Stuck = i.key(), stuck
		}
	}
	if s.Queued > 0 {
		s.Idle = now.Sub(p.active)
	}
	s.LongestWait = p.queue.LongestWait()
	return s
}

// key names what an item is about: an object, or an owner that is looked for. Of an object nothing is read that may change.
func (i item) key() plan.Key {
	if i.node != nil {
		return plan.Key{Namespace: i.node.namespace, Name: i.node.name}
	}
	return plan.Key{Namespace: i.statedOwner.namespace, Name: i.statedOwner.name}
}

// owner returns the owner whose dependents take turns with those of others: the first that an object has, or the one that is looked for. It is
// called under the lock of the graph.
func (i item) owner() types.UID {
	if i.node == nil {
		return i.statedOwner.uid
	}
	if len(i.node.owners) == 0 {
		return ""
	}
	return i.node.owners[0].UID
}

// explainKey is how an object is called in /debug/explain.
func explainKey(o *metav1.PartialObjectMetadata) plan.Key {
	return plan.Key{Namespace: o.Namespace, Name: o.Kind + ":" + o.Name}
}

// tell keeps for /debug/explain what was decided about an object, and counts it.
func (r *runner) tell(o *metav1.PartialObjectMetadata, d decision, did plan.Outcome, took time.Duration) {
	key := explainKey(o)
	result := reconcile.Unchanged
	rec := explain.Record{Time: time.Now(), Why: d.Why, Next: explain.Seconds(d.Requeue)}
	switch {
	case did.Err != nil && executor.Silent(did.Err):
		result = reconcile.Waiting
	case did.Err != nil:
		result, rec.Error = reconcile.Failed, did.Err.Error()
	case did.Wrote():
		result = reconcile.Wrote
	}
	if r.hooks.Reconciled != nil {
		r.hooks.Reconciled(result, took)
	}
	if rec.Error != "" || d.Empty() && d.Why != "" {
		rec.Planned(d.Steps)
		rec.Did(did)
		r.records.Put(key, rec)
	} else {
		r.records.Forget(key)
	}
}
