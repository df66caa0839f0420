package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"context"
	"fmt"

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
}

type observation = reconcile.Observation[snapshot, endpoints.Times]

// observe finds the service, its pods and its Endpoints.
func (k *caches) observe(ctx context.Context, r reconcile.Request[endpoints.Times]) (observation, error) {
	s := snapshot{
		Key: r.Key, Service: k.services.Get(r.Key.Namespace, r.Key.Name), Endpoints: k.endpoints.Get(r.Key.Namespace, r.Key.Name),
	}
	switch {
	case s.Service == nil && s.Endpoints == nil:
		return observation{}, nil
	case s.Service == nil: // nothing is remembered of a service that is gone (EP-31)
		return observation{Exists: true, Snapshot: s}, checkGone(ctx, r.Reader, r.Key)
	case s.Service.Spec.Selector == nil || s.Service.Spec.Type == corev1.ServiceTypeExternalName:
		return observation{Exists: true, Snapshot: s, Memory: r.Memory}, nil
	}
	s.Pods = k.pods.Selected(r.Key.Namespace, s.Service.Spec.Selector)
	m := endpoints.TimesOf(s.Service, s.Pods)
	s.Trigger = endpoints.EarliestChange(r.Memory, m)
	return observation{Exists: true, Snapshot: s, Memory: m}, nil
}

// checkGone asks the server whether a service that the cache lacks is gone, before its Endpoints are taken for left over: the
// caches of services and of Endpoints may differ in age, and the Endpoints of a living service must not vanish for that. If
// the role does not let us ask (RB-12), the cache decides.
func checkGone(ctx context.Context, reader client.Reader, key plan.Key) error {
	services := client.MappingFor[*corev1.Service]()
	err := reader.Get(ctx, services, key, &metav1.PartialObjectMetadata{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("is there a service %s: %w", key, err)
	}
	return fmt.Errorf("%w: the cache lacks the service", plan.ErrStale)
}
