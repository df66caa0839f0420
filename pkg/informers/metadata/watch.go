package metadata

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/panics"
)

const (
	// answerTimeout is how long a server may take to answer a list or to open a watch. API servers end lists after a
	// minute; those behind an aggregated API need not.
	answerTimeout = 2 * time.Minute
	// watchOvertime is how much longer than it was asked to a server may keep a watch open.
	watchOvertime = time.Minute
)

// resourceWatch lists and watches one resource for all subscriptions that want it.
type resourceWatch struct {
	resource schema.GroupVersionResource
	client   metadata.Interface
	source   listwatch.Source
	activity listwatch.Activity

	mu       sync.Mutex // held while handlers are called
	feeds    []*feed
	sink     *sink // of the reflector that counts; one that was replaced may still run
	stopSink context.CancelFunc

	answers sync.Mutex // taken last; guards what follows
	err     error      // of the latest list or watch
	refused int        // how often in a row the server has answered with an error of its own
	synced  bool       // all objects were there once
	objects int        // how many there were when that was last looked up
}

// newResourceWatch returns a watch of the metadata of one resource, which has not begun.
func newResourceWatch(client metadata.Interface, resource schema.GroupVersionResource,
	r *listwatch.Rollbacks) *resourceWatch {
	w := &resourceWatch{resource: resource, client: client}
	name := resource.GroupResource().String()
	w.source = listwatch.Source{Of: name, Resource: name, Activity: &w.activity, Rollbacks: r, Fresh: true}
	return w
}

// join implements source. A feed that joins gets what there is from another list.
func (w *resourceWatch) join(ctx context.Context, f *feed, running *sync.WaitGroup) {
	w.mu.Lock()
	w.feeds = append(w.feeds, f)
	w.mu.Unlock()
	w.start(ctx, running)
}

// leave implements source.
func (w *resourceWatch) leave(f *feed) (unused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(f.ended)
	w.feeds = slices.DeleteFunc(w.feeds, func(other *feed) bool { return other == f })
	return len(w.feeds) == 0
}

// start lists and watches anew, in place of what is under way.
func (w *resourceWatch) start(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopSink != nil {
		w.stopSink()
	}
	ctx, w.stopSink = context.WithCancel(ctx)
	sink := &sink{watch: w}
	w.sink = sink
	running.Go(func() { w.run(ctx, sink) })
}

// stop implements source. Nothing that the reflector still does has any effect.
func (w *resourceWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopSink()
	w.sink = nil
}

// state does not wait for a handler: while one is called, the number of objects is that of the last time.
func (w *resourceWatch) state() State {
	w.answers.Lock()
	defer w.answers.Unlock()
	if w.mu.TryLock() {
		w.objects = w.count()
		w.mu.Unlock()
	}
	return State{Resource: w.resource, Synced: w.synced, Objects: w.objects, LastActivity: w.activity.LastActivity(),
		Err: w.err, activity: &w.activity}
}

// count is called under the lock.
func (w *resourceWatch) count() (objects int) {
	for _, f := range w.feeds {
		objects = max(objects, len(f.known))
	}
	return objects
}

// run lists and watches until ctx ends.
func (w *resourceWatch) run(ctx context.Context, sink *sink) {
	lw := listwatch.New(&w.source, w.list, w.open, nil)
	w.source.Follow(ctx,
		cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, w.client),
			&metav1.PartialObjectMetadata{}, sink,
			cache.ReflectorOptions{Name: "metadata of " + w.source.Of, TypeDescription: w.source.Of}))
}

// list lists the resource.
func (w *resourceWatch) list(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	within, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list, err := w.client.Resource(w.resource).List(within, o)
	return list, w.answered(ctx, err)
}

// open opens a watch. Both the opening and the watch are bounded, for not every server ends them.
func (w *resourceWatch) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	lasts := watchOvertime
	if o.TimeoutSeconds != nil {
		lasts += time.Duration(*o.TimeoutSeconds) * time.Second
	}
	within, cancel := context.WithCancelCause(ctx)
	opening := time.AfterFunc(answerTimeout, func() {
		cancel(apierrors.NewTimeoutError(fmt.Sprintf("no answer in %v", answerTimeout), 0))
	})
	defer opening.Stop()
	stream, err := w.client.Resource(w.resource).Watch(within, o)
	if err != nil {
		if within.Err() != nil {
			err = context.Cause(within)
		}
		cancel(nil)
		return nil, w.answered(ctx, err)
	}
	end := time.AfterFunc(lasts, stream.Stop) // then the reflector watches or lists anew
	return &boundedWatch{stream, func() { end.Stop(); cancel(nil) }}, w.answered(ctx, nil)
}

// boundedWatch is a watch that ends after a time.
type boundedWatch struct {
	watch.Interface
	release func()
}

// Stop implements watch.Interface.
func (w *boundedWatch) Stop() {
	w.release()
	w.Interface.Stop()
}

// sink takes what a reflector brings. It is a cache.ReflectorStore.
type sink struct{ watch *resourceWatch }

// Add implements cache.ReflectorStore.
func (s *sink) Add(o any) error { return s.change(o, false) }

// Update implements cache.ReflectorStore.
func (s *sink) Update(o any) error { return s.change(o, false) }

// Delete implements cache.ReflectorStore.
func (s *sink) Delete(o any) error { return s.change(o, true) }

// Resync implements cache.ReflectorStore. There is none.
func (s *sink) Resync() error { return nil }

// Transformer implements cache.TransformingStore.
func (s *sink) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if object, ok := o.(*metav1.PartialObjectMetadata); ok {
			stripMetadata(object)
		}
		return o, nil
	}
}

