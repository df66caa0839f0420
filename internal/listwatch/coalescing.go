package listwatch

import (
	"bufio"
	"context"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// A coalescing connection is read every coalesceEvery at most, and then all at once. Most of what a small event costs
// is being woken for it: hundreds of events a second cost several times less in portions.
const (
	coalesceEvery = 100 * time.Millisecond
	// A connection that is younger is read at once, so that a first list is not late.
	coalesceFrom = 10 * time.Second
	// The events of one interval usually fit into a portion. If there is more, it is read without a pause.
	portion = 64 << 10
)

// coalescing returns the configuration with a coalescing connection of its own. A configuration that brings its own
// transport is left as it is.
func coalescing(config *rest.Config) *rest.Config {
	own := *config
	dial := own.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext // as client-go does
	}
	own.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newCoalescingConn(conn), nil
	}
	return &own
}

// coalescingConn is a connection that is read in portions.
type coalescingConn struct {
	net.Conn
	portions *bufio.Reader
}

// newCoalescingConn returns a connection that is read as usual for a while, so that it fills a cache at once,
// and then in portions.
func newCoalescingConn(conn net.Conn) *coalescingConn {
	now := time.Now()
	return &coalescingConn{conn,
		bufio.NewReaderSize(&portions{Conn: conn, next: now, from: now.Add(coalesceFrom)}, portion)}
}

// Read implements net.Conn.
func (c *coalescingConn) Read(p []byte) (int, error) { return c.portions.Read(p) }

// portions reads a connection, and waits before a read if the last one has brought all that there was.
type portions struct {
	net.Conn
	next, from time.Time // of the next read; of the first that is followed by a pause
}

// Read implements io.Reader.
func (r *portions) Read(p []byte) (int, error) {
	time.Sleep(time.Until(r.next))
	n, err := r.Conn.Read(p)
	if now := time.Now(); n < len(p) && now.After(r.from) {
		r.next = now.Add(coalesceEvery)
	}
	return n, err
}
