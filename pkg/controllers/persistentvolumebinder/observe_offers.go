package persistentvolumebinder

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// offers are volumes that have become free while many claims wait for one: the claims are looked through once for all volumes of a moment, and not for
// each. Somebody who makes ten thousand volumes for as many claims would keep the caches waiting.
type offers struct {
	mu    sync.Mutex
	of    map[string]map[string]bool // the names of volumes, by shelf
	begun chan struct{}              // has one element if there are any
}

// manyWaiting are too many claims to be looked through for each volume.
const manyWaiting = 256

// offersAfter is how long volumes are collected.
const offersAfter = 250 * time.Millisecond

func newOffers() offers {
	return offers{of: map[string]map[string]bool{}, begun: make(chan struct{}, 1)}
}

// join adds a volume if others of its shelf are collected, and reports that.
func (o *offers) join(shelf, volume string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[shelf] == nil {
		return false
	}
	o.of[shelf][volume] = true
	return true
}

// begin adds the first volume of a shelf.
func (o *offers) begin(shelf, volume string) {
	o.mu.Lock()
	if o.of[shelf] == nil {
		o.of[shelf] = map[string]bool{}
	}
	o.of[shelf][volume] = true
	o.mu.Unlock()
	select {
	case o.begun <- struct{}{}:
	default:
	}
}

// take returns what was collected.
func (o *offers) take() (of map[string]map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of, o.of = o.of, map[string]map[string]bool{}
	return of
}

// follow enqueues, until ctx ends, the claims that volumes fit which were collected.
func (k *caches) follow(ctx context.Context, enqueue func(plan.Key)) {
	defer k.offers.take()
	for {
		select {
		case <-k.offers.begun:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(offersAfter):
		case <-ctx.Done():
			return
		}
		for _, key := range k.offered() {
			enqueue(key)
		}
	}
}

// offered returns the claims that wait and that one of the volumes fits which were collected.
func (k *caches) offered() (keys []plan.Key) {
	for on, names := range k.offers.take() {
		var volumes []*corev1.PersistentVolume
		for name := range names {
			if v := k.volumes.Get("", name); v != nil && free(v) {
				volumes = append(volumes, v)
			}
		}
		for _, c := range k.claims.waiting.By(on) {
			class, _ := classOf(c)
			w := demandOf(c, class)
			if slices.ContainsFunc(volumes, func(v *corev1.PersistentVolume) bool { return w.keeps(v) == 0 }) {
				keys = append(keys, plan.KeyOf(c))
			}
		}
	}
	return keys
}
