// Package apiserver is a Kubernetes API server in memory: the few resources that the controllers and their environment
// deal with, with the semantics that they rely on, and clients that reach it without a network. It tells the time by the
// time package, so that in a bubble of testing/synctest it lives in virtual time.
//
// What it does like the real one is compared with the real one by TestSameAsRealServer in the parent folder: versions,
// conflicts, preconditions, generations, the status subresource, patches, graceful deletion, finalizers, generated names,
// defaults, the rules for owner references, lists and watches. What it leaves out: authentication and authorization,
// managedFields, server-side apply, old API versions, most validation.
package apiserver

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is an API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Server is an API server. Objects that it returns or passes on are its own: look, don't touch.
type Server struct {
	// Admit may refuse an object that is to be created. It is called with the server locked.
	Admit func(Object) error
	// Wrote is told of every write, done or refused, in order. It is called with the server locked.
	Wrote func(Write, Result)

	encodings map[string]encoding // by media type

	mu        sync.Mutex
	version   uint64
	stores    map[string]*store // by resource
	random    *rand.Rand
	addresses int           // given to services
	changed   chan struct{} // closed when something changes
	writer    string        // who makes the change that is under way
}

// store has the objects of one kind, and how they came about.
type store struct {
	*Kind
	objects   map[string]Object // by namespace and name
	history   []*Event
	compacted uint64 // watches cannot begin before this version
}

// Event is a change of an object.
type Event struct {
	Type    watch.EventType
	Object  Object // as it is after the change; of a deleted one the last state, with the version of the deletion
	Before  Object // nil if it is new
	Version uint64 // which the change has made
	Time    time.Time
	By      string // who made it

	frames map[string][]byte // encoded, by type of encoding
}

// Result is what became of a write.
type Result struct {
	Before, After Object // nil where there is none; the same if nothing has changed
	Err           error
}

// New returns a server with nothing in it but the namespaces default and kube-system. The seed decides on the names and
// uids that it makes up.
func New(seed uint64) *Server {
	s := &Server{
		stores: map[string]*store{}, random: rand.New(rand.NewPCG(seed, 0)), changed: make(chan struct{}),
		// Kinds share one sequence of versions, as in etcd.
		version: 100, encodings: newEncodings(),
	}
	for _, k := range kinds() {
		s.stores[k.Resource] = &store{Kind: k, objects: map[string]Object{}}
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		s.mustCreate(namespace(name))
	}
	return s
}

func (s *Server) mustCreate(o Object) {
	if _, err := s.Do(Write{By: "server", Verb: Create, Object: o}); err != nil {
		panic(err) // cannot be: the store is empty
	}
}

// Version is that of the last change.
func (s *Server) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Kind returns what is known of a resource, nil for one that the server does not have.
func (s *Server) Kind(resource string) *Kind {
	if st := s.stores[resource]; st != nil {
		return st.Kind
	}
	return nil
}

// Get returns an object, as it is.
func (s *Server) Get(resource, namespace, name string) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stores[resource]
	if o := st.objects[keyOf(namespace, name)]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(st.groupResource(), name)
}

// All returns the objects of a kind in all namespaces, by namespace and name.
func All[T Object](s *Server) []T {
	var example T
	st := s.storeOf(example)
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []T
	for _, key := range st.keys() {
		all = append(all, st.objects[key].(T))
	}
	return all
}

// One returns an object, the zero T (nil) if there is none.
func One[T Object](s *Server, namespace, name string) (found T) {
	st := s.storeOf(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := st.objects[keyOf(namespace, name)]; o != nil {
		found = o.(T)
	}
	return found
}

func (s *Server) storeOf(o Object) *store {
	for _, st := range s.stores {
		if st.sameType(o) {
			return st
		}
	}
	panic(fmt.Sprintf("the simulated server does not know %T: add it to kinds.go", o))
}

// Compact forgets how all objects came about: a watch that wants to go on from before now is told that it is too late.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.stores {
		st.compacted = s.version
	}
}

// Changed is closed with the next change.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// since returns the changes of a kind after a version, oldest first.
func (st *store) since(version uint64) []*Event {
	first, _ := slices.BinarySearchFunc(st.history, version+1, func(e *Event, v uint64) int {
		switch {
		case e.Version < v:
			return -1
		case e.Version > v:
			return 1
		}
		return 0
	})
	return st.history[first:]
}

func (st *store) keys() []string {
	return slices.Sorted(maps.Keys(st.objects))
}

// commit makes a change: a creation (before is nil), a new state, or a removal (gone). The object belongs to the server
// from here on.
func (s *Server) commit(st *store, before, after Object, gone bool) {
	s.version++
	after.SetResourceVersion(strconv.FormatUint(s.version, 10))
	e := &Event{Object: after, Before: before, Version: s.version, Time: time.Now(), By: s.writer}
	key := keyOf(after.GetNamespace(), after.GetName())
	switch {
	case gone:
		e.Type = watch.Deleted
		delete(st.objects, key)
	case before == nil:
		e.Type = watch.Added
		st.objects[key] = after
	default:
		e.Type = watch.Modified
		st.objects[key] = after
	}
	st.history = append(st.history, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

// Since returns the changes of a kind after a version, oldest first.
func (s *Server) Since(resource string, version uint64) []*Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stores[resource].since(version))
}

// CountLocked counts objects of a kind. It is for Admit, which is called with the server locked.
func (s *Server) CountLocked(resource string, counts func(Object) bool) (n int) {
	for _, o := range s.stores[resource].objects {
		if counts(o) {
			n++
		}
	}
	return n
}

// Past returns the objects of a kind as they were at a version, by namespace and name.
func (s *Server) Past(resource string, version uint64) []Object {
	past := map[string]Object{}
	for _, e := range s.Since(resource, 0) {
		if e.Version > version {
			break
		}
		if key := keyOf(e.Object.GetNamespace(), e.Object.GetName()); e.Type == watch.Deleted {
			delete(past, key)
		} else {
			past[key] = e.Object
		}
	}
	var all []Object
	for _, key := range slices.Sorted(maps.Keys(past)) {
		all = append(all, past[key])
	}
	return all
}
