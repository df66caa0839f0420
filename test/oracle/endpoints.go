package oracle

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxAddresses is how many addresses an Endpoints object may have (EP-32).
const maxAddresses = 1000

const overCapacity = "endpoints.kubernetes.io/over-capacity"

// EndpointsAreReadyPods is S11: each ready address that the manager writes is, or was within the lag L, a pod that exists under that uid
// and address, is selected, and ready (EP-10..16); no such address stays longer than L when that has changed. There are at most 1000
// addresses, and the annotation over-capacity is there if and only if there are more candidates than that (EP-32). What is missing in
// Endpoints is L1.
func EndpointsAreReadyPods() Oracle {
	return Oracle{"S11", "ready addresses are ready pods", func(j *judge) hooks {
		e := &addresses{judge: j, pods: map[types.UID][]state[*corev1.Pod]{}, services: map[string][]state[*corev1.Service]{},
			users: map[types.UID]map[string]bool{}}
		return hooks{before: func(*revision) { e.expire(j.now) }, after: e.after, end: func() { e.expire(j.now) }}
	}}
}

// addresses is what S11 remembers.
type addresses struct {
	*judge
	pods     map[types.UID][]state[*corev1.Pod]  // the recent states of each
	services map[string][]state[*corev1.Service] // the recent states of each
	users    map[types.UID]map[string]bool       // pod -> the Endpoints that have it as ready
	gone     []state[types.UID]                  // pods that are gone, and whose states are still remembered
	doubts   doubts
}

// state is what something was from a time on; the object is nil from when it was gone.
type state[T any] struct {
	from   time.Time
	object T
}

// doubt is an address that ought to be gone at a time.
type doubt struct {
	at, since time.Time
	endpoints string
	pod       types.UID
}

type doubts []doubt

func (d doubts) Len() int           { return len(d) }
func (d doubts) Less(i, k int) bool { return d[i].at.Before(d[k].at) }
func (d doubts) Swap(i, k int)      { d[i], d[k] = d[k], d[i] }
func (d *doubts) Push(x any)        { *d = append(*d, x.(doubt)) }
func (d *doubts) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

func (e *addresses) after(r *revision) {
	switch o := r.Object.(type) {
	case *corev1.Pod:
		e.pods[r.uid] = remember(e.pods[r.uid], e.now, gone(o, r), e.start(""))
		if r.Type == Deleted {
			e.gone = append(e.gone, state[types.UID]{e.now, r.uid})
		}
		for key := range e.users[r.uid] {
			e.doubt(key, r.uid)
		}
	case *corev1.Service:
		e.services[r.key] = remember(e.services[r.key], e.now, gone(o, r), e.start(""))
		if endpoints := e.endpoints[r.key]; endpoints != nil {
			for uid := range readyAddresses(endpoints) {
				e.doubt(r.key, uid)
			}
		}
	case *corev1.Endpoints:
		e.use(r, o)
		if r.manager && r.Type != Deleted {
			e.written(r, o)
		}
	}
}

func gone[T any](o T, r *revision) T {
	if r.Type == Deleted {
		var none T
		return none
	}
	return o
}

// remember adds a state, and forgets those that were over before a time.
func remember[T any](states []state[T], now time.Time, o T, before time.Time) []state[T] {
	states = append(states, state[T]{now, o})
	for len(states) > 1 && states[1].from.Before(before) {
		states = states[1:]
	}
	return states
}

// start is the time from which on a state may have been what a manager saw; any manager if it is not named.
func (e *addresses) start(manager string) time.Time {
	return e.before(manager, e.now, e.o.EndpointsLag)
}

// before is the moment from which a manager has had as much time until another one as given. To anyone it counts as an outage,
// too, when nobody leads.
func (e *addresses) before(manager string, when time.Time, d time.Duration) time.Time {
	return e.outages.of(manager, resources[Pod], resources[Service], resources[Endpoints], resources[Lease]).before(when, d)
}

func (e *addresses) doubt(key string, uid types.UID) {
	heap.Push(&e.doubts, doubt{e.now.Add(e.o.EndpointsLag), e.now, key, uid})
}

// readyAddresses are those that Endpoints have as ready, by the uid of the pod.
func readyAddresses(o *corev1.Endpoints) map[types.UID]string {
	all := map[types.UID]string{}
	for _, s := range o.Subsets {
		for _, a := range s.Addresses {
			if a.TargetRef != nil && a.TargetRef.Kind == Pod {
				all[a.TargetRef.UID] = a.IP
			}
		}
	}
	return all
}

// use keeps the index of which Endpoints have a pod.
func (e *addresses) use(r *revision, o *corev1.Endpoints) {
	if old, ok := r.old.(*corev1.Endpoints); ok {
		for uid := range readyAddresses(old) {
			delete(e.users[uid], r.key)
		}
	}
	if r.Type == Deleted {
		return
	}
	for uid, ip := range readyAddresses(o) {
		if e.users[uid] == nil {
			e.users[uid] = map[string]bool{}
		}
		e.users[uid][r.key] = true
		if !e.valid(r.key, uid, ip, e.now) {
			e.doubt(r.key, uid)
		}
	}
}

// valid reports whether, at any time since the one given, a pod was a ready one for a Service with the address.
func (e *addresses) valid(key string, uid types.UID, ip string, since time.Time) bool {
	for _, s := range recent(e.services[key], since) {
		for _, p := range recent(e.pods[uid], since) {
			if s.object == nil || p.object == nil {
				continue
			}
			if _, up := served(s.object, p.object); up && address(s.object, p.object) == ip {
				return true
			}
		}
	}
	return false
}

