package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/clock"
	"github.com/standalone-kcm/controller-manager/internal/executor"
	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

const (
	deleteInterval = 20 * time.Millisecond // between two deletions, so that they do not load the server
	minRetry       = time.Second           // between two rounds; it doubles
	maxRetry       = 60 * time.Second
)

// initCleanup builds what takes the controller's place when it is switched off and its Endpoints are not to stay:
// they would be wrong soon, and nobody would see it. It deletes the Endpoints that carry our label, and only those.
// It is nil unless that is asked for.
func (o *Options) initCleanup(c manager.Context) (manager.Runner, error) {
	if !o.CleanUp {
		return nil, nil
	}
	writes := executor.New(executor.Config{Client: c.Access.Client, Mapper: c.Shared.Mapper, Tracker: c.Shared.Tracker,
		Written: c.Access.Hooks.Write})
	return &cleanup{client: c.Access.Client, hooks: c.Access.Hooks, now: c.Shared.Clock.Now, executor: writes}, nil
}

// cleanup is the runner that takes the controller's place while it is off. It has no caches: it lists what
// there is to delete.
type cleanup struct {
	client   client.Client
	hooks    reconcile.Hooks
	now      func() time.Time
	executor *executor.Executor
}

// Run deletes until nothing is left to delete, and then waits for ctx to end.
func (c *cleanup) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	for wait := minRetry; ; wait = min(2*wait, maxRetry) {
		deleted, complete, err := c.deleteAll(ctx)
		if deleted > 0 {
			logger.Info("Deleted Endpoints, because the controller that wrote them is switched off", "count", deleted)
		}
		if complete {
			break
		}
		if !clock.Sleep(ctx, wait) {
			return nil
		}
		if err != nil {
			logger.Info("Could not delete all Endpoints of the controller that is switched off, tries again", "err",
				err.Error())
		}
	}
	<-ctx.Done()
	return nil
}

// deleteAll tries once to delete all, and returns the first error. One failure does not keep it from the others. It is
// complete if all that was found was deleted.
func (c *cleanup) deleteAll(ctx context.Context) (deleted int, complete bool, err error) {
	endpoints := client.MappingFor[*corev1.Endpoints]()
	listed := &metav1.PartialObjectMetadataList{}
	if err := c.client.List(ctx, endpoints, metav1.NamespaceAll,
		metav1.ListOptions{LabelSelector: managedByLabel + "=" + managedBy}, listed); err != nil {
		return 0, false, fmt.Errorf("list Endpoints: %w", err)
	}
	all := endpointsToDelete(listed.Items)
	for _, o := range all {
		if !clock.Sleep(ctx, deleteInterval) {
			return deleted, false, ctx.Err()
		}
		done, failed := c.delete(ctx, o)
		if done {
			deleted++
		}
		err = cmp.Or(err, failed)
		if errors.Is(failed, client.ErrNotLeading) {
			break
		}
	}
	return deleted, deleted == len(all), err
}

// delete deletes just what was listed, and reports whether it did: it does not if somebody has changed, replaced or
// deleted it since, which is no error.
func (c *cleanup) delete(ctx context.Context, o plan.Object) (done bool, err error) {
	const why = "the controller that wrote them is switched off"
	d := reconcile.Decision{Key: plan.KeyOf(o), Record: explain.Record{Time: c.now(), Why: why}, Steps: []plan.Step{
		plan.Delete{Objects: []plan.Object{o}, CheckVersion: true, Unowned: true, Why: why},
	}}
	if c.hooks.Applying != nil {
		c.hooks.Applying(ctx, d)
	}
	did := c.executor.Begin(ctx, nil, &freshness.Barrier{}).Apply(d.Steps)
	if d.Did = did.Results; c.hooks.Decided != nil {
		c.hooks.Decided(d)
	}
	if did.Err != nil {
		return false, fmt.Errorf("namespace %s: %w", o.GetNamespace(), did.Err)
	}
	return slices.ContainsFunc(did.Results, func(r plan.Result) bool { return !r.Needless }), nil
}
