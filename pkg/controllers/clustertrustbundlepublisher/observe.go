package clustertrustbundlepublisher

import (
	"context"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/standalone-kcm/controller-manager/internal/files"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// key stands for all bundles of the signer.
var key = plan.Key{Name: prefix}

// caches are what the controller reads.
type caches struct {
	bundles     informers.Store[*certificatesv1.ClusterTrustBundle] // of the signer
	authorities *files.File[string]
	// authoritative says that the authorities are known to be right: they come from --root-ca-file.
	authoritative bool
}

// enqueued returns the one key, whichever bundle of the signer has changed (CTB-4).
func enqueued(_, _ plan.Object) []plan.Key { return []plan.Key{key} }

// observe finds the bundles of the signer, and what is to be published.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}],
	err error) {
	if r.Key != key {
		return o, nil
	}
	bundles := slices.SortedFunc(k.bundles.All(), func(a, b *certificatesv1.ClusterTrustBundle) int {
		return strings.Compare(a.Name, b.Name)
	})
	o.Exists, o.Snapshot = true, snapshot{
		Authorities: k.authorities.Get(), Authoritative: k.authoritative, Bundles: bundles, Began: r.Now,
	}
	return o, nil
}
