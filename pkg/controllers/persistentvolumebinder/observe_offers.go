package persistentvolumebinder

import (
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// offers are volumes that have become free while many claims wait for one: the claims are looked through once for all
// volumes of a moment, and not for each. Somebody who makes ten thousand volumes for as many claims would keep the
// caches waiting.
type offers struct {
	since   time.Time       // of the first one; zero: there are none
	shelves map[string]bool // where they are
	last    *offer
	due     *offer // the last one of those that are looked at now
}

// offer is a volume that has become free, and those before it.
type offer struct {
	shelf, volume string
	before        *offer
}

// manyWaiting are too many claims to be looked through for each volume.
const manyWaiting = 256

// offersAfter is how long volumes are collected.
const offersAfter = 250 * time.Millisecond

// with are these and one more.
func (o offers) with(shelf, volume string, now time.Time) offers {
	if o.last == nil {
		o.since = now
	}
	if !o.shelves[shelf] {
		if o.shelves = maps.Clone(o.shelves); o.shelves == nil {
			o.shelves = map[string]bool{}
		}
		o.shelves[shelf] = true
	}
	o.last = &offer{shelf, volume, o.last}
	return o
}

// expire has what was collected looked at, once.
func (o offers) expire(now time.Time) (offers, time.Duration) {
	o.due = nil
	if o.last == nil {
		return o, 0
	}
	if left := offersAfter - now.Sub(o.since); left > 0 {
		return o, left
	}
	return offers{due: o.last}, offersAfter
}

// offersOn returns the shelf of a volume that has become free and is to be looked at together with others.
func (k *caches) offersOn(t claimTerm, was, is *corev1.PersistentVolume) (shelf string, together bool) {
	if !free(is) || was != nil && free(was) && sameOffer(was, is) {
		return "", false
	}
	shelf = shelfOf(is)
	return shelf, t.Offers.shelves[shelf] || len(k.claims.waiting.By(shelf)) > manyWaiting && !k.scheduled(is)
}

// offered ranges over the claims that wait and that one of the volumes fits which were collected.
func (k *caches) offered(last *offer) iter.Seq[plan.Key] {
	volumes := map[string][]*corev1.PersistentVolume{}
	for o := last; o != nil; o = o.before {
		if v := k.volumes.Get("", o.volume); v != nil && free(v) {
			volumes[o.shelf] = append(volumes[o.shelf], v)
		}
	}
	return func(yield func(plan.Key) bool) {
		for on, volumes := range volumes {
			for _, c := range k.claims.waiting.By(on) {
				class, _ := classOf(c)
				w := demandOf(c, class)
				fits := func(v *corev1.PersistentVolume) bool { return w.keeps(v) == 0 }
				if slices.ContainsFunc(volumes, fits) && !yield(plan.KeyOf(c)) {
					return
				}
			}
		}
	}
}
