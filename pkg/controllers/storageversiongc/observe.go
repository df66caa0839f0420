package storageversiongc

import (
	"context"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	versions informers.IndexedStore[*apiserverinternalv1alpha1.StorageVersion] // by API server
	leases   informers.Store[*coordinationv1.Lease]
}

type (
	request     = reconcile.Request[struct{}]
	observation = reconcile.Observation[snapshot, struct{}]
)

// serversOf returns the API servers of which a StorageVersion has entries.
func serversOf(v *apiserverinternalv1alpha1.StorageVersion) (ids []string) {
	for _, entry := range v.Status.StorageVersions {
		ids = append(ids, entry.APIServerID)
	}
	return ids
}

// enqueuedByLease returns the StorageVersions with an entry of an API server whose Lease is no longer that of one
// (SVG-1).
func (k *caches) enqueuedByLease(before, after plan.Object) (keys []plan.Key) {
	if before == nil || !ofServer(before) || after != nil && ofServer(after) {
		return nil
	}
	for _, v := range k.versions.By(before.GetName()) {
		keys = append(keys, plan.KeyOf(v))
	}
	return keys
}

// observe finds a StorageVersion, and the API servers of its entries whose Lease the cache does not show.
func (k *caches) observe(_ context.Context, r request) (o observation, err error) {
	v := k.versions.Get("", r.Key.Name)
	if v == nil || v.DeletionTimestamp != nil {
		return o, nil
	}
	o.Exists, o.Snapshot = true, snapshot{StorageVersion: v}
	for _, id := range serversOf(v) {
		if lease := k.leases.Get(metav1.NamespaceSystem, id); lease == nil || !ofServer(lease) {
			o.Snapshot.Missing = append(o.Snapshot.Missing, id)
		}
	}
	return o, nil
}

// prove says which of these API servers have a Lease, as far as that was read live.
func prove(o observation, p reconcile.Proof) observation {
	live := map[string]bool{}
	for _, id := range o.Snapshot.Missing {
		if lease, ok, _ := reconcile.Found[*metav1.PartialObjectMetadata](p, leaseOf(id)); ok {
			live[id] = lease != nil && ofServer(lease)
		}
	}
	o.Snapshot.Live = live
	return o
}
