package plantest

import (
	"time"
	"unsafe"
)

// parts are the first fields of a time, as package time lays them out; a test compares.
type parts struct {
	wall uint64 // whether there is a monotonic reading, seconds since 1885, nanoseconds
	ext  int64  // the monotonic reading
}

const (
	hasMonotonic = 1 << 63
	secondsAt    = 30
)

var first = time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// Monotonic returns a time with a wall clock and a monotonic clock of the caller's choice: as a process sees it on
// a machine whose wall clock is set.
func Monotonic(wall time.Time, mono time.Duration) time.Time {
	t := time.Now()
	*(*parts)(unsafe.Pointer(&t)) = parts{hasMonotonic | uint64(wall.Unix()-first)<<secondsAt | uint64(
		wall.Nanosecond()), int64(mono)}
	return t
}

// Jumped returns a time as it is after the wall clock was set forward, or back, while the monotonic clock went on.
func Jumped(t time.Time, by time.Duration) time.Time {
	p := *(*parts)(unsafe.Pointer(&t))
	if p.wall&hasMonotonic == 0 {
		panic("a time without a monotonic reading")
	}
	return Monotonic(t.Add(by), time.Duration(p.ext))
}
