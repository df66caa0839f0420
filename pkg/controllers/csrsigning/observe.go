package csrsigning

import (
	"context"
	"fmt"
	"time"

	"github.com/standalone-kcm/controller-manager/pkg/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads, and the authorities by the names of their signers.
type caches struct {
	requests    informers.Store[*csrutil.Request]
	authorities map[string]*authority
	duration    time.Duration
}

// observe finds the request, and signs the certificate that it asks for, if nothing is wrong with it. A request that is not to be signed is
// as good as gone.
func (k *caches) observe(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}], err error) {
	request := k.requests.Get("", r.Key.Name)
	if request == nil || !k.mine(request) {
		return o, nil
	}
	o.Exists, o.Snapshot.Request = true, request
	ordered, violation := read(request)
	if violation != "" {
		return o, nil
	}
	o.Snapshot.Certificate, err = k.authorities[request.Spec.SignerName].issuerNow().sign(r.Now, ordered, k.duration)
	if err != nil {
		return o, fmt.Errorf("signer %s: %w", request.Spec.SignerName, err)
	}
	return o, nil
}

// mine reports whether a signer that is on is to sign the request.
func (k *caches) mine(r *csrutil.Request) bool {
	return candidate(r) && k.authorities[r.Spec.SignerName] != nil
}

// enqueued returns the key of a request that is to be signed (CSR-4, CSR-50), or that no longer is, so that nothing more is remembered of
// it.
func (k *caches) enqueued(before, after plan.Object) []plan.Key {
	return informers.ItselfIf(before, after, k.mine)
}

// enqueueAll enqueues all requests that are to be signed.
func (k *caches) enqueueAll(enqueue func(plan.Key)) {
	for _, o := range k.requests.Informer().GetStore().List() {
		if r, ok := o.(*csrutil.Request); ok && k.mine(r) {
			enqueue(plan.Key{Name: r.Name})
		}
	}
}
