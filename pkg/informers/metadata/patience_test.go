package metadata

import (
	"errors"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
)

// A server may ask for patience, and not for a day of it.
func TestPatienceHasABound(t *testing.T) {
	w := &resourceWatch{}
	err := w.answered(t.Context(),
		&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusServiceUnavailable,
			Details: &metav1.StatusDetails{RetryAfterSeconds: 86400}}})
	var slower *apierrors.StatusError
	if !errors.As(err, &slower) || time.Duration(slower.ErrStatus.Details.RetryAfterSeconds)*time.Second != listwatch.LongestRefusal {
		t.Errorf("%v", err)
	}
}
