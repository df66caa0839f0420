//go:build unix

package costs

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time that do takes on its own goroutine.
func CPU(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	do()
	return threadTime() - before
}

func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // every kernel that runs tests has it
	}
	return time.Duration(now.Nano())
}

// Heap returns by how many bytes the live heap has grown after do.
func Heap(do func()) int64 {
	before := liveHeap()
	do()
	return liveHeap() - before
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools have held until now
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
