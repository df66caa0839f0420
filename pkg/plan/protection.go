package plan

import "slices"

// Protection is a finalizer that a controller gives to all objects of a kind. It takes it off when an object is
// being deleted and nothing uses it any more.
type Protection string

// Due reports whether the object lacks the finalizer, or is being deleted and has it. There is nothing to do for
// any other object (SM-21).
func (p Protection) Due(o Object) bool {
	return slices.Contains(o.GetFinalizers(), string(p)) == (o.GetDeletionTimestamp() != nil)
}

// Enqueues returns the key of an object whose finalizer is due, and of one that is gone, so that nothing of it is
// remembered. It is for the watch of the kind.
func (p Protection) Enqueues(before, after Object) []Key {
	switch {
	case after == nil:
		return []Key{KeyOf(before)}
	case p.Due(after):
		return []Key{KeyOf(after)}
	}
	return nil
}

// Toggle gives an object the finalizer, or takes it off.
func (p Protection) Toggle(o Object, why string) Change {
	after := o.DeepCopyObject().(Object)
	others := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == string(p) })
	if len(others) == len(o.GetFinalizers()) {
		others = append(others, string(p))
	}
	after.SetFinalizers(others)
	return Change{Old: o, New: after, Why: why}
}
