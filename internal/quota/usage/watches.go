package usage

import (
	"context"
	"maps"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/sums"
	"github.com/standalone-kcm/controller-manager/pkg/client"
)

const (
	discoverEvery = 30 * time.Second
	// discoverAgain is after how long a resource is looked for again that a new quota names and that was not found.
	discoverAgain = 10 * time.Second
)

// discover begins to watch what quotas name, and ends what none of them names any more.
func (x *Index) discover(ctx context.Context) {
	failure, next := "", discoverAgain
	for ctx.Err() == nil {
		err := x.update(ctx)
		if now := errorText(err); now != failure && ctx.Err() == nil {
			if failure = now; failure == "" {
				klog.FromContext(ctx).Info("Discovery of the resources that quotas name is complete again")
			} else {
				klog.FromContext(ctx).Info("Discovery of the resources that quotas name failed, will retry", "err",
					failure)
			}
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
			next = discoverEvery
		case <-x.wake:
			next = discoverAgain
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// errorText is the text of an error, empty for none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// update compares what is wanted with what is there. Discovery takes its time, so that what is wanted is read again
// after it.
func (x *Index) update(ctx context.Context) error {
	found, unknown, err := x.find(ctx, x.sums.Wanted())
	x.end(x.leave(func(wanted map[schema.GroupResource]bool, of schema.GroupResource, w *watch) bool {
		m, ok := found[of]
		// While a group is known in part, none of its resources changes its version.
		return wanted[of] && (ok && m == w.mapping || unknown(of.Group))
	}))
	x.mu.Lock()
	before, sought := x.missing, x.sought
	x.missing, x.sought = map[schema.GroupResource]bool{}, map[schema.GroupResource]time.Time{}
	for of := range x.sums.Wanted() {
		m, ok := found[of]
		switch {
		case x.watched[of] != nil:
		case ok:
			x.watched[of] = x.start(ctx, of, m)
		case !unknown(of.Group) || before[of]:
			x.missing[of] = true
		default:
			if x.sought[of] = sought[of]; x.sought[of].IsZero() {
				x.sought[of] = time.Now()
			}
		}
	}
	missing := maps.Clone(x.missing)
	x.mu.Unlock()
	for of := range missing {
		if !before[of] {
			x.enqueue(of)
		}
	}
	return err
}

// enqueue has the quotas looked at that limit a resource.
func (x *Index) enqueue(of schema.GroupResource) {
	for _, key := range x.sums.Limiting(of) {
		x.changes.add(key)
	}
}

// leave takes out the sources that are not to stay, by what is wanted. What is wanted from then on and not watched
// wakes discovery.
func (x *Index) leave(
	stays func(wanted map[schema.GroupResource]bool, of schema.GroupResource,
		w *watch) bool) map[schema.GroupResource]*watch {
	x.mu.Lock()
	defer x.mu.Unlock()
	wanted := x.sums.Wanted()
	left := map[schema.GroupResource]*watch{}
	for of, w := range x.watched {
		if !stays(wanted, of, w) {
			left[of] = w
			delete(x.watched, of)
		}
	}
	return left
}

// end ends what was taken out, and forgets what it has shown. It is called without the lock, for which handlers may
// wait.
func (x *Index) end(left map[schema.GroupResource]*watch) {
	for of, w := range left {
		w.stop()
		x.devices.forget(of)
		x.sums.Retain(of, nil)
	}
}

// find returns the resources that the server has, at least those of them that are wanted. Unknown reports of a group
// whether the server could not show which resources it has.
func (x *Index) find(ctx context.Context,
	wanted map[schema.GroupResource]bool) (found map[schema.GroupResource]client.Mapping,
	unknown func(group string) bool, err error) {
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
	all, err := x.config.Resources(ctx, "create", "list", "watch", "delete")
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	unknown = func(group string) bool {
		if err != nil && !partial {
			return true
		}
		for version := range failed {
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
var never = map[schema.GroupResource]bool{{Resource: "events"}: true,
	{Group: "events.k8s.io", Resource: "events"}: true, {Resource: "bindings"}: true}

// start watches a resource. It is called under the lock.
func (x *Index) start(ctx context.Context, of schema.GroupResource, m client.Mapping) *watch {
	x.number++
	w := &watch{number: x.number, mapping: m, began: time.Now()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	complete := func() {
		x.mu.Lock()
		w.listed = true
		x.mu.Unlock()
		x.enqueue(of)
	}
	if t, ok := typed()[of]; ok {
		w.stop = x.startTyped(ctx, cancel, of, t.kind, complete)
		return w
	}
	counter := &metadataCounter{sums: x.sums, of: of}
	sub := x.config.Metadata.Subscribe(counter)
	counter.synced = sub.Synced
	resource := m.GroupVersionResource()
	x.running.Go(func() {
		sub.SetResources(ctx, []schema.GroupVersionResource{resource})
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
	sums   *sums.Sums
	of     schema.GroupResource
	synced func(schema.GroupVersionResource) bool
}

// OnUpdate implements metadata.Handler.
func (c *metadataCounter) OnUpdate(resource schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	c.sums.Put(c.of, o, quota.Object(c.of), !c.synced(resource))
}

// OnDelete implements metadata.Handler.
func (c *metadataCounter) OnDelete(_ schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	c.sums.Remove(c.of, o.Namespace, o.UID)
}
