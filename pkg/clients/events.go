package clients

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// similarEvents is for how many objects and messages it is remembered which events they have had, to count, merge and limit
// them (CI-42 to CI-44). Client-go's own 4096 would take 6.6 MB for each controller once they are reached.
const similarEvents = 2048

// eventTimeout ends the writing of one event, so that a server that does not answer cannot stop all events for ever.
const eventTimeout = 30 * time.Second

// NewRecorder returns a recorder of events of that component (CI-40), and the function that ends it. Events are logged
// as "Event occurred" at the given verbosity: 3 for controllers, 0 for the leader events (CI-46).
//
// Recording never blocks and never fails (CI-45): events wait in a buffer of 1000 for the one goroutine that writes
// them, and what does not fit is dropped. Aggregation, counting, spam filter and retries are client-go's own, with its
// defaults but for similarEvents; they are those of CI-41 to CI-45.
//
// The end of ctx ends the recorder too. Either way no goroutine stays behind, and nothing waits for the server: events
// that have not been written by then are lost.
func NewRecorder(
	ctx context.Context, client typedcorev1.EventsGetter, component string, verbosity klog.Level,
) (record.EventRecorderLogger, func()) {
	ctx, cancel := context.WithCancel(ctx)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx),
		record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: similarEvents}))
	broadcaster.StartStructuredLogging(verbosity)
	broadcaster.StartRecordingToSink(&sink{ctx: ctx, client: client})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	return recorder.WithLogger(klog.FromContext(ctx)), func() {
		cancel() // first, for the write in flight
		broadcaster.Shutdown()
	}
}

// sink writes events. Client-go's own has no context: a write that hangs would outlive the recorder.
type sink struct {
	ctx    context.Context // of the recorder: the interface passes none
	client typedcorev1.EventsGetter
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
		return s.client.Events(e.Namespace).Patch(ctx, e.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	})
}

func (s *sink) write(do func(context.Context) (*corev1.Event, error)) (*corev1.Event, error) {
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
