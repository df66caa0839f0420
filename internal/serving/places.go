package serving

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// places bounds how many requests of a kind run at the same time, in all and from one remote address.
type places struct {
	limit, perAddress int // 0: no limit

	mu    sync.Mutex
	taken int
	// byAddress is how many places each address has: none may have all.
	byAddress map[netip.Prefix]int
	empty     chan struct{} // not nil: no place is given any more, and it is closed when the last one is given back
}

// newPlaces returns so many free places.
func newPlaces(limit, perAddress int) *places {
	return &places{limit: limit, perAddress: perAddress, byAddress: map[netip.Prefix]int{}}
}

// take returns how to give the place back, or false if there is none.
func (p *places) take(remote string) (release func(), ok bool) {
	address := addressOf(remote)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.empty != nil || p.limit > 0 && p.taken >= p.limit || p.perAddress > 0 && p.byAddress[address] >= p.perAddress {
		return nil, false
	}
	p.taken++
	p.byAddress[address]++
	return func() { p.release(address) }, true
}

// release gives a place back.
func (p *places) release(address netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.byAddress[address]--; p.byAddress[address] == 0 {
		delete(p.byAddress, address)
	}
	if p.empty != nil && p.taken == 0 {
		close(p.empty)
	}
}

// drain gives no place any more, and reports whether all are given back in time. It must be called once at most.
func (p *places) drain(timeout time.Duration) bool {
	p.mu.Lock()
	empty := make(chan struct{})
	p.empty = empty
	if p.taken == 0 {
		close(empty)
	}
	p.mu.Unlock()
	select {
	case <-empty:
		return true
	case <-time.After(timeout):
		return false
	}
}

// addressOf returns whom a limit for one address is about: an IPv4 address, or a network of IPv6, of which anybody
// may have as many addresses as they like. All that have no address count as one.
func addressOf(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap().WithZone("")
	bits := 64
	if address.Is4() {
		bits = 32
	}
	network, _ := address.Prefix(bits) // cannot fail: the address has that many bits
	return network
}
