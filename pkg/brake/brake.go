package brake

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Budget says how many objects of others a controller may remove without further proof. The zero value stands for
// the defaults.
type Budget struct {
	// Share of the objects that exist: to remove more than that is out of the ordinary. Zero: 0.5; negative: there
	// is no brake.
	Share float64
	// MinObjects: of fewer objects than this, any number is ordinary. Zero: 5; negative: no number of objects is that
	// small.
	MinObjects int
}

// Exceeded reports whether it is out of the ordinary to remove n of a number of objects.
func (b Budget) Exceeded(n, of int) bool { return b.applies(of) && float64(n) > b.share()*float64(of) }

// applies reports whether there may be a number out of the ordinary at all.
func (b Budget) applies(of int) bool {
	return b.share() >= 0 && of >= cmp.Or(b.MinObjects, 5) && of > 0
}

func (b Budget) share() float64 { return cmp.Or(b.Share, 0.5) }

// Cause says why a controller goes on with what it has held.
type Cause string

// The causes.
const (
	ByProof     Cause = "live reads agree"
	ByTime      Cause = "the time is over for which it holds without proof"
	ByOperator  Cause = "an operator has released it"
	NothingLeft Cause = "nothing is left of what was held"
)

// Hold is something that a brake holds.
type Hold struct {
	What  string    `json:"what"` // in a few words, the same each time
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
}

// Release is the end of a hold.
type Release struct {
	Hold
	Cause Cause
}

// MinHeld is how long something must have been held before there is an event. Most of what cannot be proved at once can
// be proved a moment later, and nobody should be woken for that.
const MinHeld = 30 * time.Second

// Brake is that of one controller. Its methods may be called from several goroutines.
type Brake struct {
	budget Budget

	mu        sync.Mutex
	released  bool
	holds     map[string]*hold
	inherited map[string]*inheritance
}

// inheritance is what the previous leader has held.
type inheritance struct {
	since time.Time
	until time.Time // then it counts no longer
	held  bool      // this process has held it, too, since it leads
}

type hold struct {
	Hold
	told  bool
	cause Cause // empty while it is held; a hold without an event is forgotten when it ends
}

// New returns a brake that holds nothing.
func New(b Budget) *Brake {
	return &Brake{budget: b, holds: map[string]*hold{}, inherited: map[string]*inheritance{}}
}

// Applies reports whether the brake may trip at all, of that many objects.
func (b *Brake) Applies(of int) bool { return b.budget.applies(of) && !b.Released() }

// Trips reports whether the brake trips when n of a number of objects are about to be removed.
func (b *Brake) Trips(n, of int) bool { return b.budget.Exceeded(n, of) && !b.Released() }

// Released reports whether an operator has released the brake. It does not trip then, and what it held should go on.
func (b *Brake) Released() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.released
}

// SetReleased is for the manager, which knows what operators want.
func (b *Brake) SetReleased(released bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released = released
}

// InheritedFor is how long what the previous leader has held counts, from when it was first held. LookedAtWithin is
// how long it counts at least in a new term: by then the controller has looked at it.
const (
	InheritedFor   = time.Hour
	LookedAtWithin = 10 * time.Minute
)

// Inherit notes what the previous leader has held, and forgets all that was noted before. It is for the manager,
// when a term begins.
func (b *Brake) Inherit(now time.Time, all []Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.holds)
	clear(b.inherited)
	for _, h := range all {
		since := h.Since
		if since.After(now) { // by a clock that is ahead
			since = now
		}
		until := since.Add(InheritedFor)
		if least := now.Add(LookedAtWithin); until.Before(least) {
			until = least
		}
		b.inherited[h.What] = &inheritance{since: since, until: until}
	}
}

// Inherited returns since when something has been held, if the previous leader held it. Its reasons may show no
// longer, as they may to a controller that goes on leading; so the controller holds it as that would.
func (b *Brake) Inherited(now time.Time, what string) (since time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.inherited[what]
	if i == nil || !now.Before(i.until) || b.released || b.budget.share() < 0 {
		return time.Time{}, false
	}
	return i.since, true
}

// Noted returns what the next leader is to know of: what is held, for however short a time, and what was inherited
// and not looked at yet. It is sorted.
func (b *Brake) Noted(now time.Time) (all []Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.holds {
		if h.cause == "" {
			all = append(all, h.Hold)
		}
	}
	for what, i := range b.inherited {
		if !i.held && now.Before(i.until) {
			all = append(all, Hold{What: what, Since: i.since})
		}
	}
	return sorted(all)
}

func sorted(all []Hold) []Hold {
	slices.SortFunc(all, func(a, b Hold) int { return strings.Compare(a.What, b.What) })
	return all
}

// Hold notes that something is held, or still is, and why.
func (b *Brake) Hold(now time.Time, what, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.holds[what]
	if h == nil {
		h = &hold{Hold: Hold{What: what, Since: now}}
		if i := b.inherited[what]; i != nil && !i.held {
			h.Since, i.held = i.since, true
		}
		b.holds[what] = h
	}
	h.Why, h.cause = why, ""
}

// Release notes that something is held no longer, and why. It need not have been held.
func (b *Brake) Release(what string, cause Cause) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch h := b.holds[what]; {
	case h == nil || h.cause != "":
	case !h.told:
		delete(b.holds, what)
	case b.released && cause != NothingLeft:
		h.cause = ByOperator
	default:
		h.cause = cause
	}
}

// Holds returns what has been held for long enough for an event, sorted.
func (b *Brake) Holds(now time.Time) (all []Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.holds {
		if h.cause == "" && now.Sub(h.Since) >= MinHeld {
			all = append(all, h.Hold)
		}
	}
	return sorted(all)
}

// Events returns what events are to be recorded for: what is held since longer than [MinHeld], and what of this has
// ended, each once.
func (b *Brake) Events(now time.Time) (held []Hold, ended []Release) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for what, h := range b.holds {
		switch {
		case h.cause != "":
			ended = append(ended, Release{h.Hold, h.cause})
			delete(b.holds, what)
		case !h.told && now.Sub(h.Since) >= MinHeld:
			h.told = true
			held = append(held, h.Hold)
		}
	}
	for what, i := range b.inherited {
		if now.Before(i.until) {
			continue
		}
		if delete(b.inherited, what); !i.held {
			ended = append(ended, Release{Hold{What: what, Since: i.since}, NothingLeft})
		}
	}
	return held, ended
}
