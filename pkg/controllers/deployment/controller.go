package deployment

import (
	"cmp"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// New returns the deployment controller. Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Workers = cmp.Or(o.Workers, 5)
	return manager.Controller{
		Name:    "deployment-controller",
		Alias:   "deployment",
		Account: "deployment-controller",
		Beside:  true,
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init asks for the caches and says how the controller works. Of pods it reads what readiness depends on.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	deployments, err1 := informers.Objects[*appsv1.Deployment](c.Informers)
	sets, err2 := informers.OwnedObjects[*appsv1.ReplicaSet](c.Informers)
	pods, err3 := informers.Pods(c.Informers,
		informers.PodFields{Paths: []string{"status.phase", "status.conditions"}, Condition: informers.ReadyCondition})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	k := &caches{deployments, sets, pods, c.Shared.Tracker, !c.Enabled("DeploymentReplicaSetTerminatingReplicas")}
	owners := &owners{sets, informers.Owners[*appsv1.Deployment]{
		Kind: "Deployment", Get: deployments.Get, In: deployments.In,
		Selector: func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector },
	}}
	return reconcile.New(c.Shared, c.Access, reconcile.Controller[snapshot, *rollout, memory]{
		Name:      "deployment", // of the queue (CI-33)
		Workers:   int(o.Workers),
		Explained: []string{"Deployment"},
		Watches: []reconcile.Watch{
			k.deployments.Watch(informers.Itself, informers.WithResync),
			k.sets.Watch(owners.Enqueues),
			k.pods.Watch(owners.enqueuesByPod),
		},
		Observe:  k.observe,
		Remember: reconcile.RememberOutcome(remembered),
		Owner:    func(s snapshot) plan.Object { return s.Deployment },
		Plan:     planRollout,
		Report:   reportStatus,
		Live:     live,
	}), nil
}

// owners finds the Deployments that a change concerns.
type owners struct {
	sets informers.OwnedStore[*appsv1.ReplicaSet]
	informers.Owners[*appsv1.Deployment]
}

// enqueuesByPod returns the Deployment whose ReplicaSet a pod belongs to, when the change matters to a count.
func (o *owners) enqueuesByPod(before, after plan.Object) (keys []plan.Key) {
	if before != nil && after != nil && podutil.CountsAlike(before.(*corev1.Pod), after.(*corev1.Pod)) {
		return nil
	}
	for _, pod := range []plan.Object{before, after} {
		if pod == nil {
			continue
		}
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil || ref.Kind != "ReplicaSet" {
			continue
		}
		if rs := o.sets.Get(pod.GetNamespace(), ref.Name); rs != nil && rs.UID == ref.UID {
			keys = o.Of(rs, keys)
		}
	}
	return keys
}
