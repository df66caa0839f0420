package metadata

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

var (
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	gadgets = schema.GroupVersionResource{Group: "other.example.com", Version: "v1beta1", Resource: "gadgets"}
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// Faults of a resource. A status code is one, too.
const (
	hangs       = -1 // requests are not answered
	noWatchList = -2 // watches with initial events are refused
	noHeaders   = -3 // watches with initial events are not answered
	noEnd       = -4 // watches stay open for longer than was asked for
)

// server is an API server as a transport sees it: lists and watches, also with initial events, of whatever
// resources it is asked for.
type server struct {
	mu       sync.Mutex
	version  int
	changed  chan struct{} // closed at the next change of anything
	kinds    map[string]*servedKind
	compacts int // watches from before this version have expired
}

// servedKind is what the server has of one resource.
type servedKind struct {
	fault   int
	objects map[string]*metav1.PartialObjectMetadata
	history []servedEvent
	asked   int // requests
	lists   int // of them
	open    int // watches
}

type servedEvent struct {
	version int
	kind    string
	object  *metav1.PartialObjectMetadata
}

func newServer() *server {
	return &server{version: 100, changed: make(chan struct{}), kinds: map[string]*servedKind{}}
}

func (s *server) client() metadata.Interface {
	return must(metadata.NewForConfig(&rest.Config{Host: "http://api", QPS: -1, Transport: s}))
}

func pathOf(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return "/api/" + r.Version + "/" + r.Resource
	}
	return "/apis/" + r.Group + "/" + r.Version + "/" + r.Resource
}

// of is called under the lock.
func (s *server) of(path string) *servedKind {
	if s.kinds[path] == nil {
		s.kinds[path] = &servedKind{objects: map[string]*metav1.PartialObjectMetadata{}}
	}
	return s.kinds[path]
}

// look calls the function with what the server has of a resource.
func (s *server) look(r schema.GroupVersionResource, at func(k *servedKind)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at(s.of(pathOf(r)))
}

// setFault gives a resource a fault, and ends its watches; 0 mends it.
func (s *server) setFault(fault int, resources ...schema.GroupVersionResource) {
	for _, r := range resources {
		s.look(r, func(k *servedKind) { k.fault = fault })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify()
}

func (s *server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// object is one of the server's, with what informers strip.
func object(namespace, name, uid string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.APIVersion, o.Kind = "meta.k8s.io/v1", "PartialObjectMetadata"
	o.Namespace, o.Name, o.UID = namespace, name, types.UID(uid)
	o.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "test"}}
	return o
}

// set creates or changes an object, and remove deletes it.
func (s *server) set(r schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "ADDED"
	k, key := s.of(pathOf(r)), o.Namespace+"/"+o.Name
	if k.objects[key] != nil {
		kind = "MODIFIED"
	}
	k.objects[key] = s.record(k, kind, o)
}

func (s *server) remove(r schema.GroupVersionResource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, key := s.of(pathOf(r)), namespace+"/"+name
	if o := k.objects[key]; o != nil {
		s.record(k, "DELETED", o)
		delete(k.objects, key)
	}
}

// compact ends all watches, and lets none go on from here; what comes in between is missed.
func (s *server) compact(between func()) {
	s.mu.Lock()
	s.compacts = s.version + 1
	s.notify()
	s.mu.Unlock()
	between()
}

// record is called under the lock.
func (s *server) record(k *servedKind, kind string, o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	s.version++
	o = o.DeepCopy()
	o.ResourceVersion = strconv.Itoa(s.version)
	k.history = append(k.history, servedEvent{s.version, kind, o})
	s.notify()
	return o
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, q := s.of(r.URL.Path), r.URL.Query()
	k.asked++
	initial := q.Get("sendInitialEvents") != ""
	if k.fault == hangs || k.fault == noHeaders && initial {
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
		return nil, r.Context().Err()
	}
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	switch {
	case k.fault > 0:
		return respond(r, k.fault, refusal(k.fault)), nil
	case k.fault == noWatchList && initial:
		return respond(r, http.StatusUnprocessableEntity, refusal(http.StatusUnprocessableEntity)), nil
	case q.Get("watch") == "":
		k.lists++
		list := metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
		list.APIVersion, list.Kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
		if q.Get("resourceVersion") == "0" { // as old as can be
			list.ResourceVersion = "1"
		} else {
			for _, o := range k.objects {
				list.Items = append(list.Items, *o)
			}
		}
		return respond(r, http.StatusOK, io.NopCloser(strings.NewReader(string(must(json.Marshal(list)))))), nil
	case !initial && from < s.compacts-1:
		return respond(r, http.StatusGone, refusal(http.StatusGone)), nil
	}
	return respond(r, http.StatusOK, s.watch(r, k, from, initial)), nil
}