// stripMetadata takes off what nobody reads. The object has just been decoded.
func stripMetadata(o *metav1.PartialObjectMetadata) {
	o.TypeMeta, o.ManagedFields = metav1.TypeMeta{}, nil
	if delete(o.Annotations, corev1.LastAppliedConfigAnnotation); len(o.Annotations) == 0 {
		o.Annotations = nil
	}
}

// change passes a change on to all feeds, unless another sink has taken the place of this one.
func (s *sink) change(o any, gone bool) error {
	object, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("%T is no metadata", o)
	}
	stripMetadata(object)
	w := s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sink != s {
		return nil
	}
	for _, f := range w.feeds {
		if gone {
			f.delete(object)
		} else {
			f.update(object)
		}
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *sink) Replace(list []any, _ string) error {
	objects := make([]*metav1.PartialObjectMetadata, 0, len(list))
	for _, o := range list {
		if object, ok := o.(*metav1.PartialObjectMetadata); ok {
			stripMetadata(object)
			objects = append(objects, object)
		}
	}
	w := s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sink != s {
		return nil
	}
	for _, f := range w.feeds {
		f.replace(objects)
	}
	w.answers.Lock()
	defer w.answers.Unlock()
	w.synced = true
	return nil
}

// feed is a subscription's part in the watch of one resource. What can change is under the lock of the watch.
type feed struct {
	resource schema.GroupVersionResource
	handler  Handler
	known    versions      // what the handler knows
	synced   chan struct{} // closed when the resource has been listed
	ended    chan struct{} // closed when the resource is not wanted any more
}

// versions are the objects that a handler knows. Strings share their bytes with whatever the handler keeps of the
// objects.
type versions map[identity]string

// identity distinguishes objects, also those that have the same name one after the other.
type identity struct {
	namespace, name string
	uid             types.UID
}

// identityOf returns the identity of an object.
func identityOf(o *metav1.PartialObjectMetadata) identity {
	return identity{o.Namespace, o.Name, o.UID}
}

// object returns what the handler gets of an object that was found to be gone.
func (id identity) object() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: id.namespace, Name: id.name,
		UID: id.uid}}
}

// newFeed returns what notifies a handler of one resource. It knows which versions the handler has seen
// before.
func newFeed(resource schema.GroupVersionResource, h Handler, known versions) *feed {
	if known == nil {
		known = versions{}
	}
	return &feed{resource: resource, handler: h, known: known, synced: make(chan struct{}), ended: make(chan struct{})}
}

// update notifies the handler of an object, unless it has seen this version.
func (f *feed) update(o *metav1.PartialObjectMetadata) {
	id := identityOf(o)
	if known, ok := f.known[id]; ok && known == o.ResourceVersion {
		return
	}
	f.known[id] = o.ResourceVersion
	defer panics.Contain(panics.Handler, o)
	f.handler.OnUpdate(f.resource, o)
}

// delete notifies the handler that an object is gone, if it has seen the object.
func (f *feed) delete(o *metav1.PartialObjectMetadata) {
	id := identityOf(o)
	if _, ok := f.known[id]; ok {
		delete(f.known, id)
		defer panics.Contain(panics.Handler, o)
		f.handler.OnDelete(f.resource, o)
	}
}

// replace is called with all objects that there are.
func (f *feed) replace(objects []*metav1.PartialObjectMetadata) {
	there := make(map[identity]struct{}, len(objects))
	for _, o := range objects {
		there[identityOf(o)] = struct{}{}
	}
	for id := range f.known {
		if _, ok := there[id]; !ok {
			f.delete(id.object())
		}
	}
	for _, o := range objects {
		// Versions that begin anew are those of a server whose storage did: the object is another one.
		id := identityOf(o)
		order, err := resourceversion.CompareResourceVersion(o.ResourceVersion, f.known[id])
		if err == nil && order < 0 {
			f.delete(id.object())
		}
		f.update(o)
	}
	if !f.isSynced() {
		close(f.synced)
	}
}

// isSynced reports whether the handler has seen all objects that there were.
func (f *feed) isSynced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}

// waitForSync waits until it was, or the feed or ctx ends.
func (f *feed) waitForSync(ctx context.Context) bool {
	select {
	case <-f.synced:
	case <-f.ended:
	case <-ctx.Done():
	}
	return f.isSynced()
}

// answered notes the end of a request, and returns its error. A server that answers with errors of its own (because
// the conversion webhook of this kind is dead) is asked less and less, a second later each time, so that many such
// kinds leave room for others. One that cannot be reached is away for all kinds, and is asked as often as for other
// caches.
func (w *resourceWatch) answered(ctx context.Context, err error) error {
	w.answers.Lock()
	defer w.answers.Unlock()
	if ctx.Err() != nil {
		return err
	}
	w.err = err
	var answer *apierrors.StatusError
	if !errors.As(err, &answer) || answer.ErrStatus.Code < http.StatusInternalServerError {
		w.refused = 0
		return err
	}
	w.refused++
	slower := apierrors.StatusError{ErrStatus: *answer.ErrStatus.DeepCopy()}
	if slower.ErrStatus.Details == nil {
		slower.ErrStatus.Details = &metav1.StatusDetails{}
	}
	pause := max(slower.ErrStatus.Details.RetryAfterSeconds, int32(min(w.refused, math.MaxInt32)))
	slower.ErrStatus.Details.RetryAfterSeconds = min(pause, int32(listwatch.LongestRefusal/time.Second))
	return &slower
}
