package apiserver

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Server is an API server. Objects that it returns or passes on are its own: look, don't touch.
type Server struct {
	// Admit may refuse a write that would otherwise be done: a creation, a change or a deletion. It is called with the server
	// locked, after validation.
	Admit func(Admission) error
	// Wrote is told of every write, done or refused, in order. It is called with the server locked.
	Wrote func(Write, Result)

	encodings map[string]encoding // by media type

	mu        sync.Mutex
	version   uint64
	stores    map[string]*store // by key of the kind
	paths     map[schema.GroupVersionResource]*store
	types     map[reflect.Type]*store
	log       []*Event // of all kinds
	kinds     map[schema.GroupVersionKind]*store
	seed      uint64
	taken     map[string]int  // how many objects had a name, and a name with a beginning, by now
	addresses int             // given to services
	changed   chan struct{}   // closed when something changes
	writer    string          // who makes the change that is under way
	dryRun    bool            // the change that is under way is not stored
	hidden    map[string]bool // groups that discovery does not show
	allowed   func(authorizationv1.SubjectAccessReviewSpec) bool
	loads     map[string]int64
}

// Result is what became of a write.
type Result struct {
	Before, After Object         // nil where there is none; the same if nothing has changed
	Answer        runtime.Object // of a subresource that is not answered with the object
	Err           error
}

// Admission is a write that is about to be done.
type Admission struct {
	Write
	Before, After Object // nil where there is none
}

// New returns a server with nothing in it but the namespaces default and kube-system. The seed decides on the names and
// uids that it makes up.
func New(seed uint64) *Server {
	s := &Server{
		stores: map[string]*store{}, paths: map[schema.GroupVersionResource]*store{}, types: map[reflect.Type]*store{},
		kinds: map[schema.GroupVersionKind]*store{}, seed: seed, taken: map[string]int{}, changed: make(chan struct{}),
		hidden: map[string]bool{},
		// Kinds share one sequence of versions, as in etcd.
		version: 100, encodings: newEncodings(),
	}
	for _, k := range builtIn() {
		s.add(k)
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, "kube-node-lease"} {
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

// Kind returns what is known of a resource, nil for one that the server does not have. Custom resources are called
// RESOURCE.GROUP.
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

// ResourceOf is the resource of a Go type.
func ResourceOf[T Object](s *Server) string {
	var example T
	return s.storeOf(example).key
}

// Stored is an object with the resource that it belongs to.
type Stored struct {
	Resource string
	Object
}

// Everything returns all objects of all kinds, those of the core group last; within a kind by namespace and name.
func (s *Server) Everything() (all []Stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions, stores := s.served()
	slices.SortStableFunc(versions, func(a, b schema.GroupVersion) int { return strings.Compare(b.Group, a.Group) })
	for _, gv := range versions {
		for _, st := range stores[gv] {
			for _, key := range st.keys() {
				all = append(all, Stored{st.key, st.objects[key]})
			}
		}
	}
	return all
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

// Since returns the changes of a kind after a version, oldest first.
func (s *Server) Since(resource string, version uint64) []*Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stores[resource].since(version))
}

// Log returns the changes of all kinds from one on, oldest first: the first change has the number 0.
func (s *Server) Log(from int) []*Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log[from:])
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
