package caches

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

// Caches are those of one process. The zero value has none.
type Caches struct {
	Liveness *listwatch.Liveness // of the watches of objects
	Metadata *metadata.Informers // nil for none
	started  atomic.Pointer[[]informers.Started]
}

// Check is one question about a cache.
type Check struct {
	Name string
	Err  func() error // nil, or what is wrong
}

// State is how a cache does at one moment.
type State struct {
	Resource     string     // with its group, and what is selected of it, if not all
	Count        func() int // of its objects; the cost grows with them
	LastActivity time.Time  // when the API server last answered or sent something; zero if it never has
}

// SetStarted notes the caches of a factory that has been started.
func (c *Caches) SetStarted(f *informers.Factory) {
	all := informers.AllStarted(f)
	c.started.Store(&all)
}

// Started reports whether SetStarted was called.
func (c *Caches) Started() bool { return c.started.Load() != nil }

// Live returns the checks of what a restart of the process heals: a watch that has died unnoticed, as nothing has come for longer than the
// bound. A cache that has not been filled yet passes.
func (c *Caches) Live(bound time.Duration) (checks []Check) {
	for _, one := range c.served() {
		checks = append(checks, Check{"watch-" + one.Name, func() error {
			if !one.Informer.HasSynced() {
				return nil
			}
			return c.Liveness.Of(one.Name).Stalled(bound)
		}})
	}
	for _, state := range c.metadataOnly() {
		checks = append(checks, Check{"watch-" + state.Resource.GroupResource().String(), func() error {
			return state.Stalled(max(bound, metadataStalled))
		}})
	}
	return checks
}

// Ready returns the checks of whether the caches of objects are filled and follow the API server: that it refuses nothing lastingly, and has
// sent something within the bound.
func (c *Caches) Ready(bound time.Duration) (checks []Check) {
	for _, one := range c.served() {
		checks = append(checks,
			Check{"cache-" + one.Name, func() error {
				if !one.Informer.HasSynced() {
					return errors.New("the cache has not been filled yet")
				}
				return nil
			}},
			Check{"watch-" + one.Name, func() error {
				return cmp.Or(c.Liveness.Of(one.Name).Refused(), c.Liveness.Of(one.Name).Stale(bound))
			}})
	}
	return checks
}

// States tells how the caches do.
func (c *Caches) States() (all []State) {
	for _, one := range c.served() {
		all = append(all, State{
			Resource: one.Name, LastActivity: c.Liveness.Of(one.Name).LastActivity(),
			Count: func() int { return len(one.Informer.GetStore().ListKeys()) },
		})
	}
	for _, s := range c.metadataOnly() {
		all = append(all, State{
			Resource: s.Resource.GroupResource().String(), LastActivity: s.LastActivity, Count: func() int { return s.Objects },
		})
	}
	return all
}

// served lists the caches whose APIs are served; none before they are started.
func (c *Caches) served() []informers.Started {
	if all := c.started.Load(); all != nil {
		return slices.DeleteFunc(slices.Clone(*all), informers.Started.Missing)
	}
	return nil
}

// metadataOnly are the states of the resources of which nothing but metadata is cached.
func (c *Caches) metadataOnly() []metadata.State {
	if c.Metadata == nil {
		return nil
	}
	return slices.DeleteFunc(c.Metadata.States(), func(s metadata.State) bool {
		return slices.ContainsFunc(c.served(), func(one informers.Started) bool {
			return one.Name == s.Resource.GroupResource().String()
		})
	})
}
