package garbagecollector

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// askAfter is how long an owner waits for the lists of all kinds before the server is asked for its namespace
	// alone. Lists that can be had nearly always come sooner.
	askAfter = 500 * time.Millisecond
	// askAgain is when the server is asked again that did not answer, or has shown dependents of a kind that is being
	// listed.
	askAgain = 3 * time.Second
)

// unlistedSnapshot is what a live list of one namespace has shown, for the kinds whose objects are not known yet.
type unlistedSnapshot struct {
	namespace string
	asking    []*node             // objects that wait to learn whether they have dependents
	known     bool                // all kinds could be listed
	owners    sets.Set[types.UID] // to which the objects of these kinds refer
}

// unlistedDecision says which of these objects go on, as nothing depends on them that is not known, and which wait on.
type unlistedDecision struct{ cleared, waiting []*node }

// planUnlisted decides about the objects of a namespace that wait. It writes nothing: they are decided about
// themselves. Others may have come since, for which the server is asked again.
func planUnlisted(_ time.Time, s unlistedSnapshot) (d unlistedDecision, p plan.Plan) {
	for _, n := range s.asking {
		if !s.known || s.owners.Has(n.uid) {
			d.waiting = append(d.waiting, n)
		} else {
			d.cleared = append(d.cleared, n)
		}
	}
	switch {
	case len(d.waiting) > 0:
		p.Requeue = askAgain
	case len(s.asking) > 0:
		p.Requeue = askAfter
	}
	return d, p
}
