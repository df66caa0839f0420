package validatingadmissionpolicystatus

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/cowmap"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// remembered is how long a type is kept that was read. Tools make and change many policies at once, mostly for the same
// kinds.
const remembered = time.Minute

// published is what the controller knows of what the API server publishes.
type published struct {
	Types   cowmap.Map[origin, reading]
	Changed cowmap.Map[string, time.Time] // groups of which a CustomResourceDefinition has changed a moment ago
	Seen    cowmap.Map[string, seen]      // by the names of CustomResourceDefinitions
}

// seen is the generation of a definition, and since when it has it; zero: for long.
type seen struct {
	Generation int64
	since      time.Time
}

// establishes is for how long after a change of a definition its status may change what is published.
const establishes = time.Minute

// with returns what is known after a definition has changed, or was found. It is news for its group unless another
// change is: policies that are checked because of that are checked once more.
func (p published) with(d *metav1.PartialObjectMetadata, found bool, now time.Time) (after published, news bool) {
	was, known := p.Seen.Get(d.Name)
	same := known && d.Generation > 0 && was.Generation == d.Generation
	switch {
	case found:
		p.Seen = p.Seen.With(d.Name, seen{Generation: d.Generation})
		if now.Sub(d.CreationTimestamp.Time) >= settles {
			return p, false
		}
	case !same:
		p.Seen = p.Seen.With(d.Name, seen{d.Generation, now})
	case now.Sub(was.since) >= establishes:
		return p, false
	}
	return p.changed(groupOf(d), now)
}

// without returns what is known after the end of a definition.
func (p published) without(d *metav1.PartialObjectMetadata, now time.Time) (after published, news bool) {
	p.Seen = p.Seen.Without(d.Name)
	return p.changed(groupOf(d), now)
}

func (p published) changed(group string, now time.Time) (after published, news bool) {
	news = !p.hasChanged(group)
	p.Changed = p.Changed.With(group, now)
	return p, news
}

func groupOf(d *metav1.PartialObjectMetadata) string { return schema.ParseGroupResource(d.Name).Group }

// hasChanged reports whether a definition in a group has changed a moment ago.
func (p published) hasChanged(group string) bool {
	_, changed := p.Changed.Get(group)
	return changed
}

// reading is a type and when it was read.
type reading struct {
	objectType
	at time.Time
}

func newTerm() *reconcile.Term[published] {
	return reconcile.NewTerm(reconcile.TermOptions[published]{Expire: expire})
}

// expire forgets what is no longer of use.
func expire(now time.Time, t published) (published, time.Duration) {
	var next time.Duration
	settled := map[string]bool{} // groups whose types may have been read too early
	for group, at := range t.Changed.All() {
		if lasts := at.Add(settles).Sub(now); lasts > 0 {
			next = plan.Sooner(next, lasts)
		} else {
			t.Changed, settled[group] = t.Changed.Without(group), true
		}
	}
	for key, r := range t.Types.All() {
		if lasts := r.at.Add(remembered).Sub(now); lasts > 0 && !settled[key.Group] {
			next = plan.Sooner(next, lasts)
		} else {
			t.Types = t.Types.Without(key)
		}
	}
	return t, next
}

// keep remembers the types that were read for a policy.
func (k *caches) keep(s snapshot, _ decision) error {
	types := s.Types
	if s.Params != nil {
		types = append(types[:len(types):len(types)], *s.Params)
	}
	k.published.Update(func(t published) published { return t.remember(types, time.Now()) })
	return nil
}

// remember returns what is known after types were read. Of one that was read before, from another document, the new
// reading is kept.
func (p published) remember(types []objectType, now time.Time) published {
	for _, one := range types {
		if r, known := p.Types.Get(one.Origin); !known || r.Document != one.Document {
			p.Types = p.Types.With(one.Origin, reading{one, now})
		}
	}
	return p
}

// definitions are the objects that define types.
var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// followDefinitions enqueues the policies that are about a type when its definition changes.
func (k *caches) followDefinitions(all *metadata.Informers) func(context.Context, func(plan.Key)) {
	return func(ctx context.Context, enqueue func(plan.Key)) {
		f := &follower{caches: k, enqueue: enqueue}
		f.subscription = all.Subscribe(f)
		defer f.subscription.Close()
		f.subscription.SetResources(ctx, []schema.GroupVersionResource{definitions})
		<-ctx.Done()
	}
}

// follower hears of definitions.
type follower struct {
	*caches
	subscription *metadata.Subscription
	enqueue      func(plan.Key)
}

// OnUpdate implements metadata.Handler. Of those that were there before only the youngest are news: all policies are
// looked at anyway, but perhaps before their types are published.
func (f *follower) OnUpdate(of schema.GroupVersionResource, d *metav1.PartialObjectMetadata) {
	found := !f.subscription.Synced(of)
	f.note(d, func(p published) (published, bool) { return p.with(d, found, time.Now()) })
}

// OnDelete implements metadata.Handler.
func (f *follower) OnDelete(_ schema.GroupVersionResource, d *metav1.PartialObjectMetadata) {
	f.note(d, func(p published) (published, bool) { return p.without(d, time.Now()) })
}

// note notes what has become of a definition. If that is news, the policies about its group are checked.
func (f *follower) note(d *metav1.PartialObjectMetadata, change func(published) (published, bool)) {
	news := false
	f.published.Update(func(p published) published {
		p, news = change(p)
		return p
	})
	if !news {
		return
	}
	group := groupOf(d)
	for _, p := range f.policies.By(group) {
		f.enqueue(plan.KeyOf(p))
	}
}
