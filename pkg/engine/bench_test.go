package engine

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkQueue queues a live change and takes out the next key, with so many others queued.
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n, "-keys"), func(b *testing.B) {
			l := newLevels()
			for i := range n {
				k := plan.Key{Namespace: "shop", Name: fmt.Sprint("web-", i)}
				l.want(k, urgency{level: level(i % int(levelCount)), since: int64(i % 7)})
				l.Push(k)
			}
			b.ReportAllocs()
			for b.Loop() {
				k := l.Pop()
				l.want(k, urgency{level: live})
				l.Push(k)
				l.Touch(k)
			}
			if l.Len() != n {
				b.Fatalf("%d keys are left of %d", l.Len(), n)
			}
		})
	}
}
