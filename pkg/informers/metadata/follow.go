package metadata

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// DiscoverFunc finds the resources that are wanted. If it could not find out about some groups, it returns those of
// the others and an error that [discovery.GroupDiscoveryFailedErrorGroups] takes apart. Any other error says that it
// could not find out about any group.
type DiscoverFunc func(context.Context) ([]schema.GroupVersionResource, error)

// errNothingDiscovered says that an API server seems to serve nothing.
var errNothingDiscovered = errors.New("no resources were discovered")

// Update asks once which resources are wanted, and wants them. What could not be discovered is never dropped:
// resources of groups that failed stay, in the version that they have. A discovery that finds nothing has failed
// (GC-10). The error says what has failed; the rest is wanted nevertheless.
func (s *Subscription) Update(ctx context.Context, discover DiscoverFunc) error {
	found, err := discover(ctx)
	if err == nil && len(found) == 0 {
		err = errNothingDiscovered
	}
	s.SetResources(ctx, stillWanted(s.Resources(), found, err))
	if err != nil {
		return fmt.Errorf("which resources to watch: %w", err)
	}
	return nil
}

// Follow keeps the subscription in step with discovery: it updates it at once, and again when the period has passed
// since the end of the last update. It returns when ctx ends, and leaves the watches as they are. What fails is
// logged when it begins, changes and ends. After each update, updated is called with its error, unless it is nil.
func (s *Subscription) Follow(ctx context.Context, discover DiscoverFunc, period time.Duration,
	updated func(context.Context, error)) {
	logger, before := klog.FromContext(ctx), ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		now, err := "", s.Update(ctx, discover)
		if updated != nil {
			defer updated(ctx, err)
		}
		if err != nil {
			now = err.Error()
		}
		if ctx.Err() != nil || now == before {
			return
		}
		if before = now; now == "" {
			logger.Info("Discovery is complete again")
			return
		}
		logger.Info("Discovery is incomplete, keeps the watches of what has failed", "err", now)
	}, period)
}

// stillWanted returns what has been found, and what has not but may be there. While a group is known in part, none of
// its resources changes its version: it would be watched in two.
func stillWanted(current, found []schema.GroupVersionResource, err error) []schema.GroupVersionResource {
	if err == nil {
		return found
	}
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	unknown := sets.New[string]() // groups
	for version := range failed {
		unknown.Insert(version.Group)
	}
	var all []schema.GroupVersionResource
	kept := sets.New[schema.GroupResource]()
	for _, resource := range current {
		if !partial || unknown.Has(resource.Group) {
			all = append(all, resource)
			kept.Insert(resource.GroupResource())
		}
	}
	for _, resource := range found {
		if !kept.Has(resource.GroupResource()) {
			all = append(all, resource)
		}
	}
	return all
}
