package clock

import (
	"context"
	"time"
)

// Sleep sleeps for so long, and reports whether ctx has not ended meanwhile.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
