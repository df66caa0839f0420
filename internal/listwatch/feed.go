package listwatch

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// FeedHandler is notified of what becomes of the objects of one kind, one call at a time.
type FeedHandler interface {
	// OnList is called with all objects that there are.
	OnList(all []metav1.Object)
	// OnUpdate is called with an object that is new or has changed.
	OnUpdate(metav1.Object)
	// OnDelete is called with an object that is gone.
	OnDelete(metav1.Object)
}

// Feed lists and watches the objects of a kind until ctx ends. It decodes what the projection of the client keeps,
// and stores nothing, so that the handler can have the only copy of what it needs. Lists and watches that fail are
// retried. A list is never older than what the handler knows.
func (c *Client) Feed(ctx context.Context, kind schema.GroupVersionKind, resource schema.GroupVersionResource,
	h FeedHandler) error {
	example, err := scheme.Scheme.New(kind)
	if err != nil {
		return fmt.Errorf("feed of %s: %w", kind.Kind, err)
	}
	name := resource.GroupResource().String()
	source := c.source(kind, resource, name)
	source.Fresh = true
	lw, err := c.listWatch(source, kind, resource, "")
	if err != nil {
		return fmt.Errorf("feed of %s: %w", kind.Kind, err)
	}
	source.Follow(ctx,
		cache.NewReflectorWithOptions(lw, example, feedSink{h},
			cache.ReflectorOptions{Name: "feed of " + name, TypeDescription: name}))
	return nil
}

// feedSink takes what a reflector brings. It is a cache.ReflectorStore.
type feedSink struct{ handler FeedHandler }

// Add implements cache.ReflectorStore.
func (s feedSink) Add(o any) error { return s.notify(o, s.handler.OnUpdate) }

// Update implements cache.ReflectorStore.
func (s feedSink) Update(o any) error { return s.notify(o, s.handler.OnUpdate) }

// Delete implements cache.ReflectorStore.
func (s feedSink) Delete(o any) error { return s.notify(o, s.handler.OnDelete) }

// Replace implements cache.ReflectorStore.
func (s feedSink) Replace(list []any, _ string) error {
	all := make([]metav1.Object, 0, len(list))
	for _, o := range list {
		if object, ok := o.(metav1.Object); ok {
			all = append(all, object)
		}
	}
	s.handler.OnList(all)
	return nil
}

// Resync implements cache.ReflectorStore. There is none.
func (s feedSink) Resync() error { return nil }

// tell passes on an object of a watch, which has to be one.
func (s feedSink) notify(o any, handle func(metav1.Object)) error {
	object, ok := o.(metav1.Object)
	if !ok {
		return fmt.Errorf("%T is no object", o)
	}
	handle(object)
	return nil
}
