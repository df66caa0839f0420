package persistentvolumebinder

import (
	"maps"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// replacedWithin is how long a class that has gone counts as it was. Installers replace classes, of which little can
// be changed; and a class that waits for pods must not have its claims bound to any volume meanwhile.
const replacedWithin = 30 * time.Second

// goneClasses are the classes that have gone a moment ago, by name.
type goneClasses map[string]goneClass

// goneClass is a class as it was, and when it has gone.
type goneClass struct {
	was  *storagev1.StorageClass
	when time.Time
}

// with are these and a class that has gone now. Those that count no longer are left out.
func (g goneClasses) with(was *storagev1.StorageClass, now time.Time) goneClasses {
	all := goneClasses{was.Name: {was, now}}
	for name, c := range g {
		if name != was.Name && now.Sub(c.when) < replacedWithin {
			all[name] = c
		}
	}
	return all
}

// without are these without a class that has come.
func (g goneClasses) without(name string) goneClasses {
	if _, gone := g[name]; !gone {
		return g
	}
	all := maps.Clone(g)
	delete(all, name)
	return all
}

// class returns a class that has gone as it was, and for how long it counts; nil if it does not.
func (g goneClasses) class(now time.Time, name string) (*storagev1.StorageClass, time.Duration) {
	c, ok := g[name]
	if left := replacedWithin - now.Sub(c.when); ok && left > 0 {
		return c.was, left
	}
	return nil, 0
}
