package lockorder

import "sync"

// Site is a type for each place where a lock is declared.
type Site interface{ Name() string }

// Mutex is a [sync.Mutex] whose order is noted.
type Mutex[S Site] struct{ mu sync.Mutex }

func nameOf[S Site]() site {
	var s S
	return site(s.Name())
}

// Lock implements sync.Locker.
func (m *Mutex[S]) Lock() {
	orders.wanted(nameOf[S](), m)
	m.mu.Lock()
	orders.taken(nameOf[S](), m)
}

// TryLock waits for nothing, and so may be called whatever is held.
func (m *Mutex[S]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	orders.taken(nameOf[S](), m)
	return true
}

// Unlock implements sync.Locker.
func (m *Mutex[S]) Unlock() {
	orders.released(m)
	m.mu.Unlock()
}

// RWMutex is a [sync.RWMutex] whose order is noted. Readers count like writers: one that waits keeps later readers out.
type RWMutex[S Site] struct{ mu sync.RWMutex }

// Lock implements sync.Locker.
func (m *RWMutex[S]) Lock() {
	orders.wanted(nameOf[S](), m)
	m.mu.Lock()
	orders.taken(nameOf[S](), m)
}

// Unlock implements sync.Locker.
func (m *RWMutex[S]) Unlock() {
	orders.released(m)
	m.mu.Unlock()
}

// RLock is that of sync.RWMutex.
func (m *RWMutex[S]) RLock() {
	orders.wanted(nameOf[S](), m)
	m.mu.RLock()
	orders.taken(nameOf[S](), m)
}

// RUnlock is that of sync.RWMutex.
func (m *RWMutex[S]) RUnlock() {
	orders.released(m)
	m.mu.RUnlock()
}
