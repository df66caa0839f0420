package serving

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// connections bounds how many there are. Clients that only connect, or send their requests a byte at a time, so push
// out each other and not those that ask for something.
type connections struct {
	mu    sync.Mutex
	limit int
	order list.List // of *connection, by when they last had a request
	// known are the open connections, by what net/http has of them.
	known map[net.Conn]*list.Element
}

// connection is an open connection, and where it comes from.
type connection struct {
	net.Conn
	address  netip.Prefix
	requests int // that run
}

// connectionKey is the key of a connection in the contexts of its requests.
type connectionKey struct{}

// opened notes a connection, and closes another one if there are too many. The server calls it first.
func (c *connections) opened(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[net.Conn]*list.Element{}
	}
	place := c.order.PushBack(&connection{Conn: conn, address: addressOf(conn.RemoteAddr().String())})
	c.known[conn] = place
	if len(c.known) > c.limit {
		c.closeOne()
	}
	return context.WithValue(ctx, connectionKey{}, place)
}

// closeOne closes, of the connections from the address that has most, the one that has been without a request for
// longest. It may be the newest. If each of them has a request, it is one from another address.
func (c *connections) closeOne() {
	count := map[netip.Prefix]int{}
	var most netip.Prefix
	for place := c.order.Front(); place != nil; place = place.Next() {
		address := place.Value.(*connection).address
		if count[address]++; count[address] > count[most] {
			most = address
		}
	}
	var chosen *connection
	for place := c.order.Front(); place != nil; place = place.Next() {
		conn := place.Value.(*connection)
		if conn.requests > 0 {
			continue
		}
		if conn.address == most {
			chosen = conn
			break
		}
		if chosen == nil {
			chosen = conn
		}
	}
	if chosen != nil {
		c.forget(chosen.Conn)
		closeNow(chosen.Conn)
	}
}

// closeNow closes a connection without the farewell of TLS, for which it would have to wait.
func closeNow(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}

// changed notes when a connection is gone. It is http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(conn)
}

// forget drops a connection that has ended. It is called under the lock.
func (c *connections) forget(conn net.Conn) {
	if place, ok := c.known[conn]; ok {
		c.order.Remove(place)
		delete(c.known, conn)
	}
}

// began notes a request, whose context it gets.
func (c *connections) began(ctx context.Context) { c.count(ctx, 1) }

// ended notes that a request is done.
func (c *connections) ended(ctx context.Context) { c.count(ctx, -1) }

// count notes that a request on a connection begins or ends. A connection that was just used is the last one
// to be closed.
func (c *connections) count(ctx context.Context, change int) {
	place, ok := ctx.Value(connectionKey{}).(*list.Element)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := place.Value.(*connection)
	conn.requests += change
	if c.known[conn.Conn] == place {
		c.order.MoveToBack(place)
	}
}
