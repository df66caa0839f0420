package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Group is work that is in progress, on one key or on several that belong together.
type Group struct {
	Since time.Time // when the work began
	id    types.UID
	// keys counts the keys whose work is part of it. The group ends with the last one.
	keys int
}

// Priority is that of the keys of the group.
func (g *Group) Priority() Priority { return Priority{Level: InProgress, Since: g.Since.UnixNano()} }

// Groups are the work groups of a controller, by id: the uid of the controlling owner that the objects of their keys
// have in common, such as the Deployment of several ReplicaSets. What is done for one of them is often needed for
// what the others began, so they share their priority. It is not safe for concurrent use.
type Groups map[types.UID]*Group

// Join returns the group of that id, which begins now if there is none. A key without id works alone.
func (g Groups) Join(id types.UID, now time.Time) *Group {
	if id == "" {
		return &Group{Since: now}
	}
	if g[id] == nil {
		g[id] = &Group{Since: now, id: id}
	}
	g[id].keys++
	return g[id]
}

// Leave ends a key's part in a group. A nil group is fine.
func (g Groups) Leave(one *Group) {
	if one == nil {
		return
	}
	if one.keys--; one.keys == 0 {
		delete(g, one.id)
	}
}
