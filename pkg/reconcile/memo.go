package reconcile

import "sync"

// Memo remembers what was last worked out of cached objects, by what distinguishes these: the uid and the version of an
// object, or the second in which all of them were counted. It saves time and changes no answer, so Observe may have
// one. The zero value remembers nothing. Its methods may be called concurrently.
type Memo[K comparable, V any] struct {
	mu    sync.Mutex
	known bool
	key   K
	value V
}

// Forget forgets what is remembered if it is of a key that is over: what an object has cost goes with the object.
func (m *Memo[K, V]) Forget(over func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known && over(m.key) {
		var key K
		var value V
		m.known, m.key, m.value = false, key, value
	}
}

// Of returns the value for a key, and works it out unless it was asked for last. Others wait meanwhile, because they
// are about to ask for the same. The value is shared, and must not be changed.
func (m *Memo[K, V]) Of(key K, work func() V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known || m.key != key {
		m.key, m.value, m.known = key, work(), true
	}
	return m.value
}
