package listwatch

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// trickle is a connection on which so many bytes arrive in each interval.
type trickle struct {
	net.Conn
	bytes    int
	interval time.Duration

	began time.Time
	taken int // bytes that were read
	reads int
}

// Read implements net.Conn. It waits until there is something.
func (c *trickle) Read(p []byte) (int, error) {
	c.reads++
	for {
		if n := min(len(p), c.bytes*int(time.Since(c.began)/c.interval)-c.taken); n > 0 {
			c.taken += n
			return n, nil
		}
		time.Sleep(c.interval)
	}
}

func TestCoalescingConnection(t *testing.T) {
	for _, test := range []struct {
		name     string
		bytes    int
		interval time.Duration
		begin    time.Duration // after the dial
		read     int           // so many bytes
		reads    int           // at most
		within   time.Duration
	}{
		{"500 events a second are read in portions", 600, 2 * time.Millisecond, coalesceFrom, 600 * 500 * 60, 1000,
			time.Minute + coalesceEvery},
		{"a young connection is read at once", 600, 2 * time.Millisecond, 0, 600 * 500, 501, time.Second},
		{"a single event is not late", 600, time.Minute, coalesceFrom, 600, 1, time.Minute},
		{"a list is read without pauses", portion, time.Microsecond, coalesceFrom, 100 * portion, 101, 2 * coalesceEvery},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				under := &trickle{bytes: test.bytes, interval: test.interval}
				c := newCoalescingConn(under)
				time.Sleep(test.begin)
				under.began = time.Now()
				n, err := io.CopyN(io.Discard, c, int64(test.read))
				if took := time.Since(under.began); err != nil || took > test.within || under.reads > test.reads {
					t.Errorf("%d bytes in %v, %d reads, %v", n, took, under.reads, err)
				}
			})
		})
	}
}
