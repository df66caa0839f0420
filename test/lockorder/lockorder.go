package lockorder

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// site is where a lock is declared, as "pkg/informers.all.mu".
type site string

// held is a lock that a goroutine has.
type held struct {
	site site
	lock any // by identity
}

// order is that in which locks were taken.
type order struct {
	mu       sync.Mutex
	held     map[uintptr][]held          // by goroutine
	free     [][]held                    // to be used again
	after    map[site]map[site][]uintptr // the stack where a lock was first taken while another one was held
	problems map[string]bool             // that were found; false once they were told
}

var orders = newOrder()

func newOrder() *order {
	return &order{held: map[uintptr][]held{}, after: map[site]map[site][]uintptr{}, problems: map[string]bool{}}
}

// Problems returns what was found since the last call.
func Problems() (found []string) {
	orders.mu.Lock()
	defer orders.mu.Unlock()
	for _, problem := range slices.Sorted(maps.Keys(orders.problems)) {
		if orders.problems[problem] {
			orders.problems[problem] = false
			found = append(found, problem)
		}
	}
	return found
}

// MayWait is called where a goroutine may wait for long, such as for the answer to a request: it must have no lock then.
func MayWait(what string) {
	orders.mu.Lock()
	defer orders.mu.Unlock()
	for _, h := range orders.held[goroutine()] {
		orders.problem("%s is held during %s:\n%s", h.site, what, stack(callers()))
	}
}

// Pairs returns which locks were taken while others were held, as "pkg/a.T.mu > pkg/b.U.mu".
func Pairs() (all []string) {
	orders.mu.Lock()
	defer orders.mu.Unlock()
	for before, after := range orders.after {
		for to := range after {
			all = append(all, fmt.Sprintf("%s > %s", before, to))
		}
	}
	slices.Sort(all)
	return all
}

// wanted notes that a goroutine is about to wait for a lock.
func (o *order) wanted(at site, lock any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.held[goroutine()] {
		switch {
		case h.lock == lock:
			o.problem("%s is taken again by who has it:\n%s", at, stack(callers()))
		case h.site == at:
			o.problem("%s is taken while another lock of the same kind is held:\n%s", at, stack(callers()))
		case o.after[h.site][at] == nil:
			o.note(h.site, at)
		}
	}
}

// note notes that a lock is taken while another one is held.
func (o *order) note(before, at site) {
	here := callers()
	if way := o.way(at, before, map[site]bool{}); way != nil {
		var text strings.Builder
		fmt.Fprintf(&text, "%s is taken while %s is held:\n%s", at, before, stack(here))
		for i := 1; i < len(way); i++ {
			fmt.Fprintf(&text, "but %s is taken while %s is held:\n%s", way[i], way[i-1], stack(o.after[way[i-1]][way[i]]))
		}
		o.problem("%s", text.String())
	}
	if o.after[before] == nil {
		o.after[before] = map[site][]uintptr{}
	}
	o.after[before][at] = here
}

// way returns the locks on a way from one to another, each of which is taken while the one before is held; nil if there is none.
func (o *order) way(from, to site, seen map[site]bool) []site {
	if from == to {
		return []site{to}
	}
	seen[from] = true
	for _, next := range slices.Sorted(maps.Keys(o.after[from])) {
		if !seen[next] {
			if rest := o.way(next, to, seen); rest != nil {
				return append([]site{from}, rest...)
			}
		}
	}
	return nil
}

// problem is called under the lock. What was found before is not found again.
func (o *order) problem(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !o.told(text) {
		o.problems[text] = true
	}
}

func (o *order) told(text string) bool { _, known := o.problems[text]; return known }

// taken notes that a goroutine has a lock.
func (o *order) taken(at site, lock any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := goroutine()
	all := o.held[g]
	if n := len(o.free); all == nil && n > 0 { // the simulation collects no garbage while it runs
		all, o.free = o.free[n-1], o.free[:n-1]
	}
	o.held[g] = append(all, held{at, lock})
}

// released notes that a lock is given back. Another goroutine than the one that has taken it may do that.
func (o *order) released(lock any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := goroutine()
	if o.drop(g, lock) {
		return
	}
	for other := range o.held {
		if o.drop(other, lock) {
			return
		}
	}
}

func (o *order) drop(g uintptr, lock any) bool {
	all := o.held[g]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].lock != lock {
			continue
		}
		if len(all) == 1 {
			delete(o.held, g)
			o.free = append(o.free, all[:0])
		} else {
			o.held[g] = slices.Delete(all, i, i+1)
		}
		return true
	}
	return false
}

// callers are those of the lock's method.
func callers() []uintptr {
	var pcs [24]uintptr
	return slices.Clone(pcs[:runtime.Callers(2, pcs[:])])
}

// stack is a stack as text, without what is of this package.
func stack(pcs []uintptr) string {
	var text strings.Builder
	for frames := runtime.CallersFrames(pcs); ; {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "/test/lockorder.") || strings.HasSuffix(f.File, "_test.go") {
			fmt.Fprintf(&text, "    %s\n        %s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return text.String()
		}
	}
}
