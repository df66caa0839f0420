package persistentvolumebinder

import (
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// replacedWithin is how long a class that has gone counts as it was. Installers replace classes, of which little can be changed; and a class that waits
// for pods must not have its claims bound to any volume meanwhile.
const replacedWithin = 30 * time.Second

// goneClasses are the classes that have gone a moment ago. The zero value has none.
type goneClasses struct {
	mu sync.Mutex
	of map[string]goneClass
}

type goneClass struct {
	was  *storagev1.StorageClass
	when time.Time
}

// see notes that a class has gone, or has come.
func (g *goneClasses) see(now time.Time, was, is *storagev1.StorageClass) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if is != nil {
		delete(g.of, is.Name)
		return
	}
	for name, c := range g.of {
		if now.Sub(c.when) >= replacedWithin {
			delete(g.of, name)
		}
	}
	if g.of == nil {
		g.of = map[string]goneClass{}
	}
	g.of[was.Name] = goneClass{was, now}
}

// class returns a class that has gone as it was, and for how long it counts; nil if it does not.
func (g *goneClasses) class(now time.Time, name string) (*storagev1.StorageClass, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.of[name]
	if left := replacedWithin - now.Sub(c.when); ok && left > 0 {
		return c.was, left
	}
	return nil, 0
}

// forget is for the end of a term.
func (g *goneClasses) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.of)
}
