package executor

import (
	"context"
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Answered reports whether it is known what became of a write that has ended with err: it was carried out, or it was
// not. After any other error (time-out, broken connection, internal error) it may or may not have been carried out.
// Where nobody could be reached, it was not, but what the caches show may be over: an API server whose storage was
// restored from a backup may answer the next one, before a watch is open again that would show it.
func Answered(err error) bool {
	if err == nil || errors.Is(err, client.ErrNotLeading) || errors.Is(err, plan.ErrStale) || UndoneFor(err) > 0 {
		return true
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		// The API server answers 503 before it begins. A proxy also does so when the server dies over a request.
		return status.Status().Code < 500 || status.Status().Code == 503 && apierrors.IsServiceUnavailable(err) &&
			!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	}
	return false
}

// FromServer reports whether the error is an answer of the server, or about one, and not a failure on the way to it.
func FromServer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) || UndoneFor(err) > 0
}

// PutOff reports whether the server has asked for the request to be made again later, because it has too many. This
// says nothing about what was to be written. An admission webhook may answer so, too: that is a refusal, which people
// want to read.
func PutOff(err error) bool {
	_, later := apierrors.SuggestsClientDelay(err)
	return later && apierrors.IsTooManyRequests(err) && !client.DeniedByWebhook(err)
}

// refusesObject reports whether the server does not take an object as it is: by validation, by admission, or because
// it is too large. It is not said of what passes: of a server that has too much to do, or does not know who asks.
func refusesObject(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return client.DeniedByWebhook(err) || code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		code != http.StatusUnauthorized && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests
}

// isConflict reports whether the object is not as the request says. A webhook that answers with that code says
// nothing of it.
func isConflict(err error) bool { return apierrors.IsConflict(err) && !client.DeniedByWebhook(err) }

// Silent reports whether the error is part of normal work: nobody needs to read about it, and no backoff is due.
func Silent(err error) bool {
	return errors.Is(err, plan.ErrStale) || errors.Is(err, client.ErrNotLeading) || errors.Is(err, context.Canceled)
}

// namespaceEnds reports whether a creation was refused because its namespace is being deleted, or is gone.
func namespaceEnds(err error) bool {
	if client.DeniedByWebhook(err) {
		return false
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		status.Status().Details.Kind == "namespaces"
}
