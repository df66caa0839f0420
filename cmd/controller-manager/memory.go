package main

import (
	"context"
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// Nearly all that a controller manager holds is caches, which stay; the rest is short-lived. So a small share of the
// heap is room enough for garbage, and collections are rare even so. While the caches are small, that share would be
// too little; then there is room for garbageRoom. Fixed values of GOGC are measured in decision 6.
const (
	garbageShare = 60       // percent of what is alive, where Go's default is 100
	garbageRoom  = 32 << 20 // bytes, while that is more than the share
	mostGarbage  = 480      // percent of what is alive, however little that is
	limitShare   = 0.9      // of the cgroup's limit, above which the collector tries harder
)

// limitMemory makes the process rather spend time than be killed when its container has a memory limit. GOMEMLIMIT in
// the environment takes precedence.
func limitMemory(env func(string) (string, bool), root fs.FS) {
	if _, set := env("GOMEMLIMIT"); set {
		return
	}
	if limit, ok := cgroupLimit(root); ok {
		debug.SetMemoryLimit(int64(float64(limit) * limitShare))
	}
}

// garbageTuner sets GOGC for large caches, and returns a function that sets it again for what is alive when it is
// called. It gives more room for garbage only when no more is alive than at the call before, so that caches which are
// being filled do not grow beyond what they need. GOGC in the environment takes precedence.
func garbageTuner(env func(string) (string, bool)) (adjust func()) {
	if _, set := env("GOGC"); set {
		return func() {}
	}
	set := garbageShare // while the caches are filled for the first time
	debug.SetGCPercent(set)
	var before uint64
	return func() {
		alive := readMetric("/gc/heap/live:bytes")
		grows := alive > before+before/4
		before = alive
		if percent := garbagePercent(alive); percent < set || percent > set && !grows {
			debug.SetGCPercent(percent)
			set = percent
		}
	}
}

// garbagePercent is the value for GOGC when so many bytes are alive, in steps of ten: each change stops the process
// for a moment.
func garbagePercent(alive uint64) int {
	room := int(garbageRoom * 100 / max(1, alive))
	return min(max(room/10*10, garbageShare), mostGarbage)
}

// cgroupLimit returns how many bytes of memory the process may use by the limits of its cgroup and of those around
// it; not ok if there is none. Version 2 of cgroups has them in one tree, version 1 in one of their own for memory.
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
	adjustPeriod = time.Second
	memoryPeriod = 10 * time.Second
	idleAllocs   = 1 << 20 // bytes that an idle process allocates in a period, at most
	worthwhile   = 8 << 20 // bytes that must have been allocated for garbage to be worth looking for
)

// manageMemory adjusts the room for garbage every second. It also returns unused memory to the system, once after
// each time of work, when the process is idle: otherwise garbage would stay until the collection that the Go runtime
// makes when there was none for two minutes, and the memory with the system for longer.
func manageMemory(ctx context.Context, adjust func(), allocated func() uint64, free func()) {
	adjusting, freeing := time.NewTicker(adjustPeriod), time.NewTicker(memoryPeriod)
	defer adjusting.Stop()
	defer freeing.Stop()
	var freed, before uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-adjusting.C:
			adjust()
			continue
		case <-freeing.C:
		}
		now := allocated()
		if now-before <= idleAllocs && now-freed >= worthwhile {
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
