package attachdetach

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/standalone-kcm/controller-manager/internal/testing/termtest"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// world is caches that tests fill themselves.
type world struct {
	*views
	*volumeController
	*nodeController
	objects []plan.Object
	keys    map[plan.Key]bool // that changes have enqueued
}

func newWorld(t *testing.T) *world {
	t.Helper()
	// nobody else fills them
	k, err := (&Options{}).newViews(manager.Context{Informers: informers.NewFactory(fake.NewClientset(), 0),
		Brake: brake.New(brake.Budget{})})
	if err != nil {
		t.Fatal(err)
	}
	termtest.Begin(t, k.term)
	return &world{views: k, volumeController: &volumeController{k}, nodeController: &nodeController{k}, keys: map[plan.Key]bool{}}
}

func (w *world) clear() {
	for _, o := range w.objects {
		if err := w.store(o).Delete(o); err != nil {
			panic(err)
		}
	}
	w.objects, w.keys = nil, map[plan.Key]bool{}
}

// store is the cache of the kind of an object.
func (w *world) store(o plan.Object) interface {
	Add(any) error
	Delete(any) error
} {
	switch o.(type) {
	case *corev1.Node:
		return w.nodes.Informer().GetIndexer()
	case *corev1.Pod:
		return w.pods.byNode.Informer().GetIndexer()
	case *corev1.PersistentVolume:
		return w.volumes.pvs.Informer().GetIndexer()
	case *corev1.PersistentVolumeClaim:
		return w.volumes.claims.Informer().GetIndexer()
	case *storagev1.CSIDriver:
		return w.volumes.drivers.Informer().GetIndexer()
	}
	return w.volumes.attachments.Informer().GetIndexer()
}

func (w *world) add(t interface{ Fatal(...any) }, o plan.Object) {
	if err := w.store(o).Add(o); err != nil {
		t.Fatal(err)
	}
	w.objects = append(w.objects, o)
}

// enqueued notes the keys that a change of an object enqueues.
func (w *world) enqueued(before, after plan.Object) {
	either := after
	if either == nil {
		either = before
	}
	watches := [][2]func(_, _ plan.Object) []plan.Key{}
	switch either.(type) {
	case *corev1.Node:
		watches = append(watches, [2]func(_, _ plan.Object) []plan.Key{w.volumesByNode, nodesByNode})
	case *corev1.Pod:
		watches = append(watches, [2]func(_, _ plan.Object) []plan.Key{w.volumesByPod, w.nodesByPod})
	case *corev1.PersistentVolume:
		watches = append(watches, [2]func(_, _ plan.Object) []plan.Key{w.volumesByVolume, w.nodesByVolume})
	case *corev1.PersistentVolumeClaim:
		watches = append(watches, [2]func(_, _ plan.Object) []plan.Key{w.volumesByClaim, w.nodesByClaim})
	case *storagev1.CSIDriver:
		watches = append(watches, [2]func(_, _ plan.Object) []plan.Key{w.volumesByDriver, w.nodesByDriver})
	default:
		watches = append(watches, [2]func(_, _ plan.Object) []plan.Key{w.volumesByAttachment, nodesByAttachment})
	}
	for _, watch := range watches {
		for _, enqueues := range watch {
			for _, key := range enqueues(before, after) {
				w.keys[key] = true
			}
		}
	}
}
