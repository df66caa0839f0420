package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	services  informers.ServiceCache
	endpoints informers.Store[*corev1.Endpoints]
	pods      informers.LabeledPodCache
	large     int // pods from which on it is remembered of a service what was found of them
}

// largeService is how many pods a service has at least of which it is remembered what was found of them. For fewer it
// is no less work to look at all.
const largeService = 200

// memory is what is remembered of a service: which changes of pods a write has shown, and what was found of
// the pods. The first is for the trigger time, the second saves work. The functions remember and observe make
// and read it.
type memory struct {
	// Times are when the service was created and the readiness of its pods has last changed, as writes have
	// shown.
	Times   *endpoints.Times
	Service string // the uid and version of the service when its pods were found
	Found   found  // nil: all pods must be looked at
	// the Times before, which still hold if the write fails; nil for none, and in what was committed
	Untold *endpoints.Times
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe finds the service, its pods and its Endpoints.
func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (observation, error) {
	s := snapshot{
		Key: r.Key, Service: k.services.Get(r.Key.Namespace, r.Key.Name),
		Endpoints: k.endpoints.Get(r.Key.Namespace, r.Key.Name),
	}
	switch {
	case s.Service == nil && s.Endpoints == nil:
		return observation{}, nil
	case s.Service == nil: // nothing is remembered of a service that is gone (EP-31)
		return observation{Exists: true, Snapshot: s}, checkGone(ctx, r.Reader, r.Key)
	case s.Service.Spec.Selector == nil || s.Service.Spec.Type == corev1.ServiceTypeExternalName:
		return observation{Exists: true, Snapshot: s, Memory: r.Memory}, nil
	}
	before := r.Memory
	if before == nil {
		before = &memory{}
	}
	n := endpoints.NewsOf(r.Changes, r.Missed)
	few := n.Few && before.Found != nil && before.Service == endpoints.VersionOf(s.Service)
	if few {
		s.Pods = k.pods.SelectedAmong(r.Key.Namespace, s.Service.Spec.Selector, maps.Keys(n.Names))
		s.Others = before.Found.without(n.Names)
	} else {
		s.Pods = k.pods.Selected(r.Key.Namespace, s.Service.Spec.Selector)
	}
	times := endpoints.TimesOf(s.Service, s.Pods)
	s.Trigger = endpoints.EarliestChange(before.Times, times)
	if few {
		times = before.Times.With(times, n.UIDs)
	}
	return observation{Exists: true, Snapshot: s, Memory: &memory{Times: times, Untold: before.Times}}, nil
}

// remember remembers the times that a write has reported, and what was found of the pods of a large service. After a
// failure all pods are looked at: to keep the changes until a write succeeds would take ever more memory while none
// does.
func (k *caches) remember(_ time.Time, s snapshot, pods found, seen *memory, did, _ plan.Outcome) (*memory, bool) {
	switch {
	case seen == nil, did.Err != nil && seen.Untold == nil:
		return nil, true
	case did.Err != nil:
		return &memory{Times: seen.Untold}, true
	}
	after := &memory{Times: seen.Times}
	if len(pods) >= k.large {
		after.Service, after.Found = endpoints.VersionOf(s.Service), pods
	}
	return after, true
}

// checkGone asks the server whether a service that the cache lacks is gone, before its Endpoints are taken for left
// over: the caches of services and of Endpoints may differ in age, and the Endpoints of a living service must not
// vanish for that. If the role does not let us ask (RB-12), the cache decides.
func checkGone(ctx context.Context, reader client.Reader, key plan.Key) error {
	services := client.MappingFor[*corev1.Service]()
	err := reader.Get(ctx, services, key, &metav1.PartialObjectMetadata{})
	switch {
	case client.IsAbsent(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("is there a service %s: %w", key, err)
	}
	return fmt.Errorf("%w: the cache lacks the service", plan.ErrStale)
}
