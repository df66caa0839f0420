package pvcprotection

import (
	"cmp"
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// Options are what can be set of the controller.
type Options struct {
	Workers int32 // namespaces that are reconciled at the same time
}

// New returns the persistentvolumeclaim-protection controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "persistentvolumeclaim-protection-controller",
		Alias:   "pvc-protection",
		Account: "pvc-protection-controller",
		Rights:  Rights,
		Init:    o.init,
	}
}

// init builds the controller. Its keys are namespaces, so that one live list of pods serves all claims of a namespace
// (SM-34).
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	claims, err1 := informers.IndexedObjects(c.Informers, "protection", due)
	pods, err2 := informers.PodsByClaim(c.Informers, informers.PodFields{Paths: []string{
		"status.phase", "spec.nodeName", "spec.volumes.name",
		"spec.volumes.volumeSource.persistentVolumeClaim.claimName",
		"spec.volumes.volumeSource.ephemeral.volumeClaimTemplate.metadata.name", // it is enough that there is one
	}})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k := &caches{claims: claims, pods: pods, refused: reconcile.NewTerm(reconcile.TermOptions[bool]{})}
	protection := reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, struct{}, memory]{
		Name:      "pvcprotection", // of the queue
		Workers:   int(o.Workers),
		Explained: []string{"Namespace"},
		Watches: []reconcile.Watch{
			claims.Watch(enqueuedByClaim, informers.WithResync),
			pods.Watch(k.enqueuedByPod),
		},
		Observe:  k.observe,
		Prove:    k.prove,
		Remember: reconcile.Always[snapshot, struct{}, memory], // it is what was seen
		Plan:     reconcile.PlanOnly(planClaims),
	})
	if !c.Enabled("PersistentVolumeClaimUnusedSinceTime") {
		return protection, nil
	}
	// Conditions have keys and workers of their own, so that no finalizer waits for one.
	return reconcile.Together(protection,
		reconcile.New(c.Shared, c.Access, reconcile.Controller[usage, struct{}, struct{}]{
			Name:      "pvcunused",
			QueueName: "pvcprotection",
			Workers:   int(o.Workers),
			Explained: []string{"PersistentVolumeClaim"},
			Watches: []reconcile.Watch{
				claims.Watch(k.unusedByClaim, informers.WithResync),
				pods.Watch(k.unusedByPod),
			},
			Term:             k.refused,
			Observe:          k.observeUnused,
			Owner:            func(u usage) plan.Object { return u.Claim },
			SkipVerification: true, // the version is a precondition of the only write
			Plan:             reconcile.PlanOnly(planUnused),
			Report:           reconcile.ReportOnly[usage, struct{}](reportUnused),
			Applied:          k.appliedUnused,
		})), nil
}

// appliedUnused notes that the account lacks the right to write statuses of claims, as it does on API servers before
// 1.36: then claims have no such condition, and it is not tried again. Where something else forbids a write, such as
// a webhook, the write is retried like any other.
func (k *caches) appliedUnused(ctx context.Context, _ usage, _ struct{}, _, reported plan.Outcome) {
	const refusal = `cannot update resource "persistentvolumeclaims/status"`
	err := reported.Err
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refusal) {
		return
	}
	first := false
	k.refused.Update(func(refused bool) bool {
		first = !refused
		return true
	})
	if !first {
		return
	}
	klog.FromContext(ctx).Info("Claims get no condition Unused: this process may not write their status", "err",
		err.Error())
}
