package queue

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever is given and released: while another namespace wants one, none is given more than half, the others can have the other half,
// and in all there are no more than one and a half times the limit.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shares{limit: rapid.IntRange(0, 7).Draw(t, "limit")}
		held := map[string]int{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			namespace := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "namespace")
			switch {
			case rapid.Bool().Draw(t, "take"):
				if s.free(namespace) {
					s.take(namespace)
					held[namespace]++
				}
			case held[namespace] > 0:
				s.release(namespace)
				held[namespace]--
			}
			used, others := 0, map[string]int{}
			for name, n := range held {
				used += n
				for _, other := range []string{"", "a", "b", "c"} {
					if other != name {
						others[other] += min(n, s.half())
					}
				}
			}
			if s.used != used {
				t.Fatalf("%d are used, want %d", s.used, used)
			}
			if s.limit > 0 && used > s.most() {
				t.Fatalf("%d are used, of %d: %v", used, s.limit, held)
			}
			for name, n := range others {
				if s.limit > 1 && held[name] < s.half() && held[name]+n < s.limit && !s.free(name) {
					t.Fatalf("%q cannot have one: %v, limit %d", name, held, s.limit)
				}
			}
		}
	})
}
