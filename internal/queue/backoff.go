package queue

import (
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	firstBackoff = 5 * time.Millisecond
	// MaxBackoff is the longest delay between two tries. No key is ever given up.
	MaxBackoff = 60 * time.Second
)

// Backoff returns how long a key waits after that many failures in a row, or as long as the server asks for in err,
// but at most [MaxBackoff]. Up to a tenth is taken off at random, so that keys that failed together are spread.
func Backoff(failures int, err error) time.Duration {
	after := plan.Doubling(firstBackoff, MaxBackoff, failures-1)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		after = min(max(after, time.Duration(seconds)*time.Second), MaxBackoff)
	}
	return after - time.Duration(rand.Int64N(int64(after)/10+1))
}
