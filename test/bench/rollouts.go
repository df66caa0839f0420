package main

import (
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// rollouts times Deployments from the moment a user changes them until their status says that they are rolled out.
type rollouts struct {
	mu         sync.Mutex
	generation map[string]int64 // the last seen
	waiting    map[string]rollout
	took       []time.Duration
}

type rollout struct {
	began time.Time
	after int64 // the generation before the change
}

func newRollouts() *rollouts {
	return &rollouts{generation: map[string]int64{}, waiting: map[string]rollout{}}
}

// begin notes that a Deployment is about to be changed or created. Its generation must have been seen.
func (r *rollouts) begin(name string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[name] = rollout{began: now, after: r.generation[name]}
}

// see is told of each change of a Deployment.
func (r *rollouts) see(d *appsv1.Deployment, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation[d.Name] = d.Generation
	if w, ok := r.waiting[d.Name]; ok && d.Generation > w.after && rolledOut(d) {
		r.took = append(r.took, now.Sub(w.began))
		delete(r.waiting, d.Name)
	}
}

// missing is the number of Deployments that are not rolled out yet, and the name of one of them.
func (r *rollouts) missing() (n int, example string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for example = range r.waiting {
		break
	}
	return len(r.waiting), example
}

// take returns how long the rollouts took and forgets them.
func (r *rollouts) take() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := r.took
	r.took = nil
	return took
}

// rolledOut is what "kubectl rollout status" waits for, and that the status has come to rest.
func rolledOut(d *appsv1.Deployment) bool {
	n, s := *d.Spec.Replicas, d.Status
	return s.ObservedGeneration >= d.Generation && s.Replicas == n && s.UpdatedReplicas == n && s.AvailableReplicas == n
}

// roomOf returns how many pods a Deployment may have too many and too few of during a rolling update with the default
// strategy, as limits.
func roomOf(replicas int) (most, least int) {
	surge, unavailable := floor.DefaultRoom(replicas)
	return replicas + surge, replicas - unavailable
}
