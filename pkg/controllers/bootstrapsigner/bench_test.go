package bootstrapsigner

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// manyTokens are n sound tokens, and the ConfigMap that they have signed.
func manyTokens(n int) (m *corev1.ConfigMap, tokens []*corev1.Secret) {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%06d", i))
		tokens = append(tokens, tokenSecret(all[i]))
	}
	return info(signed(kubeconfig, all...)), tokens
}

// BenchmarkObserve signs.
func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n, " tokens"), func(b *testing.B) {
			m, tokens := manyTokens(n)
			for b.Loop() {
				if s := observed(b, m, tokens...); len(s.Tokens) != n {
					b.Fatal(s.Unusable)
				}
			}
		})
	}
}

// BenchmarkPlan plans for signatures that are right.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n, " tokens"), func(b *testing.B) {
			m, tokens := manyTokens(n)
			s := observed(b, m, tokens...)
			for b.Loop() {
				if p := planSignatures(epoch, s); !p.Empty() {
					b.Fatal(p.Why)
				}
			}
		})
	}
}
