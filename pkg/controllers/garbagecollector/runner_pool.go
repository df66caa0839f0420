package garbagecollector

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/internal/queue"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// pool is a queue with its workers.
type pool struct {
	*queue.Pool[item]
	name    string
	process func(context.Context, item) (again time.Duration, err error)

	mu       sync.Mutex
	failures map[item]int // in a row
}

func newPool(name string, process func(context.Context, item) (time.Duration, error)) *pool {
	p := &pool{name: name, process: process, failures: map[item]int{}}
	p.Pool = queue.NewPool(queue.New(name, func(i item) string { return i.key().Namespace }), p.next)
	return p
}

// add queues an item. It is called under the lock of the graph.
func (p *pool) add(i item) {
	p.AddWithPriority(i, queue.Priority{Level: queue.Changed, Owner: i.owner()})
}

// next processes an item.
func (p *pool) next(ctx context.Context, i item) {
	again, err := p.safely(ctx, i)
	failures := p.ended(i, err)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log(ctx, p.name, i, err, failures)
		p.AddAfter(i, queue.Backoff(failures, err))
	case again > 0:
		p.AddAfter(i, again)
	}
}

// ended notes how an item has ended, and returns how often in a row it has failed.
func (p *pool) ended(i item, err error) (failures int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.failures, i)
		return 0
	}
	p.failures[i]++
	return p.failures[i]
}

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
	klog.FromContext(ctx).Info("Garbage collection fails, will retry",
		"queue", name, "object", i.key(), "ownerKind", i.statedOwner.kind, "err", err.Error())
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

// Statuses implements part.
func (p *pool) Statuses() []reconcile.Status { return []reconcile.Status{p.status()} }

// status tells how the workers do.
func (p *pool) status() reconcile.Status {
	p.mu.Lock()
	failing := len(p.failures)
	p.mu.Unlock()
	a := p.Activity()
	s := reconcile.Status{
		Name: p.name, Running: a.Running, Stuck: a.Stuck, Queued: a.Queued, Idle: a.Idle,
		LongestWait: a.LongestWait, Failing: failing,
	}
	if a.Stuck > 0 {
		s.Key = a.Key.key()
	}
	return s
}

// key names what an item is about: an object, or an owner that is looked for. Of an object nothing is read that may
// change.
func (i item) key() plan.Key {
	if i.node != nil {
		return plan.Key{Namespace: i.node.namespace, Name: i.node.name}
	}
	return plan.Key{Namespace: i.statedOwner.namespace, Name: i.statedOwner.name}
}

// owner returns the owner whose dependents take turns with those of others: the first that an object has, or the one
// that is looked for. It is called under the lock of the graph.
func (i item) owner() types.UID {
	if i.node == nil {
		return i.statedOwner.uid
	}
	if len(i.node.owners) == 0 {
		return ""
	}
	return i.node.owners[0].UID
}
