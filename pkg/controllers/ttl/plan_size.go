package ttl

import (
	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// size is how many nodes there are, and the class of sizes to which that belongs. The term follows it:
// firstSize makes the first value and next each later one. A value is never changed.
type size struct {
	// Nodes is how many there are.
	Nodes int
	// Class is kept while the number fits it, so that a node more or less changes nothing.
	Class int
	names cowmap.Map[string, struct{}] // so that a change that is delivered twice does not count twice
}

// firstSize is that of a cluster with these nodes, so many of which have the annotation of each class.
func firstSize(names []string, annotated [steps]int) size {
	all := make(map[string]struct{}, len(names))
	for _, name := range names {
		all[name] = struct{}{}
	}
	return size{len(all), firstClass(len(all), annotated), cowmap.Of(all)}
}

// next is the size after a node has come, changed, or gone.
func (s size) next(before, after plan.Object) size {
	o := after
	if after == nil {
		o = before
	}
	if _, counted := s.names.Get(o.GetName()); counted == (after != nil) {
		return s
	}
	s.names = s.names.Clone()
	if after != nil {
		s.names.Set(o.GetName(), struct{}{})
		s.Nodes++
	} else {
		s.names.Delete(o.GetName())
		s.Nodes--
	}
	s.Class = nextClass(s.Class, s.Nodes)
	return s
}
