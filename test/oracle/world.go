package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
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
	owners      map[types.UID]*owner             // all objects, gone ones too
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
		linked: l, o: &o, outages: outages{slices.Concat(o.Outages, l.vacancies(o.Lease)), map[string]intervals{}}, now: epoch, owners: map[types.UID]*owner{},
		pods: map[string]*pod{}, podsIn: map[string]map[types.UID]*pod{}, podsOf: map[types.UID]map[types.UID]*pod{},
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
	o := w.owners[r.uid]
	if o == nil {
		o = &owner{}
		w.owners[r.uid] = o
	}
	o.Object = r.Object
	o.deleting = since(o.deleting, r.Object, w.now)
	if r.Type == Deleted {
		o.gone = r
	}
}

func put[T any](m map[string]T, key string, o T, gone bool) {
	if gone {
		delete(m, key)
	} else {
		m[key] = o
	}
}

// put2 keeps a map of maps.
func put2[K comparable, T any](m map[K]map[types.UID]T, outer K, inner types.UID, o T) {
	if m[outer] == nil {
		m[outer] = map[types.UID]T{}
	}
	m[outer][inner] = o
}

func (w *world) applyPod(r *revision, o *corev1.Pod) {
	before := w.pods[r.key]
	var now *pod
	if r.Type != Deleted {
		now = &pod{Pod: o, born: r}
		if ref, ok := controller(o); ok {
			now.controller = ref.UID
			now.counted = w.counts(o, w.sets[ref.UID])
		}
		same := before != nil && before.UID == o.UID
		if same {
			now.born = before.born
			now.released = releasedAt(before, now, r, w.now)
		}
		switch {
		case !ready(o):
		case same && !before.ready.IsZero():
			now.ready = before.ready
		default:
			now.ready = w.now
		}
	}
	w.keepLosses(r, before, now)
	if before != nil {
		w.tally(before, -1)
		delete(w.pods, r.key)
		delete(w.podsIn[before.Namespace], before.UID)
		delete(w.podsOf[before.controller], before.UID)
	}
	if now != nil {
		w.tally(now, 1)
		w.pods[r.key] = now
		put2(w.podsIn, now.Namespace, now.UID, now)
		if now.controller != "" {
			put2(w.podsOf, now.controller, now.UID, now)
		}
		if r.manager && r.old == nil && now.counted {
			w.noteKnown(w.sets[now.controller])
		}
	}
	for _, p := range []*pod{before, now} {
		if p != nil && w.sets[p.controller] != nil {
			w.endRaise(w.alive(w.sets[p.controller].controller))
		}
	}
}

// releasedAt tells when the environment took its controller from a pod that is changed now.
func releasedAt(before, now *pod, r *revision, at time.Time) time.Time {
	switch {
	case now.controller != "" || r.manager && before.controller != "":
		return time.Time{}
	case before.controller != "":
		return at
	}
	return before.released
}

// noteKnown marks the losses of a ReplicaSet that a manager must know of which has just created a pod for it: it does not take
// the ReplicaSet for having more pods than it is asked for.
func (w *world) noteKnown(s *set) {
	since := w.lagAt(w.now, "", Pod)
	most := 0
	for _, o := range s.open() {
		most = max(most, int(o.replicas))
	}
	surplus := w.taken(s, since) - max(0, most-s.active+w.given(s, since))
	marked := map[types.UID]bool{}
	for i, l := range s.lost {
		if !l.when.Before(since) && w.missing(s, l) && (marked[l.uid] || len(marked) < surplus) {
			s.lost[i].known = true
			marked[l.uid] = true
		}
	}
}

// missing reports whether a pod that the environment has taken from a ReplicaSet is not there, and the manager may not know.
func (w *world) missing(s *set, l loss) bool {
	p := w.podsOf[s.UID][l.uid]
	return l.count > 0 && !l.known && (p == nil || !p.counted)
}

// given counts the pods that the environment gave to a ReplicaSet since a time, and that it still has.
func (w *world) given(s *set, since time.Time) (n int) {
	for _, gain := range s.gained.since(since) {
		if p := w.podsOf[s.UID][gain.uid]; p != nil && p.counted {
			n++
		}
	}
	return n
}

// taken counts the pods that the environment took from a ReplicaSet since a time, and that are missing.
func (w *world) taken(s *set, since time.Time) int {
	seen := map[types.UID]bool{}
	for _, l := range s.lost.since(since) {
		if w.missing(s, l) {
			seen[l.uid] = true
		}
	}
	return len(seen)
}

// counts reports whether a pod of a ReplicaSet is one that it counts.
func (w *world) counts(p *corev1.Pod, s *set) bool {
	return s != nil && s.Namespace == p.Namespace && active(p) && s.selector.Matches(labels.Set(p.Labels))
}

