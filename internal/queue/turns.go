package queue

import (
	"container/heap"

	"k8s.io/apimachinery/pkg/types"
)

// place says in which line something waits.
type place struct {
	namespace string
	owner     types.UID
	since     int64 // when the work began that it is part of, in nanoseconds of Unix time; zero if none is in progress
}

// Turns are what waits for something else than a worker, and takes turns like keys: namespaces do, and in a namespace owners. The zero value is
// empty. It is not safe for concurrent use.
type Turns[T any] struct{ waiting turns[T] }

// Add puts something at the end of the line of an owner in a namespace.
func (t *Turns[T]) Add(what T, namespace string, owner types.UID) {
	t.waiting.push(place{namespace: namespace, owner: owner}, &spot[T]{element: element[T]{of: what}})
}

// Next takes out what is next, if anything waits.
func (t *Turns[T]) Next() (next T, waits bool) {
	if t.waiting.empty() {
		return next, false
	}
	return t.waiting.pop(), true
}

// turns are lines that take turns: namespaces do, and in a namespace its owners. Work that is in progress in a namespace goes in the order in
// which it began. A line is first come, first served. What one turn costs does not grow with what waits, and with the lines of a namespace it
// grows like their logarithm. The zero value is empty. It is not safe for concurrent use.
type turns[T any] struct {
	namespaces list[*namespace[T]] // that have lines; the first one is next
	byName     map[string]*namespace[T]
	lines      map[place]*line[T]
	ticket     int64 // the last turn that was given to a line
}

type namespace[T any] struct {
	element[*namespace[T]]
	lines lines[T]
}

// line is one line; it is dropped when nobody waits in it.
type line[T any] struct {
	place
	in      *namespace[T]
	turn    int64 // the line of a namespace that has the lowest one is next
	at      int   // its index in the lines of the namespace
	waiting list[T]
}

// spot is where something waits, so that it can be taken out.
type spot[T any] struct {
	element[T]
	line *line[T]
}

func (t *turns[T]) empty() bool { return t.namespaces.first == nil }

// push puts what the spot holds at the end of its line.
func (t *turns[T]) push(p place, s *spot[T]) {
	l := t.lines[p]
	if l == nil {
		l = t.open(p)
	}
	s.line = l
	l.waiting.append(&s.element)
}

// open begins a line.
func (t *turns[T]) open(p place) *line[T] {
	if t.lines == nil {
		t.lines, t.byName = map[place]*line[T]{}, map[string]*namespace[T]{}
	}
	n := t.byName[p.namespace]
	if n == nil {
		n = &namespace[T]{}
		n.of = n
		t.byName[p.namespace] = n
		t.namespaces.append(&n.element)
	}
	l := &line[T]{place: p, in: n, turn: p.since}
	t.last(l)
	t.lines[p] = l
	heap.Push(&n.lines, l)
	return l
}

// pop takes out what is next. It is called only when there is something.
func (t *turns[T]) pop() T { return t.popOf(t.namespaces.first.of) }

// name is that of a namespace that has a line.
func (n *namespace[T]) name() string { return n.lines[0].namespace }

// popOf takes out what is next in a namespace.
func (t *turns[T]) popOf(n *namespace[T]) T {
	t.namespaces.remove(&n.element)
	t.namespaces.append(&n.element)
	l := n.lines[0]
	t.last(l)
	heap.Fix(&n.lines, 0)
	next := l.waiting.first
	t.leave(l, next)
	return next.of
}

// last makes a line the last one of its namespace, unless it is of work in progress.
func (t *turns[T]) last(l *line[T]) {
	if l.since == 0 {
		t.ticket++
		l.turn = t.ticket
	}
}

// remove takes out what waits at the spot. That was nobody's turn.
func (t *turns[T]) remove(s *spot[T]) { t.leave(s.line, &s.element) }

// leave takes an element out of a line, and ends the line when it was the last.
func (t *turns[T]) leave(l *line[T], e *element[T]) {
	l.waiting.remove(e)
	if l.waiting.first != nil {
		return
	}
	delete(t.lines, l.place)
	heap.Remove(&l.in.lines, l.at)
	if len(l.in.lines) == 0 {
		t.namespaces.remove(&l.in.element)
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

// list is a doubly linked list. Its elements are parts of what they stand for, so that a list of many costs little.
type list[T any] struct{ first, last *element[T] }

// element is in one list at most.
type element[T any] struct {
	of             T
	previous, next *element[T]
}

// firstOf returns the first of which a function says that it may have its turn, or the first of all if it says so of none; nil of an empty list.
func (l *list[T]) firstOf(may func(T) bool) *element[T] {
	for e := l.first; e != nil; e = e.next {
		if may(e.of) {
			return e
		}
	}
	return l.first
}

func (l *list[T]) append(e *element[T]) {
	e.previous, e.next = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
}

func (l *list[T]) remove(e *element[T]) {
	if e.previous == nil {
		l.first = e.next
	} else {
		e.previous.next = e.next
	}
	if e.next == nil {
		l.last = e.previous
	} else {
		e.next.previous = e.previous
	}
	e.previous, e.next = nil, nil
}
