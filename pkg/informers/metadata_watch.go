package informers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

const (
	// answerTimeout is how long a server may take to answer a list or to open a watch. API servers end lists after a minute;
	// those behind an aggregated API need not.
	answerTimeout = 2 * time.Minute
	// watchOvertime is how much longer than it was asked to a server may keep a watch open.
	watchOvertime = time.Minute
	// longestRefusal bounds the pauses before a server is asked again that answers with errors of its own.
	longestRefusal = time.Minute
)

// metadataWatch lists and watches one resource for all subscriptions that want it.
type metadataWatch struct {
	resource schema.GroupVersionResource
	client   metadata.Interface
	errors   errorLimiter
	status   metadataStatus

	rollbacks *rollbacks
	cut       atomic.Bool // the last watch has ended before its time

	mu       sync.Mutex // held while handlers are called
	feeds    []*metadataFeed
	sink     *metadataSink // of the reflector that counts; one that was replaced may still run
	stopSink context.CancelFunc
}

func newMetadataWatch(client metadata.Interface, resource schema.GroupVersionResource, r *rollbacks) *metadataWatch {
	w := &metadataWatch{resource: resource, client: client, rollbacks: r}
	w.errors.of = resource.GroupResource().String()
	w.status.state.Resource = resource
	return w
}

// join adds a feed.
func (w *metadataWatch) join(f *metadataFeed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.feeds = append(w.feeds, f)
}

// leave removes a feed, and returns true if none is left.
func (w *metadataWatch) leave(f *metadataFeed) (unused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(f.ended)
	w.feeds = slices.DeleteFunc(w.feeds, func(other *metadataFeed) bool { return other == f })
	return len(w.feeds) == 0
}

// start lists and watches anew, in place of what is under way.
func (w *metadataWatch) start(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopSink != nil {
		w.stopSink()
	}
	ctx, w.stopSink = context.WithCancel(ctx)
	sink := &metadataSink{watch: w}
	w.sink = sink
	running.Go(func() { w.run(ctx, sink) })
}

// stop ends the reflector. Nothing that it still does has any effect.
func (w *metadataWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopSink()
	w.sink = nil
}

// state does not wait for a handler: while one is called, the number of objects is that of the last time.
func (w *metadataWatch) state() MetadataState {
	w.status.mu.Lock()
	defer w.status.mu.Unlock()
	if w.mu.TryLock() {
		w.status.state.Objects = w.count()
		w.mu.Unlock()
	}
	return w.status.state
}

// count is called under the lock.
func (w *metadataWatch) count() (objects int) {
	for _, f := range w.feeds {
		objects = max(objects, len(f.known))
	}
	return objects
}

func (w *metadataWatch) run(ctx context.Context, sink *metadataSink) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return retry(ctx, &w.errors, o, listing(w.rollbacks, w.errors.of, w.list))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			stream, err := retry(ctx, &w.errors, o, opening(w.rollbacks, &w.cut, w.errors.of, w.list, w.open))
			if o.SendInitialEvents != nil && apierrors.IsTooManyRequests(err) {
				// client-go would ask for the same again, after pauses that don't end with ctx. A list may do.
				return nil, errors.New(err.Error())
			}
			return stream, err
		},
	}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, w.client), &metav1.PartialObjectMetadata{}, sink,
		cache.ReflectorOptions{Name: "metadata of " + w.errors.of, TypeDescription: w.errors.of})
	follow(ctx, reflector, &w.errors)
}

// list lists the resource. A list is never older than what the handlers know, or they would be told that new objects are
// gone.
func (w *metadataWatch) list(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion = ""
	}
	w.status.attempted()
	within, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list, err := w.client.Resource(w.resource).List(within, o)
	return list, w.status.answered(ctx, err)
}

// open opens a watch. Both the opening and the watch are bounded, for not every server ends them.
func (w *metadataWatch) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w.status.attempted()
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
		return nil, w.status.answered(ctx, err)
	}
	end := time.AfterFunc(lasts, stream.Stop) // then the reflector watches or lists anew
	ends := time.Now().Add(lasts - watchOvertime)
	stopped := func() {
		end.Stop()
		cancel(nil)
		if time.Now().Before(ends.Add(-cutMargin)) {
			w.cut.Store(true)
		}
	}
	return &boundedWatch{stream, stopped}, w.status.answered(ctx, nil)
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

// metadataSink takes what a reflector brings. It is a cache.ReflectorStore.
type metadataSink struct{ watch *metadataWatch }

// Add implements cache.ReflectorStore.
func (s *metadataSink) Add(o any) error { return s.change(o, false) }