func (w *world) tally(p *pod, n int) {
	if finished(p.Pod) {
		w.ended += n
	}
	if s := w.sets[p.controller]; s != nil {
		if p.counted {
			s.active += n
		}
		if !finished(p.Pod) {
			s.present += n
		}
	}
}

// keepLosses remembers what the environment takes from a ReplicaSet or gives it.
func (w *world) keepLosses(r *revision, before, now *pod) {
	byManager := r.manager && (r.old == nil || r.goes())
	if before != nil && finished(before.Pod) && now == nil && !r.forced() {
		w.endedLost = append(w.endedLost, loss{when: w.now, uid: before.UID})
	}
	if byManager {
		return
	}
	var was, is *set
	if before != nil && before.counted {
		was = w.sets[before.controller]
	}
	if now != nil && now.counted {
		is = w.sets[now.controller]
	}
	if was != nil && (is != was || !ready(now.Pod)) {
		l := loss{when: w.now, uid: before.UID, ready: available(before.Pod, was.leastReady(), w.now)}
		if is != was {
			l.count = 1
		}
		if l.ready || l.count > 0 {
			was.lost = append(was.lost, l)
		}
	}
	if is != nil && is != was {
		gain := loss{when: w.now, uid: now.UID, count: 1}
		if r.manager {
			is.adopted = append(is.adopted, gain)
		} else {
			is.gained = append(is.gained, gain)
		}
	}
}

// leastReady is the shortest time that a pod of the set may have to be ready.
func (s *set) leastReady() int32 {
	least := s.Spec.MinReadySeconds
	for _, o := range s.open() {
		least = min(least, o.minReady)
	}
	return least
}

func (w *world) applySet(r *revision, o *appsv1.ReplicaSet) {
	s := w.sets[o.UID]
	if s == nil {
		s = &set{born: r, asCreated: template(&o.Spec.Template), selector: selector(o.Spec.Selector)}
		s.template = s.asCreated
		if !r.manager {
			s.changed = w.now
		}
		w.sets[o.UID] = s
	}
	before := s.ReplicaSet
	delete(w.setsOf[s.controller], o.UID)
	s.ReplicaSet, s.controller = o, ""
	if ref, ok := controller(o); ok {
		s.controller = ref.UID
	}
	if before == nil || before.Generation != o.Generation || ptr.Deref(before.Spec.Replicas, 1) != ptr.Deref(o.Spec.Replicas, 1) {
		w.keepOrder(r, s, before)
	}
	if before != nil && !sameController(before, o) {
		s.joined = w.now
	}
	if before == nil {
		w.recount(s)
	} else if before.Generation != o.Generation {
		s.template = template(&o.Spec.Template)
	}
	if !r.manager && before != nil && (before.Generation != o.Generation || !sameController(before, o)) {
		s.changed = w.now
	}
	if d := w.deployments[controllerOf(before)]; d != nil && !r.manager && (r.Type == Deleted || !sameController(before, o)) {
		d.disturbed = w.now
	}
	if d := w.alive(s.controller); before == nil && d != nil {
		s.altered = !d.wants(s.template)
	}
	s.deleting = since(s.deleting, o, w.now)
	if r.Type == Deleted {
		s.gone = r
	} else if s.gone == nil {
		put2(w.setsOf, s.controller, o.UID, s)
	}
	w.endRaise(w.alive(s.controller))
}

func controllerOf(o *appsv1.ReplicaSet) types.UID {
	if o == nil {
		return ""
	}
	ref, _ := controller(o)
	return ref.UID
}

func sameController(a, b metav1.Object) bool {
	x, _ := controller(a)
	y, _ := controller(b)
	return x.UID == y.UID
}

func since(t time.Time, o metav1.Object, now time.Time) time.Time {
	if o.GetDeletionTimestamp() == nil {
		return time.Time{}
	}
	if t.IsZero() {
		return now
	}
	return t
}

// keepOrder remembers what a ReplicaSet is asked for now.
func (w *world) keepOrder(r *revision, s *set, before *appsv1.ReplicaSet) {
	size := ptr.Deref(s.Spec.Replicas, 1)
	spec := order{generation: s.Generation, replicas: size, minReady: s.Spec.MinReadySeconds, when: w.now, byManager: r.manager, author: r.author, owner: s.controller}
	d := w.deployments[s.controller]
	if d != nil && d.gone == nil {
		spec.spec = d.fence()
		spec.minReady = min(spec.minReady, d.leastReady())
		spec.scaling = before != nil && d.scales(before)
	}
	if last := len(s.orders) - 1; last >= 0 && s.orders[last].replicas > 0 && !s.orders[last].spec.recreate {
		spec.spec.recreate = false // it is scaled, and had begun under another strategy
	}
	if len(s.orders) > 0 && size == s.orders[len(s.orders)-1].replicas && s.orders[len(s.orders)-1].byManager == r.manager {
		// Another template or annotation: what the size was decided on stays.
		last := s.orders[len(s.orders)-1]
		spec.spec, spec.when, spec.author, spec.scaling, spec.owner = last.spec, last.when, last.author, last.scaling, last.owner
	}
	s.orders = append(s.orders, spec)
	raised := size
	if before != nil {
		raised -= ptr.Deref(before.Spec.Replicas, 1)
	}
	if d != nil && !r.manager && raised > 0 {
		d.gained = append(d.gained, loss{when: w.now, uid: s.UID, count: raised})
		d.raised = w.now
	}
}

