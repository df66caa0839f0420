package credentials

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestCodes(t *testing.T) { // RCA-9, CTB-5
	for want, err := range map[string]error{
		"200": nil, "500": os.ErrClosed, "409": apierrors.NewAlreadyExists(corev1.Resource("configmaps"), "x"),
		"429": apierrors.NewTooManyRequests("", 1),
	} {
		if got := codeOf(err); got != want {
			t.Errorf("%v counts as %s", err, got)
		}
	}
}
