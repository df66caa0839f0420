package engine

import (
	"context"
	"errors"
	"net"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// ErrNotLeading says that a write was not sent because the lease is no longer held by the local clock (LE-14).
var ErrNotLeading = errors.New("the leader lease is not held")

// settled reports whether the server is known to have answered for the write: it was done, or it was not. After any
// other error (time-out, broken connection, internal error) it may or may not have been done.
func settled(err error) bool {
	if err == nil || errors.Is(err, ErrNotLeading) || errors.Is(err, plan.ErrStale) {
		return true
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code < 500 || status.Status().Code == 503 && apierrors.IsServiceUnavailable(err)
	}
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// answered reports whether the error came from the server and not from the way to it.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// namespaceTerminating reports whether a creation was refused because its namespace is being deleted.
func namespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// silent reports whether the error is part of normal work: nobody needs to read about it, and no back-off is due.
func silent(err error) bool {
	return errors.Is(err, plan.ErrStale) || errors.Is(err, ErrNotLeading) || errors.Is(err, context.Canceled)
}
