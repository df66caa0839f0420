package oracle

import "fmt"

// Coverage says how much of a history the oracles can judge, so that a test can tell a well-behaved manager from one whose
// doings were not recognised.
type Coverage struct {
	Manager map[string]int // revisions that are the manager's, by kind
	Others  map[string]int // revisions that are not
	// Lost are successful writes of the manager to objects of the kinds that were recorded that match no revision: neither as
	// its author nor as an update without a change.
	Lost []Request
}

// Problems says which writes of the manager the history does not show; there are none in one that can be judged.
func (c Coverage) Problems() (all []string) {
	for _, q := range c.Lost {
		all = append(all,
			fmt.Sprintf("no revision shows the %s of %s %s/%s%s that %s was answered with %d, version %d", q.Verb, q.Resource, q.Namespace,
				q.Name,
				suffix(q.Subresource), q.UserAgent, q.Code, q.Version))
	}
	return all
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
	judged := map[string]bool{} // the resources that were recorded
	for kind, resource := range resources {
		judged[resource] = c.Manager[kind]+c.Others[kind] > 0
	}
	for _, q := range l.requests {
		if q.manager && q.write() && q.Succeeded() && q.made == nil && !q.noop && judged[q.Resource] {
			c.Lost = append(c.Lost, *q.Request)
		}
	}
	return c
}
