package manager

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
)

// metadataStalled is how long a watch of metadata may be silent: an aggregated API server may send no bookmarks.
const metadataStalled = 15 * time.Minute

// caches are those of one process, for health checks and metrics. The zero value has none.
type caches struct {
	Liveness *listwatch.Liveness // of the watches of objects
	Metadata *metadata.Informers // nil for none
	started  atomic.Pointer[[]informers.CacheStatus]
}

// SetStarted notes the caches of a factory that has been started.
func (c *caches) SetStarted(f *informers.Factory) {
	all := informers.CacheStatuses(f)
	c.started.Store(&all)
}

// Started reports whether SetStarted was called.
func (c *caches) Started() bool { return c.started.Load() != nil }

// Live returns the checks of what a restart of the process heals: a watch that has died unnoticed, as nothing has
// come for longer than the bound. A cache that has not been filled yet passes.
func (c *caches) Live(bound time.Duration) (checks []Check) {
	for _, one := range c.served() {
		checks = append(checks, Check{Name: "watch-" + one.Name, Err: func() error {
			if !one.Informer.HasSynced() {
				return nil
			}
			return c.Liveness.Of(one.Name).Stalled(bound)
		}})
	}
	for _, state := range c.metadataOnly() {
		checks = append(checks, Check{Name: "watch-" + state.Resource.GroupResource().String(), Err: func() error {
			return state.Stalled(max(bound, metadataStalled))
		}})
	}
	return checks
}

// Ready returns the checks of whether the caches of objects are filled and follow the API server: that it refuses
// nothing lastingly, and has sent something within the bound.
func (c *caches) Ready(bound time.Duration) (checks []Check) {
	for _, one := range c.served() {
		checks = append(checks,
			Check{Name: "cache-" + one.Name, Err: func() error {
				if !one.Informer.HasSynced() {
					return errors.New("the cache has not been filled yet")
				}
				return nil
			}},
			Check{Name: "watch-" + one.Name, Err: func() error {
				return cmp.Or(c.Liveness.Of(one.Name).Refused(), c.Liveness.Of(one.Name).Stale(bound))
			}})
	}
	return checks
}

// States reports how the caches do.
func (c *caches) States() (all []CacheState) {
	for _, one := range c.served() {
		all = append(all, CacheState{
			Resource: one.Name, LastActivity: c.Liveness.Of(one.Name).LastActivity(),
			Count: func() int { return len(one.Informer.GetStore().ListKeys()) },
		})
	}
	for _, s := range c.metadataOnly() {
		all = append(all, CacheState{
			Resource: s.Resource.GroupResource().String(), LastActivity: s.LastActivity,
			Count: func() int { return s.Objects },
		})
	}
	return all
}

// served lists the caches whose APIs are served; none before they are started.
func (c *caches) served() []informers.CacheStatus {
	if all := c.started.Load(); all != nil {
		return slices.DeleteFunc(slices.Clone(*all), informers.CacheStatus.Missing)
	}
	return nil
}

// metadataOnly are the states of the resources of which nothing but metadata is cached.
func (c *caches) metadataOnly() []metadata.State {
	if c.Metadata == nil {
		return nil
	}
	return slices.DeleteFunc(c.Metadata.States(), func(s metadata.State) bool {
		return slices.ContainsFunc(c.served(), func(one informers.CacheStatus) bool {
			return one.Name == s.Resource.GroupResource().String()
		})
	})
}
