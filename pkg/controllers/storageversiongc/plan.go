package storageversiongc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	identityLabel = "apiserver.kubernetes.io/identity" // of the Lease of an API server (SVG-1)
	identity      = "kube-apiserver"

	// lookAgain is when a StorageVersion is looked at again after a Lease was read that the cache lacks.
	lookAgain = time.Minute
)

// snapshot is a StorageVersion that is not being deleted. Observe fills it, prove adds what was read live, and
// planEntries reads it. The object belongs to a shared cache.
type snapshot struct {
	StorageVersion *apiserverinternalv1alpha1.StorageVersion
	// Missing are the API servers of its entries whose Lease the cache does not show.
	Missing []string
	// Live says of those of them whose Lease was read live whether there is one.
	Live map[string]bool
}

// ofServer reports whether a Lease is that of an API server.
func ofServer(lease metav1.Object) bool { return lease.GetLabels()[identityLabel] == identity }

// leaseOf names the Lease of an API server.
func leaseOf(id string) plan.Ref {
	return plan.Ref{Kind: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Namespace: metav1.NamespaceSystem,
		Name: id, Metadata: true}
}

// mayExist reports whether there can be a Lease of that name.
func mayExist(name string) bool { return len(validation.NameIsDNSSubdomain(name, false)) == 0 }

// planEntries drops the entries of API servers that are gone, and says anew what the others have in common. A
// StorageVersion of which nothing is left is deleted (SVG-3). An API server is gone when a live read does not find its
// Lease: a cache that lacks it may lag, and a read that fails says nothing (SVG-20).
func planEntries(now time.Time, s snapshot) plan.Plan {
	v := s.StorageVersion
	if v == nil {
		return plan.Plan{Why: "the StorageVersion is gone, or is being deleted"}
	}
	p, unread := plan.Plan{}, false
	var gone []string
	for _, id := range s.Missing {
		there, read := false, true
		if mayExist(id) {
			p.Proof = append(p.Proof, leaseOf(id))
			there, read = s.Live[id]
		}
		unread = unread || !read
		switch {
		case there: // its end may cause no event
			p.Requeue = lookAgain
		default:
			gone = append(gone, id)
		}
	}
	switch {
	case unread:
		p.Why = "the Leases of API servers are read live that the cache does not show"
		return p
	case len(gone) == 0:
		p.Why = "each entry is that of an API server with a Lease"
		return p
	}
	after := v.DeepCopy()
	after.Status.StorageVersions = slices.DeleteFunc(after.Status.StorageVersions,
		func(e apiserverinternalv1alpha1.ServerStorageVersion) bool {
			return slices.Contains(gone, e.APIServerID)
		})
	why := "these API servers have no Lease: " + strings.Join(gone, ", ")
	if len(after.Status.StorageVersions) == 0 {
		p.Why = "delete the StorageVersion: " + why
		p.Steps = []plan.Step{plan.Delete{Objects: []plan.Object{v}, CheckVersion: true, Why: why}}
		return p
	}
	agree(now, after)
	p.Why = fmt.Sprintf("drop %d entries: %s", len(gone), why)
	p.Steps = []plan.Step{plan.Change{Old: v, New: after, Subresource: plan.Status, CheckVersion: true, Why: why}}
	return p
}
