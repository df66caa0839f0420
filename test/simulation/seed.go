package simulation

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

// seedBubble seeds everything that is left to chance in the bubble of the goroutine that calls it. It is nil if the program was compiled
// without the overlay of test/overlay. Then a seed decides what the script does not, but not the order of goroutines and timers.
var seedBubble func(seed uint64)

// endBubble ends what seedBubble began, outside of the bubble. It is nil if seedBubble is.
var endBubble func()

// inBubble runs f in virtual time. With the overlay, everything in it follows from the seed: see test/overlay.
func inBubble(t *testing.T, seed uint64, f func(*testing.T)) {
	defer withoutCollections()()
	if seedBubble != nil {
		cryptotest.SetGlobalRandom(t, seed) // which is for one world at a time
		defer endBubble()
	}
	synctest.Test(t, func(t *testing.T) {
		if seedBubble != nil {
			seedBubble(seed)
		}
		f(t)
	})
}

// memoryMost is how many bytes may be there before garbage is collected during a world.
const memoryMost = 5 << 30

// withoutCollections has the runtime collect no garbage until the function that it returns is called: collections change which
// goroutine is next.
func withoutCollections() (end func()) {
	limit, percent := debug.SetMemoryLimit(memoryMost), debug.SetGCPercent(-1)
	runtime.GC() // also ends one that is under way
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}
