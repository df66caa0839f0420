//go:build unix

package costs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// reference is what the yardstick takes on the machine on which bounds of CPU time were set.
	reference = 10 * time.Millisecond
	// slowest is what counts of a machine at most: on one that is slower still, tests may fail.
	slowest = 3
)

// Slowness returns how many times as long as there a piece of work takes here, and now: the same processor may be twice
// as slow when its neighbors are busy. Bounds of CPU time are multiplied by it, on a faster machine, too. It takes a
// tenth of a second.
func Slowness() float64 {
	least := CPU(yardstick)
	for range 4 {
		least = min(least, CPU(yardstick))
	}
	return min(slowest, float64(least)/float64(reference))
}

// Exceeds reports whether a piece of work has taken longer than a bound of CPU time, on a machine as slow as this one.
func Exceeds(took, bound time.Duration) bool {
	return took > bound && float64(took) > Slowness()*float64(bound)
}

// yardstick does what much of the work on large objects is like: it fills maps, and encodes, decodes and sorts.
func yardstick() {
	fields := make(map[string]string)
	for i := range 10_000 {
		fields[fmt.Sprintf("example.com/field-%d", i)] = fmt.Sprintf("value-%d", i)
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	var decoded map[string]string
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		panic(err)
	}
	slices.Sort(slices.Collect(maps.Keys(decoded)))
}
