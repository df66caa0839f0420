package agreement

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// sightings are objects with an owner that have come, or gone, lately, the oldest first.
type sightings []sighting

type sighting struct {
	object plan.Object
	at     time.Time
}

// Came tells that an object was created.
func (c *Comparison) Came(o plan.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.come.add(o, c.Now())
}

// Went tells that an object was deleted, or begins to end.
func (c *Comparison) Went(o plan.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone.add(o, c.Now())
}

func (s *sightings) add(o plan.Object, now time.Time) {
	if ownerOf(o) == "" {
		return
	}
	if len(*s) >= mostSeen {
		*s = slices.Delete(*s, 0, mostSeen/4)
	}
	*s = append(*s, sighting{o, now})
}

func (s *sightings) expire(now time.Time) {
	*s = slices.DeleteFunc(*s, func(one sighting) bool { return now.Sub(one.at) > seenFor })
}

// take forgets that an object was seen, whenever that was: a write that had it may have been planned only afterwards.
func (s *sightings) take(uid types.UID) {
	*s = slices.DeleteFunc(*s, func(one sighting) bool { return one.object.GetUID() == uid })
}

// find takes an object that was seen since a write was planned, that has the owner and the kind of what is written,
// and that fits; nil if there is none.
func (s *sightings) find(i *item, fits func(plan.Object) bool) plan.Object {
	for at, one := range *s {
		alike := ownerOf(one.object) == i.owner && kindOf(one.object) == i.kind
		if !one.at.Before(i.since) && alike && fits(one.object) {
			*s = slices.Delete(*s, at, at+1)
			return one.object
		}
	}
	return nil
}
