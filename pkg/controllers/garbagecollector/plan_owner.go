package garbagecollector

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	// unknownFirst is when an owner of an unknown kind is looked up again: discovery counts as current for 10 s.
	// unknownMost is how rare that becomes (GC-34). When its kind is watched, an owner is looked up at once. So the
	// thousands of such owners that a tenant may name cost little.
	unknownFirst = 11 * time.Second
	unknownMost  = 1000 * time.Second
)

// ownerMemory is how often in a row an owner has been looked up whose kind was unknown.
type ownerMemory struct{ unknown int }

// ownerSnapshot is what is known of an owner that no watch has shown, and what a live read of it has just said.
type ownerSnapshot struct {
	owner    statedOwner
	stated   bool       // dependents still state it
	busy     bool       // it waits for its turn, as others of its kind are being read
	state    ownerState // what the read says
	err      error      // why the read says nothing, or why nobody can know
	failures int        // of reads before this one
	unknown  int        // how often in a row its kind was unknown, before this read
}

// ownerDecision is what follows from that.
type ownerDecision struct {
	dropped bool  // nobody need know any more
	waits   bool  // for its turn
	known   bool  // it is known what the owner is, or that nobody can know
	warn    error // why dependents stay, for an event; nil if they are not
	again   error // why it is to be read again; nil if it is not
}

// resolved reports whether it is known whether the owner exists.
func (s ownerSnapshot) resolved() bool { return s.err == nil && s.state != unresolvable }

// kindUnknown reports whether discovery has not found the kind, so that there is nothing to read.
func (s ownerSnapshot) kindUnknown() bool { return meta.IsNoMatchError(s.err) }

// planOwner decides about an owner that no watch has shown (GC-19, GC-33). It writes nothing: dependents are decided
// about themselves.
func planOwner(_ time.Time, s ownerSnapshot) (ownerDecision, plan.Plan) {
	switch {
	case !s.stated:
		return ownerDecision{dropped: true}, plan.Plan{}
	case s.busy:
		return ownerDecision{waits: true}, plan.Plan{}
	}
	if s.kindUnknown() {
		d := ownerDecision{known: true}
		if s.unknown > 0 {
			d.warn = s.err
		}
		return d, plan.Plan{Requeue: plan.Doubling(unknownFirst, unknownMost, s.unknown)}
	}
	d := ownerDecision{known: s.err == nil || s.state == unresolvable, again: s.err}
	switch {
	case s.state == present:
		d.again = errNotShown
	case s.err == nil && s.state == unresolvable:
		d.warn = errNamespaced
	case s.failures >= lasting-1:
		d.warn = s.err
	}
	return d, plan.Plan{}
}
