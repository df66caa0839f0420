package queue

// shares show who has how much of something that is limited, such as workers: the namespaces. While another namespace
// waits, none is given more than half of it. What one was given before that is not taken from it; instead, what it has
// beyond its half does not count, so that the others find the other half of the limit free, whatever the first one
// waits for. So no more than one and a half times the limit is given. With a limit of one there is nothing to share.
// Without a limit, everything is given. It is not safe for concurrent use.
type shares struct {
	limit  int // zero for none
	used   int
	beyond int // of those used, how many namespaces have beyond their halves
	// of is how much each namespace has.
	of map[string]int
}

// half is the most that a namespace has while others wait; at least one is left to others if there are two.
func (s *shares) half() int { return (s.limit + 1) / 2 }

// most is the most that is ever given.
func (s *shares) most() int { return s.limit + s.limit - s.half() }

// modest reports whether a namespace has less than its half.
func (s *shares) modest(namespace string) bool { return s.limit == 0 || s.of[namespace] < s.half() }

// free reports whether a namespace can be given one, as far as there is one.
func (s *shares) free(namespace string) bool {
	return s.limit == 0 || s.used < s.limit || s.modest(namespace) && s.used-s.beyond < s.limit
}

// take gives one to a namespace.
func (s *shares) take(namespace string) {
	if s.of == nil {
		s.of = map[string]int{}
	}
	if !s.modest(namespace) {
		s.beyond++
	}
	s.used++
	s.of[namespace]++
}

// release takes one back.
func (s *shares) release(namespace string) {
	s.used--
	if s.of[namespace]--; s.of[namespace] == 0 {
		delete(s.of, namespace)
	}
	if !s.modest(namespace) {
		s.beyond--
	}
}
