package executor

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// outgoing is a change on its way to the server.
type outgoing struct {
	plan.Change
	// m is how the object is addressed, and options how the change is sent.
	m       client.Mapping
	options client.WriteOptions
	release []func() // gives back what it has taken on its way
}

// guards are what each change passes, in this order, before it is sent. Whoever has the lock of an object waits for
// nothing but the server, so the slot comes before it.
var guards = []func(*Writing, *outgoing) error{
	(*Writing).claim,
	(*Writing).follow,
	(*Writing).awaitSlot,
	(*Writing).awaitObject,
	(*Writing).refuseOutdated,
	(*Writing).refuseAdoption,
}

// change carries out a change, if it is one and passes all guards.
func (w *Writing) change(s plan.Change) error {
	m, err := w.mappingOf(s)
	if err != nil {
		return err
	}
	if s.Apply != nil && s.Old == nil {
		s.Old = s.New
	} else if len(s.Sign) == 0 && !s.Touch && equality.Semantic.DeepEqual(s.Old, s.New) {
		return nil // a write that changes nothing is none
	}
	c := &outgoing{Change: s, m: m, options: w.options(m, s)}
	defer c.releaseAll()
	for _, pass := range guards {
		if err := pass(w, c); err != nil {
			return err
		}
	}
	return w.sendChange(c)
}

// sendChange sends a change that has passed all guards.
func (w *Writing) sendChange(c *outgoing) error {
	signed, err := w.signed(c.Change)
	if err != nil {
		return err
	}
	sender := &unlessUndone{Client: w.Client, Writing: w, m: c.m, s: c.Change}
	made, err := client.Change(w.ctx, sender, c.m, signed.Old, signed.New, c.options)
	if made == nil && err == nil {
		// It is a difference that the method does not express, as between nil and empty, or waits
		// because it was undone.
		return nil
	}
	w.ended(c.m, verbOf(c.options.Method), err)
	if err == nil {
		w.wrote(c.m, signed, made, c.options)
	}
	if err = w.changed(c.m, c.Change, made, err); err != nil {
		return fmt.Errorf("change %s %s: %w", c.m.Kind, c.New.GetName(), err)
	}
	if c.Adopt {
		w.set(func() { w.gained = true })
	}
	return nil
}

// releaseAll gives back what the guards have taken, the last one first: the object before the slot.
func (c *outgoing) releaseAll() {
	for i := range c.release {
		c.release[len(c.release)-1-i]()
	}
}

// claim refuses a second change of an object, or of its status, in one reconcile, and a change of an object that is not
// the owner's.
func (w *Writing) claim(c *outgoing) error {
	status := c.Subresource == plan.Status
	return w.allow(c.m, c.Old, touch{object: !status, status: status}, c.Adopt || c.Unowned)
}

// awaitSlot waits for the turn of the change among all writes of the controller.
func (w *Writing) awaitSlot(c *outgoing) error {
	release, err := w.takeSlot(c.Old.GetNamespace())
	if err == nil {
		c.release = append(c.release, release)
	}
	return err
}

// awaitObject waits for the turn of the change among the writers of the object in this process.
func (w *Writing) awaitObject(c *outgoing) error {
	unlock, err := w.Tracker.Lock(w.ctx, identity(c.m, c.Old))
	if err == nil {
		c.release = append(c.release, unlock)
	}
	return err
}

// refuseOutdated refuses a change that was planned from an older version than this process knows of, and has the key
// wait for that.
func (w *Writing) refuseOutdated(c *outgoing) error {
	version := w.Tracker.Outdated(c.m.GroupVersionKind, c.Old)
	if version == "" || c.Touch { // the server finds out: a touch that conflicts has nothing left to do
		return nil
	}
	w.await(func(b *freshness.Barrier) { b.WaitForVersion(c.m.GroupVersionKind, version) })
	if w.Stale != nil {
		w.Stale(c.m.GroupResource())
	}
	return plan.ErrStale
}

// refuseAdoption refuses an adoption for an owner that, read live, is gone or being deleted.
func (w *Writing) refuseAdoption(c *outgoing) error {
	if !c.Adopt {
		return nil
	}
	w.mu.Lock()
	if w.mayAdopt == nil {
		w.mayAdopt = once(w.ownerLives)
	}
	mayAdopt := w.mayAdopt
	w.mu.Unlock()
	return mayAdopt()
}