// endRaise ends what the environment began that raised the size of a ReplicaSet: when all know their sizes, and at most one has pods or
// will have some.
func (w *world) endRaise(d *deployment) {
	if d == nil || d.raised.IsZero() || !d.raised.Before(w.lagAt(w.now, "", Pod, ReplicaSet)) {
		return
	}
	n := 0
	for _, s := range w.setsOf[d.UID] {
		if s.Status.ObservedGeneration < s.Generation {
			return
		}
		if s.size() > 0 || s.present > 0 {
			n++
		}
	}
	if n <= 1 {
		d.raised = time.Time{}
	}
}

// recount counts the pods that a ReplicaSet had before it was seen: a history may begin late.
func (w *world) recount(s *set) {
	s.active, s.present = 0, 0
	for _, p := range w.podsOf[s.UID] {
		p.counted = w.counts(p.Pod, s)
		if p.counted {
			s.active++
		}
		if !finished(p.Pod) {
			s.present++
		}
	}
}

// open are the orders that the set may be working on: those since the one that its status has observed.
func (s *set) open() []order {
	i := len(s.orders) - 1
	for i > 0 && s.orders[i].generation > s.Status.ObservedGeneration {
		i--
	}
	return s.orders[max(i, 0):]
}

func (w *world) applyDeployment(r *revision, o *appsv1.Deployment) {
	d := w.deployments[o.UID]
	if d == nil {
		d = &deployment{obstacles: map[types.UID]bool{}}
		w.deployments[o.UID] = d
	}
	before := d.Deployment
	d.Deployment = o
	if before == nil || before.Generation != o.Generation {
		d.wishes = append(d.wishes, newWish(o))
	}
	d.deleting = since(d.deleting, o, w.now)
	if r.Type == Deleted {
		d.gone = r
	}
}

func newWish(o *appsv1.Deployment) wish {
	replicas := ptr.Deref(o.Spec.Replicas, 1)
	surge, unavailable := fences(o)
	f := fence{most: replicas + surge, least: replicas - unavailable}
	if f.recreate = o.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType; f.recreate {
		f.least = 0
	}
	return wish{generation: o.Generation, spec: &o.Spec, fence: f, template: template(&o.Spec.Template)}
}

// open are the generations that the Deployment's steps may be decided on.
func (d *deployment) open() []wish {
	i := len(d.wishes) - 1
	for i > 0 && d.wishes[i].generation > d.Status.ObservedGeneration {
		i--
	}
	return d.wishes[max(i, 0):]
}

// fence is what the Deployment's open generations allow, each the most generous.
func (d *deployment) fence() (f fence) {
	for i, w := range d.open() {
		if i == 0 {
			f = w.fence
			continue
		}
		f.most = max(f.most, w.fence.most)
		f.least = min(f.least, w.fence.least)
		f.recreate = f.recreate && w.fence.recreate
	}
	return f
}

func (d *deployment) leastReady() int32 {
	least := d.Spec.MinReadySeconds
	for _, w := range d.open() {
		least = min(least, w.spec.MinReadySeconds)
	}
	return least
}

// scales reports whether a ReplicaSet had been sized for another number of replicas than the Deployment now has.
func (d *deployment) scales(rs *appsv1.ReplicaSet) bool {
	desired := rs.Annotations[desiredAnnotation]
	for _, w := range d.open() {
		if desired != "" && desired != strconv.Itoa(int(ptr.Deref(w.spec.Replicas, 1))) {
			return true
		}
	}
	return false
}

// wants reports whether a template is that of one of the open generations.
func (d *deployment) wants(template string) bool {
	for _, w := range d.open() {
		if w.template == template {
			return true
		}
	}
	return false
}

// alive returns a Deployment that exists.
func (w *world) alive(uid types.UID) *deployment {
	if d := w.deployments[uid]; d != nil && d.gone == nil {
		return d
	}
	return nil
}

// size is what a ReplicaSet is asked for now.
func (s *set) size() int32 { return ptr.Deref(s.Spec.Replicas, 1) }

// related names the objects that have to do with a ReplicaSet.
func (w *world) related(s *set) []string {
	if s == nil {
		return nil
	}
	all := []string{ReplicaSet + "/" + keyOf(s)}
	if d := w.deployments[s.controller]; d != nil {
		all = append(all, Deployment+"/"+keyOf(d))
	}
	return all
}
