package namespace

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/api"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// For a moment after the deletion of a namespace, an API server that has not seen it yet still lets objects be created in it. A round
// that finds nothing may come too early by that much. Each API server keeps a lease, which tells how many there are.
const (
	oneServer      = 250 * time.Millisecond // the only API server knows what it has deleted itself
	severalServers = 5 * time.Second        // NS-4
	recount        = time.Minute
	renewedWithin  = time.Minute // an API server renews its lease every ten seconds
)

var leases, _ = api.BuiltIn(coordinationv1.SchemeGroupVersion.WithKind("Lease"))

// servers counts the API servers.
type servers struct {
	mu      sync.Mutex
	only    bool // there is one
	counted time.Time
}

// delay returns how long after the deletion of a namespace all API servers know of it.
func (s *servers) delay(ctx context.Context, r reconcile.Request[memory]) time.Duration {
	s.mu.Lock()
	only, current := s.only, !s.counted.IsZero() && r.Now.Sub(s.counted) < recount
	s.mu.Unlock()
	if !current {
		only = isOnlyOne(ctx, r)
		s.mu.Lock()
		s.only, s.counted = only, r.Now
		s.mu.Unlock()
	}
	if only {
		return oneServer
	}
	return severalServers
}

func isOnlyOne(ctx context.Context, r reconcile.Request[memory]) bool {
	list := &coordinationv1.LeaseList{}
	o := metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity=kube-apiserver"}
	if err := r.Reader.List(ctx, leases, metav1.NamespaceSystem, o, list); err != nil {
		return false
	}
	alive := 0
	for _, l := range list.Items {
		if l.Spec.RenewTime != nil && r.Now.Sub(l.Spec.RenewTime.Time) < renewedWithin {
			alive++
		}
	}
	return alive == 1
}

// settledAt is when all API servers know that the namespace is being deleted. A deletion timestamp has whole seconds.
func settledAt(ns *corev1.Namespace, seen time.Time, delay time.Duration) time.Time {
	if deleted := ns.DeletionTimestamp.Add(time.Second); deleted.Before(seen) {
		return deleted.Add(delay)
	}
	return seen.Add(delay)
}
