package queue

import (
	"container/heap"

	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/list"
)

// place says in which line something waits.
type place struct {
	namespace string
	owner     types.UID
	since     int64 // when the work began that it is part of, in nanoseconds of Unix time; zero if none is in progress
}

// Turns is a queue for something else than a worker. Namespaces take turns in it as they do for workers, and in a
// namespace its owners. The zero value is empty. It is not safe for concurrent use.
type Turns[T any] struct{ waiting turns[T] }

// Add puts something at the end of the line of an owner in a namespace.
func (t *Turns[T]) Add(what T, namespace string, owner types.UID) {
	t.waiting.push(place{namespace: namespace, owner: owner}, &spot[T]{Element: list.Element[T]{Value: what}})
}

// Next takes out what is next, if anything waits.
func (t *Turns[T]) Next() (next T, waits bool) {
	if t.waiting.empty() {
		return next, false
	}
	return t.waiting.pop(), true
}

// turns are lines that take turns: namespaces do, and in a namespace its owners. Work that is in progress in a
// namespace is handed out in the order in which it began. A line is first come, first served. What one turn costs does
// not grow with what waits, and with the lines of a namespace it grows like their logarithm. The zero value is empty.
// It is not safe for concurrent use.
type turns[T any] struct {
	namespaces list.List[*namespace[T]] // that have lines; the first one is next
	byName     map[string]*namespace[T]
	lines      map[place]*line[T]
	ticket     int64 // the last turn that was given to a line
}

// namespace is the lines of the owners of one namespace.
type namespace[T any] struct {
	list.Element[*namespace[T]]
	lines lines[T]
}

// line is one line; it is dropped when nobody waits in it.
type line[T any] struct {
	place
	in   *namespace[T]
	turn int64 // the line of a namespace that has the lowest one is next
	at   int   // its index in the lines of the namespace
	// waiting are in the order of their arrival.
	waiting list.List[T]
}

// spot is where something waits, so that it can be taken out.
type spot[T any] struct {
	list.Element[T]
	line *line[T]
}

// empty reports whether nobody waits.
func (t *turns[T]) empty() bool { return t.namespaces.First() == nil }

// push puts what the spot holds at the end of its line.
func (t *turns[T]) push(p place, s *spot[T]) {
	l := t.lines[p]
	if l == nil {
		l = t.open(p)
	}
	s.line = l
	l.waiting.Append(&s.Element)
}

// open begins a line.
func (t *turns[T]) open(p place) *line[T] {
	if t.lines == nil {
		t.lines, t.byName = map[place]*line[T]{}, map[string]*namespace[T]{}
	}
	n := t.byName[p.namespace]
	if n == nil {
		n = &namespace[T]{}
		n.Value = n
		t.byName[p.namespace] = n
		t.namespaces.Append(&n.Element)
	}
	l := &line[T]{place: p, in: n, turn: p.since}
	t.last(l)
	t.lines[p] = l
	heap.Push(&n.lines, l)
	return l
}

// pop takes out what is next. It is called only when there is something.
func (t *turns[T]) pop() T { return t.popOf(t.namespaces.First().Value) }

// name is that of a namespace that has a line.
func (n *namespace[T]) name() string { return n.lines[0].namespace }

// popOf takes out what is next in a namespace.
func (t *turns[T]) popOf(n *namespace[T]) T {
	t.namespaces.Remove(&n.Element)
	t.namespaces.Append(&n.Element)
	l := n.lines[0]
	t.last(l)
	heap.Fix(&n.lines, 0)
	next := l.waiting.First()
	t.leave(l, next)
	return next.Value
}

// last makes a line the last one of its namespace, unless it is of work in progress.
func (t *turns[T]) last(l *line[T]) {
	if l.since == 0 {
		t.ticket++
		l.turn = t.ticket
	}
}

// remove takes out what waits at the spot. That was nobody's turn.
func (t *turns[T]) remove(s *spot[T]) { t.leave(s.line, &s.Element) }

// leave takes an element out of a line, and ends the line when it was the last.
func (t *turns[T]) leave(l *line[T], e *list.Element[T]) {
	l.waiting.Remove(e)
	if l.waiting.First() != nil {
		return
	}
	delete(t.lines, l.place)
	heap.Remove(&l.in.lines, l.at)
	if len(l.in.lines) == 0 {
		t.namespaces.Remove(&l.in.Element)
		delete(t.byName, l.namespace)
	}
}

// lines are those of a namespace, as a heap (container/heap): the next one on top.
type lines[T any] []*line[T]

func (h lines[T]) Len() int           { return len(h) }
func (h lines[T]) Less(i, j int) bool { return h[i].turn < h[j].turn }

func (h lines[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *lines[T]) Push(l any) {
	one := l.(*line[T])
	one.at = len(*h)
	*h = append(*h, one)
}

func (h *lines[T]) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}
