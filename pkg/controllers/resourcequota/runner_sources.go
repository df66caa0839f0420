package resourcequota

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/policy/quota"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	discoverEvery = 30 * time.Second // RQ-11
	// discoverAgain is after how long a resource is looked for again that a new quota names and that was not found.
	discoverAgain = 10 * time.Second
	// listWithin is how long quotas wait for the list of a resource. Then the rest of them is counted without it (RQ-49).
	listWithin = 10 * time.Second
)

// sourceState tells what is known of a resource.
type sourceState int

const (
	absent   sourceState = iota // there is no such resource, or it cannot be counted
	listing                     // its objects are being listed
	listed                      // its objects are known
	failing                     // it cannot be listed
	verified                    // its objects are known, and were compared with the server
	late                        // its watch lacks objects that the server has
)

// sources watch what quotas name, and nothing else (RQ-51).
type sources struct {
	gates     quota.Gates
	period    time.Duration // of the recount
	counters  *usageCounters
	dirty     dirty
	devices   devices
	resources func(ctx context.Context, verbs ...string) ([]client.Mapping, error)
	metadata  *informers.MetadataInformers
	feed      func(context.Context, schema.GroupVersionKind, schema.GroupVersionResource, informers.FeedHandler) error
	wake      chan struct{} // some quota names a resource that was not wanted

	mu      sync.Mutex // taken before the lock of the counters
	watched map[schema.GroupResource]*source
	sought  map[schema.GroupResource]time.Time // since when what is wanted is neither watched nor missing
	missing map[schema.GroupResource]bool      // wanted and not found by the latest discovery that could tell
	number  uint64                             // of the latest source
	running sync.WaitGroup
}

// source watches one resource.
type source struct {
	number  uint64 // no other source has it
	mapping client.Mapping
	began   time.Time
	joined  bool // the watch was there before, for others
	listed  bool
	stop    func() // waits until nothing more comes
}

// status is what is known of a resource, and from which source.
type status struct {
	sourceState
	number  uint64 // 0 if there is no source
	mapping client.Mapping
	began   time.Time
	joined  bool
}

func newSources(g quota.Gates, period time.Duration) *sources {
	s := &sources{gates: g, period: period, wake: make(chan struct{}, 1)}
	s.dirty.signal = make(chan struct{}, 1)
	s.forget()
	return s
}

func (s *sources) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched, s.missing = map[schema.GroupResource]*source{}, map[schema.GroupResource]bool{}
	s.sought = map[schema.GroupResource]time.Time{}
	s.devices.reset()
	s.dirty.take()
}

// states tells what is known of resources.
func (s *sources) states(of map[schema.GroupResource]bool) map[schema.GroupResource]status {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[schema.GroupResource]status{}
	for resource := range of {
		now := status{sourceState: listing}
		since, ok := s.sought[resource]
		if w := s.watched[resource]; w != nil {
			now.number, now.mapping, now.began, now.joined = w.number, w.mapping, w.began, w.joined
			since, ok = w.began, true
			if w.listed {
				now.sourceState = listed
			}
		}
		switch {
		case s.missing[resource]:
			now.sourceState = absent
		case now.sourceState == listing && ok && time.Since(since) >= listWithin: // nor may discovery be able to tell (RQ-15)
			now.sourceState = failing
		}
		all[resource] = now
	}
	return all
}

// unlisted names what is wanted and could not be listed in time.
func (s *sources) unlisted() (all []string) {
	for of, state := range s.states(s.counters.wanted()) {
		if state.sourceState == failing {
			all = append(all, of.String())
		}
	}
	slices.Sort(all)
	return all
}

// verifier notes which live lists fail. They are tried again.
type verifier struct{ client.Reader }

// List implements client.Reader.
func (v verifier) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions, into runtime.Object) error {
	err := v.Reader.List(ctx, m, namespace, o, into)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot list what a quota limits", "resource", m.GroupResource().String(), "namespace", namespace, "err", err.Error())
	}
	return err
}

