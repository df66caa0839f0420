package plantest

import (
	"reflect"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Cache shows a world as it was: each kind of object at an age of its own, as informers do.
type Cache struct {
	world *World
	at    map[kind]int
}

// NewCache returns a cache that is up to date.
func NewCache(w *World) *Cache {
	c := &Cache{world: w, at: map[kind]int{}}
	c.CatchUp()
	return c
}

// Cached returns the objects of a type that the cache shows.
func Cached[T plan.Object](c *Cache) []T {
	k := reflect.TypeFor[T]()
	return plan.Typed[T](c.world.store(k).past[c.at[k]])
}

// CatchUp makes the cache show everything.
func (c *Cache) CatchUp() {
	for k, s := range c.world.stores {
		c.at[k] = len(s.past) - 1
	}
}

// Lag makes the cache see at most n more writes of the type.
func Lag[T plan.Object](c *Cache, n int) {
	k := reflect.TypeFor[T]()
	c.at[k] = min(c.at[k]+n, len(c.world.store(k).past)-1)
}

// Learn makes the cache show what was written, as the runtime waits for before it looks at a key again.
func (c *Cache) Learn(did plan.Outcome) {
	for _, r := range did.Results {
		k := reflect.TypeOf(r.Object)
		c.at[k] = len(c.world.store(k).past) - 1
	}
}
