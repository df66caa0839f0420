package nodeipam

import (
	"math"
	"math/big"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		pool string
		bits int
		i    uint64
		want string
		last uint64
	}{
		{"10.0.0.0/8", 24, 0, "10.0.0.0/24", 65535},
		{"10.0.0.0/8", 24, 65535, "10.255.255.0/24", 65535},
		{"10.1.0.0/16", 16, 0, "10.1.0.0/16", 0},
		{"0.0.0.0/0", 32, 1<<32 - 1, "255.255.255.255/32", 1<<32 - 1},
		{"fd00::/48", 64, 3, "fd00:0:0:3::/64", 65535},
		{"fd00::/64", 128, math.MaxUint64, "fd00::ffff:ffff:ffff:ffff/128", math.MaxUint64},
		{"fd00::/56", 120, 1 << 63, "fd00:0:0:80::/120", math.MaxUint64},
		{"::/0", 64, math.MaxUint64, "ffff:ffff:ffff:ffff::/64", math.MaxUint64},
	} {
		p := pool{netip.MustParsePrefix(c.pool), c.bits}
		got := p.block(c.i)
		if got.String() != c.want || p.last() != c.last || p.number(got.Addr()) != c.i {
			t.Errorf("%s in blocks of %d bits: block %d is %v with the number %d, the last one is %d", c.pool, c.bits, c.i, got,
				p.number(got.Addr()), p.last())
		}
	}
}

func TestOverlap(t *testing.T) {
	p := pool{netip.MustParsePrefix("10.0.0.0/16"), 24}
	for _, c := range []struct {
		with string
		want span
		ok   bool
	}{
		{"10.0.7.0/24", span{7, 7}, true},
		{"10.0.7.128/25", span{7, 7}, true},
		{"10.0.8.0/22", span{8, 11}, true},
		{"10.0.0.0/16", span{0, 255}, true},
		{"10.0.0.0/8", span{0, 255}, true},
		{"10.1.0.0/24", span{}, false},
		{"fd00::/64", span{}, false},
	} {
		if got, ok := p.overlap(netip.MustParsePrefix(c.with)); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v", c.with, got, ok)
		}
	}
}

// Blocks of a pool of any size are different, and their numbers are found again (against big numbers).
func TestBlocksProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bitLen := rapid.SampledFrom([]int{32, 128}).Draw(t, "family")
		bits := rapid.IntRange(0, bitLen).Draw(t, "range")
		block := rapid.IntRange(bits, min(bitLen, bits+64)).Draw(t, "block")
		raw := rapid.SliceOfN(rapid.Byte(), bitLen/8, bitLen/8).Draw(t, "address")
		a, _ := netip.AddrFromSlice(raw)
		p := pool{netip.PrefixFrom(a, bits).Masked(), block}
		i := rapid.Uint64Range(0, p.last()).Draw(t, "number")
		got := p.block(i)
		base := new(big.Int).SetBytes(p.Range.Addr().AsSlice())
		want := base.Add(base, new(big.Int).Lsh(new(big.Int).SetUint64(i), uint(bitLen-block)))
		if new(big.Int).SetBytes(got.Addr().AsSlice()).Cmp(want) != 0 || got.Bits() != block || got.Masked() != got {
			t.Fatalf("block %d of %v is %v", i, p, got)
		}
		if n := p.number(got.Addr()); n != i {
			t.Fatalf("%v has the number %d, not %d", got, n, i)
		}
	})
}

// Spans are what a set of numbers would be.
func TestSpansProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 40
		var all spans
		var allocated [most + 1]bool
		for range rapid.IntRange(0, 12).Draw(t, "spans") {
			first := rapid.Uint64Range(0, most).Draw(t, "first")
			s := span{first, rapid.Uint64Range(first, most).Draw(t, "last")}
			if rapid.Bool().Draw(t, "short") {
				s.last = s.first
			}
			all = all.add(s)
			for i := s.first; i <= s.last; i++ {
				allocated[i] = true
			}
		}
		n := 0
		for _, is := range allocated {
			if is {
				n++
			}
		}
		if got := all.count(); int(got) != n {
			t.Fatalf("%v are %v, not %d", all, got, n)
		}
		for i := 1; i < len(all); i++ {
			if all[i].first <= all[i-1].last+1 {
				t.Fatalf("%v touch", all)
			}
		}
		from := rapid.Uint64Range(0, most).Draw(t, "from")
		want, found := uint64(0), false
		for i := range uint64(most + 1) {
			if at := (from + i) % (most + 1); !allocated[at] {
				want, found = at, true
				break
			}
		}
		if got, ok := all.next(from, most); ok != found || got != want {
			t.Fatalf("from %d the next of %v is %d, %v; want %d, %v", from, all, got, ok, want, found)
		}
	})
}

func TestSpansAtTheEnds(t *testing.T) {
	var all spans
	for _, s := range []span{{math.MaxUint64, math.MaxUint64}, {0, 0}, {math.MaxUint64 - 1, math.MaxUint64 - 1}, {2, 2}, {1, 1}} {
		all = all.add(s)
	}
	if want := (spans{{0, 2}, {math.MaxUint64 - 1, math.MaxUint64}}); !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
	if n, ok := all.next(math.MaxUint64, math.MaxUint64); n != 3 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if n, ok := all.add(span{3, math.MaxUint64 - 2}).next(7, math.MaxUint64); ok {
		t.Errorf("%d is free", n)
	}
}
