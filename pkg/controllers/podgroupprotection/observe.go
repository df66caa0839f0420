package podgroupprotection

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller of one kind of groups reads.
type caches[G group] struct {
	groups  informers.Store[G]
	members []cachedMembers
}

// cachedMembers is a cache of objects that keep groups.
type cachedMembers struct {
	member
	keeping func(key string) []plan.Object // those that keep a group
	reached func(version string) bool
	watch   func(enqueues func(before, after plan.Object) []plan.Key, options ...informers.WatchOption) reconcile.Watch
}

// membersIn returns what is read of a cache that is indexed by [keys].
func membersIn[T plan.Object](s informers.IndexedStore[T], m member) cachedMembers {
	return cachedMembers{
		member:  m,
		keeping: func(key string) []plan.Object { return plan.Objects(s.By(key)) },
		reached: s.Reached,
		watch:   s.Watch,
	}
}

// keys makes the index of members of one type.
func keys[T plan.Object](m member) func(T) []string {
	return func(o T) []string {
		if name := m.keeps(o); name != "" {
			return []string{keyOf(o.GetNamespace(), name)}
		}
		return nil
	}
}

func keyOf(namespace, name string) string { return cache.NewObjectName(namespace, name).String() }

// memory is what is remembered of a group that is being deleted.
type memory struct {
	Since time.Time // when that was first seen
}

// observation is what observe returns.
type observation[G group] = reconcile.Observation[snapshot[G], memory]

// observe finds a group, and of one that is being deleted also who keeps it, and whether the caches show a state that
// is later than the deletion.
func (k *caches[G]) observe(_ context.Context, r reconcile.Request[memory]) (o observation[G], err error) {
	var none G
	g := k.groups.Get(r.Key.Namespace, r.Key.Name)
	if g == none {
		return o, nil
	}
	if o.Exists, o.Snapshot.Group = true, g; g.GetDeletionTimestamp() == nil {
		return o, nil
	}
	if o.Memory = r.Memory; o.Memory == nil {
		o.Memory = &memory{Since: r.Now}
	}
	o.Snapshot.Wait = o.Memory.Since.Add(patience).Sub(r.Now)
	o.Snapshot.Proved = true
	for _, m := range k.members {
		// The version first: what is found after that is at least as new.
		o.Snapshot.Proved = m.reached(g.GetResourceVersion()) && o.Snapshot.Proved
		for _, one := range m.keeping(keyOf(r.Key.Namespace, r.Key.Name)) {
			o.Snapshot.Members.add(m.member, one)
		}
	}
	return o, nil
}

// prove finds who keeps a group in live lists, which are newer than its deletion.
func (k *caches[G]) prove(o observation[G], proof reconcile.Proof) observation[G] {
	g, found := o.Snapshot.Group, members{}
	for _, m := range k.members {
		list, ok := proof.Read[m.list(g.GetNamespace())]
		if !ok || list.Err != nil {
			return o
		}
		for _, one := range list.Objects {
			if m.keeps(one) == g.GetName() {
				found.add(m.member, one)
			}
		}
	}
	o.Snapshot.Proved, o.Snapshot.Members, o.Snapshot.Listed = true, found, true
	return o
}

// enqueuedByGroup returns a group that is being deleted, and one that is gone, so that nothing of it is remembered.
func enqueuedByGroup(before, after plan.Object) []plan.Key {
	if after != nil && after.GetDeletionTimestamp() == nil {
		return nil
	}
	return informers.Itself(before, after)
}

// enqueuedBy returns the group that a member has kept before a change, and does not after it, if the group is being
// deleted. If the cache of groups does not show yet that it is, it enqueues itself when it does.
func (k *caches[G]) enqueuedBy(m member) func(before, after plan.Object) []plan.Key {
	return func(before, after plan.Object) []plan.Key {
		name := m.keeps(before)
		if name == "" || name == m.keeps(after) {
			return nil
		}
		var none G
		if g := k.groups.Get(before.GetNamespace(), name); g != none && g.GetDeletionTimestamp() != nil {
			return []plan.Key{plan.KeyOf(g)}
		}
		return nil
	}
}
