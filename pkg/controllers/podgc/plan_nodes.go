package podgc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// gracePeriod is how long a node must have been missing before it is read live (PGC-9).
	gracePeriod = 40 * time.Second
	// window is the age of the node counts that the brake compares with: those of then, or of when the rule began, if
	// that is later.
	window = 10 * time.Minute
)

// memory is what the orphaned rule remembers from one reconcile to the next: since when nodes are missing,
// and which there were. Observe and prove make it; it is kept whatever becomes of the pods.
type memory struct {
	Missing map[string]time.Time // names that pods are assigned to and no node has, since when
	Seen    map[string]span      // nodes of the last window
	Began   time.Time            // of the first reconcile
	Held    holdKind             // as the last reconcile found it
}

// span is from when until when a node was seen.
type span struct{ First, Last time.Time }

// clone returns a copy to change; of nil, an empty memory.
func (m *memory) clone() memory {
	if m == nil {
		return memory{}
	}
	c := *m
	c.Missing, c.Seen = maps.Clone(m.Missing), maps.Clone(m.Seen)
	return c
}

// nodeCounts is what there is to say of the nodes at one moment.
type nodeCounts struct {
	Missing  int           // names that pods are assigned to and no node has
	Due      []string      // of these, the ones whose grace period is over; those that have waited longest first
	Next     time.Duration // until the next one is due; zero if there is none
	Known    int           // nodes that were there a window ago
	Vanished int           // of these, the ones that are not there
	Expired  int           // nodes that vanished a window ago, and no longer count from now on
}

// held says whether the orphans are held back, and why.
type held struct {
	Kind holdKind
	Why  string
}

// holdKind is why orphans are held back.
type holdKind int

const (
	free            holdKind = iota
	tooManyVanished          // more nodes are lost than an ordinary day takes
	notProved                // the cache may not show the nodes as they are
)

// tooMany holds the orphans because more nodes have vanished than the budget allows.
func (c nodeCounts) tooMany() held {
	return held{tooManyVanished,
		fmt.Sprintf("%d of the %d nodes known %s ago have vanished", c.Vanished, c.Known, window)}
}

// checkNames holds the orphans unless the cache shows exactly the nodes that a live list names. What has vanished is
// counted from the cache, and is worth nothing when that lags behind.
func checkNames(live, cached []string) held {
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
		return held{}
	}
	return held{notProved,
		fmt.Sprintf("the cache of nodes lags behind the server: it has %d nodes that are gone, and lacks %d", more,
			fewer)}
}

// begin is called once, before the first count, with names of nodes that have been there, as their pods prove: whoever
// takes over right after a disaster has nothing else to recognise it by.
func (m *memory) begin(now time.Time, lost []string) {
	*m = memory{Missing: map[string]time.Time{}, Seen: map[string]span{}, Began: now, Held: m.Held}
	for _, name := range lost {
		m.Seen[name] = span{now, now}
	}
}

// count notes which nodes there are and which names pods are assigned to, and says what that comes to.
func (m *memory) count(now time.Time, nodes, used []string) nodeCounts {
	if m.Began.IsZero() {
		m.begin(now, nil)
	}
	present := make(map[string]bool, len(nodes))
	for _, name := range nodes {
		present[name] = true
		s, ok := m.Seen[name]
		if !ok {
			s.First = now
		}
		s.Last = now
		m.Seen[name] = s
	}
	c := m.absent(now, present, used)
	then := now.Add(-window)
	if then.Before(m.Began) {
		then = m.Began
	}
	for name, s := range m.Seen {
		switch {
		case s.Last.Before(then):
			delete(m.Seen, name)
			c.Expired++
		case s.First.After(then): // it has come since; if it has gone again, too, that is no loss
		default:
			c.Known++
			if !present[name] {
				c.Vanished++
			}
		}
	}
	return c
}

// absent keeps the grace periods: that of a name begins when it is missed for the first time, and ends when its node is
// there or no pod names it any more. Whether it was missed in between does not matter (PGC-9).
func (m *memory) absent(now time.Time, present map[string]bool, used []string) (c nodeCounts) {
	absent := make(map[string]bool)
	for _, name := range used {
		if !present[name] {
			absent[name] = true
			if _, ok := m.Missing[name]; !ok {
				m.Missing[name] = now
			}
		}
	}
	for name, since := range m.Missing {
		switch {
		case !absent[name]:
			delete(m.Missing, name)
		case now.Sub(since) >= gracePeriod:
			c.Due = append(c.Due, name)
		default:
			if left := gracePeriod - now.Sub(since); c.Next == 0 || left < c.Next {
				c.Next = left
			}
		}
	}
	c.Missing = len(absent)
	slices.SortFunc(c.Due, func(a, b string) int {
		return cmp.Or(m.Missing[a].Compare(m.Missing[b]), strings.Compare(a, b))
	})
	return c
}

// release ends the grace period of a name: it begins anew if pods still name it when they are counted (PGC-10, PGC-11).
func (m *memory) release(name string) { delete(m.Missing, name) }
