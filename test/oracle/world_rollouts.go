package oracle

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

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
	spec := order{generation: s.Generation, replicas: size, minReady: s.Spec.MinReadySeconds, when: w.now, byManager: r.manager,
		author: r.author, owner: s.controller}
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
