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
	since time.Time       // of the first one; zero: there are none
	keys  map[string]bool // where they are
	last  *offer
	due   *offer // the last one of those that are looked at now
}

// offer is a volume that has become free, and those before it.
type offer struct {
	key, volume string
	before      *offer
}

// manyWaiting are too many claims to be looked through for each volume.
const manyWaiting = 256

// offersAfter is how long volumes are collected.
const offersAfter = 250 * time.Millisecond

// with are these and one more.
func (o offers) with(key, volume string, now time.Time) offers {
	if o.last == nil {
		o.since = now
	}
	if !o.keys[key] {
		if o.keys = maps.Clone(o.keys); o.keys == nil {
			o.keys = map[string]bool{}
		}
		o.keys[key] = true
	}
	o.last = &offer{key, volume, o.last}
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

// offerKey returns the match key of a volume that has become free and is to be looked at together with others.
func (k *caches) offerKey(t claimTerm, was, is *corev1.PersistentVolume) (key string, together bool) {
	if !free(is) || was != nil && free(was) && sameOffer(was, is) {
		return "", false
	}
	key = matchKeyOf(is)
	return key, t.Offers.keys[key] || len(k.claims.waiting.By(key)) > manyWaiting && !k.scheduled(is)
}

// offered ranges over the claims that wait and that one of the volumes fits which were collected.
func (k *caches) offered(last *offer) iter.Seq[plan.Key] {
	volumes := map[string][]*corev1.PersistentVolume{}
	for o := last; o != nil; o = o.before {
		if v := k.volumes.Get("", o.volume); v != nil && free(v) {
			volumes[o.key] = append(volumes[o.key], v)
		}
	}
	return func(yield func(plan.Key) bool) {
		for on, volumes := range volumes {
			for _, c := range k.claims.waiting.By(on) {
				class, _ := classOf(c)
				w := demandOf(c, class)
				fits := func(v *corev1.PersistentVolume) bool { return w.misfits(v) == 0 }
				if slices.ContainsFunc(volumes, fits) && !yield(plan.KeyOf(c)) {
					return
				}
			}
		}
	}
}
