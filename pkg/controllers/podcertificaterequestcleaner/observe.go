package podcertificaterequestcleaner

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	requests informers.Store[*certificatesv1.PodCertificateRequest]
}

// observe finds the request. One that is being deleted is as good as gone.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}],
	err error) {
	request := k.requests.Get(r.Key.Namespace, r.Key.Name)
	if request != nil && request.DeletionTimestamp == nil {
		o.Exists, o.Snapshot = true, snapshot{Request: request}
	}
	return o, nil
}
