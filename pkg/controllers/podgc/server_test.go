package podgc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/pkg/engine"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/projection"
)

// server is an API server in memory for pods and nodes, as far as the pod garbage collector can tell. Its watches can be
// frozen, and hooked requests can be made to fail or to take their time.
type server struct {
	mu      sync.Mutex
	version int
	objects map[string]map[plan.Key]plan.Object // by kind
	watches map[string][]*watch.RaceFreeFakeWatcher
	waiting map[string][]watch.Event // of frozen kinds; nil: not frozen
	began   time.Time
	log     []string // "40s delete a"
	hook    func(verb, name string) error
}

func newServer(objects ...plan.Object) *server {
	s := &server{
		objects: map[string]map[plan.Key]plan.Object{"Pod": {}, "Node": {}},
		watches: map[string][]*watch.RaceFreeFakeWatcher{}, waiting: map[string][]watch.Event{}, began: time.Now(),
	}
	for _, o := range objects {
		s.put(o)
	}
	return s
}

func kindOf(o plan.Object) string {
	if _, ok := o.(*corev1.Node); ok {
		return "Node"
	}
	return "Pod"
}

func keyOf(o plan.Object) plan.Key { return plan.Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// put stores an object, as its owner or the scheduler or a kubelet might have.
func (s *server) put(o plan.Object) plan.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(o)
}

func (s *server) store(o plan.Object) plan.Object {
	kind, event := kindOf(o), watch.Modified
	if s.objects[kind][keyOf(o)] == nil {
		event = watch.Added
	}
	s.version++
	o = o.DeepCopyObject().(plan.Object)
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[kind][keyOf(o)] = o
	s.publish(kind, event, o)
	return o
}

// remove takes an object out of the store at once.
func (s *server) remove(kind string, key plan.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(kind, key)
}

func (s *server) drop(kind string, key plan.Key) {
	gone := s.objects[kind][key].DeepCopyObject().(plan.Object)
	s.version++
	gone.SetResourceVersion(strconv.Itoa(s.version))
	delete(s.objects[kind], key)
	s.publish(kind, watch.Deleted, gone)
}

func (s *server) publish(kind string, t watch.EventType, o plan.Object) {
	e := watch.Event{Type: t, Object: o.DeepCopyObject()}
	if s.waiting[kind] != nil {
		s.waiting[kind] = append(s.waiting[kind], e)
		return
	}
	for _, w := range s.watches[kind] {
		w.Action(e.Type, e.Object)
	}
}

// freeze holds back the events of a kind until thaw.
func (s *server) freeze(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[kind] = []watch.Event{}
}

func (s *server) thaw(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.waiting[kind] {
		for _, w := range s.watches[kind] {
			w.Action(e.Type, e.Object)
		}
	}
	delete(s.waiting, kind)
}

// on sets the hook, nil for none.
func (s *server) on(hook func(verb, name string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// refuse makes all requests of the verb fail.
func (s *server) refuse(verb string) {
	s.on(func(v, _ string) error {
		if v == verb {
			return errors.New("no answer")
		}
		return nil
	})
}

// begin asks the hook, outside of the lock, and logs the request.
func (s *server) begin(verb, name string) error {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	var err error
	if hook != nil {
		err = hook(verb, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := fmt.Sprintf("%s %s %s", time.Since(s.began).Truncate(time.Second), verb, name)
	if err != nil {
		entry += " failed"
	}
	s.log = append(s.log, entry)
	return err
}

func (s *server) Patch(_ context.Context, k engine.Kind, namespace, name string, patch []byte, status bool) (plan.Object, error) {
	if err := s.begin("patch", name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[k.Kind][plan.Key{Namespace: namespace, Name: name}].(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.Resource}, name)
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	p := &corev1.Pod{}
	if err := json.Unmarshal(after, p); err != nil {
		return nil, err
	}
	if p.UID != old.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: k.Resource}, name, errors.New("uid"))
	}
	if !status {
		return nil, errors.New("the role allows to patch the status only")
	}
	return s.store(p).DeepCopyObject().(plan.Object), nil
}

func (s *server) Delete(_ context.Context, k engine.Kind, namespace, name string, opts metav1.DeleteOptions) error {
	if err := s.begin("delete", name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := plan.Key{Namespace: namespace, Name: name}
	p, ok := s.objects[k.Kind][key].(*corev1.Pod)
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: k.Resource}, name)
	}
	if c := opts.Preconditions; c == nil || *c.UID != p.UID || *c.ResourceVersion != p.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: k.Resource}, name, errors.New("precondition"))
	}
	if opts.GracePeriodSeconds == nil || *opts.GracePeriodSeconds != 0 {
		return errors.New("not by force")
	}
	if len(p.Finalizers) == 0 {
		s.drop(k.Kind, key)
		return nil
	}
	p = p.DeepCopy()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, opts.GracePeriodSeconds
	s.store(p)
	return nil
}

