package executor

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// create sends objects of one kind in batches of 1, 2, 4, ...; the first batch with a failure is the last (RS-26).
func (w *Writing) create(objects []plan.Object, s plan.Create) error {
	if len(objects) == 0 {
		return nil
	}
	m, err := w.Mapper.MappingFor(w.ctx, objects[0])
	if err != nil {
		return err
	}
	for _, o := range objects {
		if w.owner != nil && !s.Unowned && !controls(w.owner, o) {
			return fmt.Errorf("create %s %s: it would not be controlled by %s", m.Kind, nameOf(o), w.owner.GetName())
		}
	}
	for batch := 1; len(objects) > 0 && !w.stopped(); batch *= 2 {
		now := objects[:min(batch, len(objects))]
		objects = objects[len(now):]
		err := inParallel(len(now), func(i int) error {
			one := s
			one.Object = now[i]
			return w.createOne(m, one)
		})
		if err != nil {
			return fmt.Errorf("create %s %s: %w", m.Kind, nameOf(now[0]), err)
		}
	}
	return nil
}

// createOne sends one creation, and notes what became of it. That a name is taken is looked into; that the
// namespace ends is no failure.
func (w *Writing) createOne(m client.Mapping, s plan.Create) error {
	result := plan.Result{Verb: plan.Created, Object: s.Object}
	if result.Err = w.mayCreate(m, s); result.Err != nil {
		w.result(result)
		return result.Err
	}
	var made *metav1.PartialObjectMetadata
	err := w.send(s.Object.GetNamespace(), func(ctx context.Context) (err error) {
		made, err = w.Client.Create(ctx, m, s.Object, client.WriteOptions{})
		return err
	})
	w.ended(m, "create", err)
	switch {
	case err == nil:
		result.Name, result.UID, result.Version = made.GetName(), made.GetUID(), made.GetResourceVersion()
		w.remember(m, made)
		w.set(func() { w.gained = true })
		if err = w.asCreated(m, s, made); err != nil {
			w.emit(s.Events.Failed, made.GetName(), err)
			break
		}
		w.emit(s.Events.Done, made.GetName(), nil)
	case namespaceEnds(err): // RS-28, DEP-26: nothing to report
		w.set(func() { w.outcome.Stopped = true })
		return nil
	case apierrors.IsAlreadyExists(err) && !client.DeniedByWebhook(err) && s.Object.GetName() != "":
		result.Name, result.UID, err = w.lookUp(m, s, err)
	default:
		w.emitFailure(s.Events.Failed, nameOf(s.Object), err)
	}
	result.Err = err
	w.result(result)
	return err
}

// lookUp makes the key wait until the caches show the object whose name is taken.
func (w *Writing) lookUp(m client.Mapping, s plan.Create, taken error) (name string, uid types.UID, err error) {
	if w.MayGet != nil && !w.MayGet(m.GroupResource()) {
		if s.IfAbsent {
			w.set(func() { w.taken = true })
			return s.Object.GetName(), "", nil
		}
		return "", "", fmt.Errorf("%w: %w", plan.ErrStale, taken)
	}
	found, err := w.get(m, s.Object)
	if err != nil {
		return "", "", taken
	}
	w.await(func(b *freshness.Barrier) { b.WaitForVersion(m.GroupVersionKind, found.GetResourceVersion()) })
	if s.IfAbsent {
		return found.GetName(), found.GetUID(), nil
	}
	return "", "", fmt.Errorf("%w: %w", plan.ErrStale, taken)
}

// delete deletes objects in parallel. The first error is that of the step.
func (w *Writing) delete(s plan.Delete) error {
	return inParallel(len(s.Objects), func(i int) error { return w.deleteOne(s, s.Objects[i]) })
}

// deleteOne deletes under the precondition of the uid: another object that took the name is never hit.
func (w *Writing) deleteOne(s plan.Delete, o plan.Object) error {
	m, err := w.Mapper.MappingFor(w.ctx, o)
	if err != nil {
		return err
	}
	options := w.deleteOptions(s, o)
	if err := w.allow(m, o, touch{deleted: true}, s.Unowned); err != nil {
		return err
	}
	err = w.send(o.GetNamespace(), func(ctx context.Context) error { return w.sendDeletion(ctx, m, s, o, options) })
	w.ended(m, "delete", err)
	conflict := isConflict(err)
	// A controller that works by the clock gets no event that leads to another look.
	changed := conflict && s.CheckVersion && w.Periodic
	gone := conflict && !changed || client.IsAbsent(err)
	switch {
	case err == nil:
		w.Tracker.Deleted(m.GroupVersionKind, o)
		w.emit(s.Events.Done, o.GetName(), nil)
	case gone:
		err = nil
	case changed:
		err = fmt.Errorf("%w: %w", plan.ErrStale, err)
	default:
		w.emitFailure(s.Events.Failed, o.GetName(), err)
	}
	// With CheckVersion, a conflict may be about an object that lives on in another version: its deletion may never
	// come. A periodic controller looks again by the clock.
	if err == nil && !(gone && s.CheckVersion) && !(conflict && w.Periodic) {
		w.await(func(b *freshness.Barrier) { b.WaitForDeletion(m.GroupVersionKind, o, conflict) })
	}
	w.result(plan.Result{Verb: plan.Deleted, Object: o, Name: o.GetName(), Needless: gone, Err: err})
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", m.Kind, o.GetName(), err)
	}
	return nil
}

// sendDeletion deletes an object, or asks the eviction API to do so.
func (w *Writing) sendDeletion(ctx context.Context, m client.Mapping, s plan.Delete, o plan.Object,
	options metav1.DeleteOptions) error {
	if !s.Evict {
		return w.Client.Delete(ctx, m, plan.KeyOf(o), options)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()},
		DeleteOptions: &options}
	_, err := w.Client.Create(ctx, m, eviction, client.WriteOptions{Subresource: "eviction"})
	return err
}

// deleteOptions has the uid as a precondition, and the version if the step asks for that.
func (w *Writing) deleteOptions(s plan.Delete, o plan.Object) metav1.DeleteOptions {
	uid := o.GetUID()
	options := metav1.DeleteOptions{GracePeriodSeconds: s.Grace, Preconditions: &metav1.Preconditions{UID: &uid}}
	if s.CheckVersion {
		version := w.latest(o)
		options.Preconditions.ResourceVersion = &version
	}
	if s.Propagation != "" {
		options.PropagationPolicy = &s.Propagation
	}
	return options
}

// latest is the object's version as this reconcile has left it.
func (w *Writing) latest(o plan.Object) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.touched[o.GetUID()]; before.version != "" {
		return before.version
	}
	return o.GetResourceVersion()
}
