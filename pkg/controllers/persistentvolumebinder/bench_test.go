package persistentvolumebinder

import (
	"fmt"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// BenchmarkObserveAndPlan reconciles a claim among many volumes: one that finds a free one among as many of its class and size, one
// that waits for a driver while as many Released ones lie about, one that nothing fits and no driver helps, and one that is bound. How
// many there are matters to the first, which looks at those of its size, and to the third, which says what the nearest ones lack.
func BenchmarkObserveAndPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		for name, words := range map[string][2]string{"finds": {"", ""}, "waits": {"asks=d", "phase=Released other=gone"},
			"lacks": {"noclass", "phase=Released other=gone"},
			"bound": {"volume=v-1 complete phase=Bound has=2Gi", "of=data phase=Bound"}} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				k := emptyCaches(b)
				k.show(class("fast", "d"))
				k.show(claim("data", words[0]))
				for i := range n {
					k.show(volume(fmt.Sprint("v-", i), words[1]))
				}
				request := reconcile.Request[claimMemory]{Key: plan.Key{Namespace: "shop", Name: "data"}, Now: epoch}
				for b.Loop() {
					o, err := k.observeClaim(b.Context(), request)
					if err != nil {
						b.Fatal(err)
					}
					if d, p := planClaim(epoch, o.Snapshot); name == "finds" && d.Bind == "" || name == "bound" && len(p.Steps) > 0 {
						b.Fatal(p.Why)
					}
				}
			})
		}
	}
}

// BenchmarkVolumeIsFree looks at a volume that becomes free, while many claims wait that it fits. Of very many, they are looked through
// later.
func BenchmarkVolumeIsFree(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			k := emptyCaches(b)
			for i := range n {
				k.show(claim(fmt.Sprint("c-", i), ""))
			}
			before, after := volume("v", "phase="), volume("v", "")
			for b.Loop() {
				if keys := k.claimsByVolume(before, after); len(keys) != n && (n <= manyWaiting || len(keys) > 0) {
					b.Fatal(len(keys))
				}
			}
		})
	}
}

// BenchmarkVolumeChanges looks at a volume that changes, while many claims wait for a driver.
func BenchmarkVolumeChanges(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			k := emptyCaches(b)
			for i := range n {
				k.show(claim(fmt.Sprint("c-", i), "asks=d"))
			}
			before, after := volume("v", "of=data"), volume("v", "of=data phase=Bound")
			for b.Loop() {
				if keys := k.claimsByVolume(before, after); len(keys) != 1 {
					b.Fatal(keys)
				}
			}
		})
	}
}
