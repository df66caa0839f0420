package clienttest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Server stands in for an API server and for the client that reaches it ([client.Client]). It serves objects of any
// kind: built-in ones as typed objects, others as unstructured ones. It has versions, uids, generated names,
// optimistic concurrency, preconditions, selectors, and watches, whose events can be held back. Each write can be
// made to fail, before or after it is carried out, and is kept in a log.
//
// It does not validate, has no finalizers, grace periods or dry runs, deletes no dependents, and does not keep the
// writers of a subresource from the other fields of the object. It is safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	changes int // made so far
	objects map[schema.GroupVersionKind]map[plan.Key]plan.Object
	history map[schema.GroupVersionKind][]event // of all watches, in order
	streams map[schema.GroupVersionKind][]*stream
	frozen  map[schema.GroupVersionKind]bool
	log     []Write
	raw     map[string][]byte
	before  func(Write) error
	after   func(Write) error
	allowed func(authorizationv1.SubjectAccessReviewSpec) bool
}

var _ client.Client = (*Server)(nil)

// Write is one request that writes.
type Write struct {
	Verb string // create, update, patch, delete or deletecollection
	client.Mapping
	Key           plan.Key             // of the object; its name is the prefix and "*" if the server makes it up
	Options       client.WriteOptions  // of create, update and patch
	DeleteOptions metav1.DeleteOptions // of delete and deletecollection
	Err           error                // why the server refused it; nil if it was carried out
}

// String returns the verb, the kind and the name, as in "create Pod a" or "refused update Pod a".
func (w Write) String() string {
	text := fmt.Sprintf("%s %s %s", w.Verb, w.Kind, w.Key.Name)
	if w.Err != nil {
		return "refused " + text
	}
	return text
}

// NewServer returns a server without objects.
func NewServer() *Server {
	return &Server{
		objects: map[schema.GroupVersionKind]map[plan.Key]plan.Object{},
		history: map[schema.GroupVersionKind][]event{},
		streams: map[schema.GroupVersionKind][]*stream{},
		frozen:  map[schema.GroupVersionKind]bool{},
		raw:     map[string][]byte{},
	}
}

// BeforeWrite sets a function that is called with each write before it is carried out. When it returns an error, the
// write is neither carried out nor kept in the log, and that is its error. Nil stands for none. The function may be
// called from several goroutines at once.
func (s *Server) BeforeWrite(f func(Write) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// AfterWrite sets a function that is called with each write that was carried out. When it returns an error, that is
// the write's error, although it was carried out. Nil stands for none. The function may be called from several
// goroutines at once.
func (s *Server) AfterWrite(f func(Write) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = f
}

// RefuseFirst returns a function for BeforeWrite that refuses the first n writes, with these errors in turn.
func RefuseFirst(n int, refusals ...error) func(Write) error {
	var taken atomic.Int64
	return func(Write) error {
		if i := int(taken.Add(1)) - 1; i < n {
			return refusals[i%len(refusals)]
		}
		return nil
	}
}

// Authorize sets what SubjectAccessReview answers. Without it everything is allowed.
func (s *Server) Authorize(allowed func(authorizationv1.SubjectAccessReviewSpec) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = allowed
}

// ServeRaw sets what GetRaw answers for a path. Other paths are not found.
func (s *Server) ServeRaw(path string, answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw[path] = answer
}

// Put stores an object as it is, under a new version, and returns it as it was stored. A uid is made up if it has
// none. It is no write: it always succeeds, and is not logged.
func (s *Server) Put(o plan.Object) (plan.Object, error) {
	kind, err := client.KindOf(o)
	if err != nil {
		return nil, err
	}
	m, _ := client.BuiltIn(kind)
	m.GroupVersionKind = kind
	o, err = stored(m, o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	made := watch.Modified
	if s.objects[kind][plan.KeyOf(o)] == nil {
		made = watch.Added
	}
	return s.store(kind, made, o).DeepCopyObject().(plan.Object), nil
}

// Names returns the names of the objects of a kind, sorted.
func (s *Server) Names(kind schema.GroupVersionKind) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for key := range s.objects[kind] {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return names
}

// Writes returns the writes that have reached the server, in order.
func (s *Server) Writes() []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Log returns the writes that have reached the server in words, see [Write.String].
func (s *Server) Log() []string {
	var lines []string
	for _, w := range s.Writes() {
		lines = append(lines, w.String())
	}
	return lines
}

// CountWrites counts the lines of [Server.Log] that begin so.
func (s *Server) CountWrites(prefix string) (n int) {
	for _, line := range s.Log() {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// do carries out a write between the two functions that can make it fail, and logs it.
func (s *Server) do(w Write, carryOut func() error) error {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(w); err != nil {
			return err
		}
	}
	s.mu.Lock()
	w.Err = carryOut()
	s.log = append(s.log, w)
	s.mu.Unlock()
	if w.Err == nil && after != nil {
		return after(w)
	}
	return w.Err
}

// store keeps the object under a new version, sends it to the watches, and returns what it keeps. The caller has
// the lock.
func (s *Server) store(kind schema.GroupVersionKind, change watch.EventType, o plan.Object) plan.Object {
	s.changes++
	o.SetResourceVersion(s.latest())
	if o.GetUID() == "" {
		o.SetUID(types.UID("uid-" + strconv.Itoa(s.changes)))
	}
	if s.objects[kind] == nil {
		s.objects[kind] = map[plan.Key]plan.Object{}
	}
	s.objects[kind][plan.KeyOf(o)] = o
	s.publish(kind, change, o)
	return o
}

// remove takes the object away and sends that to the watches. The caller has the lock.
func (s *Server) remove(kind schema.GroupVersionKind, o plan.Object) {
	s.changes++
	gone := o.DeepCopyObject().(plan.Object)
	gone.SetResourceVersion(s.latest())
	delete(s.objects[kind], plan.KeyOf(o))
	s.publish(kind, watch.Deleted, gone)
}

// latest returns the version of the last change, whatever it changed. It is 1 before the first one, as 0 means any
// version. The caller has the lock.
func (s *Server) latest() string { return strconv.Itoa(s.changes + 1) }
