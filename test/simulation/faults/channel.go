package faults

import (
	"io"
	"time"

	"github.com/standalone-kcm/controller-manager/test/oracle/outage"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// channel is the way of one watch.
type channel struct {
	link   *Link
	watch  outage.Watch
	base   time.Duration // that its events take at any rate, unless all takes less
	epochs [2]int        // how often watches had been cut when it began: of all resources, and of its own
}

// Watching implements apiserver.Network.
func (l *Link) Watching(r apiserver.Request) apiserver.Channel {
	l.mu.Lock()
	defer l.mu.Unlock()
	watch := outage.Watch{Resource: r.Resource, Selection: r.Selection}
	l.watches(watch)
	return &channel{l, watch, time.Duration(l.random.Int64N(int64(l.latency) + 1)), [2]int{l.epochs[""], l.epochs[r.Resource]}}
}

// Due implements apiserver.Channel.
func (c *channel) Due(e *apiserver.Event) time.Time {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused || l.dead || l.frozen[c.watch.Resource] > 0 || l.frozen[""] > 0 {
		return time.Time{}
	}
	return e.Time.Add(min(c.base, l.latency) + max(l.delays[c.watch.Resource], l.delays[""], l.lag(c.watch.Resource)))
}

// CaughtUp implements apiserver.Channel.
func (c *channel) CaughtUp() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if !c.broken() {
		c.link.outages.CaughtUp(c.watch)
	}
}

// Changed implements apiserver.Channel.
func (c *channel) Changed() <-chan struct{} {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.link.changed
}

// Cut implements apiserver.Channel.
func (c *channel) Cut() error {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.broken() {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (c *channel) broken() bool {
	l := c.link
	return l.dead || l.epochs[""] != c.epochs[0] || l.epochs[c.watch.Resource] != c.epochs[1]
}
