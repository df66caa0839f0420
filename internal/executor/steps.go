package executor

import (
	"context"
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
		w.gain()
		if err = w.asCreated(m, s, made); err != nil {
			w.emit(s.Events.Failed, made.GetName(), err)
			break
		}
		w.emit(s.Events.Done, made.GetName(), nil)
	case namespaceEnds(err): // RS-28, DEP-26: nothing to report
		w.stop()
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
			w.take()
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

func (w *Writing) change(s plan.Change) error {
	m, err := w.mappingOf(s)
	if err != nil {
		return err
	}
	if s.Apply != nil && s.Old == nil {
		s.Old = s.New
	} else if len(s.Fill) == 0 && !s.Touch && equality.Semantic.DeepEqual(s.Old, s.New) {
		return nil // a write that changes nothing is none
	}
	status := s.Subresource == plan.Status
	if err := w.mayWrite(m, s.Old, touch{object: !status, status: status}, s.Adopt || s.Unowned); err != nil {
		return err
	}
	options := w.options(m, s)
	if s, err = w.following(m, s, options); err != nil {
		return err
	}
	// First the slot, then the lock: whoever has the lock waits for nothing but the server.
	if err := w.takeSlot(s.Old.GetNamespace()); err != nil {
		return err
	}
	defer w.slots.Release(s.Old.GetNamespace())
	unlock, err := w.Tracker.Lock(w.ctx, identity(m, s.Old))
	if err != nil {
		return err
	}
	defer unlock()
	if version := w.Tracker.Outdated(m.GroupVersionKind, s.Old); version != "" {
		w.await(func(b *freshness.Barrier) { b.WaitForVersion(m.GroupVersionKind, version) })
		if w.Stale != nil {
			w.Stale(m.GroupResource())
		}
		return plan.ErrStale
	}
	if s.Adopt {
		if err := w.mayAdopt(); err != nil {
			return err
		}
	}
	filled, err := w.filled(s)
	if err != nil {
		return err
	}
	made, err := client.Change(w.ctx, &unlessUndone{Client: w.Client, Writing: w, m: m, s: s}, m, filled.Old, filled.New, options)
	if made == nil && err == nil {
		return nil // a difference that the method does not express, as between nil and empty, or a change that waits because it was undone
	}
	w.ended(m, verbOf(options.Method), err)
	if err == nil {
		w.wrote(m, filled, made, options)
	}
	err = w.changed(m, s, made, err)
	if err != nil {
		return fmt.Errorf("change %s %s: %w", m.Kind, s.New.GetName(), err)
	}
	if s.Adopt {
		w.gain()
	}
	return nil
}

// wrote notes what a change has made of its object, for another one that follows in this reconcile.
func (w *Writing) wrote(m client.Mapping, s plan.Change, made *metav1.PartialObjectMetadata, options client.WriteOptions) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := identity(m, s.Old)
	t := w.touched[id]
	t.version, t.made, t.answer = made.GetResourceVersion(), s.New, made
	t.only = s.CheckVersion || options.Method == client.MethodUpdate
	w.touched[id] = t
}

// following returns a change as it follows an earlier one of the same object in this reconcile, such as that of the status one of the object: with
// the version that the server has returned. It has to begin with what the earlier one has made.
func (w *Writing) following(m client.Mapping, s plan.Change, options client.WriteOptions) (plan.Change, error) {
	w.mu.Lock()
	before := w.touched[identity(m, s.Old)]
	w.mu.Unlock()
	if before.version == "" {
		return s, nil
	}
	if !sameMetadata(before.made, s.Old) {
		return s, fmt.Errorf("refused: second change of %s %s, which does not begin with what the first has made", m.Kind, s.Old.GetName())
	}
	if options.Method == client.MethodUpdate && !before.only {
		return s, fmt.Errorf("refused: update of %s %s after a change without Version, which says nothing of what others have written", m.Kind, s.Old.GetName())
	}
	keep := options.Method == client.MethodUpdate && sameMetadata(s.Old, s.New)
	s.Old, s.New = withVersion(s.Old, before.version), withVersion(s.New, before.version)
	if keep { // an update replaces the metadata, also what admission has added to the first change
		takeMetadata(s.Old, before.answer)
		takeMetadata(s.New, before.answer)
	}
	return s, nil
}

// takeMetadata gives an object the metadata of another one that users and controllers write.
func takeMetadata(o plan.Object, from metav1.Object) {
	o.SetLabels(from.GetLabels())
	o.SetAnnotations(from.GetAnnotations())
	o.SetFinalizers(from.GetFinalizers())
	o.SetOwnerReferences(from.GetOwnerReferences())
}

// sameMetadata compares what users and controllers write of the metadata of an object.
func sameMetadata(a, b plan.Object) bool {
	return equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) && equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) &&
		equality.Semantic.DeepEqual(a.GetFinalizers(), b.GetFinalizers()) && equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

