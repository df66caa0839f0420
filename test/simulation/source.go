package simulation

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// source shows what there is on a simulated API server, and how it came about.
type source struct {
	server *apiserver.Server
	lost   bool // an event
}

// Objects implements suite.Source.
func (s source) Objects(kind schema.GroupVersionKind) (objects []suite.Object) {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	for _, o := range s.server.Past(resource.Resource, s.server.Version()) {
		objects = append(objects, o)
	}
	return objects
}

// Everything implements suite.Source.
func (s source) Everything() (everything []suite.Stored) {
	for _, o := range s.server.Everything() {
		if o.Resource != "events" {
			everything = append(everything, suite.Stored{Resource: o.Resource, Object: o})
		}
	}
	return everything
}

// Changes implements suite.Source.
func (s source) Changes(resource string) []suite.Change {
	events := s.server.Since(resource, 0)
	changes := make([]suite.Change, len(events))
	for i, e := range events {
		changes[i] = suite.Change{Object: e.Object, Deleted: e.Type == watch.Deleted, Managed: managed(e.By), Version: e.Version,
			Time: e.Time}
		if e.Before != nil {
			changes[i].Before = e.Before
		}
	}
	return changes
}

// Authority implements suite.Source.
func (s source) Authority() string { return suite.RootCAFile() }

// EventsLost implements suite.Source.
func (s source) EventsLost() bool { return s.lost }
