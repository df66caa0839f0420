package oracle

// Coverage says how much of a history the oracles can judge, so that a test can tell a well-behaved manager from one whose
// doings were not recognised.
type Coverage struct {
	Manager map[string]int // revisions that are the manager's, by kind
	Others  map[string]int // revisions that are not
	// Lost are successful writes of the manager to objects of the kinds that match no revision: neither as its author
	// nor as an update without a change.
	Lost []Request
}

// Cover returns the coverage of a history.
func Cover(h *History, o Options) Coverage {
	o = o.withDefaults()
	l := link(h, &o)
	c := Coverage{Manager: map[string]int{}, Others: map[string]int{}}
	for _, r := range l.revisions {
		if r.manager {
			c.Manager[r.kind]++
		} else {
			c.Others[r.kind]++
		}
	}
	judged := map[string]bool{}
	for _, resource := range resources {
		judged[resource] = true
	}
	for _, q := range l.requests {
		if q.manager && q.write() && q.Succeeded() && q.made == nil && !q.noop && judged[q.Resource] {
			c.Lost = append(c.Lost, *q.Request)
		}
	}
	return c
}
