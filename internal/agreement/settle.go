package agreement

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// settle judges a write that is planned no more, and forgets it. others is what is planned for the key now.
func (c *Comparison) settle(id keyID, k *keyState, at string, others map[string]*item, now time.Time) {
	i := k.items[at]
	delete(k.items, at)
	c.bytes -= i.size
	next := i.replacedBy(others)
	if next != nil && !c.begun(i) {
		next.since, next.judged = i.since, i.judged // it is as late as what it takes the place of
	}
	if i.judged {
		return // it has counted
	}
	if i.generated {
		c.settleCopies(id, i, k, now)
		return
	}
	have, known := c.Cached(i.kind, plan.Key{Namespace: i.namespace, Name: i.name})
	if i.collection || !known {
		c.count(id.controller, Unseen, 1)
		return
	}
	d := c.disagreement(id, i, now)
	switch i.verb {
	case plan.Created:
		if have != nil && slices.ContainsFunc(slices.Collect(maps.Values(others)), func(other *item) bool {
			return other.verb == plan.Changed && other.uid == have.GetUID()
		}) {
			c.count(id.controller, Superseded, 1) // what is in it is judged by that change
			return
		}
		c.settleCreated(d, i, k, have)
	case plan.Deleted:
		c.settleDeleted(d, i, k, others, have)
	default:
		c.settleChanged(d, i, have, next != nil, now)
	}
}

// replacedBy returns the change that is planned in the place of a change; nil if there is none.
func (i *item) replacedBy(others map[string]*item) *item {
	for _, other := range others {
		if i.verb == plan.Changed && other.verb == i.verb && other.uid == i.uid && other.subresource == i.subresource {
			return other
		}
	}
	return nil
}

// begun reports whether the fields that a change is about are not as they were when it was planned.
func (c *Comparison) begun(i *item) bool {
	have, known := c.Cached(i.kind, plan.Key{Namespace: i.namespace, Name: i.name})
	if !known || have == nil || have.GetUID() != i.uid {
		return true
	}
	_, _, moved := differing(i.was, leaves(tree(have)))
	return moved
}

// done reports whether the caches show that a write of one object was done. A key is not planned again if its end is
// all that follows.
func (c *Comparison) done(i *item) bool {
	have, known := c.Cached(i.kind, plan.Key{Namespace: i.namespace, Name: i.name})
	switch {
	case !known || i.generated || i.collection:
		return false
	case i.verb == plan.Deleted:
		return have == nil || have.GetUID() != i.uid || have.GetDeletionTimestamp() != nil
	case have == nil:
		return i.verb == plan.Changed // there is nothing left to change
	case i.verb == plan.Created:
		_, _, _, lacks := lacking(i.object, tree(have), "")
		return !lacks
	}
	_, _, differs := differing(i.want, leaves(tree(have)))
	return !differs
}

// settleCopies judges creations of which the server makes up the names: by what has come that has the same owner.
func (c *Comparison) settleCopies(id keyID, i *item, k *keyState, now time.Time) {
	done := min(c.matching(i), i.count)
	c.count(id.controller, Agreed, done)
	left := i.count - done
	for left > 0 {
		other := c.stranger(i, k)
		if other == nil {
			break
		}
		path, planned, found, _ := lacking(i.object, tree(other), "")
		if now.Sub(i.since) < settledAfter && !strings.HasPrefix(path, "metadata.") {
			break // what is in it may follow from what was there shortly before
		}
		d := c.disagreement(id, i, now)
		d.Rule = Otherwise
		d.about(i, path, planned, found)
		c.disagree(d)
		left--
	}
	c.count(id.controller, Superseded, left)
}

