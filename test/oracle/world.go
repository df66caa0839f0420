package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// world is the cluster at one revision of the history, with the recent past of what oracles have to be fair about. Nothing
// that happens at a revision costs more than the objects that belong to the one that changed.
type world struct {
	*linked
	o       *Options
	outages outages
	now     time.Time

	pods        map[string]*pod // by key
	podsIn      map[string]map[types.UID]*pod
	podsOf      map[types.UID]map[types.UID]*pod // by the uid of their controller
	sets        map[types.UID]*set               // gone ones too
	setsOf      map[types.UID]map[types.UID]*set // by the uid of their controller; none that is gone
	deployments map[types.UID]*deployment        // gone ones too
	owners      map[identity]*owner              // all objects, gone ones too
	services    map[string]*corev1.Service
	endpoints   map[string]*corev1.Endpoints
	slicesOf    map[string]map[string]*discoveryv1.EndpointSlice // by the key of the service, and their own
	nodes       map[string]*corev1.Node
	ending      map[string]bool // namespaces that are being deleted, or gone
	lease       *coordinationv1.Lease
	ended       int // pods that have finished and still exist
	endedLost   losses
}

// pod is a pod that exists.
type pod struct {
	*corev1.Pod
	controller types.UID // empty for none
	counted    bool      // active, matching and of a ReplicaSet
	ready      time.Time // since when it is ready, as the history shows; zero if it is not
	released   time.Time // when the environment took its controller from it; zero if it has one, or never had
	born       *revision
}

// set is a ReplicaSet, with its pods.
type set struct {
	*appsv1.ReplicaSet
	controller types.UID
	selector   labels.Selector
	template   string
	asCreated  string    // the template that it was created with
	altered    bool      // no template of its Deployment when it was created
	changed    time.Time // when the environment last changed it; zero for never
	born       *revision
	gone       *revision // nil if it exists
	deleting   time.Time // since when; zero if not
	active     int       // pods that are counted
	present    int       // pods that have not finished; those that are being deleted count
	orders     []order   // what it was asked for, oldest first
	lost       losses    // pods that the environment has taken
	gained     losses    // pods that the environment has given
	adopted    losses    // orphans that the manager has taken in
	joined     time.Time // when it came to its present controller, if it was there before
}

// order is what a ReplicaSet was asked for by one generation of its spec.
type order struct {
	generation int64
	replicas   int32
	minReady   int32
	when       time.Time
	byManager  bool
	author     string    // the manager's process
	spec       fence     // what its Deployment wanted when the order was given
	scaling    bool      // it was given while the Deployment was being scaled (DEP-34)
	owner      types.UID // the Deployment that the set had then
}

// fence is what a Deployment asks for, over the generations that a step may have been decided on.
type fence struct {
	most     int32 // sizes in all
	least    int32 // available pods; 0 if nothing is asked for
	recreate bool  // and nothing else; an order is free of it that scales what another strategy has begun
}

// deployment is a Deployment.
type deployment struct {
	*appsv1.Deployment
	gone     *revision
	deleting time.Time
	wishes   []wish
	gained   losses // by how much the environment has raised sizes
	// raised is when the environment last did, zero again when at most one ReplicaSet has pods.
	raised time.Time
	// disturbed is when the environment last took a ReplicaSet away from it.
	disturbed time.Time
	// collisions counts those that the manager has found, and obstacles are the ReplicaSets that can have been in the way.
	collisions int
	obstacles  map[types.UID]bool
}

// wish is one generation of a Deployment's spec.
type wish struct {
	generation int64
	spec       *appsv1.DeploymentSpec
	fence      fence
	template   string
}

// losses are things that the environment did, oldest first.
type losses []loss

type loss struct {
	when  time.Time
	uid   types.UID
	count int32
	ready bool // the pod was available
	known bool // the manager has shown that it knows
}

// since returns those at or after a time.
func (l losses) since(t time.Time) losses {
	i := len(l)
	for i > 0 && !l[i-1].when.Before(t) {
		i--
	}
	return l[i:]
}

// epoch is the time before any revision has told one. If none ever does, everything has happened a moment ago.
var epoch = time.Unix(0, 0)

