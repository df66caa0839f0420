package podgc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// quarantine is how long a node must have been missing before it is read live (PGC-9).
	quarantine = 40 * time.Second
	// window is how far back the brake looks: at the nodes that were there then, or when the rule began, if that is later.
	window = 10 * time.Minute
	// small clusters had fewer nodes than this then, and have no brake.
	small = 5
)

// memory is what the orphaned rule remembers between two looks. Its time is an argument. Only one look at a time uses it.
type memory struct {
	missing map[string]time.Time // names that pods are assigned to and no node has, since when
	seen    map[string]span      // nodes of the last window
	began   time.Time            // of the first look
}

// span is from when until when a node was seen.
type span struct{ first, last time.Time }

// census is what a look makes of the nodes.
type census struct {
	missing  int           // names that pods are assigned to and no node has
	due      []string      // of these, the ones whose quarantine is over; those that have waited longest first
	next     time.Duration // until the next one is due; zero if there is none
	known    int           // nodes that were there a window ago
	vanished int           // of these, the ones that are not there
}

// begin is called once, before the first look, with names of nodes that have been there, as their pods prove: whoever
// takes over right after a disaster has nothing else to tell it by.
func (m *memory) begin(now time.Time, lost []string) {
	*m = memory{missing: map[string]time.Time{}, seen: map[string]span{}, began: now}
	for _, name := range lost {
		m.seen[name] = span{now, now}
	}
}

// count notes which nodes there are and which names pods are assigned to, and says what that comes to.
func (m *memory) count(now time.Time, nodes, used []string) census {
	if m.began.IsZero() {
		m.begin(now, nil)
	}
	present := make(map[string]bool, len(nodes))
	for _, name := range nodes {
		present[name] = true
		s, ok := m.seen[name]
		if !ok {
			s.first = now
		}
		s.last = now
		m.seen[name] = s
	}
	c := m.absent(now, present, used)
	then := now.Add(-window)
	if then.Before(m.began) {
		then = m.began
	}
	for name, s := range m.seen {
		switch {
		case s.last.Before(then):
			delete(m.seen, name)
		case s.first.After(then): // it has come since; if it has gone again, too, that is no loss
		default:
			c.known++
			if !present[name] {
				c.vanished++
			}
		}
	}
	return c
}

// absent keeps the quarantine: a name enters it when it is missed for the first time, and leaves it when its node is
// there or no pod names it any more. Whether it was missed in between does not matter (PGC-9).
func (m *memory) absent(now time.Time, present map[string]bool, used []string) (c census) {
	absent := make(map[string]bool)
	for _, name := range used {
		if !present[name] {
			absent[name] = true
			if _, ok := m.missing[name]; !ok {
				m.missing[name] = now
			}
		}
	}
	for name, since := range m.missing {
		switch {
		case !absent[name]:
			delete(m.missing, name)
		case now.Sub(since) >= quarantine:
			c.due = append(c.due, name)
		default:
			if left := quarantine - now.Sub(since); c.next == 0 || left < c.next {
				c.next = left
			}
		}
	}
	c.missing = len(absent)
	slices.SortFunc(c.due, func(a, b string) int {
		return cmp.Or(m.missing[a].Compare(m.missing[b]), strings.Compare(a, b))
	})
	return c
}

// release ends the quarantine of a name: it enters anew if pods still name it when they are looked at (PGC-10, PGC-11).
func (m *memory) release(name string) { delete(m.missing, name) }

// brake says whether the deletion of orphans waits.
type brake struct {
	kind brakeKind
	why  string
}

type brakeKind int

const (
	released        brakeKind = iota
	tooManyVanished           // more nodes are lost than an ordinary day takes
	notProved                 // the cache may not show the nodes as they are
)

// small reports whether the cluster is too small to have a brake.
func (c census) small() bool { return c.known < small }

// checkShare puts the brake on when more than the given share of the nodes known a window ago has vanished.
func (c census) checkShare(limit float64) brake {
	if limit <= 0 || c.small() || float64(c.vanished) <= limit*float64(c.known) {
		return brake{}
	}
	return brake{tooManyVanished, fmt.Sprintf("%d of the %d nodes known %s ago have vanished, more than --pod-gc-orphan-brake=%v allows",
		c.vanished, c.known, window, limit)}
}

// checkNames puts the brake on unless the cache shows exactly the nodes that a live list names. The share is counted
// from the cache, and is worth nothing when that lags behind.
func checkNames(live, cached []string) brake {
	exists := make(map[string]bool, len(live))
	for _, name := range live {
		exists[name] = true
	}
	known := 0
	for _, name := range cached {
		if exists[name] {
			known++
		}
	}
	more, fewer := len(cached)-known, len(exists)-known
	if more == 0 && fewer == 0 {
		return brake{}
	}
	return brake{notProved, fmt.Sprintf("the cache of nodes lags behind the server: it has %d nodes that are gone, and lacks %d", more, fewer)}
}
