package apis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// How long after an answer discovery is asked again: these times, up to half as long again. What was missed is asked
// for at once, but not before leastPause. While discovery fails, the pauses double from there.
const (
	servedPause  = 5 * time.Minute
	missingPause = 30 * time.Second
	leastPause   = time.Second
	timeout      = 10 * time.Second // of one question
)

// APIs reports which resources a server serves, of those that are followed. Its methods are safe for concurrent use.
// Nil follows nothing.
type APIs struct {
	client rest.Interface

	mu sync.Mutex
	// versions are those of which somebody follows a resource.
	versions map[schema.GroupVersion]*version
	gates    map[string]*Gate // by the name of the cache
	changed  chan struct{}    // closed and replaced at the end of each question
}

// version is what is known of a version of a group.
type version struct {
	schema.GroupVersion
	followed  []string // resources
	tried     bool     // a question has ended
	known     bool     // one was answered
	resources []string // that the last answer has named; none if there is no such version
	// soon has room for one wish to be asked for at once.
	soon chan struct{}
}

// New returns APIs of the server of the configuration that follow nothing.
func New(config *rest.Config) (*APIs, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for discovery: %w", err)
	}
	return &APIs{
		client: client.RESTClient(), versions: map[schema.GroupVersion]*version{}, gates: map[string]*Gate{},
		changed: make(chan struct{}),
	}, nil
}

// Follow has discovery asked for the resources, from Run on. It must be called before.
func (a *APIs) Follow(resources ...schema.GroupVersionResource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range resources {
		of := a.versions[r.GroupVersion()]
		if of == nil {
			of = &version{GroupVersion: r.GroupVersion(), soon: make(chan struct{}, 1)}
			a.versions[r.GroupVersion()] = of
		}
		of.followed = append(of.followed, r.Resource)
	}
}

// Run asks discovery, until ctx ends.
func (a *APIs) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, v := range a.versions {
		all.Go(func() { a.follow(ctx, v) })
	}
	all.Wait()
}

// Ask has discovery asked now for all that is followed.
func (a *APIs) Ask() {
	if a == nil {
		return
	}
	for _, v := range a.versions {
		v.ask()
	}
}

// ask has discovery asked soon for the version.
func (v *version) ask() {
	select {
	case v.soon <- struct{}{}:
	default: // somebody else has asked for it
	}
}

// follow asks discovery for one version, again and again, until ctx ends: often while something is missing,
// rarely otherwise.
func (a *APIs) follow(ctx context.Context, v *version) {
	failing := wait.Backoff{Duration: leastPause, Factor: 2, Steps: 32, Cap: missingPause}
	failures := failing
	for ctx.Err() == nil {
		var pause time.Duration
		if err := a.discover(ctx, v); err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot find out whether an API is served, tries again", "api",
				v.GroupVersion, "err", err.Error())
			pause = failures.Step()
		} else {
			failures = failing
			pause = missingPause
			if a.allServed(v) {
				pause = servedPause
			}
		}
		sleep(ctx, leastPause, nil)
		sleep(ctx, pause-leastPause+rand.N(pause/2), v.soon)
	}
}

// sleep returns after d, or when ctx ends or something comes from the channel.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// discover asks which resources the version has, and notes the answer. An error says that there was none.
func (a *APIs) discover(ctx context.Context, v *version) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path := "/apis/" + v.String()
	if v.Group == "" {
		path = "/api/" + v.Version
	}
	list := &metav1.APIResourceList{}
	err := a.client.Get().AbsPath(path).Do(ctx).Into(list)
	if apierrors.IsNotFound(err) {
		list, err = &metav1.APIResourceList{}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v.tried = true
	if err == nil {
		v.known, v.resources = true, nil
		for _, r := range list.APIResources {
			v.resources = append(v.resources, r.Name)
		}
	}
	close(a.changed)
	a.changed = make(chan struct{})
	return err
}

// allServed reports whether nothing is missing of a version.
func (a *APIs) allServed(v *version) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !slices.ContainsFunc(v.followed, v.lacks)
}

// lacks reports whether the version does not have the resource, as far as is known.
func (v *version) lacks(resource string) bool {
	return v.known && !slices.Contains(v.resources, resource)
}

// Missing returns the first of the resources that the server does not serve, as far as is known.
func (a *APIs) Missing(resources ...schema.GroupVersionResource) (r schema.GroupVersionResource, missing bool) {
	if a == nil || len(resources) == 0 {
		return r, false
	}
	state := a.look(resources)
	return state.missing, !state.missing.Empty()
}

// state is what is known of some resources.
type state struct {
	missing schema.GroupVersionResource // the first that is; empty for none
	tried   bool                        // of all of them a question has ended
	changed <-chan struct{}             // closed when this may have changed
}

// look says how some resources are: whether all were asked for, and which is missing.
func (a *APIs) look(resources []schema.GroupVersionResource) state {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := state{tried: true, changed: a.changed}
	for _, r := range slices.Backward(resources) {
		v := a.versions[r.GroupVersion()]
		s.tried = s.tried && v.tried
		if v.lacks(r.Resource) {
			s.missing = r
		}
	}
	return s
}
