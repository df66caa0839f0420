package listwatch

import (
	"errors"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A server may ask for patience, and not for a day of it.
func TestPatienceHasABound(t *testing.T) {
	asks := func(seconds int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
			Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
		}}
	}
	for err, want := range map[error]time.Duration{asks(0): 0, asks(7): 7 * time.Second, asks(86400): LongestRefusal, errors.New("x"): 0} {
		if got := retryAfter(err); got != want {
			t.Errorf("%v: waits %s, want %s", err, got, want)
		}
	}
}
