package garbagecollector

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkGraphMemory tells how many bytes the graph keeps for each object: of pods that 100 ReplicaSets own, and of objects without an
// owner. The strings of their identities are counted, which the watches keep as well and share.
func BenchmarkGraphMemory(b *testing.B) {
	const objects = 20_000
	for _, c := range []struct {
		name  string
		owned bool
	}{{"owned", true}, {"alone", false}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				before := heapBytes()
				w := newWorld()
				for n := range objects {
					o := object(fmt.Sprintf("web-5d4f8c7b9-%05d", n), version(fmt.Sprint(1_000_000+n)))
					o.UID = types.UID(fmt.Sprintf("11111111-2222-3333-4444-%012d", n))
					if c.owned {
						ownedBy(setKind, fmt.Sprint("set-", n%100))(o)
					}
					w.see(podKind, o)
				}
				w.effects = effects{}
				b.ReportMetric(float64(heapBytes()-before)/objects, "B/object")
				runtime.KeepAlive(w)
			}
		})
	}
}

// BenchmarkOwnerGone has an owner vanish, and decides about all of its dependents.
func BenchmarkOwnerGone(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n, "-dependents"), func(b *testing.B) {
			w := newWorld()
			for b.Loop() {
				w.see(setKind, object("set"))
				for i := range n {
					w.see(podKind, object(fmt.Sprint("pod-", i), ownedBy(setKind, "set")))
				}
				e := w.forget("set", true)
				for _, n := range e.remove {
					if w.decide(now, n).Empty() {
						b.Fatal("it stays")
					}
				}
				w.graph = newGraph()
			}
		})
	}
}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
