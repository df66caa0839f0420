package ephemeralvolume

import (
	"cmp"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the ephemeral-volume controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:        "ephemeral-volume-controller",
		Alias:       "ephemeral-volume",
		Account:     "ephemeral-volume-controller",
		EventSource: "ephemeral_volume",
		Flags:       &o,
		Rights:      Rights,
		Init:        o.init,
	}
}

// init asks for the caches and says how the controller works. Pods have an index by the claims that they use,
// which a change of a claim is looked up in.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	pods, err1 := informers.PodsByClaim(c.Informers, informers.PodFields{Paths: []string{
		"status.phase", "spec.volumes.name", "spec.volumes.volumeSource.ephemeral.volumeClaimTemplate",
		"spec.volumes.volumeSource.persistentVolumeClaim.claimName", // of which the index by claim is made
	}})
	claims, err2 := informers.Objects[*corev1.PersistentVolumeClaim](c.Informers, informers.MetadataOnly)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{pods: pods, claims: claims}
	own := newCollectors()
	c.RegisterMetrics(own.all()...)
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, decision, memory]{
		Name:      "ephemeral_volume", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{pods.Kind().Kind},
		Watches:   []reconcile.Watch{pods.Watch(enqueuedByPod), claims.Watch(k.enqueuedByClaim)},
		Observe:   k.observe,
		Owner:     func(s snapshot) plan.Object { return s.Pod },
		Subject:   func(s snapshot) types.UID { return s.Pod.UID },
		Live:      live,
		Plan:      planClaims,
		Remember:  reconcile.RememberOutcome(remember),
		Applied:   own.applied,
	}), nil
}
