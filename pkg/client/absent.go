package client

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsAbsent reports whether the API server has said that there is no such object. An answer 404 that says nothing of
// an object is no such answer: a load balancer gives it, a server that does not serve the path (yet, or any more), or
// an admission webhook.
func IsAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) &&
		!DeniedByWebhook(err)
}

// DeniedByWebhook reports whether an admission webhook has refused the request. The webhook chooses the code, the
// reason and the causes, which therefore say nothing of the object; the API server begins the message itself.
func DeniedByWebhook(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && strings.HasPrefix(status.Status().Message, `admission webhook "`)
}
