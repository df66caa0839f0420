package cowmap

import (
	"iter"
	"maps"
)

// Map is a map, and the changes that were made since. The zero Map is empty. Its fields are exported so that it can
// be stored.
type Map[K comparable, V any] struct {
	Base  map[K]V
	Later map[K]*V // takes precedence; nil stands for an entry that is gone
}

// Of returns a map with these contents, which must not be changed any more.
func Of[K comparable, V any](contents map[K]V) Map[K, V] { return Map[K, V]{Base: contents} }

// Clone returns a copy to change. It shares the contents that have not changed. Once there are many changes, they are
// put into contents of their own: to copy all of the contents now and then costs about as much as to copy the changes
// each time.
func (m Map[K, V]) Clone() Map[K, V] {
	if n := len(m.Later); n*n > 2*len(m.Base)+leastMerged {
		return Of(maps.Collect(m.All()))
	}
	return Map[K, V]{m.Base, maps.Clone(m.Later)}
}

// leastMerged is the square of the number of changes that even a small map may have.
const leastMerged = 32 * 32

// Get returns an entry.
func (m Map[K, V]) Get(key K) (value V, ok bool) {
	if changed, is := m.Later[key]; is {
		if changed == nil {
			return value, false
		}
		return *changed, true
	}
	value, ok = m.Base[key]
	return value, ok
}

// With returns a copy with an entry added or replaced.
func (m Map[K, V]) With(key K, value V) Map[K, V] {
	m = m.Clone()
	m.Set(key, value)
	return m
}

// Without returns a copy without an entry, or the map itself if it has none.
func (m Map[K, V]) Without(key K) Map[K, V] {
	if _, ok := m.Get(key); !ok {
		return m
	}
	m = m.Clone()
	m.Delete(key)
	return m
}

// Set adds an entry, or replaces it.
func (m *Map[K, V]) Set(key K, value V) { m.change(key, &value) }

// Delete takes an entry away.
func (m *Map[K, V]) Delete(key K) { m.change(key, nil) }

// change notes a value for a key, nil for none, beside the shared part.
func (m *Map[K, V]) change(key K, value *V) {
	if m.Later == nil {
		m.Later = map[K]*V{}
	}
	m.Later[key] = value
}

// All ranges over all entries, in no order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for key, value := range m.Later {
			if value != nil && !yield(key, *value) {
				return
			}
		}
		for key, value := range m.Base {
			if _, changed := m.Later[key]; !changed && !yield(key, value) {
				return
			}
		}
	}
}
