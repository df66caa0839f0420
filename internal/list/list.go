package list

// List is a doubly linked list. The zero List is empty.
type List[T any] struct {
	first, last *Element[T]
	n           int
}

// Element is a place in one list at most.
type Element[T any] struct {
	Value          T // what has the element as a field
	previous, next *Element[T]
}

// Len counts the elements.
func (l *List[T]) Len() int { return l.n }

// First returns the first element; nil of an empty list.
func (l *List[T]) First() *Element[T] { return l.first }

// FirstWhere returns the first element whose value meets a condition, or the first of all if none
// does; nil of an empty list.
func (l *List[T]) FirstWhere(meets func(T) bool) *Element[T] {
	for e := l.first; e != nil; e = e.next {
		if meets(e.Value) {
			return e
		}
	}
	return l.first
}

// Append adds an element that is in no list.
func (l *List[T]) Append(e *Element[T]) {
	e.previous, e.next = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.n++
}

// Remove takes out an element of this list.
func (l *List[T]) Remove(e *Element[T]) {
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
	l.n--
}
