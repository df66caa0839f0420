package client

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsAbsent reports whether the API server has said that there is no such object. An answer 404 that says nothing of an object is no such
// answer: a load balancer gives it, a server that does not serve the path (yet, or any more), or a webhook.
func IsAbsent(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) &&
		errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name != ""
}
