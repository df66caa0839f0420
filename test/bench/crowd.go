package main

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// appLabel tells which Deployment, or Service, a pod belongs to.
const appLabel = "app"

// crowd counts the pods of each Deployment at every event, and remembers by how much they were ever too many or too few.
type crowd struct {
	mu     sync.Mutex
	pods   map[types.UID]counted
	groups map[string]*group
	worst  excess
}

// counted is a pod that is neither being deleted nor finished.
type counted struct {
	app   string
	ready bool
}

type group struct {
	active, ready int
	most, least   int // allowed
	limited       bool
}

// excess is by how many pods limits were exceeded at the worst moment: more than replicas and maxSurge, less available than
// replicas without maxUnavailable.
type excess struct{ tooMany, tooFew int }

func newCrowd() *crowd {
	return &crowd{pods: map[types.UID]counted{}, groups: map[string]*group{}}
}

// allow sets the limits of a Deployment, from now on.
func (c *crowd) allow(app string, most, least int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.group(app)
	g.most, g.least, g.limited = most, least, true
}

// see is told of each change of a pod.
func (c *crowd) see(p *corev1.Pod, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	app := p.Labels[appLabel]
	if before, ok := c.pods[p.UID]; ok {
		c.group(before.app).add(before, -1)
		delete(c.pods, p.UID)
	}
	if !deleted && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
		after := counted{app, isReady(p)}
		c.group(app).add(after, 1)
		c.pods[p.UID] = after
	}
	if g := c.group(app); g.limited {
		c.worst.tooMany = max(c.worst.tooMany, g.active-g.most)
		c.worst.tooFew = max(c.worst.tooFew, g.least-g.ready)
	}
}

// active is the number of pods that are neither being deleted nor finished.
func (c *crowd) active() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pods)
}

// reset forgets limits and what was exceeded.
func (c *crowd) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worst = excess{}
	for _, g := range c.groups {
		g.limited = false
	}
}

func (c *crowd) exceeded() excess {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.worst
}

// group is called with the lock held.
func (c *crowd) group(app string) *group {
	if c.groups[app] == nil {
		c.groups[app] = &group{}
	}
	return c.groups[app]
}

func (g *group) add(p counted, n int) {
	g.active += n
	if p.ready {
		g.ready += n
	}
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