func withVersion(o plan.Object, version string) plan.Object {
	o = o.DeepCopyObject().(plan.Object)
	o.SetResourceVersion(version)
	return o
}

// filled returns the change as it is sent. What was put in is not kept: outcomes and events are of what was planned.
func (w *Writing) filled(s plan.Change) (plan.Change, error) {
	if len(s.Fill) == 0 {
		return s, nil
	}
	if w.Fill == nil {
		return s, fmt.Errorf("refused: nobody can fill in %s", strings.Join(s.Fill, ", "))
	}
	return w.Fill(s)
}

// mappingOf returns how the object of a change is addressed.
func (w *Writing) mappingOf(s plan.Change) (client.Mapping, error) {
	if !s.Kind.Empty() {
		return w.Mapper.Mapping(w.ctx, s.Kind)
	}
	return w.Mapper.MappingFor(w.ctx, s.New)
}

// changed notes what became of a change, and returns the error that is left.
func (w *Writing) changed(m client.Mapping, s plan.Change, made *metav1.PartialObjectMetadata, err error) error {
	result := plan.Result{Verb: plan.Changed, Object: s.New, Subresource: s.Subresource, Name: s.New.GetName()}
	switch {
	case err == nil:
		result.UID, result.Version = made.GetUID(), made.GetResourceVersion()
		w.remember(m, made)
		if removes(s) && made.GetResourceVersion() == s.Old.GetResourceVersion() {
			w.await(func(b *freshness.Barrier) { b.WaitForRemoval(m.GroupVersionKind, s.Old) })
		}
		w.emit(s.Events.Done, s.New.GetName(), nil)
	case s.Touch && (isConflict(err) || client.IsAbsent(err)):
		result.Needless, err = true, nil // who has changed it meanwhile has written it
	case isConflict(err) && s.Apply == nil, client.IsAbsent(err) && w.owner == nil:
		err = fmt.Errorf("%w: %w", plan.ErrStale, err)
		if !w.Periodic {
			w.await(func(b *freshness.Barrier) { b.WaitForChange(m.GroupVersionKind, s.Old) })
		}
	case client.IsAbsent(err) && w.owner != nil && s.Old.GetUID() != w.owner.GetUID():
		err = nil // gone meanwhile: its event is on the way (RS-21, RS-22)
	case apierrors.IsInvalid(err) && !client.DeniedByWebhook(err) && w.releases(s):
		err = nil // the owner reference is gone already (RS-21)
	default:
		w.emitFailure(s.Events.Failed, s.New.GetName(), err)
	}
	result.Err = err
	w.result(result)
	return err
}

// removes reports whether the change takes the last finalizer off an object that is being deleted.
func removes(s plan.Change) bool {
	return s.Old.GetDeletionTimestamp() != nil && len(s.Old.GetFinalizers()) > 0 && len(s.New.GetFinalizers()) == 0
}

// options says how a change is sent.
func (w *Writing) options(m client.Mapping, s plan.Change) client.WriteOptions {
	o := client.WriteOptions{
		Subresource: s.Subresource, Method: client.MethodPatch, CheckVersion: s.CheckVersion, Touch: s.Touch,
	}
	switch {
	case s.Apply != nil:
		o.Method, o.FieldManager, o.Force = client.MethodApply, s.Apply.FieldManager, s.Apply.Force
	case w.Method != nil:
		o.Method = w.Method(m.GroupResource(), s.Subresource)
	}
	return o
}

// verbOf returns the API's verb for a method.
func verbOf(method client.Method) string {
	if method == client.MethodUpdate {
		return "update"
	}
	return "patch"
}

// releases reports whether the change takes the owner's reference off an object that the owner's selector no longer matches. It is
// not said of the garbage collector, which takes off references before it lets the owner go, and so must know that they are gone.
func (w *Writing) releases(s plan.Change) bool {
	return !s.Unowned && w.owner != nil && controls(w.owner, s.Old) && !controls(w.owner, s.New)
}

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
	if err := w.mayWrite(m, o, touch{deleted: true}, s.Unowned); err != nil {
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
	if err == nil && !(gone && s.CheckVersion) && !(conflict && w.Periodic) {
		w.await(func(b *freshness.Barrier) { b.WaitForDeletion(m.GroupVersionKind, o, conflict) })
	}
	w.result(plan.Result{Verb: plan.Deleted, Object: o, Name: o.GetName(), Needless: gone, Err: err})
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", m.Kind, o.GetName(), err)
	}
	return nil
}

func (w *Writing) sendDeletion(ctx context.Context, m client.Mapping, s plan.Delete, o plan.Object, options metav1.DeleteOptions) error {
	if !s.Evict {
		return w.Client.Delete(ctx, m, plan.KeyOf(o), options)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}, DeleteOptions: &options}
	_, err := w.Client.Create(ctx, m, eviction, client.WriteOptions{Subresource: "eviction"})
	return err
}

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
