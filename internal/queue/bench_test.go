package queue

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkStorage queues a change and takes out the next key, with so many others queued.
func BenchmarkStorage(b *testing.B) {
	for _, c := range []struct{ n, namespaces int }{{100, 1}, {1000, 1}, {10_000, 1}, {10_000, 1000}} {
		n := c.n
		b.Run(fmt.Sprint(n, "-keys-", c.namespaces, "-namespaces"), func(b *testing.B) {
			s := newStorage(namespaceOf)
			for i := range n {
				k := plan.Key{Namespace: fmt.Sprint("shop-", i%c.namespaces), Name: fmt.Sprint("web-", i)}
				s.prioritize(k, Priority{Level: Level(i % int(levelCount)), Since: int64(i % 7)})
				s.Push(k)
			}
			b.ReportAllocs()
			for b.Loop() {
				k := s.Pop()
				s.prioritize(k, Priority{Level: Changed})
				s.Push(k)
				s.Touch(k)
			}
			if s.Len() != n {
				b.Fatalf("%d keys are left of %d", s.Len(), n)
			}
		})
	}
}