// Update implements cache.ReflectorStore.
func (s *metadataSink) Update(o any) error { return s.change(o, false) }

// Delete implements cache.ReflectorStore.
func (s *metadataSink) Delete(o any) error { return s.change(o, true) }

// Resync implements cache.ReflectorStore. There is none.
func (s *metadataSink) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *metadataSink) Bookmark(string) error {
	s.watch.status.active()
	return nil
}

// Transformer implements cache.TransformingStore.
func (s *metadataSink) Transformer() cache.TransformFunc {
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

func (s *metadataSink) change(o any, gone bool) error {
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
	w.status.active()
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
func (s *metadataSink) Replace(list []any, _ string) error {
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
	w.status.listed()
	return nil
}

// metadataFeed is a subscription's part in the watch of one resource. What can change is under the lock of the watch.
type metadataFeed struct {
	resource schema.GroupVersionResource
	handler  MetadataHandler
	known    versions      // what the handler knows
	synced   chan struct{} // closed when the resource has been listed
	ended    chan struct{} // closed when the resource is not wanted any more
}

// versions are the objects that a handler knows. Strings share their bytes with whatever the handler keeps of the objects.
type versions map[identity]string

type identity struct {
	namespace, name string
	uid             types.UID
}

func identityOf(o *metav1.PartialObjectMetadata) identity {
	return identity{o.Namespace, o.Name, o.UID}
}

func newMetadataFeed(resource schema.GroupVersionResource, h MetadataHandler, known versions) *metadataFeed {
	if known == nil {
		known = versions{}
	}
	return &metadataFeed{resource: resource, handler: h, known: known, synced: make(chan struct{}), ended: make(chan struct{})}
}

func (f *metadataFeed) update(o *metav1.PartialObjectMetadata) {
	id := identityOf(o)
	if known, ok := f.known[id]; ok && known == o.ResourceVersion {
		return
	}
	f.known[id] = o.ResourceVersion
	f.handler.OnUpdate(f.resource, o)
}

func (f *metadataFeed) delete(o *metav1.PartialObjectMetadata) {
	id := identityOf(o)
	if _, ok := f.known[id]; ok {
		delete(f.known, id)
		f.handler.OnDelete(f.resource, o)
	}
}

// replace is told all objects that there are.
func (f *metadataFeed) replace(objects []*metav1.PartialObjectMetadata) {
	there := make(map[identity]struct{}, len(objects))
	for _, o := range objects {
		there[identityOf(o)] = struct{}{}
	}
	for id := range f.known {
		if _, ok := there[id]; !ok {
			f.delete(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: id.namespace, Name: id.name, UID: id.uid}})
		}
	}
	for _, o := range objects {
		f.update(o)
	}
	if !f.isSynced() {
		close(f.synced)
	}
}

func (f *metadataFeed) isSynced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}

func (f *metadataFeed) waitForSync(ctx context.Context) bool {
	select {
	case <-f.synced:
	case <-f.ended:
	case <-ctx.Done():
	}
	return f.isSynced()
}

// metadataStatus is how a watch does.
type metadataStatus struct {
	mu      sync.Mutex
	state   MetadataState
	refused int // how often in a row the server has answered with an error of its own
}

// active notes that the server has sent something.
func (s *metadataStatus) active() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.LastActivity = time.Now()
}

// attempted notes that a request begins.
func (s *metadataStatus) attempted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.LastAttempt = time.Now()
}

// listed notes that all objects are there.
func (s *metadataStatus) listed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Synced = true
}

// answered notes the end of a request, and returns its error. A server that answers with errors of its own (because the
// conversion webhook of this kind is dead) is asked less and less, a second later each time, so that many such kinds leave
// room for others. One that cannot be reached is away for all kinds, and is asked as often as for other caches.
func (s *metadataStatus) answered(ctx context.Context, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return err
	}
	if s.state.Err = err; err == nil {
		s.refused, s.state.LastActivity = 0, time.Now()
		return nil
	}
	s.state.LastAttempt = time.Now()
	var answer *apierrors.StatusError
	if !errors.As(err, &answer) || answer.ErrStatus.Code < http.StatusInternalServerError {
		s.refused = 0
		return err
	}
	s.refused++
	slower := apierrors.StatusError{ErrStatus: *answer.ErrStatus.DeepCopy()}
	if slower.ErrStatus.Details == nil {
		slower.ErrStatus.Details = &metav1.StatusDetails{}
	}
	pause := min(s.refused, int(longestRefusal/time.Second))
	slower.ErrStatus.Details.RetryAfterSeconds = max(slower.ErrStatus.Details.RetryAfterSeconds, int32(pause))
	return &slower
}
