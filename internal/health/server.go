package health

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	askTimeout = 10 * time.Second // for an answer about the API server's health
	waitingLog = time.Minute      // between two lines about an API server that is waited for
)

// WaitForServer waits until the API server says that it is healthy, or refuses to answer, or ctx ends. It waits without
// end, as a standby does: to restart the process would bring the API server back no sooner. What it waits for is noted
// each time.
func WaitForServer(ctx context.Context, client rest.Interface, note func(error)) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	logger := klog.FromContext(ctx)
	var (
		logged time.Time
		known  = true // the server has not said that it does not know us
	)
	for {
		err := askServer(ctx, client)
		if err == nil || ctx.Err() != nil {
			break
		}
		note(err)
		was := known
		known = !apierrors.IsUnauthorized(err)
		if known != was || time.Since(logged) >= waitingLog {
			logged = time.Now()
			if known {
				logger.Info("Waiting for the API server to be healthy", "err", err.Error())
			} else {
				logger.Error(err, "The API server does not know this process, waiting until it does")
			}
		}
		select {
		case <-every.C:
		case <-ctx.Done():
		}
	}
	if !logged.IsZero() && ctx.Err() == nil {
		logger.Info("The API server is healthy")
	}
}

// askServer returns nil if the server is healthy, or is there and refuses to answer.
func askServer(ctx context.Context, client rest.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status := 0
	err := client.Get().AbsPath("/healthz").Do(ctx).StatusCode(&status).Error()
	if status == http.StatusNotFound || status == http.StatusForbidden {
		return nil
	}
	return err
}