// wrote notes what a change has made of its object, for another one that follows in this reconcile.
func (w *Writing) wrote(
	m client.Mapping, s plan.Change, made *metav1.PartialObjectMetadata, options client.WriteOptions,
) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := identity(m, s.Old)
	t := w.touched[id]
	t.version, t.made, t.answer, t.only = made.GetResourceVersion(), s.New, made, s.CheckVersion ||
		options.Method == client.MethodUpdate
	w.touched[id] = t
}

// follow has a second change of an object in one reconcile, such as that of its status, begin where
// the first one has ended: it gives it the version that the server has returned, and refuses it if
// it begins elsewhere.
func (w *Writing) follow(c *outgoing) error {
	w.mu.Lock()
	before := w.touched[identity(c.m, c.Old)]
	w.mu.Unlock()
	if before.version == "" {
		return nil
	}
	if !sameMetadata(before.made, c.Old) {
		return fmt.Errorf("refused: second change of %s %s, which does not begin with what the first has made",
			c.m.Kind, c.Old.GetName())
	}
	if c.options.Method == client.MethodUpdate && !before.only {
		return fmt.Errorf(
			"refused: update of %s %s after a change without CheckVersion, which says nothing of what others have "+
				"written",
			c.m.Kind,
			c.Old.GetName(),
		)
	}
	if !before.only && !sameLists(c.Old, c.New) && !sameLists(before.answer, c.Old) {
		return plan.ErrStale // a list that may be replaced whole is not what was observed
	}
	keep := c.options.Method == client.MethodUpdate && sameMetadata(c.Old, c.New)
	c.Old, c.New = withVersion(c.Old, before.version), withVersion(c.New, before.version)
	if keep { // an update replaces the metadata, also what admission has added to the first change
		takeMetadata(c.Old, before.answer)
		takeMetadata(c.New, before.answer)
	}
	return nil
}

// takeMetadata gives an object the metadata of another one that users and controllers write.
func takeMetadata(o plan.Object, from metav1.Object) {
	o.SetLabels(from.GetLabels())
	o.SetAnnotations(from.GetAnnotations())
	o.SetFinalizers(from.GetFinalizers())
	o.SetOwnerReferences(from.GetOwnerReferences())
}

// sameLists compares the lists of the metadata that may be replaced whole.
func sameLists(a, b metav1.Object) bool {
	return equality.Semantic.DeepEqual(a.GetFinalizers(), b.GetFinalizers()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

// sameMetadata compares what users and controllers write of the metadata of an object.
func sameMetadata(a, b plan.Object) bool {
	return equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) &&
		equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) && sameLists(a, b)
}

// withVersion returns a copy that says that it is of this version.
func withVersion(o plan.Object, version string) plan.Object {
	o = o.DeepCopyObject().(plan.Object)
	o.SetResourceVersion(version)
	return o
}

// signed returns the change as it is sent. What was put in is not kept: outcomes and events are of what was planned.
func (w *Writing) signed(s plan.Change) (plan.Change, error) {
	if len(s.Sign) == 0 {
		return s, nil
	}
	if w.Sign == nil {
		return s, fmt.Errorf("refused: nobody can sign %s", strings.Join(s.Sign, ", "))
	}
	return w.Sign(s)
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
	case s.Touch && refusesObject(err):
		result.Refused, result.Err = true, err
		w.result(result)
		return nil
	case isConflict(err) && (s.Apply == nil || s.CheckVersion), client.IsAbsent(err) && w.owner == nil:
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
		Subresource:  s.Subresource,
		Method:       client.MethodPatch,
		FieldManager: s.FieldManager,
		CheckVersion: s.CheckVersion,
		Touch:        s.Touch,
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

// releases reports whether the change takes the owner's reference off an object that the owner's selector no longer
// matches. It is not said of the garbage collector, which takes off references before it lets the owner go, and so must
// know that they are gone.
func (w *Writing) releases(s plan.Change) bool {
	return !s.Unowned && w.owner != nil && controls(w.owner, s.Old) && !controls(w.owner, s.New)
}
