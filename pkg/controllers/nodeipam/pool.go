package nodeipam

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sort"
)

// pool is a range that is given out in blocks of the same size. A block is known by its number in the pool.
type pool struct {
	Range netip.Prefix
	Bits  int // of the prefix of a block
}

// mostIndexBits bounds how many blocks a pool may have: their numbers are of 64 bits.
const mostIndexBits = 64

// last is the number of the last block. The first is 0.
func (p pool) last() uint64 { return ^uint64(0) >> (64 - (p.Bits - p.Range.Bits())) }

// block returns the block of a number.
func (p pool) block(i uint64) netip.Prefix {
	high, low := words(p.Range.Addr())
	offset := p.Range.Addr().BitLen() - p.Bits // how many bits follow the number in an address
	if offset >= 64 {
		high |= i << (offset - 64)
	} else {
		high |= i >> 1 >> (63 - offset) // twice, as a shift by 64 would be for an offset of 0
		low |= i << offset
	}
	return netip.PrefixFrom(address(high, low, p.Range.Addr().Is4()), p.Bits)
}

// number is that of the block that an address of the pool is in.
func (p pool) number(a netip.Addr) uint64 {
	high, low := words(a)
	offset := a.BitLen() - p.Bits
	if offset >= 64 {
		high >>= offset - 64
	} else {
		high = high<<1<<(63-offset) | low>>offset
	}
	return high & p.last()
}

// overlap returns the blocks that have addresses in common with a range.
func (p pool) overlap(r netip.Prefix) (s span, ok bool) {
	switch {
	case !p.Range.Overlaps(r):
		return span{}, false
	case r.Bits() <= p.Range.Bits():
		return span{0, p.last()}, true
	case r.Bits() >= p.Bits:
		n := p.number(r.Addr())
		return span{n, n}, true
	}
	first := p.number(r.Addr())
	return span{first, first + ^uint64(0)>>(64-(p.Bits-r.Bits()))}, true
}

// has reports whether a range is in the pool as a whole.
func (p pool) has(r netip.Prefix) bool {
	return r.Bits() >= p.Range.Bits() && p.Range.Overlaps(r)
}

// words are an address as two numbers. One of IPv4 is in the lower half of the second.
func words(a netip.Addr) (high, low uint64) {
	if a.Is4() {
		four := a.As4()
		return 0, uint64(binary.BigEndian.Uint32(four[:]))
	}
	all := a.As16()
	return binary.BigEndian.Uint64(all[:8]), binary.BigEndian.Uint64(all[8:])
}

// address makes an address of two numbers, see words.
func address(high, low uint64, is4 bool) netip.Addr {
	if is4 {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(low))))
	}
	return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, high), low)))
}

// span are the blocks from one to another, both included.
type span struct{ first, last uint64 }

// spans are blocks that are taken: in order, and none touches the next one.
type spans []span

// add returns the spans with another one. It may change them.
func (all spans) add(s span) spans {
	// From i to before j are those that s touches.
	i := sort.Search(len(all), func(i int) bool { return all[i].last >= s.first || all[i].last+1 == s.first })
	j := i
	for j < len(all) && (all[j].first <= s.last || all[j].first-1 == s.last) {
		s.first, s.last = min(s.first, all[j].first), max(s.last, all[j].last)
		j++
	}
	return slices.Replace(all, i, j, s)
}

// next returns the first block from a number on that is not taken, and behind the last one it continues with the first.
func (all spans) next(from, last uint64) (uint64, bool) {
	if n, ok := all.free(from, last); ok {
		return n, true
	}
	return all.free(0, last)
}

// free returns the first block from a number up to another one that is not taken.
func (all spans) free(from, last uint64) (uint64, bool) {
	i := sort.Search(len(all), func(i int) bool { return all[i].last >= from })
	if i < len(all) && all[i].first <= from {
		if all[i].last >= last {
			return 0, false
		}
		from = all[i].last + 1 // which is free, or the two spans would be one
	}
	return from, from <= last
}

// count is how many blocks are taken.
func (all spans) count() (n float64) {
	for _, s := range all {
		n += float64(s.last-s.first) + 1
	}
	return n
}
