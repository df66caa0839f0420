package csrapproving

import (
	"context"
	"fmt"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	requests informers.Store[*csrutil.Request]
}

// observe finds the request, and asks the API server whether who has made it may have a certificate. One that is not
// to be approved is as good as gone.
func (k *caches) observe(ctx context.Context, r reconcile.Request[memory]) (o reconcile.Observation[snapshot, memory],
	err error) {
	request := k.requests.Get("", r.Key.Name)
	if request == nil || !candidate(request) {
		return o, nil
	}
	o.Exists, o.Snapshot = true, snapshot{Request: request}
	asks, violation := questions(request)
	if violation != "" {
		return o, nil
	}
	if m := r.Memory; m.about(request) && r.Now.Before(m.Next) { // a resync is no reason to ask again
		o.Memory, o.Snapshot.Refused, o.Snapshot.Next = m, m.Why, m.Next
		return o, nil
	}
	reason := ""
	for _, ask := range asks {
		answer, err := r.Reader.SubjectAccessReview(ctx, ask.Spec)
		if err != nil {
			return o, fmt.Errorf("may %s have a certificate as %s: %w", request.Spec.Username, ask.subresource(), err)
		}
		if answer.Allowed && !answer.Denied {
			o.Snapshot.Allowed, o.Snapshot.Message = true, ask.Message
			return o, nil
		}
		reason = answer.Reason
	}
	o.Memory = r.Memory.refused(r.Now, request, reason)
	o.Snapshot.Refused, o.Snapshot.Next = o.Memory.Why, o.Memory.Next
	return o, nil
}
