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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/explain"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// server is an API server in memory for pods and nodes, as far as the pod garbage collector can tell. Its watches can be
// frozen, and a hook can make requests fail or take their time.
type server struct {
	client.Client // nil: nothing else is asked of it

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

// put stores an object, as its owner or the scheduler or a kubelet might have.
func (s *server) put(o plan.Object) plan.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(o)
}

func (s *server) store(o plan.Object) plan.Object {
	kind, event := kindOf(o), watch.Modified
	if s.objects[kind][plan.KeyOf(o)] == nil {
		event = watch.Added
	}
	s.version++
	o = o.DeepCopyObject().(plan.Object)
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[kind][plan.KeyOf(o)] = o
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

// Patch implements client.Client for pods.
func (s *server) Patch(_ context.Context, m client.Mapping, key plan.Key, patch client.Patch,
	opts client.WriteOptions) (*metav1.PartialObjectMetadata, error) {
	if err := s.begin("patch", key.Name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[m.Kind][key].(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewNotFound(m.GroupResource(), key.Name)
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	if patch.Type != types.StrategicMergePatchType {
		return nil, fmt.Errorf("a patch of type %s", patch.Type)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch.Data, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	p := &corev1.Pod{}
	if err := json.Unmarshal(after, p); err != nil {
		return nil, err
	}
	if p.UID != old.UID {
		return nil, apierrors.NewConflict(m.GroupResource(), key.Name, errors.New("uid"))
	}
	if opts.Subresource != plan.Status {
		return nil, errors.New("the role allows to patch the status only")
	}
	return meta.AsPartialObjectMetadata(s.store(p)).DeepCopy(), nil
}

// Delete implements client.Client for pods.
func (s *server) Delete(_ context.Context, m client.Mapping, key plan.Key, opts metav1.DeleteOptions) error {
	if err := s.begin("delete", key.Name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.objects[m.Kind][key].(*corev1.Pod)
	if !ok {
		return apierrors.NewNotFound(m.GroupResource(), key.Name)
	}
	if c := opts.Preconditions; c == nil || *c.UID != p.UID || *c.ResourceVersion != p.ResourceVersion {
		return apierrors.NewConflict(m.GroupResource(), key.Name, errors.New("precondition"))
	}
	if opts.GracePeriodSeconds == nil || *opts.GracePeriodSeconds != 0 {
		return errors.New("not by force")
	}
	if len(p.Finalizers) == 0 {
		s.drop(m.Kind, key)
		return nil
	}
	p = p.DeepCopy()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, opts.GracePeriodSeconds
	s.store(p)
	return nil
}

// Get implements client.Reader for metadata.
func (s *server) Get(_ context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	if err := s.begin("get", key.Name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.objects[m.Kind][key]
	if found == nil {
		return apierrors.NewNotFound(m.GroupResource(), key.Name)
	}
	if node, ok := into.(*corev1.Node); ok {
		found.(*corev1.Node).DeepCopyInto(node)
		return nil
	}
	*into.(*metav1.PartialObjectMetadata) = *meta.AsPartialObjectMetadata(found).DeepCopy()
	return nil
}

// List implements client.Reader for metadata.
func (s *server) List(_ context.Context, m client.Mapping, _ string, _ metav1.ListOptions, into runtime.Object) error {
	if err := s.begin("list", m.Resource); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := into.(*metav1.PartialObjectMetadataList)
	for _, o := range s.objects[m.Kind] {
		list.Items = append(list.Items, *meta.AsPartialObjectMetadata(o).DeepCopy())
	}
	return nil
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

// collecting is a pod garbage collector at work on a server.
type collecting struct {
	*server
	caches  *caches
	runner  manager.Runner
	metrics []metrics.Registerable
	brake   *brake.Brake
}

// config is what flags say: options of the controller, and the share of the brake.
type config struct {
	Options
	Share float64
}

// record returns the last record of a rule.
func (c collecting) record(rule string) (explain.Record, bool) {
	return c.runner.(reconcile.Part).Records()[0].Get(plan.Key{Name: rule})
}

// build makes a collector for the server, and its caches, which do not run yet.
func build(t interface{ Fatal(...any) }, s *server, config config) (c collecting, run func(ctx context.Context)) {
	f := informers.NewFactory(nil, 0)
	var fill []cache.SharedIndexInformer
	for _, example := range []plan.Object{&corev1.Pod{}, &corev1.Node{}} {
		fill = append(fill, f.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			i := s.informer(example)
			_ = i.SetTransform(projected(t).Transform)
			return i
		}))
	}
	c = collecting{server: s, brake: brake.New(brake.Budget{Share: config.Share})}
	mapper, err := client.NewMapper(&rest.Config{}) // it asks nobody about built-in kinds
	if err != nil {
		t.Fatal(err)
	}
	c.runner, err = config.init(manager.Context{
		Informers: f, Access: reconcile.Access{Client: s}, Brake: c.brake,
		Shared:          reconcile.Shared{Tracker: freshness.NewTracker(), Mapper: mapper},
		RegisterMetrics: func(own ...metrics.Registerable) { c.metrics = append(c.metrics, own...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	pods, err1 := informers.EndingPods(f)
	nodes, err2 := informers.Nodes(f)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	c.caches = &caches{pods: pods, nodes: nodes, brake: c.brake}
	return c, func(ctx context.Context) {
		for _, i := range fill {
			go i.RunWithContext(ctx)
		}
	}
}

// lead runs the collector for one term as leader, which lasts until end is called.
func (c collecting) lead(t *testing.T) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.runner.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// inBubble runs a test in virtual time, with a collector that has applied each rule once.
func inBubble(t *testing.T, config config, objects []plan.Object, test func(t *testing.T, c collecting),
	hook ...func(verb, name string) error) {
	synctest.Test(t, func(t *testing.T) {
		c, run := build(t, newServer(objects...), config)
		for _, h := range hook {
			c.on(h)
		}
		ctx, cancel := context.WithCancel(t.Context())
		run(ctx)
		end := c.lead(t)
		sleep(time.Second)
		test(t, c)
		end()
		cancel()
		synctest.Wait()
	})
}

// sleep lets virtual time pass.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
