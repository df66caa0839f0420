package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated; this controller serves those who still write them

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	endpoints informers.Store[*corev1.Endpoints]
	services  informers.ServiceCache
	slices    informers.EndpointSliceCache
	most      int // addresses of a subset that are mirrored
}

// memory is the version of the mirrored Endpoints at the last reconcile. It is compared in Observe, so that
// events about what is not mirrored come once for each change.
type memory struct {
	Version string // their resourceVersion
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe finds the Endpoints, the service and the slices of a name (ESM-8).
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (observation, error) {
	s := snapshot{
		Key: r.Key, Endpoints: k.endpoints.Get(r.Key.Namespace, r.Key.Name),
		Service: k.services.Get(r.Key.Namespace, r.Key.Name),
		Slices:  k.slices.Of(r.Key.Namespace, r.Key.Name), Max: k.most, Began: r.Now,
	}
	o := observation{Exists: s.Endpoints != nil || len(mineOf(s)) > 0}
	if unwanted(s) == "" {
		o.Memory = &memory{Version: s.Endpoints.ResourceVersion}
		s.Changed = r.Memory == nil || *r.Memory != *o.Memory
	}
	o.Snapshot = s
	return o, nil
}

// enqueuedByEndpoints returns the key of Endpoints that are, or were, mirrorable (ESM-5), unless the service has a
// selector: then another controller writes them, and nothing is mirrored (ESM-28).
func (k *caches) enqueuedByEndpoints(before, after plan.Object) []plan.Key {
	if (before == nil || !mirrorable(before)) && (after == nil || !mirrorable(after)) {
		return nil
	}
	key := informers.Itself(before, after)[0]
	if s := k.services.Get(key.Namespace, key.Name); after != nil && s != nil && s.Spec.Selector != nil {
		return nil
	}
	return []plan.Key{key}
}

// hasEndpoints reports whether Endpoints of a key exist that are mirrored.
func (k *caches) hasEndpoints(key plan.Key) bool {
	s := snapshot{Endpoints: k.endpoints.Get(key.Namespace, key.Name), Service: k.services.Get(key.Namespace, key.Name)}
	return unwanted(s) == ""
}
