package deployment

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// memory is what is remembered of a Deployment from one reconcile to the next. Observe renews the matches and
// hands both to the snapshot; remembered keeps what the rollout has made of that.
type memory struct {
	// Matches say which ReplicaSets have the present template. They save time and change no answer.
	Matches templateMatches
	// Seen is how far the rollout had come, for the deadline of its progress.
	Seen lastSeen
}

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// caches are what the controller reads.
type caches struct {
	deployments informers.Store[*appsv1.Deployment]
	sets        informers.OwnedStore[*appsv1.ReplicaSet]
	pods        informers.PodCache
	tracker     reconcile.Tracker

	// terminatingUncounted: the status does not say how many pods are terminating.
	terminatingUncounted bool
}

// observe finds the Deployment, the ReplicaSets it owns or may adopt, and their pods. Nothing is read live.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (observation, error) {
	d := k.deployments.Get(r.Key.Namespace, r.Key.Name)
	if d == nil {
		return observation{}, nil
	}
	s := snapshot{Deployment: d, Pods: map[types.UID][]*corev1.Pod{}, Counted: map[types.UID]counted{},
		TerminatingUncounted: k.terminatingUncounted}
	s.ReplicaSets = append(s.ReplicaSets, k.sets.OwnedBy(d.Namespace, d.UID)...)
	s.ReplicaSets = append(s.ReplicaSets, selected(d.Spec.Selector, k.sets.OrphansIn(d.Namespace))...)
	for _, rs := range s.ReplicaSets {
		if pods := markDeleted(k.pods.OwnedBy(rs.Namespace, rs.UID), k.tracker, r.Now); len(pods) > 0 {
			s.Pods[rs.UID] = pods
		}
		s.Counted[rs.UID] = countPods(rs, s.Pods[rs.UID], r.Now)
	}
	before := ptr.Deref(r.Memory, memory{})
	s.Seen, s.TemplateMatches = before.Seen, before.Matches.renewed(d, s.ReplicaSets)
	if name := s.nameToCheck(); name != "" {
		s.NameConflict = k.sets.Get(d.Namespace, name)
	}
	return observation{Exists: true, Snapshot: s}, nil
}

// remembered keeps what was seen, whatever became of the writes.
func remembered(_ time.Time, s snapshot, r *rollout, _ plan.Outcome) *memory {
	return &memory{s.TemplateMatches, r.Seen}
}

// markDeleted returns pods in which those that this process has deleted are being deleted, whether the cache shows
// that yet or not. If a pod that the ReplicaSet controller has just deleted were counted as available, too many
// others would go. It replaces items of the list; the pods themselves belong to the cache.
func markDeleted(pods []*corev1.Pod, tracker reconcile.Tracker, now time.Time) []*corev1.Pod {
	for _, i := range tracker.DeletedAmong(len(pods), func(i int) plan.Object { return pods[i] }) {
		deleted := *pods[i]
		deleted.DeletionTimestamp = &metav1.Time{Time: now}
		pods[i] = &deleted
	}
	return pods
}

// live names the ReplicaSets that a previous leader may have created or scaled.
func live(s snapshot) []reconcile.Live {
	selector, err := metav1.LabelSelectorAsSelector(s.Deployment.Spec.Selector)
	if err != nil {
		return nil
	}
	return []reconcile.Live{reconcile.LiveOf(s.Deployment.Namespace, selector, s.ReplicaSets)}
}
