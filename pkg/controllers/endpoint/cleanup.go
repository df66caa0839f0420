package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/engine"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

const (
	cleanUpPace  = 20 * time.Millisecond // between two deletions: nobody is in a hurry
	cleanUpRetry = time.Second
	cleanUpCalm  = 60 * time.Second // the longest pause between two tries
)

// InitCleanup builds what takes the controller's place when it is switched off and its Endpoints are not to stay: they
// would be wrong soon, and nobody would see it. It deletes the Endpoints that carry our label, and only those. It is nil
// unless that is asked for.
func InitCleanup(c manager.Context) (manager.Runner, error) {
	if !c.Config.Endpoint.CleanUp {
		return nil, nil
	}
	k, err := engine.KindOf(&corev1.Endpoints{})
	return &cleanup{kind: k, api: c.Access.API, lease: c.Shared.Lease, pace: cleanUpPace, retry: cleanUpRetry}, err
}

type cleanup struct {
	kind        engine.Kind
	api         engine.API
	lease       engine.Lease
	pace, retry time.Duration
}

// Run deletes until nothing is left to delete, and then waits for ctx to end.
func (c *cleanup) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	for wait := c.retry; ; wait = min(2*wait, cleanUpCalm) {
		deleted, err := c.round(ctx)
		if deleted > 0 {
			logger.Info("Deleted Endpoints, for the controller that wrote them is switched off", "count", deleted)
		}
		if err == nil {
			break
		}
		if !pause(ctx, wait) {
			return nil
		}
		logger.Info("Could not delete all Endpoints of the controller that is switched off, tries again", "err", err.Error())
	}
	<-ctx.Done()
	return nil
}

// round tries once to delete all, and returns the first error. One failure does not keep it from the others.
func (c *cleanup) round(ctx context.Context) (deleted int, err error) {
	all, err := c.api.List(ctx, c.kind, metav1.NamespaceAll, managedByLabel+"="+managedBy)
	if err != nil {
		return 0, fmt.Errorf("list Endpoints: %w", err)
	}
	for i := range all {
		if !pause(ctx, c.pace) {
			return deleted, ctx.Err()
		}
		if !c.lease.Held() {
			return deleted, engine.ErrNotLeading
		}
		switch failed := c.delete(ctx, &all[i]); {
		case failed == nil:
			deleted++
		case !apierrors.IsNotFound(failed):
			err = cmp.Or(err, failed)
		}
	}
	return deleted, err
}

// delete removes just what was listed: Endpoints that somebody has changed or replaced since are looked at again.
func (c *cleanup) delete(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	err := c.api.Delete(ctx, c.kind, o.Namespace, o.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("delete Endpoints %s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

// pause reports whether ctx has lasted so long.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
