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
	before := now(unix.CLOCK_THREAD_CPUTIME_ID)
	do()
	return now(unix.CLOCK_THREAD_CPUTIME_ID) - before
}

// Process returns the CPU time that the whole process takes while do runs. Collections of garbage count, unless
// they are switched off.
func Process(do func()) time.Duration {
	before := now(unix.CLOCK_PROCESS_CPUTIME_ID)
	do()
	return now(unix.CLOCK_PROCESS_CPUTIME_ID) - before
}

func now(clock int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
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
