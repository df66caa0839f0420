package integration

import (
	"fmt"
	"time"
)

// longestDebounce is for how long a report may wait at the most (docs/decisions/0003).
const longestDebounce = 15 * time.Second

// quiet waits until the number of writes has not changed for some time.
func (b *bench) quiet(written func() int, enough time.Duration) {
	last, since := -1, time.Now()
	b.wait("the manager is quiet", func() error {
		if n := written(); n != last {
			last, since = n, time.Now()
		}
		if rest := time.Since(since); rest < enough {
			return fmt.Errorf("quiet for %v", rest)
		}
		return nil
	})
}
