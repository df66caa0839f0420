package listwatch

import (
	"bufio"
	"context"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// A connection that is paced is read in portions: what has come within a pace, at once. Of the time that it takes to receive a small event,
// nearly all is spent on being woken for it, so that hundreds of events a second cost several times less in portions.
const (
	pace = 100 * time.Millisecond
	// A connection that is younger is read at once, so that a first list is not late.
	paceFrom = 10 * time.Second
	// Most events of a pace go into one portion. If there is more, it is read without a pause.
	portion = 64 << 10
)

// paced returns the configuration with a connection of its own, which is paced. One with a transport of its own is left as it is.
func paced(config *rest.Config) *rest.Config {
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
		return newPacedConn(conn), nil
	}
	return &own
}

// pacedConn is a connection that is paced.
type pacedConn struct {
	net.Conn
	portions *bufio.Reader
}

func newPacedConn(conn net.Conn) *pacedConn {
	return &pacedConn{conn, bufio.NewReaderSize(&portions{Conn: conn, next: time.Now(), from: time.Now().Add(paceFrom)}, portion)}
}

// Read implements net.Conn.
func (c *pacedConn) Read(p []byte) (int, error) { return c.portions.Read(p) }

// portions reads a connection, and waits before a read if the last one has brought all that there was.
type portions struct {
	net.Conn
	next, from time.Time
}

// Read implements io.Reader.
func (r *portions) Read(p []byte) (int, error) {
	time.Sleep(time.Until(r.next))
	n, err := r.Conn.Read(p)
	if now := time.Now(); n < len(p) && now.After(r.from) {
		r.next = now.Add(pace)
	}
	return n, err
}
