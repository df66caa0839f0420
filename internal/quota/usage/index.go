package usage

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/circuit"
	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/sums"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// ListWithin is how long quotas wait for the list of a resource. Then the rest of them is counted without it
	// (RQ-49).
	ListWithin = 10 * time.Second
	// LookAgain is when a quota is looked at again that waits for lists. That they are complete enqueues it; this is
	// a safety net.
	LookAgain = ListWithin + time.Second
)

// State reports what is known of a resource.
type State int

// The states of resources.
const (
	Absent   State = iota // there is no such resource, or it cannot be counted
	Listing               // its objects are being listed
	Listed                // its objects are known
	Failing               // it cannot be listed
	Verified              // its objects are known, and were compared with the server
	Late                  // its watch lacks objects that the server has
)

// Status is what is known of a resource, and from which watch.
type Status struct {
	State   State
	Watch   uint64 // the number of the watch, which no other one has; 0 if there is none
	Mapping client.Mapping
	Began   time.Time // the watch
}

// Config is what an [Index] works with.
type Config struct {
	Gates  quota.Gates
	Period time.Duration // after which sums are made anew; not positive: never
	// Arrivals is how long objects that have come are remembered.
	Arrivals time.Duration
	// by which charges end; nil: [time.Now]
	Now       func() time.Time
	Resources func(ctx context.Context, verbs ...string) ([]client.Mapping, error) // discovery
	Metadata  *metadata.Informers
	Feed      func(context.Context, schema.GroupVersionKind, schema.GroupVersionResource, listwatch.FeedHandler) error
}

// Index counts what quotas limit, and nothing else (RQ-51).
type Index struct {
	config  Config
	sums    *sums.Sums
	changes changes
	devices devices
	// lists are the live lists. A resource that could not be listed in time is asked for by one quota at a time, so
	// that it does not keep all workers from other quotas.
	lists circuit.Breaker[schema.GroupResource]
	wake  chan struct{} // some quota names a resource that was not wanted

	mu sync.Mutex
	// watched are the resources that some quota limits and that the server has.
	watched map[schema.GroupResource]*watch
	sought  map[schema.GroupResource]time.Time // since when what is wanted is neither watched nor missing
	missing map[schema.GroupResource]bool      // wanted and not found by the latest discovery that succeeded
	number  uint64                             // of the latest watch
	running sync.WaitGroup
}

// watch is that of one resource.
type watch struct {
	number  uint64 // no other watch has it
	mapping client.Mapping
	began   time.Time
	// listed says that all objects which there were are in the sums.
	listed bool
	stop   func() // waits until nothing more comes
}

// New returns an index that knows nothing yet.
func New(c Config) *Index {
	x := &Index{config: c, changes: changes{signal: make(chan struct{}, 1)}, wake: make(chan struct{}, 1)}
	x.lists.Pause, x.lists.Turn = LookAgain, ListWithin+LookAgain
	if c.Now == nil {
		x.config.Now = time.Now
	}
	x.sums = sums.New(x.changes.add, c.Arrivals)
	x.sums.Now = x.config.Now
	x.devices.gates, x.devices.sums = c.Gates, x.sums
	x.reset()
	return x
}

// reset forgets everything.
func (x *Index) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.watched, x.missing = map[schema.GroupResource]*watch{}, map[schema.GroupResource]bool{}
	x.sought = map[schema.GroupResource]time.Time{}
	x.devices.reset()
	x.sums.Reset()
	x.changes.take()
}

// Run follows the quotas of an informer and counts what they limit, until ctx ends. It enqueues the quotas that have
// other sums than before. When it ends, everything is forgotten.
func (x *Index) Run(ctx context.Context, quotas cache.SharedIndexInformer, enqueue func(plan.Key)) {
	x.reset()
	defer x.sums.Reset()
	registration, err := quotas.AddEventHandler(x.quotaHandler())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot follow quotas")
		return
	}
	if x.config.Period <= 0 {
		klog.FromContext(ctx).Info("The usage of quotas is not counted anew from time to time")
	}
	var all sync.WaitGroup
	all.Go(func() { x.changes.run(ctx, enqueue) })
	all.Go(func() {
		// All quotas that are there are known before the first watch begins, so that none of them has to be compared
		// live.
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			x.discover(ctx)
		}
	})
	all.Go(func() { x.tick(ctx) })
	all.Wait()
	_ = quotas.RemoveEventHandler(registration)
	x.Unwatch()
	x.running.Wait()
}

