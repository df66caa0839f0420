package deployment

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
)

// recreate replaces all pods at once: the new ones come when the last old one is gone (DEP-48, DEP-49).
func (r *rollout) recreate() {
	var down bool
	for _, s := range r.old {
		if s.size > 0 {
			r.resize(s, 0)
			down = true
		}
	}
	if down {
		return
	}
	if name := r.remains(r.new); name != "" {
		r.say("waiting for the last pods of %s to be gone", name)
		return
	}
	switch {
	case r.new == nil:
		r.create(r.replicas)
	case r.new.size != r.replicas:
		r.resize(r.new, r.replicas)
	default:
		r.await()
		r.tidy()
	}
}

// remains returns the name of a ReplicaSet beside the next one that has pods, or may have some that the cache does
// not show yet: one whose status has not caught up with its size may just have created them.
func (r *rollout) remains(next *set) string {
	alive := func(p *corev1.Pod) bool { return !podutil.Finished(p) }
	for _, s := range r.sets() {
		if s == next {
			continue
		}
		if s.Status.ObservedGeneration < s.Generation || s.Status.Replicas > 0 ||
			slices.ContainsFunc(r.Pods[s.UID], alive) {
			return s.Name
		}
	}
	return ""
}