// run watches until ctx ends.
func (s *sources) run(ctx context.Context, k *caches, enqueue func(plan.Key)) {
	s.forget()
	registration, err := k.quotas.Informer().AddEventHandler(k.quotaHandler())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot follow quotas")
		return
	}
	if s.period <= 0 {
		klog.FromContext(ctx).Info("The usage of quotas is not counted anew from time to time") // RQ-2
	}
	var all sync.WaitGroup
	all.Go(func() { s.dirty.run(ctx, enqueue) })
	all.Go(func() {
		// All quotas that are there are known before the first watch begins, so that none of them has to be compared live.
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			s.discover(ctx)
		}
	})
	all.Go(func() { s.tick(ctx) })
	all.Wait()
	_ = k.quotas.Informer().RemoveEventHandler(registration)
	s.end(s.leave(func(map[schema.GroupResource]bool, schema.GroupResource, *source) bool { return false }))
	s.running.Wait()
}

// quotaHandler notes what quotas limit.
func (k *caches) quotaHandler() cache.ResourceEventHandler {
	note := func(o any) {
		if q, ok := o.(*corev1.ResourceQuota); ok {
			c, err := quotaSpecOf(q, k.gates)
			if err != nil {
				c.names = nil
			}
			k.counters.setQuota(plan.KeyOf(q), &c)
			k.sources.want(c.names)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: note,
		UpdateFunc: func(before, after any) {
			old, ok1 := before.(*corev1.ResourceQuota)
			new, ok2 := after.(*corev1.ResourceQuota)
			if !ok1 || !ok2 || old.UID != new.UID || !sameSpec(old, new) {
				note(after)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if q, ok := o.(*corev1.ResourceQuota); ok {
				k.counters.setQuota(plan.KeyOf(q), nil)
			}
		},
	}
}

// want has discovery run if a resource is not watched yet.
func (s *sources) want(resources map[schema.GroupResource]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wake := false
	for of := range resources {
		if s.watched[of] == nil && !s.missing[of] {
			wake = true
			if _, ok := s.sought[of]; !ok {
				s.sought[of] = time.Now()
			}
		}
	}
	if wake {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// tick ends charges by the clock, and counts anew from time to time.
func (s *sources) tick(ctx context.Context) {
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	last := time.Now()
	for {
		select {
		case <-seconds.C:
		case <-ctx.Done():
			return
		}
		for _, pod := range s.counters.tick(time.Now()) {
			s.devices.podExpired(pod, s)
		}
		if s.period > 0 && time.Since(last) >= s.period { // RQ-7
			last = time.Now()
			for _, key := range s.counters.recount() {
				s.dirty.add(key)
			}
		}
	}
}

// discover begins to watch what quotas name, and ends what none of them names any more.
func (s *sources) discover(ctx context.Context) {
	failure, next := "", discoverAgain
	for ctx.Err() == nil {
		err := s.update(ctx)
		if now := errorText(err); now != failure && ctx.Err() == nil {
			failure = now
			if failure == "" {
				klog.FromContext(ctx).Info("Discovery of the resources that quotas name is complete again")
			} else {
				klog.FromContext(ctx).Info("Discovery of the resources that quotas name failed, will retry", "err", failure)
			}
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
			next = discoverEvery
		case <-s.wake:
			next = discoverAgain
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// update compares what is wanted with what is there. Discovery takes its time, so that what is wanted is read again after it.
func (s *sources) update(ctx context.Context) error {
	found, unknown, err := s.find(ctx, s.counters.wanted())
	s.end(s.leave(func(wanted map[schema.GroupResource]bool, of schema.GroupResource, w *source) bool {
		m, ok := found[of]
		// While a group is known in part, none of its resources changes its version.
		return wanted[of] && (ok && m == w.mapping || unknown(of.Group))
	}))
	s.mu.Lock()
	before, sought := s.missing, s.sought
	s.missing, s.sought = map[schema.GroupResource]bool{}, map[schema.GroupResource]time.Time{}
	for of := range s.counters.wanted() {
		m, ok := found[of]
		switch {
		case s.watched[of] != nil:
		case ok:
			s.watched[of] = s.start(ctx, of, m)
		case !unknown(of.Group) || before[of]:
			s.missing[of] = true
		default:
			if s.sought[of] = sought[of]; s.sought[of].IsZero() {
				s.sought[of] = time.Now()
			}
		}
	}
	missing := maps.Clone(s.missing)
	s.mu.Unlock()
	for of := range missing {
		if !before[of] {
			s.enqueue(of)
		}
	}
	return err
}

// enqueue has the quotas looked at that limit a resource.
func (s *sources) enqueue(of schema.GroupResource) {
	for _, key := range s.counters.limiting(of) {
		s.dirty.add(key)
	}
}

// leave takes out the sources that are not to stay, by what is wanted. What is wanted from then on and not watched wakes discovery.
func (s *sources) leave(stays func(wanted map[schema.GroupResource]bool, of schema.GroupResource, w *source) bool) map[schema.GroupResource]*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := s.counters.wanted()
	left := map[schema.GroupResource]*source{}
	for of, w := range s.watched {
		if !stays(wanted, of, w) {
			left[of] = w
			delete(s.watched, of)
		}
	}
	return left
}

// end ends what was taken out, and forgets what it has shown. It is called without the lock, for which handlers may wait.
func (s *sources) end(left map[schema.GroupResource]*source) {
	for of, w := range left {
		w.stop()
		s.devices.end(of)
		s.counters.retain(of, nil)
	}
}

// find returns what the server has of resources, at least of the wanted ones, and of which groups it does not know that.
func (s *sources) find(ctx context.Context, wanted map[schema.GroupResource]bool) (found map[schema.GroupResource]client.Mapping, unknown func(group string) bool, err error) {
	found = map[schema.GroupResource]client.Mapping{}
	for of, t := range typed() {
		if t.builtIn {
			found[of], _ = client.BuiltIn(t.kind)
		}
	}
	asks := false
	for of := range wanted {
		_, known := found[of]
		asks = asks || !known
	}
	if !asks {
		return found, func(string) bool { return true }, nil // nobody was asked
	}
	all, err := s.resources(ctx, "create", "list", "watch", "delete") // RQ-11
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	unknown = func(group string) bool {
		if err != nil && !partial {
			return true
		}
		for version := range failed { // RQ-15
			if version.Group == group {
				return true
			}
		}
		return false
	}
	for _, m := range all {
		of := m.GroupResource()
		if t, ok := typed()[of]; ok && t.kind != m.GroupVersionKind || !m.Namespaced || never[of] {
			continue
		}
		found[of] = m
	}
	return found, unknown, err
}

// never are the resources whose objects are not counted (RQ-12).
var never = map[schema.GroupResource]bool{{Resource: "events"}: true, {Group: "events.k8s.io", Resource: "events"}: true, {Resource: "bindings"}: true}

// start watches a resource. It is called under the lock.
func (s *sources) start(ctx context.Context, of schema.GroupResource, m client.Mapping) *source {
	s.number++
	w := &source{number: s.number, mapping: m, began: time.Now()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	complete := func() {
		s.mu.Lock()
		w.listed = true
		s.mu.Unlock()
		s.enqueue(of)
	}
	if t, ok := typed()[of]; ok {
		w.stop = s.startTyped(ctx, cancel, of, t.kind, complete)
		return w
	}
	counter := &metadataCounter{counters: s.counters, of: of}
	sub := s.metadata.Subscribe(informers.MetadataOptions{Handler: counter})
	counter.synced = sub.Synced
	resource := m.GroupVersionResource()
	s.running.Go(func() {
		sub.SetResources(ctx, []schema.GroupVersionResource{resource})
		if sub.Synced(resource) {
			s.mu.Lock()
			w.joined = true
			s.mu.Unlock()
		}
		if len(sub.WaitForSync(ctx, math.MaxInt64, resource)) == 0 { // or it was ended
			complete()
		}
	})
	w.stop = func() {
		cancel()
		sub.Close()
	}
	return w
}

// metadataCounter counts the objects of a resource.
type metadataCounter struct {
	counters *usageCounters
	of       schema.GroupResource
	synced   func(schema.GroupVersionResource) bool
}

// OnUpdate implements informers.MetadataHandler.
func (c *metadataCounter) OnUpdate(resource schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	c.counters.put(c.of, identityOf(o), quota.Object(c.of), !c.synced(resource))
}

// OnDelete implements informers.MetadataHandler.
func (c *metadataCounter) OnDelete(_ schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	c.counters.remove(c.of, o.Namespace, o.UID)
}
