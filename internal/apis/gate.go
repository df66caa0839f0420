package apis

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Gate stands between a cache and an API that may be missing. The nil Gate is always open.
type Gate struct {
	apis *APIs
	// resource is the one that the cache lists.
	resource schema.GroupVersionResource

	// With the lock of apis.
	lost    bool   // the API was missing since the cache was last listed
	version string // of the last list
}

// Gate returns the gate of a cache of the resource, by the name of the cache. It is nil if the resource is not
// followed.
func (a *APIs) Gate(r schema.GroupVersionResource, name string) *Gate {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.versions[r.GroupVersion()]; v == nil || !slices.Contains(v.followed, r.Resource) {
		return nil
	}
	if a.gates[name] == nil {
		a.gates[name] = &Gate{apis: a, resource: r}
	}
	return a.gates[name]
}

// Missing reports whether the API is missing, as far as is known.
func (g *Gate) Missing() bool {
	if g == nil {
		return false
	}
	_, missing := g.apis.Missing(g.resource)
	return missing
}

// Do lists or watches when the API is not missing. When the server does not find the resource, discovery is asked: if
// it is missing, the request waits for it to return. One that resumes, as it continues from what was listed before,
// fails then, so that its reader lists anew.
func Do[T any](ctx context.Context, g *Gate, resumes bool, request func() (T, error)) (none T, err error) {
	if g == nil {
		return request()
	}
	for {
		waited, err := g.wait(ctx)
		if err != nil {
			return none, err
		}
		if waited && resumes {
			return none, g.listAnew()
		}
		answer, err := request()
		if !NotFound(err) || ctx.Err() != nil || !g.ask(ctx) {
			return answer, err
		}
		if resumes {
			return none, g.listAnew()
		}
	}
}

// listAnew is the error upon which whoever watches lists anew.
func (g *Gate) listAnew() error {
	return apierrors.NewResourceExpired("the API server has not served " + Name(g.resource))
}

// NotFound reports whether an answer to a list or a watch says that there is no such resource.
func NotFound(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// wait waits while the API is missing, and reports whether it was.
func (g *Gate) wait(ctx context.Context) (waited bool, err error) {
	for {
		now := g.apis.look([]schema.GroupVersionResource{g.resource})
		if now.missing.Empty() {
			return waited, nil
		}
		waited = true
		g.lose()
		select {
		case <-now.changed:
		case <-ctx.Done():
			return waited, ctx.Err()
		}
	}
}

// ask asks discovery, and reports whether the API is missing.
func (g *Gate) ask(ctx context.Context) (missing bool) {
	now := g.apis.look([]schema.GroupVersionResource{g.resource})
	g.apis.versions[g.resource.GroupVersion()].ask()
	select {
	case <-now.changed:
	case <-ctx.Done():
	}
	missing = g.Missing()
	if missing {
		g.lose()
	}
	return missing
}

// lose notes that the resource was not there, so that what the cache holds is of an earlier time.
func (g *Gate) lose() {
	g.apis.mu.Lock()
	defer g.apis.mu.Unlock()
	g.lost = true
}

// Listed notes that the server has answered a list, of that version.
func (g *Gate) Listed(version string) {
	if g == nil {
		return
	}
	g.apis.mu.Lock()
	defer g.apis.mu.Unlock()
	g.lost, g.version = false, version
}

// Listing returns a function that converts the events of a watch and notes when it has brought all that a list would
// have.
func (g *Gate) Listing(convert func(watch.Event) watch.Event) func(watch.Event) watch.Event {
	if g == nil {
		return convert
	}
	return func(e watch.Event) watch.Event {
		if o, err := meta.Accessor(e.Object); e.Type == watch.Bookmark && err == nil &&
			o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			g.Listed(o.GetResourceVersion())
		}
		if convert != nil {
			e = convert(e)
		}
		return e
	}
}

// Informer is an informer of an API that may be missing.
type Informer struct {
	cache.SharedIndexInformer
	*Gate
}

// HasSynced reports whether the cache was filled, and if the API was missing since, filled anew. It is false while the
// API is missing.
func (i Informer) HasSynced() bool {
	i.apis.mu.Lock()
	lost, version := i.lost, i.version
	i.apis.mu.Unlock()
	if lost || i.Missing() || !i.SharedIndexInformer.HasSynced() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(i.GetStore().LastStoreSyncResourceVersion(), version)
	return err != nil || order >= 0
}
