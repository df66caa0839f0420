package persistentvolumebinder

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// raceLosers are the claims of which a write was not sent because somebody else had taken the volume. They look for
// another one as soon as the cache shows that.
type raceLosers struct {
	keys []plan.Key
	last time.Time // when the last of them has lost
}

// lostVolumes are the losers of each volume.
type lostVolumes = cowmap.Map[types.UID, raceLosers]

// lostFor is how long losers are remembered: they look anew within a second, whatever the cache shows.
const lostFor = 2 * time.Second

// with are these and one more.
func (l raceLosers) with(key plan.Key, now time.Time) raceLosers {
	if !slices.Contains(l.keys, key) {
		l.keys = append(slices.Clip(l.keys), key)
	}
	l.last = now
	return l
}

// unexpired are those that have lost a moment ago, and when the next of them expires.
func unexpired(now time.Time, all lostVolumes) (left lostVolumes, next time.Duration) {
	expired := false
	for _, l := range all.All() {
		if wait := lostFor - now.Sub(l.last); wait > 0 {
			next = plan.Sooner(next, wait)
		} else {
			expired = true
		}
	}
	if !expired {
		return all, next
	}
	kept := maps.Collect(all.All())
	maps.DeleteFunc(kept, func(_ types.UID, l raceLosers) bool { return now.Sub(l.last) >= lostFor })
	return cowmap.Of(kept), next
}
