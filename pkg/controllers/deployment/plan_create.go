package deployment

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// create plans the new ReplicaSet, which has its size from the beginning (DEP-21). It returns false when the name is
// taken: the report counts the collision, which leads to another name (DEP-25).
func (r *rollout) create(size int64) bool {
	if taken, wait := r.collides(); taken {
		r.say("the name %s is taken by another ReplicaSet, tries another one", r.NameConflict.Name)
		r.requeueAfter(wait)
		return false
	}
	rs := r.newReplicaSet(size)
	events := plan.Events{Failed: plan.Event{Type: corev1.EventTypeWarning, Reason: "ReplicaSetCreateError",
		Message: fmt.Sprintf("Failed to create new replica set %q: {error}", rs.Name)}}
	if size > 0 {
		events.Done = plan.Event{Type: corev1.EventTypeNormal, Reason: "ScalingReplicaSet",
			Message: fmt.Sprintf("Scaled up replica set %s from 0 to %d", rs.Name, size)}
	}
	r.tail = append(r.tail,
		plan.Create{Object: rs, Selector: r.d.Spec.Selector, Events: events,
			Why: "no ReplicaSet has the present template"})
	r.say("create ReplicaSet %s of %d replicas", rs.Name, size)
	return true
}

// newReplicaSet is the ReplicaSet of the present template (DEP-19, DEP-20).
func (r *rollout) newReplicaSet(size int64) *appsv1.ReplicaSet {
	name, hash := r.TemplateMatches.newName(r.d)
	desired, maximum := r.sizing()
	revision, _ := r.revision()
	annotations := map[string]string{revisionAnnotation: revision, desiredAnnotation: desired,
		maximumAnnotation: maximum}
	for k, v := range r.d.Annotations {
		if !private(k) {
			annotations[k] = v
		}
	}
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   r.d.Namespace,
			Name:        name,
			Labels:      hashed(r.d.Spec.Template.Labels, hash),
			Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r.d,
				appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        pointer(size),
			MinReadySeconds: r.d.Spec.MinReadySeconds,
			Selector:        r.d.Spec.Selector.DeepCopy(),
			Template:        *r.d.Spec.Template.DeepCopy(),
		},
	}
	rs.Spec.Selector.MatchLabels = hashed(rs.Spec.Selector.MatchLabels, hash)
	rs.Spec.Template.Labels = hashed(rs.Spec.Template.Labels, hash)
	return rs
}

// hashed returns labels with the template's hash added.
func hashed(labels map[string]string, hash string) map[string]string {
	added := maps.Clone(labels)
	if added == nil {
		added = map[string]string{}
	}
	added[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return added
}

// collides reports whether the name of the missing new ReplicaSet is taken. If the last one to get such a name is
// young, something alters templates or labels behind our back, and another name would only lead to another such
// ReplicaSet: each one more has to wait twice as long.
func (r *rollout) collides() (taken bool, wait time.Duration) {
	if r.new != nil || r.NameConflict == nil {
		return false, 0
	}
	if n := r.d.Status.CollisionCount; n != nil && *n > 0 {
		ripe := r.NameConflict.CreationTimestamp.Add(time.Second << min(*n, 10))
		wait = max(0, ripe.Sub(r.now))
	}
	return true, wait
}
