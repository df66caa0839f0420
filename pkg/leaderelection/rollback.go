package leaderelection

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// OnRollback sets the handler that is called when the lease is found in an earlier version than this process has seen:
// the storage of the API server was restored from a backup, or it reads from a replica that lacks the latest writes. It
// must be called before [Elector.Run].
func (e *Elector) OnRollback(f func(error)) { e.rolledBack = f }

// leases are those of the API server, as the elector sees them.
type leases struct{ elector *Elector }

// Leases implements coordinationv1client.LeasesGetter.
func (l leases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return leaseVersions{l.elector.leases.Leases(namespace), l.elector}
}

// leaseVersions notes the version and the metadata of the lease in each answer, and annotates what is written.
type leaseVersions struct {
	coordinationv1client.LeaseInterface
	elector *Elector
}

// Get implements coordinationv1client.LeaseInterface.
func (l leaseVersions) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	return l.elector.noted(l.LeaseInterface.Get(ctx, name, o))
}

// Create implements coordinationv1client.LeaseInterface.
func (l leaseVersions) Create(ctx context.Context, lease *coordinationv1.Lease,
	o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.elector.noted(l.LeaseInterface.Create(ctx, l.elector.annotated(l.elector.madeAnew(lease)), o))
}

// Update implements coordinationv1client.LeaseInterface.
func (l leaseVersions) Update(ctx context.Context, lease *coordinationv1.Lease,
	o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l.elector.noted(l.LeaseInterface.Update(ctx, l.elector.annotated(lease), o))
}

// noted notes the version and the metadata of the lease in an answer. The requests of an elector follow one another,
// and each is answered with the latest version, so it never goes back by itself.
func (e *Elector) noted(lease *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return lease, err
	}
	e.mu.Lock()
	before := e.version
	order, incomparable := resourceversion.CompareResourceVersion(lease.ResourceVersion, before)
	if incomparable != nil || order > 0 {
		e.version = lease.ResourceVersion
	}
	lease.ObjectMeta.DeepCopyInto(&e.metadata)
	e.metadata.ManagedFields = nil
	e.mu.Unlock()
	if incomparable == nil && order < 0 && e.rolledBack != nil {
		e.rolledBack(fmt.Errorf("the lease %s was at version %s and is at %s now", e.lockName(), before,
			lease.ResourceVersion))
	}
	return lease, nil
}