func newWorld(h *History, o Options) *world {
	l := link(h, &o)
	return &world{
		linked: l, o: &o, outages: outages{slices.Concat(o.Outages, l.vacancies(o.Lease)), map[string]intervals{}}, now: epoch,
		owners: map[identity]*owner{},
		pods:   map[string]*pod{}, podsIn: map[string]map[types.UID]*pod{}, podsOf: map[types.UID]map[types.UID]*pod{},
		sets: map[types.UID]*set{}, setsOf: map[types.UID]map[types.UID]*set{}, deployments: map[types.UID]*deployment{},
		services: map[string]*corev1.Service{}, endpoints: map[string]*corev1.Endpoints{},
		slicesOf: map[string]map[string]*discoveryv1.EndpointSlice{},
		nodes:    map[string]*corev1.Node{}, ending: map[string]bool{},
	}
}

// replay goes through the history.
func (w *world) replay(before, after func(*revision)) {
	for _, r := range w.revisions {
		if r.When.After(w.now) {
			w.now = r.When
		}
		r.at = w.now
		before(r)
		w.apply(r)
		after(r)
	}
}

// lag is the time from which on what the environment did to objects of some kinds excuses the manager that made a revision.
func (w *world) lag(r *revision, kinds ...string) time.Time {
	return w.lagAt(w.now, r.author, append(kinds, r.kind)...)
}

// lagAt is the same for what a manager did at another time.
func (w *world) lagAt(when time.Time, manager string, kinds ...string) time.Time {
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = resources[kind]
	}
	return w.outages.of(manager, names...).before(when, w.o.Lag)
}

// recent reports whether something has happened to an object of a kind, and so lately that it excuses the manager that made a
// revision.
func (w *world) recent(r *revision, t time.Time, kind string) bool {
	return !t.IsZero() && !t.Before(w.lag(r, kind))
}

func (w *world) apply(r *revision) {
	gone := r.Type == Deleted
	w.applyOwner(r)
	switch o := r.Object.(type) {
	case *corev1.Pod:
		w.applyPod(r, o)
	case *appsv1.ReplicaSet:
		w.applySet(r, o)
	case *appsv1.Deployment:
		w.applyDeployment(r, o)
	case *corev1.Service:
		put(w.services, r.key, o, gone)
	case *corev1.Endpoints:
		put(w.endpoints, r.key, o, gone)
	case *discoveryv1.EndpointSlice:
		w.applySlice(r, o)
	case *corev1.Node:
		put(w.nodes, o.Name, o, gone)
	case *corev1.Namespace:
		w.ending[o.Name] = gone || o.DeletionTimestamp != nil
	case *coordinationv1.Lease:
		if r.key == w.o.Lease {
			w.lease = o
			if gone {
				w.lease = nil
			}
		}
	}
}

func (w *world) applySlice(r *revision, o *discoveryv1.EndpointSlice) {
	if old, ok := r.old.(*discoveryv1.EndpointSlice); ok {
		delete(w.slicesOf[serviceOf(old)], r.key)
	}
	service := serviceOf(o)
	if w.slicesOf[service] == nil {
		w.slicesOf[service] = map[string]*discoveryv1.EndpointSlice{}
	}
	put(w.slicesOf[service], r.key, o, r.Type == Deleted)
}

// owner is an object of any kind, which others may name as their controller.
type owner struct {
	Object
	gone     *revision
	deleting time.Time
}

func (w *world) applyOwner(r *revision) {
	o := w.owners[r.identity()]
	if o == nil {
		o = &owner{}
		w.owners[r.identity()] = o
	}
	o.Object = r.Object
	o.deleting = since(o.deleting, r.Object, w.now)
	if r.Type == Deleted {
		o.gone = r
	}
}

func put[K comparable, T any](m map[K]T, key K, o T, gone bool) {
	if gone {
		delete(m, key)
	} else {
		m[key] = o
	}
}

// put2 keeps a map of maps.
func put2[K, L comparable, T any](m map[K]map[L]T, outer K, inner L, o T) {
	if m[outer] == nil {
		m[outer] = map[L]T{}
	}
	m[outer][inner] = o
}