// recent are the states that lasted until a time or longer.
func recent[T any](states []state[T], since time.Time) []state[T] {
	for len(states) > 1 && !states[1].from.After(since) {
		states = states[1:]
	}
	return states
}

// written judges Endpoints that the manager has written.
func (e *addresses) written(r *revision, o *corev1.Endpoints) {
	e.judges(false)
	total := 0
	for _, s := range o.Subsets {
		total += len(s.Addresses) + len(s.NotReadyAddresses)
	}
	before := map[types.UID]string{}
	if old, ok := r.old.(*corev1.Endpoints); ok {
		before = readyAddresses(old) // how long they may stay is asked when their pods change
	}
	for uid, ip := range readyAddresses(o) {
		if before[uid] != ip && !e.valid(r.key, uid, ip, e.start(r.author)) {
			e.report(r, e.about(r.key, uid), "the ready address %s of pod %s: no such pod was ready and selected within %v", ip, uid,
				e.o.EndpointsLag)
			break
		}
	}
	if total > maxAddresses {
		e.report(r, nil, "%d addresses, more than %d", total, maxAddresses)
	}
	annotated := o.Annotations[overCapacity] == "truncated"
	if !annotated && total != maxAddresses {
		return
	}
	least, most := e.candidates(o, e.start(r.author))
	switch {
	case annotated && most <= maxAddresses:
		e.report(r, []string{Service + "/" + r.key}, "said to be truncated, with at most %d candidates", most)
	case !annotated && least > maxAddresses:
		e.report(r, []string{Service + "/" + r.key}, "not said to be truncated, with %d candidates or more", least)
	}
}

// candidates bounds the number of addresses that a Service has had within the lag.
func (e *addresses) candidates(o *corev1.Endpoints, start time.Time) (least, most int) {
	key := keyOf(o)
	services := recent(e.services[key], start)
	sure := len(services) > 0 && !services[0].from.After(start) && numbered(services)
	ports := 1
	for _, s := range services {
		if s.object != nil {
			ports = max(ports, len(s.object.Spec.Ports))
		}
	}
	count := func(uid types.UID) {
		states := recent(e.pods[uid], start)
		ever, always := false, len(states) > 0 && !states[0].from.After(start)
		for _, s := range services {
			for _, p := range states {
				in := false
				if s.object != nil && p.object != nil {
					in, _ = served(s.object, p.object)
				}
				ever, always = ever || in, always && in
			}
		}
		if ever {
			most += ports // it may be in as many subsets
		}
		if always && sure {
			least++
		}
	}
	for uid := range e.podsIn[o.Namespace] {
		count(uid)
	}
	for _, g := range e.gone {
		count(g.object)
	}
	return least, most
}

// numbered reports whether each pod has all ports, because they are given by number.
func numbered(services []state[*corev1.Service]) bool {
	return !slices.ContainsFunc(services, func(s state[*corev1.Service]) bool {
		return s.object == nil || len(s.object.Spec.Ports) == 0 ||
			slices.ContainsFunc(s.object.Spec.Ports, func(p corev1.ServicePort) bool { return p.TargetPort.StrVal != "" })
	})
}

// expire judges the addresses that ought to be gone by now.
func (e *addresses) expire(now time.Time) {
	e.forget(now)
	for len(e.doubts) > 0 && e.doubts[0].at.Before(now) {
		d := heap.Pop(&e.doubts).(doubt)
		if working := e.before("", d.at, e.o.EndpointsLag); working.Before(d.since) {
			e.judges(true)
			d.at = d.at.Add(cmp.Or(max(d.since.Sub(working), 0), time.Second))
			heap.Push(&e.doubts, d) // there was an outage meanwhile
			continue
		}
		o := e.endpoints[d.endpoints]
		if o == nil || !e.users[d.pod][d.endpoints] {
			continue
		}
		states := e.services[d.endpoints]
		if service := e.world.services[d.endpoints]; len(states) > 0 && service != nil && !hasEndpoints(service) {
			continue // left as they are (EP-9)
		}
		e.judges(false)
		ip := addressOf(o, d.pod)
		if !e.valid(d.endpoints, d.pod, ip, d.since) {
			e.reportEnd(Endpoints, d.endpoints, e.about(d.endpoints, d.pod),
				"the ready address %s of pod %s is there since %v, for more than %v, without a ready pod that is selected",
				ip, d.pod, d.since.UTC().Format(time.TimeOnly), e.o.EndpointsLag)
		}
	}
}

// forget drops the states of pods that are gone for so long that nothing can depend on them.
func (e *addresses) forget(now time.Time) {
	oldest := e.before("", now, 2*e.o.EndpointsLag)
	for len(e.gone) > 0 && e.gone[0].from.Before(oldest) {
		delete(e.pods, e.gone[0].object)
		e.gone = e.gone[1:]
	}
}

// about names the objects that have to do with an address.
func (e *addresses) about(key string, uid types.UID) []string {
	all := []string{Service + "/" + key, Endpoints + "/" + key}
	for _, s := range e.pods[uid] {
		if s.object != nil {
			return append(all, Pod+"/"+keyOf(s.object))
		}
	}
	return all
}

// addressOf is the address of one pod.
func addressOf(o *corev1.Endpoints, uid types.UID) string {
	for _, s := range o.Subsets {
		for _, a := range s.Addresses {
			if a.TargetRef != nil && a.TargetRef.UID == uid {
				return a.IP
			}
		}
	}
	return ""
}