func (s *server) Get(_ context.Context, k engine.Kind, namespace, name string) (plan.Object, error) {
	if err := s.begin("get", name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[k.Kind][plan.Key{Namespace: namespace, Name: name}]; o != nil {
		return o.DeepCopyObject().(plan.Object), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: k.Resource}, name)
}

func (s *server) List(_ context.Context, k engine.Kind, _, _ string) (found []metav1.PartialObjectMetadata, err error) {
	if err := s.begin("list", k.Resource); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.objects[k.Kind] {
		found = append(found, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: key.Name}})
	}
	return found, nil
}

func (s *server) Create(context.Context, engine.Kind, plan.Object) (plan.Object, error) {
	return nil, errors.New("nothing is to be created")
}

func (s *server) Update(context.Context, engine.Kind, plan.Object, bool) (plan.Object, error) {
	return nil, errors.New("nothing is to be updated")
}

// names returns the names of the objects of a kind, sorted.
func (s *server) names(kind string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for key := range s.objects[kind] {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (s *server) pod(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, _ := s.objects["Pod"][plan.Key{Namespace: "shop", Name: name}].(*corev1.Pod)
	return p
}

// requests returns the logged requests that begin with one of the verbs.
func (s *server) requests(verbs ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, entry := range s.log {
		if slices.Contains(verbs, strings.Fields(entry)[1]) {
			found = append(found, entry)
		}
	}
	return strings.Join(found, ", ")
}

// informer returns a cache of the kind that lists and watches this server.
func (s *server) informer(example plan.Object) cache.SharedIndexInformer {
	kind := kindOf(example)
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			version := metav1.ListMeta{ResourceVersion: strconv.Itoa(max(1, s.version))}
			pods, nodes := &corev1.PodList{ListMeta: version}, &corev1.NodeList{ListMeta: version}
			for _, o := range s.objects[kind] {
				switch o := o.DeepCopyObject().(type) {
				case *corev1.Pod:
					pods.Items = append(pods.Items, *o)
				case *corev1.Node:
					nodes.Items = append(nodes.Items, *o)
				}
			}
			if kind == "Node" {
				return nodes, nil
			}
			return pods, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{Kind: kind}, "", nil)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			w := watch.NewRaceFreeFake()
			s.watches[kind] = append(s.watches[kind], w)
			return w, nil
		},
	}, example, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

var _ engine.API = (*server)(nil)

// lease is one that is held.
type lease struct{}

func (lease) Held() bool { return true }

// collecting is a pod garbage collector at work on a server.
type collecting struct {
	*server
	*collector
	explain *engine.Explain
}

// build makes a collector for the server, and its caches, which do not run yet.
func build(t interface{ Fatal(...any) }, s *server, config manager.PodGCConfig) (collecting, func(ctx context.Context)) {
	f := informers.NewFactory(nil, 0)
	var fill []cache.SharedIndexInformer
	for _, example := range []plan.Object{&corev1.Pod{}, &corev1.Node{}} {
		fill = append(fill, f.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			i := s.informer(example)
			_ = i.SetTransform(projection.Project)
			return i
		}))
	}
	explain := engine.NewExplain()
	runner, err := Init(manager.Context{
		Config: manager.Config{PodGC: config}, Informers: f, Access: engine.Access{API: s},
		Shared: engine.Shared{Freshness: engine.NewFreshness(), Lease: lease{}, Explain: explain},
	})
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context) {
		for _, i := range fill {
			go i.RunWithContext(ctx)
		}
	}
	return collecting{s, runner.(*collector), explain}, run
}

// inBubble runs a test in virtual time, with a collector that has looked at everything once.
func inBubble(t *testing.T, config manager.PodGCConfig, objects []plan.Object, test func(t *testing.T, c collecting), hook ...func(verb, name string) error) {
	synctest.Test(t, func(t *testing.T) {
		c, run := build(t, newServer(objects...), config)
		for _, h := range hook {
			c.on(h)
		}
		ctx, cancel := context.WithCancel(t.Context())
		run(ctx)
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		pass(time.Second)
		test(t, c)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
