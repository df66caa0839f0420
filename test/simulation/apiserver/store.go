package apiserver

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
)

// store has the objects of one kind, and how they came about.
type store struct {
	*Kind
	objects   map[string]Object // by namespace and name
	history   []*Event
	compacted uint64                                 // watches cannot begin before this version
	outdated  map[string]bool                        // objects that are stored in another version than new ones
	managers  map[string]*managedfields.FieldManager // by subresource
}

// Event is a change of an object.
type Event struct {
	Type     watch.EventType
	Resource string
	Object   Object // as it is after the change; of a deleted one the last state, with the version of the deletion
	Before   Object // nil if it is new
	Version  uint64 // which the change has made
	Time     time.Time
	By       string // who made it

	frames map[form][]byte // encoded
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
// from here on. A dry run changes nothing.
func (s *Server) commit(st *store, before, after Object, gone bool) {
	if s.dryRun {
		return
	}
	s.version++
	after.SetResourceVersion(strconv.FormatUint(s.version, 10))
	e := &Event{Resource: st.key, Object: after, Before: before, Version: s.version, Time: time.Now(), By: s.writer}
	key := keyOf(after.GetNamespace(), after.GetName())
	if delete(st.outdated, key); st.defines() {
		s.restore(before, after)
	}
	switch {
	case gone:
		e.Type = watch.Deleted
		delete(st.objects, key)
	case before == nil:
		e.Type = watch.Added
		s.take(st, after)
		st.objects[key] = after
	default:
		e.Type = watch.Modified
		st.objects[key] = after
	}
	st.history = append(st.history, e)
	s.log = append(s.log, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

// Past returns the objects of a kind as they were at a version, by namespace and name.
func (s *Server) Past(resource string, version uint64) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stores[resource].at(version)
}

// at returns the objects as they were at a version, by namespace and name.
func (st *store) at(version uint64) []Object {
	objects := st.objects
	if len(st.since(version)) > 0 {
		objects = map[string]Object{}
		for _, e := range st.history {
			if e.Version > version {
				break
			}
			if key := keyOf(e.Object.GetNamespace(), e.Object.GetName()); e.Type == watch.Deleted {
				delete(objects, key)
			} else {
				objects[key] = e.Object
			}
		}
	}
	all := make([]Object, 0, len(objects))
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, objects[key])
	}
	return all
}
