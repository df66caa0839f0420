package csrsigning

import (
	"context"
	"time"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// signing is what one signer reads.
type signing struct {
	// name is that of the signer, as requests have it.
	name     string
	requests informers.Store[*csrutil.Request]
	// authority signs. Several signers may have the same one.
	authority *authority
	logs      bool // what is wrong with the files, which several signers may share
	// duration is for how long a certificate is valid at most.
	duration time.Duration
}

// observe finds the request. One that is not to be signed is as good as gone.
func (s *signing) observe(_ context.Context,
	r reconcile.Request[struct{}]) (o reconcile.Observation[snapshot, struct{}], err error) {
	request := s.requests.Get("", r.Key.Name)
	if request == nil || !s.mine(request) {
		return o, nil
	}
	o.Exists, o.Snapshot.Request = true, request
	return o, nil
}

// mine reports whether the signer is to sign the request.
func (s *signing) mine(r *csrutil.Request) bool { return candidate(r) && r.Spec.SignerName == s.name }

// enqueued returns the key of a request that is to be signed (CSR-4, CSR-50), or that no longer is, so that nothing
// more is remembered of it.
func (s *signing) enqueued(before, after plan.Object) []plan.Key {
	return informers.ItselfIf(before, after, s.mine)
}

// enqueueAll enqueues all requests that are to be signed.
func (s *signing) enqueueAll(enqueue func(plan.Key)) {
	for r := range s.requests.All() {
		if s.mine(r) {
			enqueue(plan.Key{Name: r.Name})
		}
	}
}
