package servicecidr

import (
	"net/netip"
	"slices"
)

// tree is a set of addresses that counts those of a range without looking at each. A tree is not changed: with and
// without return another one, which shares most of its nodes with it.
type tree struct{ v4, v6 *node }

// node stands for the addresses of the set that lie in its prefix. One of a single address has no children, any other
// one has two.
type node struct {
	prefix netip.Prefix
	count  int
	child  [2]*node // by the first bit after the prefix
}

func (t tree) with(a netip.Addr) tree {
	if a.Is4() {
		t.v4 = t.v4.with(a)
	} else {
		t.v6 = t.v6.with(a)
	}
	return t
}

func (t tree) without(a netip.Addr) tree {
	if a.Is4() {
		t.v4 = t.v4.without(a)
	} else {
		t.v6 = t.v6.without(a)
	}
	return t
}

// outside counts the addresses that a range holds and none of the others does, and returns the first of them.
func (t tree) outside(within netip.Prefix, others []netip.Prefix) (count int, first netip.Addr) {
	if within.Addr().Is4() {
		return t.v4.outside(within, others)
	}
	return t.v6.outside(within, others)
}

func (n *node) with(a netip.Addr) *node {
	if n == nil {
		return leaf(a)
	}
	if bits := n.common(a); bits < n.prefix.Bits() {
		m := &node{prefix: netip.PrefixFrom(a, bits).Masked(), count: n.count + 1}
		m.child[bit(a, bits)], m.child[1-bit(a, bits)] = leaf(a), n
		return m
	}
	if n.prefix.IsSingleIP() {
		return n
	}
	i := bit(a, n.prefix.Bits())
	below := n.child[i].with(a)
	if below == n.child[i] {
		return n
	}
	return n.replaced(i, below, 1)
}

func (n *node) without(a netip.Addr) *node {
	if n == nil || !n.prefix.Contains(a) {
		return n
	}
	if n.prefix.IsSingleIP() {
		return nil
	}
	i := bit(a, n.prefix.Bits())
	switch below := n.child[i].without(a); below {
	case n.child[i]:
		return n
	case nil:
		return n.child[1-i]
	default:
		return n.replaced(i, below, -1)
	}
}

func leaf(a netip.Addr) *node { return &node{prefix: netip.PrefixFrom(a, a.BitLen()), count: 1} }

// replaced returns a copy of a node with another child, which has so many more addresses.
func (n *node) replaced(i int, child *node, more int) *node {
	m := *n
	m.child[i], m.count = child, n.count+more
	return &m
}

func (n *node) outside(within netip.Prefix, others []netip.Prefix) (count int, first netip.Addr) {
	if n == nil || !n.prefix.Overlaps(within) {
		return 0, first
	}
	// Of the others, those that have to do with the node are enough for what is below it.
	others = slices.DeleteFunc(slices.Clone(others), func(o netip.Prefix) bool { return !n.prefix.Overlaps(o) })
	switch {
	case slices.ContainsFunc(others, func(o netip.Prefix) bool { return holds(o, n.prefix) }):
		return 0, first
	case holds(within, n.prefix) && (len(others) == 0 || n.prefix.IsSingleIP()):
		return n.count, n.first()
	case n.prefix.IsSingleIP():
		return 0, first
	}
	left, first := n.child[0].outside(within, others)
	right, next := n.child[1].outside(within, others)
	if left == 0 {
		first = next
	}
	return left + right, first
}

// first returns the first address of a node.
func (n *node) first() netip.Addr {
	for n.child[0] != nil {
		n = n.child[0]
	}
	return n.prefix.Addr()
}

// common returns how many bits an address begins with like the prefix of a node, at most all of the prefix.
func (n *node) common(a netip.Addr) (bits int) {
	for bits < n.prefix.Bits() && bit(a, bits) == bit(n.prefix.Addr(), bits) {
		bits++
	}
	return bits
}

// bit returns a bit of an address, counted from its beginning.
func bit(a netip.Addr, i int) int {
	if a.Is4() {
		b := a.As4()
		return int(b[i/8]>>(7-i%8)) & 1
	}
	b := a.As16()
	return int(b[i/8]>>(7-i%8)) & 1
}

// holds reports whether a range holds all addresses of a prefix. Its first address is none that Services get, nor is
// the last one of an IPv4 range (SCC-2).
func holds(within, prefix netip.Prefix) bool {
	return within.Bits() <= prefix.Bits() && within.Contains(prefix.Addr()) && !prefix.Contains(within.Addr()) &&
		!(within.Addr().Is4() && prefix.Contains(last(within)))
}

// last returns the last address of an IPv4 range.
func last(of netip.Prefix) netip.Addr {
	b := of.Addr().As4()
	for i := of.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}
