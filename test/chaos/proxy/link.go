package proxy

import (
	"io"
	"net"
	"sync"
)

// Link passes bytes on to another address, and can be frozen: then connections stay open, but nothing comes through, as
// with a broken network.
type Link struct {
	listener net.Listener
	target   string
	copies   sync.WaitGroup

	mu     sync.Mutex
	thawed chan struct{} // closed unless the link is frozen
	conns  map[net.Conn]bool
	closed bool
}

// NewLink starts a link to an address, HOST:PORT, on a free port of the loopback interface.
func NewLink(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, target: target, thawed: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(l.thawed)
	l.copies.Go(l.accept)
	return l, nil
}

// Address is where the link listens.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Freeze lets nothing through until Thaw is called.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.thawed:
		l.thawed = make(chan struct{})
	default: // it is frozen
	}
}

// Thaw lets everything through, what has been kept back first.
func (l *Link) Thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thaw()
}

func (l *Link) thaw() {
	select {
	case <-l.thawed:
	default:
		close(l.thawed)
	}
}

// Close ends the link and all its connections.
func (l *Link) Close() error {
	err := l.listener.Close()
	l.mu.Lock()
	l.closed = true
	for c := range l.conns {
		_ = c.Close()
	}
	l.thaw()
	l.mu.Unlock()
	l.copies.Wait()
	return err
}

func (l *Link) accept() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		to, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = from.Close()
			continue
		}
		if !l.keep(from, to) {
			return
		}
		l.copies.Go(func() { l.copy(to, from) })
		l.copies.Go(func() { l.copy(from, to) })
	}
}

func (l *Link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = true
		if l.closed {
			_ = c.Close()
		}
	}
	return !l.closed
}

// copy passes on one direction. When that ends, the other ends, too.
func (l *Link) copy(to, from net.Conn) {
	_, _ = io.Copy(gate{to, l}, from)
	_ = to.Close()
	_ = from.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, to)
	delete(l.conns, from)
}

// gate is a writer that waits while its link is frozen.
type gate struct {
	io.Writer
	link *Link
}

func (g gate) Write(p []byte) (int, error) {
	g.link.mu.Lock()
	thawed := g.link.thawed
	g.link.mu.Unlock()
	<-thawed
	return g.Writer.Write(p)
}