// settleCreated judges the creation of an object that has a name.
func (c *Comparison) settleCreated(d Disagreement, i *item, k *keyState, have plan.Object) {
	if have == nil {
		if other := c.stranger(i, k); other != nil {
			d.Rule = Otherwise
			d.about(i, "metadata.name", i.name, other.GetName())
			c.disagree(d)
			return
		}
		c.count(d.Controller, Superseded, 1)
		return
	}
	c.come.take(have.GetUID()) // it came for this creation
	if other := ownerOf(have); other != "" && other != i.owner && ownerNameOf(have) == i.ownerName {
		c.count(d.Controller, Superseded, 1) // its owner was made anew
		return
	}
	path, planned, found, lacks := lacking(i.object, tree(have), "")
	if i.object == nil || !lacks {
		c.count(d.Controller, Agreed, 1)
		return
	}
	// It may follow from what was there shortly before, or was there all along.
	if d.Time.Sub(i.since) < settledAfter || have.GetCreationTimestamp().Time.Before(i.since.Add(-seenFor)) {
		c.count(d.Controller, Superseded, 1)
		return
	}
	d.Rule = Otherwise
	d.about(i, path, planned, found)
	c.disagree(d)
}

// settleDeleted judges a deletion. If the object stays, and another one of the same owner goes, that is not the same.
func (c *Comparison) settleDeleted(d Disagreement, i *item, k *keyState, others map[string]*item, have plan.Object) {
	if have == nil || have.GetUID() != i.uid || have.GetDeletionTimestamp() != nil {
		c.gone.take(i.uid) // it went for this deletion
		c.count(d.Controller, Agreed, 1)
		return
	}
	planned := func(uid types.UID) bool {
		is := func(other *item) bool { return other.verb == plan.Deleted && other.uid == uid }
		return slices.ContainsFunc(slices.Collect(maps.Values(k.items)), is) ||
			slices.ContainsFunc(slices.Collect(maps.Values(others)), is)
	}
	went := c.gone.find(i, func(o plan.Object) bool { return !planned(o.GetUID()) })
	if i.owner == "" || went == nil {
		c.count(d.Controller, Superseded, 1)
		return
	}
	d.Rule = Otherwise
	d.about(i, "metadata.name", i.name, went.GetName())
	c.disagree(d)
}

// settleChanged judges a change. What a status says follows from what is there: if our plan has nothing to add to it
// now, it is right, in however many writes it came about.
func (c *Comparison) settleChanged(d Disagreement, i *item, have plan.Object, replaced bool, now time.Time) {
	if have == nil || i.uid != "" && have.GetUID() != "" && have.GetUID() != i.uid {
		c.count(d.Controller, Superseded, 1)
		return
	}
	present := leaves(tree(have))
	f, has, differs := differing(i.want, present)
	_, _, moved := differing(i.was, present)
	switch {
	case !differs:
		c.count(d.Controller, Agreed, 1)
	case replaced || !moved:
		c.count(d.Controller, Superseded, 1)
	case i.subresource == plan.Status:
		c.count(d.Controller, Agreed, 1)
	case now.Sub(i.since) < settledAfter:
		c.count(d.Controller, Superseded, 1)
	default:
		d.Rule = Otherwise
		d.about(i, f.path, f.value, has)
		c.suspect(suspect{Disagreement: d,
			Question: Question{Since: i.since, Kind: i.kind, Object: plan.KeyOf(have), Path: f.path}})
	}
}

// matching takes what has come since a creation was planned, and is as planned, and counts it.
func (c *Comparison) matching(i *item) (n int) {
	for n < i.count {
		if c.come.find(i, func(o plan.Object) bool {
			_, _, _, lacks := lacking(i.object, tree(o), "")
			return !lacks
		}) == nil {
			break
		}
		n++
	}
	return n
}

// stranger takes an object that has come since a creation was planned, of the same owner and kind, and that no other
// creation of the key was planned for.
func (c *Comparison) stranger(i *item, k *keyState) plan.Object {
	if i.owner == "" {
		return nil
	}
	return c.come.find(i, func(o plan.Object) bool {
		content := tree(o)
		for _, other := range k.items {
			if other.verb != plan.Created {
				continue
			}
			if _, _, _, lacks := lacking(other.object, content, ""); other.generated && !lacks ||
				!other.generated && other.name == o.GetName() {
				return false
			}
		}
		return true
	})
}
