package deployment

import (
	"context"
	"errors"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	k := &caches{deployments, sets, pods, !c.Config.TerminatingReplicas}
	return engine.New(c.Shared, c.Access, engine.Controller[snapshot]{
		Name:    "deployment", // of the queue (CI-33)
		Workers: c.Config.Deployment.Workers,
		Watches: []engine.Watch{
			{Kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Informer: k.deployments.Informer(), Wakes: itself, Resync: true},
			{Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Informer: k.sets.Informer(), Wakes: k.wokenBySet},
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
	deployments informers.DeploymentCache
	sets        informers.ReplicaSetCache
	pods        informers.PodCache

	terminatingUncounted bool
}

// observe finds the Deployment, the ReplicaSets it owns or may adopt, and their pods. Nothing is read live.
func (k *caches) observe(_ context.Context, key plan.Key) (snapshot, bool, error) {
	d := k.deployments.Get(key.Namespace, key.Name)
	if d == nil {
		return snapshot{}, false, nil
	}
	s := snapshot{Deployment: d, Pods: map[types.UID][]*corev1.Pod{}, TerminatingUncounted: k.terminatingUncounted}
	s.ReplicaSets = append(s.ReplicaSets, k.sets.OwnedBy(d.UID)...)
	s.ReplicaSets = append(s.ReplicaSets, k.sets.OrphansIn(d.Namespace)...)
	for _, rs := range s.ReplicaSets {
		if pods := k.pods.OwnedBy(rs.UID); len(pods) > 0 {
			s.Pods[rs.UID] = pods
		}
	}
	if name := lookFor(d, s.ReplicaSets); name != "" {
		s.Namesake = k.sets.Get(d.Namespace, name)
	}
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

// itself is the key of the object that has changed (DEP-1).
func itself(before, after plan.Object) []plan.Key {
	if after == nil {
		after = before
	}
	return []plan.Key{{Namespace: after.GetNamespace(), Name: after.GetName()}}
}

// wokenBySet returns the owners of a ReplicaSet before and after its change (DEP-1), or whoever may adopt it (DEP-2).
func (k *caches) wokenBySet(before, after plan.Object) (keys []plan.Key) {
	if before != nil {
		keys = k.ownerOf(before, keys)
	}
	if after == nil {
		return keys
	}
	if metav1.GetControllerOfNoCopy(after) != nil {
		return k.ownerOf(after, keys)
	}
	if before != nil && metav1.GetControllerOfNoCopy(before) == nil && maps.Equal(before.GetLabels(), after.GetLabels()) {
		return keys
	}
	return append(keys, k.adopters(after)...)
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
			keys = k.ownerOf(rs, keys)
		}
	}
	return keys
}

// ownerOf adds the Deployment that controls a ReplicaSet, if it exists and is that one and not a namesake.
func (k *caches) ownerOf(rs plan.Object, keys []plan.Key) []plan.Key {
	ref := metav1.GetControllerOfNoCopy(rs)
	if ref == nil || ref.Kind != "Deployment" {
		return keys
	}
	if d := k.deployments.Get(rs.GetNamespace(), ref.Name); d == nil || d.UID != ref.UID {
		return keys
	}
	key := plan.Key{Namespace: rs.GetNamespace(), Name: ref.Name}
	if len(keys) > 0 && keys[len(keys)-1] == key {
		return keys
	}
	return append(keys, key)
}

// adopters returns the Deployments whose selector matches an orphan's labels.
func (k *caches) adopters(orphan plan.Object) (keys []plan.Key) {
	if len(orphan.GetLabels()) == 0 {
		return nil
	}
	for _, d := range k.deployments.In(orphan.GetNamespace()) {
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(orphan.GetLabels())) {
			keys = append(keys, plan.Key{Namespace: d.Namespace, Name: d.Name})
		}
	}
	return keys
}
