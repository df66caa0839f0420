package executor

import (
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// codeOf is the code of HTTP that the server answered with. The client keeps it for errors only.
func codeOf(verb string, err error) string {
	if err == nil {
		if verb == "create" {
			return strconv.Itoa(http.StatusCreated)
		}
		return strconv.Itoa(http.StatusOK)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code > 0 {
		return strconv.Itoa(int(status.Status().Code))
	}
	return "<error>"
}
