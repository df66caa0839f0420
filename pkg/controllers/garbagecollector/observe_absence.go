package garbagecollector

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// absenceRequest and absenceObservation are those of a kind of owners.
type (
	absenceRequest     = reconcile.TypedRequest[schema.GroupKind, absenceMemory]
	absenceObservation = reconcile.Observation[absenceSnapshot, absenceMemory]
)

// observeAbsence asks the API of a kind what has become of owners that live reads have not found. It changes nothing of
// what the collector knows, but that the API server itself serves a group.
func (r *runner) observeAbsence(ctx context.Context, req absenceRequest) (o absenceObservation, err error) {
	answer, err := r.askAPI(ctx, r.kindOf(req.Key))
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	s := absenceSnapshot{Kind: req.Key, Answer: answer}
	if err != nil {
		s.Unwell = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Waiting, s.Released = r.term.waiting(req.Key), r.term.brake.Released()
	m := remember(req.Now, req.Memory, answer)
	s.EmptySince = m.EmptySince
	return absenceObservation{Exists: true, Snapshot: s, Memory: &m}, nil
}

// kindOf returns a kind in the version of a reference that somebody asked about.
func (r *runner) kindOf(kind schema.GroupKind) schema.GroupVersionKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term.absentOwnersOf(kind).kind
}

// askAPI finds out who serves a kind, and whether there are objects. The error says why that is unwell.
func (r *runner) askAPI(ctx context.Context, kind schema.GroupVersionKind) (apiAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if answer, err := r.askRegistration(ctx, kind.GroupVersion()); answer != filled {
		return answer, err
	}
	m, err := r.mapper.Mapping(ctx, kind)
	if err != nil {
		return unwell, err
	}
	some, err := r.metadata.Any(ctx, m.GroupVersionResource())
	switch {
	case err != nil:
		return unwell, err
	case some:
		return filled, nil
	}
	return empty, nil
}

// askRegistration finds out whether a group is aggregated; then the answer is filled. What the API server itself has
// served once, it serves as long as anybody does: the registration goes with the last custom resource definition.
func (r *runner) askRegistration(ctx context.Context, group schema.GroupVersion) (apiAnswer, error) {
	r.mu.Lock()
	known := r.term.local.Has(group)
	r.mu.Unlock()
	if known {
		return believed, nil
	}
	path := "/apis/apiregistration.k8s.io/v1/apiservices/" + group.Version + "." + group.Group
	answer, err := r.client.GetRaw(ctx, path, nil)
	var registration struct {
		Spec   struct{ Service *struct{} }
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	switch {
	case client.IsAbsent(err):
		return unregistered, nil
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // a server without aggregation, or a role that hides it
		return believed, nil
	case err != nil:
		return unwell, fmt.Errorf("ask who serves %s: %w", group, err)
	}
	if err := json.Unmarshal(answer, &registration); err != nil {
		return unwell, fmt.Errorf("ask who serves %s: %w", group, err)
	}
	if registration.Spec.Service == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.term.local.Insert(group)
		return believed, nil
	}
	for _, c := range registration.Status.Conditions {
		if c.Type == "Available" && c.Status != "True" {
			return unwell, fmt.Errorf("the API service is not available: %s", c.Message)
		}
	}
	return filled, nil
}
