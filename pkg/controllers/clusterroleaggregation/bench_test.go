package clusterroleaggregation

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// BenchmarkPlan plans for a role that lacks nothing.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			s := snapshot{Role: aggregate(role("r", nil), everything)}
			for i := range n / 10 {
				source := role(fmt.Sprint("s-", i), nil)
				for j := range 10 {
					source.Rules = append(source.Rules, rule(fmt.Sprintf("kind-%d-%d", i, j), "get", "list"))
				}
				s.Sources = append(s.Sources, source)
				s.Role.Rules = append(s.Role.Rules, source.Rules...)
			}
			b.ReportAllocs()
			for b.Loop() {
				if p := planRules(epoch, s); !p.Empty() {
					b.Fatal(p.Why)
				}
			}
		})
	}
}

// BenchmarkConcerned is what a change of a role costs where so many others aggregate.
func BenchmarkConcerned(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		var all []*rbacv1.ClusterRole
		for i := range n {
			all = append(all, aggregate(role(fmt.Sprint("r-", i), nil), match(to(fmt.Sprint("r-", i)))))
		}
		before, after := role("a", to("r-0")), role("a", to("r-0"), rule("pods", "get"))
		for name, c := range map[string]struct {
			after *rbacv1.ClusterRole
			want  int
		}{"the rules change": {after, n}, "nothing that matters changes": {before.DeepCopy(), 0}} {
			b.Run(fmt.Sprintf("%s/roles=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if len(concerned(all, before, c.after)) != c.want {
						b.Fatal("others are concerned")
					}
				}
			})
		}
	}
}
