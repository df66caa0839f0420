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
}

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
	for key, r := range t.Types.All() {
		if lasts := r.at.Add(remembered).Sub(now); lasts > 0 {
			next = plan.Sooner(next, lasts)
		} else {
			t.Types = t.Types.Without(key)
		}
	}
	for group, at := range t.Changed.All() {
		if lasts := at.Add(settles).Sub(now); lasts > 0 {
			next = plan.Sooner(next, lasts)
		} else {
			t.Changed = t.Changed.Without(group)
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
	k.published.Update(func(t published) published {
		for _, one := range types {
			if _, known := t.Types.Get(one.Origin); !known {
				t.Types = t.Types.With(one.Origin, reading{one, time.Now()})
			}
		}
		return t
	})
	return nil
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

// OnUpdate implements metadata.Handler. Those that were there before are no news: all policies are looked at anyway.
func (f *follower) OnUpdate(of schema.GroupVersionResource, d *metav1.PartialObjectMetadata) {
	if f.subscription.Synced(of) {
		f.note(d.Name)
	}
}

// OnDelete implements metadata.Handler.
func (f *follower) OnDelete(_ schema.GroupVersionResource, d *metav1.PartialObjectMetadata) {
	f.note(d.Name)
}

// note notes that a definition has changed.
func (f *follower) note(name string) {
	group := schema.ParseGroupResource(name).Group
	f.published.Update(func(t published) published {
		t.Changed = t.Changed.With(group, time.Now())
		return t
	})
	for _, p := range f.policies.By(group) {
		f.enqueue(plan.KeyOf(p))
	}
}
