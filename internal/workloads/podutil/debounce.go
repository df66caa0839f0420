package podutil

import "time"

// How long a report about pods is debounced.
const (
	leastQuiet   = 50 * time.Millisecond
	quietForEach = 5 * time.Millisecond // pod: the more there are, the longer are the gaps between their changes on a slow machine
	longestWait  = time.Second
)

// Debounce returns how long a report of progress about so many pods is debounced: until none of them has changed for quiet,
// but not for longer than longest.
func Debounce(pods int64) (quiet, longest time.Duration) {
	pods = min(pods, int64(longestWait/quietForEach))
	return max(leastQuiet, time.Duration(pods)*quietForEach), longestWait
}
