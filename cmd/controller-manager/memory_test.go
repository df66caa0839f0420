package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

func TestCgroupLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want int64 // 0: none
	}{
		{"no cgroups", fstest.MapFS{}, 0},
		{"version 2, seen from within the container",
			fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("268435456\n")}, 256 << 20},
		{"version 2, without a limit", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("max\n")}, 0},
		{"version 2, the narrowest of those around it", fstest.MapFS{"proc/self/cgroup": file("0::/pods/a/b\n"),
			"sys/fs/cgroup/pods/a/b/memory.max": file("max"), "sys/fs/cgroup/pods/a/memory.max": file("100"),
			"sys/fs/cgroup/pods/memory.max": file("200")}, 100},
		{"version 1",
			fstest.MapFS{"proc/self/cgroup": file("5:cpu:/a\n4:memory:/a\n"), "sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("300\n"),
				"sys/fs/cgroup/cpu/a/memory.max": file("1")}, 300},
		{"version 1, without a limit",
			fstest.MapFS{"proc/self/cgroup": file("4:memory:/\n"),
				"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
		{"nonsense", fstest.MapFS{"proc/self/cgroup": file("0\n::\n0::../..\n"), "sys/fs/cgroup/memory.max": file("-1")}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit, ok := cgroupLimit(c.root)
			if ok != (c.want > 0) || ok && limit != c.want {
				t.Errorf("got %d, %t", limit, ok)
			}
		})
	}
}

// While little is alive, garbage has a fixed room; later it has a share.
func TestGarbagePercent(t *testing.T) {
	for _, c := range []struct {
		alive uint64
		want  int
	}{{0, 480}, {2 << 20, 480}, {6 << 20, 480}, {10 << 20, 320}, {20 << 20, 160}, {24 << 20, 130}, {54 << 20, 60}, {1 << 40, 60}} {
		if got := garbagePercent(c.alive); got != c.want {
			t.Errorf("%d MiB alive: %d percent, want %d", c.alive>>20, got, c.want)
		}
	}
}

// GOGC follows what is alive, from the value for large caches on.
func TestGarbageTuner(t *testing.T) {
	current := func() int {
		percent := debug.SetGCPercent(-1)
		debug.SetGCPercent(percent)
		return percent
	}
	defer debug.SetGCPercent(current())
	environment := map[string]string{}
	lookup := func(key string) (string, bool) { value, ok := environment[key]; return value, ok }
	adjust := garbageTuner(lookup)
	if got := current(); got != garbageShare {
		t.Errorf("at the start: %d", got)
	}
	runtime.GC()
	adjust()
	if got := current(); got != garbageShare {
		t.Errorf("the heap may still grow: %d", got)
	}
	adjust()
	if got, want := current(), garbagePercent(readMetric("/gc/heap/live:bytes")); got != want || got == garbageShare {
		t.Errorf("small heap: %d, want %d", got, want)
	}
	caches := make([]byte, 100<<20)
	runtime.GC()
	adjust()
	if got := current(); got != garbageShare {
		t.Errorf("large heap: %d", got)
	}
	runtime.KeepAlive(caches)

	environment["GOGC"] = "77"
	debug.SetGCPercent(77)
	garbageTuner(lookup)()
	if got := current(); got != 77 {
		t.Errorf("set in the environment: %d", got)
	}
}

// Memory is returned once after each time of work, when that is over, and the room for garbage adjusted every second.
func TestManageMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var total atomic.Uint64
		var frees, adjusted atomic.Int64
		go manageMemory(ctx, func() { adjusted.Add(1) }, total.Load, func() { frees.Add(1) })
		period := func(allocates uint64) int64 {
			total.Add(allocates)
			time.Sleep(memoryPeriod)
			synctest.Wait()
			return frees.Load()
		}
		time.Sleep(adjustPeriod / 2) // between two ticks
		for i, c := range []struct {
			allocates uint64
			frees     int64
		}{
			{100 << 20, 0}, {50 << 20, 0}, {1000, 1}, {1000, 1}, {0, 1}, // work, then quiet
			{5 << 20, 1}, {0, 1}, // not worth it
			{5 << 20, 1}, {0, 2}, // but twice
			{20 << 20, 2}, {20 << 20, 2}, {1 << 20, 3},
		} {
			if got := period(c.allocates); got != c.frees {
				t.Errorf("period %d: freed %d times, want %d", i, got, c.frees)
			}
			if got, want := adjusted.Load(), int64(i+1)*int64(memoryPeriod/adjustPeriod); got != want {
				t.Errorf("period %d: adjusted %d times, want %d", i, got, want)
			}
		}
		cancel()
	})
}

func TestAllocated(t *testing.T) {
	before := allocated()
	block := make([]byte, 10<<20)
	if now := allocated(); before == 0 || now < before+uint64(len(block)) {
		t.Errorf("%d, then %d", before, now)
	}
}
