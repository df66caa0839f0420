package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// memory is an API server in memory: versions, uids, generated names, optimistic concurrency, preconditions, watches.
// Its watches can be frozen, and every write can be made to fail before or after it is done.
type memory struct {
	mu      sync.Mutex
	version int
	objects map[schema.GroupVersionKind]map[plan.Key]plan.Object
	watches map[schema.GroupVersionKind][]*stream
	frozen  map[schema.GroupVersionKind]bool
	log     []string // "create Pod a", "refused update Pod a"

	before func(verb string, k Kind, name string) error // not done, and this error
	after  func(verb string, k Kind, name string) error // done, and yet this error
}

// stream is one watch: events queue up while the kind is frozen.
type stream struct {
	*watch.RaceFreeFakeWatcher
	waiting []watch.Event
}

func newMemory() *memory {
	return &memory{
		objects: map[schema.GroupVersionKind]map[plan.Key]plan.Object{},
		watches: map[schema.GroupVersionKind][]*stream{},
		frozen:  map[schema.GroupVersionKind]bool{},
	}
}

// informer returns a running cache of the kind.
func (m *memory) informer(ctx context.Context, example plan.Object) cache.SharedIndexInformer {
	k, err := KindOf(example)
	if err != nil {
		panic(err)
	}
	i := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return m.list(k) },
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(k.GroupKind(), "", nil)
			}
			return m.watch(k), nil
		},
	}, example, 0, cache.Indexers{})
	go i.RunWithContext(ctx)
	return i
}

func (m *memory) list(k Kind) (runtime.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := &metav1.List{}
	var items []runtime.Object
	for _, o := range m.objects[k.GroupVersionKind] {
		items = append(items, o.DeepCopyObject())
	}
	if k.Kind == "Pod" {
		pods := &corev1.PodList{}
		pods.ResourceVersion = strconv.Itoa(max(1, m.version))
		return pods, meta.SetList(pods, items)
	}
	list.ResourceVersion = strconv.Itoa(max(1, m.version))
	return list, meta.SetList(list, items)
}

func (m *memory) watch(k Kind) watch.Interface {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &stream{RaceFreeFakeWatcher: watch.NewRaceFreeFake()}
	m.watches[k.GroupVersionKind] = append(m.watches[k.GroupVersionKind], s)
	return s
}

// freeze holds back the events of the kind until it is called with false.
func (m *memory) freeze(k schema.GroupVersionKind, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen[k] = on
	if !on {
		for _, s := range m.watches[k] {
			for _, e := range s.waiting {
				s.Action(e.Type, e.Object)
			}
			s.waiting = nil
		}
	}
}

func (m *memory) publish(k Kind, t watch.EventType, o plan.Object) {
	for _, s := range m.watches[k.GroupVersionKind] {
		e := watch.Event{Type: t, Object: o.DeepCopyObject()}
		if m.frozen[k.GroupVersionKind] {
			s.waiting = append(s.waiting, e)
		} else {
			s.Action(e.Type, e.Object)
		}
	}
}

// do runs a write under the lock, between the two fault hooks, and logs it.
func (m *memory) do(verb string, k Kind, name string, write func() (plan.Object, error)) (plan.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.before != nil {
		if err := m.before(verb, k, name); err != nil {
			return nil, err
		}
	}
	o, err := write()
	if err != nil {
		m.log = append(m.log, fmt.Sprintf("refused %s %s %s", verb, k.Kind, name))
		return nil, err
	}
	m.log = append(m.log, fmt.Sprintf("%s %s %s", verb, k.Kind, name))
	if m.after != nil {
		if err := m.after(verb, k, name); err != nil {
			return nil, err
		}
	}
	return o.DeepCopyObject().(plan.Object), nil
}

func (m *memory) store(k Kind, o plan.Object) plan.Object {
	m.version++
	o = o.DeepCopyObject().(plan.Object)
	o.SetResourceVersion(strconv.Itoa(m.version))
	if m.objects[k.GroupVersionKind] == nil {
		m.objects[k.GroupVersionKind] = map[plan.Key]plan.Object{}
	}
	m.objects[k.GroupVersionKind][keyOf(o)] = o
	return o
}