func respond(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Body: body, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
}

func refusal(code int) io.ReadCloser {
	reason := map[int]metav1.StatusReason{http.StatusGone: metav1.StatusReasonExpired,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests, http.StatusNotFound: metav1.StatusReasonNotFound}[code]
	status := metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "conversion webhook failed"}
	status.APIVersion, status.Kind = "v1", "Status"
	return io.NopCloser(strings.NewReader(string(must(json.Marshal(status)))))
}

// watch is called under the lock.
func (s *server) watch(r *http.Request, k *servedKind, from int, initial bool) io.ReadCloser {
	ctx, cancel := context.WithCancel(r.Context())
	if seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); k.fault != noEnd {
		ctx, cancel = context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
	}
	var first []servedEvent
	if initial {
		for _, o := range k.objects {
			first = append(first, servedEvent{0, "ADDED", o})
		}
		end := &metav1.PartialObjectMetadata{}
		end.APIVersion, end.Kind, end.ResourceVersion = "meta.k8s.io/v1", "PartialObjectMetadata", strconv.Itoa(s.version)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		first, from = append(first, servedEvent{0, "BOOKMARK", end}), s.version
	}
	read, write := io.Pipe()
	k.open++
	begun := s.compacts
	go func() {
		defer func() { cancel(); _ = write.Close(); s.mu.Lock(); k.open--; s.mu.Unlock() }()
		for {
			for _, e := range first {
				if _, err := fmt.Fprintf(write, `{"type":%q,"object":%s}`, e.kind, must(json.Marshal(e.object))); err != nil {
					return
				}
			}
			s.mu.Lock()
			ended, changed := k.fault > 0 || k.fault == hangs || s.compacts != begun, s.changed
			first = slices.DeleteFunc(slices.Clone(k.history), func(e servedEvent) bool { return e.version <= from })
			from = s.version
			s.mu.Unlock()
			if ended {
				return
			}
			if len(first) > 0 {
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	context.AfterFunc(r.Context(), func() { _ = write.CloseWithError(r.Context().Err()) })
	return read
}

// model is a handler that knows what it was told.
type model struct {
	t  testing.TB
	mu sync.Mutex
	// by resource and uid
	objects map[schema.GroupVersionResource]map[types.UID]*metav1.PartialObjectMetadata
	log     []string
	busy    map[schema.GroupVersionResource]bool
}

func newModel(t testing.TB) *model {
	return &model{t: t, objects: map[schema.GroupVersionResource]map[types.UID]*metav1.PartialObjectMetadata{},
		busy: map[schema.GroupVersionResource]bool{}}
}

// enter notes what the handler is told, and that no two calls about one resource overlap.
func (m *model) enter(r schema.GroupVersionResource, what string, change func(known map[types.UID]*metav1.PartialObjectMetadata)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[r] {
		m.t.Errorf("two calls about %s at one time", r)
	}
	m.busy[r] = true
	m.mu.Unlock()
	runtime.Gosched()
	m.mu.Lock()
	m.busy[r] = false
	if m.objects[r] == nil {
		m.objects[r] = map[types.UID]*metav1.PartialObjectMetadata{}
	}
	m.log = append(m.log, what)
	change(m.objects[r])
}

func (m *model) OnUpdate(r schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	m.enter(r, "+"+o.Name, func(known map[types.UID]*metav1.PartialObjectMetadata) {
		if before := known[o.UID]; before != nil && before.ResourceVersion == o.ResourceVersion {
			m.t.Errorf("told twice of version %s of %s", o.ResourceVersion, o.Name)
		}
		known[o.UID] = o
	})
}

func (m *model) OnDelete(r schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	m.enter(r, "-"+o.Name, func(known map[types.UID]*metav1.PartialObjectMetadata) {
		if before := known[o.UID]; before == nil || before.Name != o.Name || before.Namespace != o.Namespace {
			m.t.Errorf("told that %s/%s (%s) is gone, of which was known %+v", o.Namespace, o.Name, o.UID, before)
		}
		delete(known, o.UID)
	})
}

// knows returns the objects that are there, as far as the handler was told.
func (m *model) knows(r schema.GroupVersionResource) []*metav1.PartialObjectMetadata {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.objects[r]))
}

// told returns what the handler was told since the last call, sorted.
func (m *model) told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.log)
	log := strings.Join(m.log, " ")
	m.log = nil
	return log
}
