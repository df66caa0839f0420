package main

import (
	"context"
	"io/fs"
	"math"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// Of what a controller manager holds, nearly all is caches, which stay; what passes through is little. So a small share of
// the heap is room enough for garbage, and a collection is rare even so. While the caches are small, their share would be
// too little: then there is room for half of garbageRoom to all of it.
const (
	garbageShare = 30       // percent of what is alive, where Go's default is 100
	garbageRoom  = 16 << 20 // bytes, while that is more than the share
	limitShare   = 0.9      // of the cgroup's limit, above which the collector tries harder
)

// tuneMemory sets how the garbage collector trades memory for time, but for what GOGC and GOMEMLIMIT in the environment
// say themselves. In a container with a limit, the process rather spends time than be killed.
func tuneMemory(env func(string) (string, bool), root fs.FS) {
	if _, set := env("GOGC"); !set {
		set := 0
		afterCollections(func() {
			if percent := garbagePercent(readMetric("/gc/heap/live:bytes")); percent != set {
				debug.SetGCPercent(percent)
				set = percent
			}
		})
	}
	if _, set := env("GOMEMLIMIT"); !set {
		if limit, ok := cgroupLimit(root); ok {
			debug.SetMemoryLimit(int64(float64(limit) * limitShare))
		}
	}
}

// garbagePercent is the value for GOGC when so many bytes are alive. It has few steps: each change stops the process for a
// moment.
func garbagePercent(alive uint64) int {
	for percent := 16 * garbageShare; percent > garbageShare; percent /= 2 {
		if alive*uint64(percent)/100 <= garbageRoom {
			return percent
		}
	}
	return garbageShare
}

// afterCollections calls f now and after each garbage collection, one call at a time.
func afterCollections(f func()) {
	f()
	// An object that nobody holds is found by the next collection; then the next one takes its place.
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) { afterCollections(f) })
}

// cgroupLimit returns how many bytes of memory the process may use by the limits of its cgroup and of those around it; not
// ok if there is none. Version 2 of cgroups has them in one tree, version 1 in one of their own for memory.
func cgroupLimit(root fs.FS) (limit int64, ok bool) {
	own, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	limit = math.MaxInt64
	for line := range strings.Lines(string(own)) {
		hierarchy, at, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, at, _ := strings.Cut(at, ":")
		mount, file := "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		if hierarchy == "0" {
			mount, file = "sys/fs/cgroup", "memory.max"
		} else if controllers != "memory" {
			continue
		}
		for at = path.Clean("/" + at); ; at = path.Dir(at) {
			text, err := fs.ReadFile(root, path.Join(mount, at, file))
			n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && bad == nil && n > 0 {
				limit = min(limit, n)
			}
			if at == "/" {
				break
			}
		}
	}
	return limit, limit < math.MaxInt64>>1 // version 1 says so when there is none
}

const (
	quietPeriod = 10 * time.Second
	quietly     = 1 << 20 // bytes that are allocated in a quiet period, at most
	worthwhile  = 8 << 20 // bytes that must have been allocated for garbage to be worth looking for
)

// returnMemory gives back to the system what is not needed any more, once after each time of work, when all is quiet. Else
// garbage would stay until as much again has been allocated, and in a quiet cluster that may take a day.
func returnMemory(ctx context.Context, period time.Duration, allocated func() uint64, free func()) {
	every := time.NewTicker(period)
	defer every.Stop()
	var freed, before uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		now := allocated()
		if now-before <= quietly && now-freed >= worthwhile {
			free()
			freed = now
		}
		before = now
	}
}

// allocated returns how many bytes have ever been allocated on the heap.
func allocated() uint64 { return readMetric("/gc/heap/allocs:bytes") }

// readMetric returns a number that the Go runtime keeps; 0 if it does not know that name.
func readMetric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
