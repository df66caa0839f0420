package servicecidr

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func treeOf(ips ...string) (t tree) {
	for _, ip := range ips {
		t = t.with(netip.MustParseAddr(ip))
	}
	return t
}

func TestOutside(t *testing.T) {
	all := treeOf("10.0.0.0", "10.0.0.1", "10.0.0.7", "10.0.1.0", "10.0.1.9", "10.0.1.255", "10.0.255.255", "10.1.0.1", "fd00::", "fd00::1",
		"fd00::ffff", "fd01::1")
	for _, c := range []struct {
		name, within string
		others       []string
		want         string // how many, and the first
	}{
		{"SCC-2 the first and the last address of a range are none of it", "10.0.0.0/16", nil, "5 10.0.0.1"},
		{"SCC-2 of IPv6, only the first", "fd00::/112", nil, "2 fd00::1"},
		{"another range", "10.1.0.0/16", nil, "1 10.1.0.1"},
		{"a range without addresses", "10.2.0.0/16", nil, "0 invalid IP"},
		{"SCC-5 the same range", "10.0.0.0/16", []string{"10.0.0.0/16"}, "0 invalid IP"},
		{"SCC-5 a larger range", "10.0.0.0/16", []string{"10.0.0.0/8"}, "0 invalid IP"},
		{"a smaller range leaves its first and its last address", "10.0.0.0/16", []string{"10.0.1.0/24"}, "4 10.0.0.1"},
		{"several smaller ranges", "10.0.0.0/16", []string{"10.0.1.0/24", "10.0.0.0/24", "fd00::/16"}, "2 10.0.1.0"},
		{"a smaller range within a smaller one", "10.0.0.0/16", []string{"10.0.1.0/24", "10.0.0.0/23"}, "1 10.0.1.255"},
		{"a single address", "10.0.0.7/32", nil, "0 invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var others []netip.Prefix
			for _, o := range c.others {
				others = append(others, netip.MustParsePrefix(o))
			}
			count, first := all.outside(netip.MustParsePrefix(c.within), others)
			if got := fmt.Sprint(count, " ", first); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A tree answers as somebody does who looks at each address, whatever has come and gone, and each tree stays as it was.
func TestTreeIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		family := rapid.SampledFrom([]string{"10.0.%d.%d", "fd00::%x:%x"}).Draw(t, "family")
		number := rapid.IntRange(0, 255)
		address := rapid.Custom(func(t *rapid.T) netip.Addr {
			return netip.MustParseAddr(fmt.Sprintf(family, number.Draw(t, "high")&3, number.Draw(t, "low")))
		})
		prefix := rapid.Custom(func(t *rapid.T) netip.Prefix {
			a := address.Draw(t, "in")
			return netip.PrefixFrom(a, a.BitLen()-rapid.IntRange(0, 12).Draw(t, "bits")).Masked()
		})
		var now, before tree
		set := map[netip.Addr]bool{}
		var earlier int
		for i := range rapid.IntRange(0, 40).Draw(t, "changes") {
			a := address.Draw(t, "address")
			if set[a] = rapid.Bool().Draw(t, "comes"); set[a] {
				now = now.with(a)
			} else {
				now = now.without(a)
			}
			if i == 20 {
				before, earlier = now, size(now)
			}
		}
		within, others := prefix.Draw(t, "within"), rapid.SliceOfN(prefix, 0, 4).Draw(t, "others")
		count, first := 0, netip.Addr{}
		for a, there := range set {
			one := netip.PrefixFrom(a, a.BitLen())
			if there && holds(within, one) && !slices.ContainsFunc(others, func(o netip.Prefix) bool { return holds(o, one) }) {
				if count++; !first.IsValid() || a.Less(first) {
					first = a
				}
			}
		}
		if n, f := now.outside(within, others); n != count || f != first {
			t.Errorf("%v without %v: %d from %s, want %d from %s", within, others, n, f, count, first)
		}
		if size(before) != earlier {
			t.Error("an earlier tree was changed")
		}
	})
}

func size(t tree) (n int) {
	for _, root := range []*node{t.v4, t.v6} {
		if root != nil {
			n += root.count
		}
	}
	return n
}
