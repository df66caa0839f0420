package garbagecollector

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	// mostAsked bounds how many kinds a namespace is listed for. While there are more, they are just being listed.
	mostAsked = 10
	// vanishes is how many discoveries in a row have to lack a resource before its objects are forgotten.
	vanishes = 2
)

// askLater has the server asked whether an object has dependents of kinds that are being listed, which may take long,
// or fail for good. What has no namespace can have dependents anywhere; it waits for the lists.
func (t *term) askLater(n *node, d decision) {
	if !d.ask || n.namespace == "" {
		return
	}
	if t.asking[n.namespace] == nil {
		t.asking[n.namespace] = sets.New[*node]()
		t.ask.Enqueue(n.namespace, "", askAfter)
	}
	t.asking[n.namespace].Insert(n)
}

// observeUnlisted lists a namespace live, for the kinds whose objects are not known. A list of all namespaces fails if
// one object in any of them cannot be converted or decoded.
func (r *runner) observeUnlisted(
	ctx context.Context, req reconcile.TypedRequest[string, struct{}],
) (o reconcile.Observation[unlistedSnapshot, struct{}], _ error) {
	s := unlistedSnapshot{namespace: req.Key}
	listed, resources := r.unlisted(&s)
	if len(s.asking) > 0 && len(resources) <= mostAsked {
		owners, err := r.ownersIn(ctx, req.Key, resources)
		r.mu.Lock()
		defer r.mu.Unlock()
		s.owners, s.known = owners, err == nil && listed.IsSuperset(r.term.graph.listing)
	}
	o.Exists, o.Snapshot = true, s
	return o, nil
}

// unlisted puts in which objects of a namespace wait. It returns the resources that are being listed, and those of them
// that may have dependents of these objects.
func (r *runner) unlisted(
	s *unlistedSnapshot,
) (listed sets.Set[schema.GroupVersionResource], resources []schema.GroupVersionResource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.asking, listed = r.term.asking[s.namespace].UnsortedList(), r.term.graph.listing.Clone()
	for resource := range listed {
		// What has no namespace cannot depend on what has one (GC-35).
		if k := r.term.kinds[resource]; k != nil && !r.term.graph.clusterScoped[k.GroupKind()] {
			resources = append(resources, resource)
		}
	}
	return listed, resources
}

// commitUnlisted updates the term: objects go on if all that depends on them is known. It fails if others have come
// when none had been left.
func (r *runner) commitUnlisted(s unlistedSnapshot, d unlistedDecision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, asking := r.term, r.term.asking[s.namespace]
	for _, n := range d.cleared {
		if asking.Delete(n); t.graph.has(n) && !t.graph.settled() {
			t.graph.cleared.Insert(n)
			t.decideAgain(n)
		}
	}
	for _, n := range d.waiting {
		if !t.graph.has(n) || t.graph.settled() {
			asking.Delete(n)
		}
	}
	switch {
	case len(s.asking) > 0: // it is looked at again
	case len(asking) > 0:
		return plan.ErrStale
	default:
		delete(t.asking, s.namespace)
	}
	return nil
}

// ownersIn returns the uids to which objects of the resources in a namespace refer as owners.
func (r *runner) ownersIn(
	ctx context.Context, namespace string, resources []schema.GroupVersionResource,
) (sets.Set[types.UID], error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	owners := sets.New[types.UID]()
	for _, resource := range resources {
		all.Go(func() {
			list, err := r.metadata.List(ctx, resource, namespace)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				cancel()
				return
			}
			for _, o := range list {
				for _, ref := range o.OwnerReferences {
					owners.Insert(ref.UID)
				}
			}
		})
	}
	all.Wait()
	return owners, failed
}

// forgetVanished forgets the objects of resources that discovery has lacked repeatedly, so that owners of them are
// looked up live, and nothing waits for dependents of them. That proves nothing of the objects. Dependents that are
// about to be orphaned are kept in mind: if the API is back, they must not be taken for garbage. It returns the
// resources of which nothing is known any more. No resource is added or left meanwhile.
func (t *term) forgetVanished(err error) (vanished []schema.GroupVersionResource) {
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return nil
	}
	unknown := sets.New[string]() // groups
	for version := range failed {
		unknown.Insert(version.Group)
	}
	for resource, k := range t.kinds {
		switch {
		case t.watched.Has(resource):
			delete(t.absences, resource)
			continue
		case unknown.Has(resource.Group):
			continue
		}
		if t.absences[resource]++; t.absences[resource] < vanishes || !t.forgetAll(k) {
			continue
		}
		vanished = append(vanished, resource)
		delete(t.kinds, resource)
		delete(t.absences, resource)
	}
	return vanished
}

// forgetAll forgets what was seen of a resource, unless it is watched in another version, and reports whether nothing
// is left.
func (t *term) forgetAll(k *resourceKind) (all bool) {
	for resource := range t.watched {
		if t.kinds[resource].same(k) {
			return true // what was seen in this version is forgotten when the other one has been listed
		}
	}
	all = true
	for n := range t.graph.all() {
		switch {
		case n.kind != k:
		case t.isBeingOrphaned(n):
			all = false
		default:
			t.gone(n, false)
		}
	}
	return all
}

func (t *term) isBeingOrphaned(n *node) bool {
	for _, ref := range n.owners {
		if t.graph.ownerOf(n, ref).orphaning() {
			return true
		}
	}
	return false
}