// Unwatch ends all watches, and forgets what they have shown. What quotas limit is watched anew after the next
// discovery.
func (x *Index) Unwatch() {
	x.end(x.leave(func(map[schema.GroupResource]bool, schema.GroupResource, *watch) bool { return false }))
}

// States reports what is known of the resources of a quota.
func (x *Index) States(l sums.Limits) map[schema.GroupResource]Status { return x.states(l.Resources) }

// states says of resources how far they are known.
func (x *Index) states(of map[schema.GroupResource]bool) map[schema.GroupResource]Status {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := map[schema.GroupResource]Status{}
	for resource := range of {
		now := Status{State: Listing}
		since, ok := x.sought[resource]
		if w := x.watched[resource]; w != nil {
			now.Watch, now.Mapping, now.Began = w.number, w.mapping, w.began
			since, ok = w.began, true
			if w.listed {
				now.State = Listed
			}
		}
		switch {
		case x.missing[resource]:
			now.State = Absent
		case now.State == Listing && ok && time.Since(since) >= ListWithin: // nor may discovery have succeeded (RQ-15)
			now.State = Failing
		}
		all[resource] = now
	}
	return all
}

// Count returns what the selected objects of the resources of a quota use, and what has arrived of them since. The
// sequence is that of the latest arrival in the sum.
func (x *Index) Count(namespace string, l sums.Limits, since uint64) (sum corev1.ResourceList, arrived []sums.Arrival,
	sequence uint64) {
	return x.sums.Count(namespace, l, since)
}

// Since returns since when the index knows what a quota limits; zero if it does not.
func (x *Index) Since(key plan.Key, l sums.Limits) time.Time { return x.sums.Since(key, l) }

// Unlisted names what is wanted and could not be listed in time.
func (x *Index) Unlisted() (all []string) {
	for of, now := range x.states(x.sums.Wanted()) {
		if now.State == Failing {
			all = append(all, of.String())
		}
	}
	slices.Sort(all)
	return all
}

// quotaHandler notes what quotas limit.
func (x *Index) quotaHandler() cache.ResourceEventHandler {
	note := func(o any) {
		if q, ok := o.(*corev1.ResourceQuota); ok {
			l, err := sums.LimitsOf(q, x.config.Gates)
			if err != nil {
				l.Resources = nil
			}
			x.sums.SetQuota(plan.KeyOf(q), &l)
			x.want(l.Resources)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: note,
		UpdateFunc: func(before, after any) {
			old, ok1 := before.(*corev1.ResourceQuota)
			new, ok2 := after.(*corev1.ResourceQuota)
			if !ok1 || !ok2 || old.UID != new.UID || !equality.Semantic.DeepEqual(old.Spec, new.Spec) {
				note(after)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if q, ok := o.(*corev1.ResourceQuota); ok {
				x.sums.SetQuota(plan.KeyOf(q), nil)
			}
		},
	}
}

// want has discovery run if a resource is not watched yet.
func (x *Index) want(resources map[schema.GroupResource]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	wake := false
	for of := range resources {
		if x.watched[of] == nil && !x.missing[of] {
			wake = true
			if _, ok := x.sought[of]; !ok {
				x.sought[of] = time.Now()
			}
		}
	}
	if wake {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
}

// tick ends charges by the clock, and counts anew from time to time.
func (x *Index) tick(ctx context.Context) {
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	last := time.Now()
	for {
		select {
		case <-seconds.C:
		case <-ctx.Done():
			return
		}
		for _, o := range x.sums.Tick(x.config.Now()) {
			if o.Of == quota.Pods() {
				x.devices.podExpired(podID{o.Namespace, o.UID})
			}
		}
		if x.config.Period > 0 && time.Since(last) >= x.config.Period {
			last = time.Now()
			for _, key := range x.sums.Recount() {
				x.changes.add(key)
			}
		}
	}
}
