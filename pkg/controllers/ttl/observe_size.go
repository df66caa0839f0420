package ttl

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// size is how many nodes there are, and the class of sizes to which that belongs. It is safe for concurrent use.
type size struct {
	changed chan struct{} // has room for one: the class has changed

	mu    sync.Mutex
	nodes sets.Set[string] // their names, so that an event that begin knew already does not count twice
	class int
}

func newSize() *size {
	return &size{changed: make(chan struct{}, 1), nodes: sets.New[string](), class: unknown}
}

// get returns how many nodes there are, and their class.
func (s *size) get() (nodes, class int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.nodes), s.class
}

// begin finds out the class. It lists the nodes that are cached, and how many of them have the annotation of each class. Meanwhile no node
// is added or removed: those that the list has not seen come or go follow.
func (s *size) begin(list func() (names []string, annotated [steps]int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, annotated := list()
	s.nodes = sets.New(names...)
	s.class = firstClass(len(names), annotated)
}

// forget makes the class unknown.
func (s *size) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.class = unknown
}

func (s *size) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes.Insert(name)
	s.follow()
}

func (s *size) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes.Delete(name)
	s.follow()
}

// follow changes the class if there are too many nodes for it now, or too few.
func (s *size) follow() {
	before := s.class
	if s.class = nextClass(before, len(s.nodes)); s.class == before {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
