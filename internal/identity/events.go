package identity

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// similarEvents is for how many objects and messages it is remembered which events they have had, to count, merge and
// limit them (CI-42 to CI-44). Client-go's own 4096 would take 6.6 MB for each controller once they are reached.
const similarEvents = 2048

// eventBuffers hold the events of one component that wait to be written, those of one object always in the same one.
// A single one would be too small for the events of many rollouts at once, and events would be dropped.
const eventBuffers = 4

// eventTimeout ends the writing of one event, so that a server that does not answer cannot stop all events for ever.
const eventTimeout = 30 * time.Second

// NewRecorder returns a recorder of events of that component (CI-40), and the function that ends it. Events are logged
// as "Event occurred" at the given verbosity: 3 for controllers, 0 for the leader events (CI-46).
//
// Recording never blocks and never fails (CI-45): events wait in buffers of 1000, and what does not fit is dropped.
// They are written one after the other, so that they leave the server free for what they are about. Aggregation,
// counting, spam filter and retries are client-go's own, with its defaults but for similarEvents; they are those of
// CI-41 to CI-45.
//
// The end of ctx ends the recorder too. Either way no goroutine stays behind, and nothing waits for the server: events
// that have not been written by then are lost.
func NewRecorder(
	ctx context.Context, client typedcorev1.EventsGetter, component string, verbosity klog.Level,
) (record.EventRecorderLogger, func()) {
	parent := ctx
	// A broadcaster whose context ends before it has been started logs an error, so parent ends it only afterwards.
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	turn := make(chan struct{}, 1)
	all := recorders{logger: klog.FromContext(ctx)}
	for range eventBuffers {
		all.buffers = append(all.buffers, sync.OnceValue(func() buffer {
			if ctx.Err() != nil {
				return buffer{recorder: &record.FakeRecorder{}}
			}
			b := record.NewBroadcaster(record.WithContext(ctx),
				record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: similarEvents / eventBuffers}))
			b.StartStructuredLogging(verbosity)
			b.StartRecordingToSink(&sink{ctx: ctx, client: client, turn: turn})
			return buffer{b, b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})}
		}))
	}
	stop := context.AfterFunc(parent, cancel)
	return all, func() {
		stop()
		cancel() // first, for the writes in flight
		for _, started := range all.buffers {
			if b := started(); b.broadcaster != nil {
				b.broadcaster.Shutdown()
			}
		}
	}
}

// buffer has the events of some objects. It begins with the first of them: empty ones would take 0.1 MB each.
type buffer struct {
	broadcaster record.EventBroadcaster // nil: the recorder has ended before
	recorder    record.EventRecorderLogger
}

// recorders share the objects among their buffers.
type recorders struct {
	buffers []func() buffer
	logger  klog.Logger
}

// of returns the recorder for an object: always the same one, so that its events keep their order.
func (all recorders) of(object runtime.Object) record.EventRecorderLogger {
	h := fnv.New32a()
	if o, err := meta.Accessor(object); err == nil {
		fmt.Fprint(h, o.GetNamespace(), "/", o.GetName(), "/", o.GetUID())
	}
	started := all.buffers[h.Sum32()%uint32(len(all.buffers))]
	return started().recorder.WithLogger(all.logger)
}

// Event implements record.EventRecorder.
func (all recorders) Event(object runtime.Object, eventtype, reason, message string) {
	all.of(object).Event(object, eventtype, reason, message)
}

// Eventf implements record.EventRecorder.
func (all recorders) Eventf(object runtime.Object, eventtype, reason, format string, args ...any) {
	all.of(object).Eventf(object, eventtype, reason, format, args...)
}

// AnnotatedEventf implements record.EventRecorder.
func (all recorders) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason,
	format string, args ...any) {
	all.of(object).AnnotatedEventf(object, annotations, eventtype, reason, format, args...)
}

// WithLogger implements record.EventRecorderLogger.
func (all recorders) WithLogger(logger klog.Logger) record.EventRecorderLogger {
	return recorders{all.buffers, logger}
}

// sink writes events. Client-go's own has no context: a write that hangs would outlive the recorder.
type sink struct {
	ctx    context.Context // of the recorder: the interface passes none
	client typedcorev1.EventsGetter
	turn   chan struct{} // of the one that writes, among all of the component
}

// Create implements record.EventSink.
func (s *sink) Create(e *corev1.Event) (*corev1.Event, error) {
	return s.write(func(ctx context.Context) (*corev1.Event, error) {
		return s.client.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
	})
}

// Update implements record.EventSink.
func (s *sink) Update(e *corev1.Event) (*corev1.Event, error) {
	return s.write(func(ctx context.Context) (*corev1.Event, error) {
		return s.client.Events(e.Namespace).Update(ctx, e, metav1.UpdateOptions{})
	})
}

// Patch implements record.EventSink.
func (s *sink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.write(func(ctx context.Context) (*corev1.Event, error) {
		return s.client.Events(e.Namespace).Patch(ctx, e.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{})
	})
}

// write sends one event, when it is its turn, within a time of its own.
func (s *sink) write(do func(context.Context) (*corev1.Event, error)) (*corev1.Event, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	ctx, cancel := context.WithTimeout(s.ctx, eventTimeout)
	defer cancel()
	e, err := do(ctx)
	if err != nil && s.ctx.Err() != nil {
		// The end of the recorder is no error. Client-go would log two for each event left; of a name that is taken it
		// makes a remark at verbosity 5, and drops the event.
		return nil, apierrors.NewAlreadyExists(corev1.Resource("events"), "the recorder has ended")
	}
	return e, err
}