func (m *memory) Create(_ context.Context, k Kind, o plan.Object) (plan.Object, error) {
	return m.do("create", k, nameOf(o), func() (plan.Object, error) {
		o := o.DeepCopyObject().(plan.Object)
		if o.GetName() == "" {
			o.SetName(fmt.Sprintf("%s%d", o.GetGenerateName(), m.version+1))
		}
		if m.objects[k.GroupVersionKind][keyOf(o)] != nil {
			return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: k.Resource}, o.GetName())
		}
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", m.version+1)))
		o = m.store(k, o)
		m.publish(k, watch.Added, o)
		return o, nil
	})
}

func (m *memory) Update(_ context.Context, k Kind, o plan.Object, status bool) (plan.Object, error) {
	return m.do("update", k, o.GetName(), func() (plan.Object, error) {
		old := m.objects[k.GroupVersionKind][keyOf(o)]
		if old == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.Resource}, o.GetName())
		}
		if old.GetResourceVersion() != o.GetResourceVersion() {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: k.Resource}, o.GetName(), nil)
		}
		o := m.store(k, o)
		m.publish(k, watch.Modified, o)
		return o, nil
	})
}

func (m *memory) Patch(_ context.Context, k Kind, namespace, name string, patch []byte, _ bool) (plan.Object, error) {
	return m.do("patch", k, name, func() (plan.Object, error) {
		old := m.objects[k.GroupVersionKind][plan.Key{Namespace: namespace, Name: name}]
		if old == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.Resource}, name)
		}
		data, err := json.Marshal(old)
		if err != nil {
			return nil, err
		}
		if data, err = strategicpatch.StrategicMergePatch(data, patch, k.New()); err != nil {
			return nil, err
		}
		o := k.New()
		if err := json.Unmarshal(data, o); err != nil {
			return nil, err
		}
		if o.GetUID() != old.GetUID() {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: k.Resource}, name, nil)
		}
		o = m.store(k, o)
		m.publish(k, watch.Modified, o)
		return o, nil
	})
}

func (m *memory) Delete(_ context.Context, k Kind, namespace, name string, opts metav1.DeleteOptions) error {
	_, err := m.do("delete", k, name, func() (plan.Object, error) {
		key := plan.Key{Namespace: namespace, Name: name}
		old := m.objects[k.GroupVersionKind][key]
		if old == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.Resource}, name)
		}
		if v := opts.Preconditions.ResourceVersion; *opts.Preconditions.UID != old.GetUID() || v != nil && *v != old.GetResourceVersion() {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: k.Resource}, name, nil)
		}
		m.version++
		gone := old.DeepCopyObject().(plan.Object)
		gone.SetResourceVersion(strconv.Itoa(m.version))
		delete(m.objects[k.GroupVersionKind], key)
		m.publish(k, watch.Deleted, gone)
		return gone, nil
	})
	return err
}

func (m *memory) Get(_ context.Context, k Kind, namespace, name string) (plan.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[k.GroupVersionKind][plan.Key{Namespace: namespace, Name: name}]
	if o == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.Resource}, name)
	}
	return o.DeepCopyObject().(plan.Object), nil
}

func (m *memory) List(_ context.Context, k Kind, namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sel, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	var found []metav1.PartialObjectMetadata
	for key, o := range m.objects[k.GroupVersionKind] {
		if key.Namespace == namespace && sel.Matches(labels.Set(o.GetLabels())) {
			found = append(found, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: key.Name, UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
			}})
		}
	}
	return found, nil
}

func (m *memory) Version(context.Context, schema.GroupVersionResource) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strconv.Itoa(max(1, m.version)), nil
}

// names returns the names of the objects of a kind, sorted.
func (m *memory) names(k schema.GroupVersionKind) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for key := range maps.Keys(m.objects[k]) {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return names
}

func (m *memory) writes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log)
}

var _ API = (*memory)(nil)
