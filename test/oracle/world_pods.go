package oracle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

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

// releasedAt tells when others took its controller from a pod that is changed now: the environment, or the garbage collector, of
// which the controllers learn no sooner.
func releasedAt(before, now *pod, r *revision, at time.Time) time.Time {
	byItself := r.manager && (r.by == nil || !collects(r.by.Request))
	switch {
	case now.controller != "" || byItself && before.controller != "":
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
