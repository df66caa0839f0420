package persistentvolumebinder

import (
	"context"
	"errors"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Workers are how many claims, and how many volumes, are reconciled at the same time. Most of that is waiting for
// the API server.
const (
	claimWorkers  = 16
	volumeWorkers = 8
)

// New returns the controller.
func New(o Options) manager.Controller {
	return manager.Controller{
		Name:        "persistentvolume-binder-controller",
		Alias:       "persistentvolume-binder",
		Account:     "persistent-volume-binder",
		EventSource: "persistentvolume-controller",
		Flags:       &o,
		Rights:      Rights,
		Init:        o.init,
	}
}

func (o *Options) init(c manager.Context) (manager.Runner, error) {
	k, err := newCaches(c.Informers)
	if err != nil {
		return nil, err
	}
	k.brake, k.static = c.Brake, o.Static
	own := newCollectors(k)
	c.RegisterMetrics(own.all()...)
	return reconcile.Together(reconcile.New(c.Shared, c.Access,
		reconcile.Controller[claimSnapshot, claimDecision, claimMemory]{
			Name:      "claims", // of the queue
			Workers:   claimWorkers,
			Explained: []string{k.claims.Kind().Kind},
			Watches: []reconcile.Watch{
				k.claimTerm.Follow(k.claims.Watch(informers.Itself)),
				k.claimTerm.Follow(k.volumes.Watch(k.claimsByVolume)),
				k.claimTerm.Follow(k.classes.Watch(k.claimsByClass)),
				k.pods.Watch(k.claimsByPod),
				k.drivers.Watch(informers.None),
				k.nodes.Watch(informers.None),
			},
			Term:     k.claimTerm,
			Observe:  k.observeClaim,
			Prove:    k.proveClaim,
			Plan:     planClaim,
			Remember: rememberClaim,
			Live:     k.liveClaim,
			Applied: func(ctx context.Context, s claimSnapshot, d claimDecision, did, _ plan.Outcome) {
				own.claimApplied(ctx, s, d, did)
				k.claimApplied(s, d, did)
			},
		}), reconcile.New(c.Shared, c.Access, reconcile.Controller[volumeSnapshot, volumeDecision, volumeMemory]{
		Name:      "volumes", // of the queue
		Workers:   volumeWorkers,
		Explained: []string{k.volumes.Kind().Kind},
		Watches: []reconcile.Watch{
			own.countDeletions(k.volumeTerm.Follow(k.volumes.Watch(informers.Itself))),
			k.volumeTerm.Follow(k.claims.Watch(k.volumesByClaim, informers.WithNews)),
		},
		Term:     k.volumeTerm,
		Observe:  k.observeVolume,
		Prove:    proveVolume,
		Plan:     planVolume,
		Remember: rememberVolume,
		Brake:    c.Brake,
		Live:     k.liveVolume,
		Applied: func(ctx context.Context, s volumeSnapshot, d volumeDecision, did, _ plan.Outcome) {
			own.volumeApplied(ctx, s.Volume, d, did)
			k.volumeApplied(s.Volume, d, did)
		},
	})), nil
}

func newCaches(f *informers.Factory) (*caches, error) {
	k := &caches{}
	k.claimTerm, k.volumeTerm = k.newClaimTerm(), k.newVolumeTerm()
	var errs [6]error
	k.claims, errs[0] = newClaimCache(f)
	k.volumes, errs[1] = newVolumeCache(f)
	k.classes, errs[2] = informers.Objects[*storagev1.StorageClass](f, "provisioner", "volumeBindingMode",
		"metadata.annotations[storageclass.kubernetes.io/is-default-class]",
		"metadata.annotations[storageclass.beta.kubernetes.io/is-default-class]")
	k.pods, errs[3] = informers.PodsByClaim(f, informers.PodFields{Paths: []string{
		"status.phase", "spec.nodeName", "spec.volumes.name",
		"spec.volumes.volumeSource.persistentVolumeClaim.claimName",
		"spec.volumes.volumeSource.ephemeral.volumeClaimTemplate.metadata.name", // it is enough that there is one
	}})
	k.drivers, errs[4] = informers.Objects[*storagev1.CSIDriver](f, informers.MetadataOnly)
	k.nodes, errs[5] = informers.IndexedObjects(f, "binder-driver", func(n *storagev1.CSINode) (names []string) {
		for _, d := range n.Spec.Drivers {
			names = append(names, d.Name)
		}
		return names
	}, "spec.drivers.name")
	return k, errors.Join(errs[:]...)
}

// rememberClaim keeps what was said of a claim, if it was: what comes before it may have failed.
func rememberClaim(_ time.Time, s claimSnapshot, d claimDecision, _ *claimMemory, did, _ plan.Outcome) (m *claimMemory,
	ok bool) {
	if d.LastEvent != "" {
		m = &claimMemory{UID: s.Claim.UID, LastEvent: d.LastEvent}
	}
	return m, did.Err == nil
}

// rememberVolume keeps what was seen of the claim of a volume, and what was said of the volume, if it was.
func rememberVolume(_ time.Time, s volumeSnapshot, d volumeDecision, seen *volumeMemory, did,
	_ plan.Outcome) (*volumeMemory, bool) {
	if seen == nil {
		return nil, did.Err == nil
	}
	m := *seen
	if m.Held = d.Held; did.Err != nil {
		m.Held = seen.Held // so that its time does not begin anew
	}
	if m.LastEvent = d.LastEvent; did.Err != nil {
		m.LastEvent = s.Memory.LastEvent
	}
	if did.Err == nil && d.Release {
		m.Deleted = false // it has served
	}
	if !m.Deleted && m.Held.IsZero() && m.LastEvent == "" {
		return nil, true
	}
	return &m, true
}
