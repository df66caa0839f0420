package garbagecollector

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
)

const (
	// askAfter is how long an owner waits for the lists of all kinds before the server is asked for its namespace
	// alone. Lists that can be had nearly always come sooner.
	askAfter = 500 * time.Millisecond
	// askAgain is when the server is asked again that could not tell, or has shown dependents of a kind that is being
	// listed.
	askAgain = 3 * time.Second
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
		t.ask.AddAfter(item{statedOwner: statedOwner{namespace: n.namespace}}, askAfter)
	}
	t.asking[n.namespace].Insert(n)
}

// processNamespace lists a namespace live, for the kinds whose objects are not known, and has objects go on on which
// none of what it finds depends. A list of all namespaces fails if one object in any of them cannot be converted or
// decoded.
func (r *runner) processNamespace(ctx context.Context, i item) (time.Duration, error) {
	namespace := i.statedOwner.namespace
	r.mu.Lock()
	asking, listed := r.term.asking[namespace], r.term.graph.listing.Clone()
	r.term.asking[namespace] = sets.New[*node]() // what comes from now on may have dependents that no list shows
	var resources []schema.GroupVersionResource
	for resource := range listed {
		// What has no namespace cannot depend on what has one (GC-35).
		if k := r.term.kinds[resource]; k != nil && !r.term.graph.clusterScoped[k.GroupKind()] {
			resources = append(resources, resource)
		}
	}
	r.mu.Unlock()
	if len(asking) == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.term.asking[namespace]) == 0 {
			delete(r.term.asking, namespace)
			return 0, nil
		}
		return askAfter, nil
	}
	var owners sets.Set[types.UID]
	err := fmt.Errorf("%d kinds are being listed", len(resources))
	if len(resources) <= mostAsked {
		owners, err = r.ownersIn(ctx, namespace, resources)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term.goOn(namespace, asking, owners, err == nil && listed.IsSuperset(r.term.graph.listing)), nil
}

// goOn has those objects go on that are no owners, if that is known, and asks again for the others.
func (t *term) goOn(
	namespace string, asking sets.Set[*node], owners sets.Set[types.UID], known bool,
) (again time.Duration) {
	for n := range asking {
		switch {
		case !t.graph.has(n), t.graph.settled():
		case !known || owners.Has(n.uid):
			if t.asking[namespace] == nil {
				t.asking[namespace] = sets.New[*node]()
			}
			t.asking[namespace].Insert(n)
			again = askAgain
		default:
			t.graph.cleared.Insert(n)
			t.decideAgain(n)
		}
	}
	switch {
	case again > 0:
		return again
	case len(t.asking[namespace]) > 0:
		return askAfter
	}
	delete(t.asking, namespace)
	return 0
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
