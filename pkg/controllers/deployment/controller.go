package deployment

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/engine"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/podutil"
)

// Init builds the deployment controller.
func Init(c manager.Context) (manager.Runner, error) {
	deployments, err1 := informers.Deployments(c.Informers)
	sets, err2 := informers.ReplicaSets(c.Informers)
	pods, err3 := informers.Pods(c.Informers)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	k := &caches{deployments, sets, pods, informers.Owners[*appsv1.Deployment]{
		Kind: "Deployment", Get: deployments.Get, In: deployments.In,
		Selector: func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector },
	}, &engine.Memory[templateMatches]{}, &engine.Memory[lastSeen]{}, !c.Config.TerminatingReplicas}
	return engine.New(c.Shared, c.Access, engine.Controller[snapshot]{
		Name:    "deployment", // of the queue (CI-33)
		Workers: c.Config.Deployment.Workers,
		Kinds:   []string{"Deployment"},
		Watches: []engine.Watch{
			{Kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Informer: k.deployments.Informer(), Wakes: informers.Itself, Resync: true},
			{Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Informer: k.sets.Informer(), Wakes: k.owners.WokenBy},
			{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Informer: k.pods.Informer(), Wakes: k.wokenByPod},
		},
		Observe: k.observe,
		Owner:   func(s snapshot) plan.Object { return s.Deployment },
		Plan:    planRollout,
		Report:  reportStatus,
		Live:    live,
	}), nil
}

// caches are what the controller looks at.
type caches struct {
	deployments     informers.DeploymentCache
	sets            informers.ReplicaSetCache
	pods            informers.PodCache
	owners          informers.Owners[*appsv1.Deployment]
	templateMatches *engine.Memory[templateMatches]
	seen            *engine.Memory[lastSeen]

	terminatingUncounted bool
}

// observe finds the Deployment, the ReplicaSets it owns or may adopt, and their pods. Nothing is read live.
func (k *caches) observe(_ context.Context, key plan.Key) (snapshot, bool, error) {
	d := k.deployments.Get(key.Namespace, key.Name)
	if d == nil {
		k.templateMatches.Forget(key)
		k.seen.Forget(key)
		return snapshot{}, false, nil
	}
	s := snapshot{Deployment: d, Pods: map[types.UID][]*corev1.Pod{}, TerminatingUncounted: k.terminatingUncounted, Sorted: &sorted{}}
	s.ReplicaSets = append(s.ReplicaSets, k.sets.OwnedBy(d.Namespace, d.UID)...)
	s.ReplicaSets = append(s.ReplicaSets, k.sets.OrphansIn(d.Namespace)...)
	for _, rs := range s.ReplicaSets {
		if pods := k.pods.OwnedBy(rs.Namespace, rs.UID); len(pods) > 0 {
			s.Pods[rs.UID] = pods
		}
	}
	s.TemplateMatches = k.templateMatches.Renew(key, func(before templateMatches) (templateMatches, bool) {
		return before.renewed(d, s.ReplicaSets), true
	})
	if name := s.nameToCheck(); name != "" {
		s.NameConflict = k.sets.Get(d.Namespace, name)
	}
	s.Seen = k.seen.Renew(key, func(before lastSeen) (lastSeen, bool) {
		return before.renewed(sortOut(time.Now(), s)), true
	})
	return s, true, nil
}

// live names the ReplicaSets that a former leader may have created or scaled.
func live(s snapshot) []engine.Live {
	selector, err := metav1.LabelSelectorAsSelector(s.Deployment.Spec.Selector)
	if err != nil {
		return nil
	}
	cached := make([]plan.Object, len(s.ReplicaSets))
	for i, rs := range s.ReplicaSets {
		cached[i] = rs
	}
	return []engine.Live{{Example: &appsv1.ReplicaSet{}, Namespace: s.Deployment.Namespace, Selector: selector, Cached: cached}}
}

// wokenByPod returns the Deployment whose ReplicaSet a pod belongs to, when the change matters to a count.
func (k *caches) wokenByPod(before, after plan.Object) (keys []plan.Key) {
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
		if rs := k.sets.Get(pod.GetNamespace(), ref.Name); rs != nil && rs.UID == ref.UID {
			keys = k.owners.Of(rs, keys)
		}
	}
	return keys
}
