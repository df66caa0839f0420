package resourcequota

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/quota/usage"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/informers/metadata"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

var (
	epoch   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	someKey = plan.Key{Namespace: "shop", Name: "some"}
)

// amounts makes a list of pairs of names and amounts.
func amounts(pairs ...any) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i].(string))] = resource.MustParse(fmt.Sprint(pairs[i+1]))
	}
	return l
}

func quotaOf(hard corev1.ResourceList, edits ...func(*corev1.ResourceQuota)) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "some", UID: "q", ResourceVersion: "100"},
		Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	for _, edit := range edits {
		edit(q)
	}
	return q
}

// said sets the status: the limits of the spec, and what is used.
func said(used corev1.ResourceList) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
	}
}

// writtenAt sets when the status was written last.
func writtenAt(at time.Time) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		q.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "kube-apiserver", Subresource: "status", Time: &metav1.Time{Time: at}},
			{Manager: "kubectl", Time: &metav1.Time{Time: at.Add(time.Hour)}},
			{Manager: "old", Subresource: "status", Time: &metav1.Time{Time: at.Add(-time.Hour)}},
		}
	}
}

// bench is the controller on a server in memory.
type bench struct {
	*testing.T
	*caches
	server   *clienttest.Server
	metadata *metadatafake.FakeMetadataClient
	watches  *metadata.Informers
	unlisted map[string]bool // kinds that cannot be listed
	live     lists
	discover atomic.Pointer[discoverFunc] // nil: what is there
	down     atomic.Bool                  // nothing is told of objects until all are listed again
	relist   atomic.Pointer[func()]       // lists anew what was fed last
}

type discoverFunc func() ([]client.Mapping, error)

// found are the resources that are there besides pods and Services.
func found() (all []client.Mapping, _ error) {
	return []client.Mapping{mappingOf("ConfigMap"), mappingOf("Secret")}, nil
}

func mappingOf(kind string) client.Mapping {
	m, _ := client.BuiltIn(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}

// lists are the live lists. Those of what quotas limit are counted.
type lists struct {
	client.Reader
	n      atomic.Int32
	before atomic.Pointer[func(resource string) error] // a list, which it may refuse
	after  atomic.Pointer[func(resource string)]       // a list
}

// List implements client.Reader.
func (l *lists) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions, into runtime.Object) error {
	if m.Resource != "resourcequotas" {
		l.n.Add(1)
	}
	if before := l.before.Load(); before != nil {
		if err := (*before)(m.Resource); err != nil {
			return err
		}
	}
	if after := l.after.Load(); after != nil {
		defer (*after)(m.Resource)
	}
	return l.Reader.List(ctx, m, namespace, o, into)
}

func (b *bench) put(o plan.Object) {
	b.Helper()
	if o.GetNamespace() == "" {
		o.SetNamespace("shop")
	}
	if _, err := b.server.Put(o); err != nil {
		b.Fatal(err)
	}
}

func podNamed(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "100m")}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func (b *bench) delete(kind schema.GroupVersionKind, name string) {
	b.Helper()
	m, _ := client.BuiltIn(kind)
	if err := b.server.Delete(b.Context(), m, plan.Key{Namespace: "shop", Name: name}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// status returns what the status of the quota says is used of a name; empty if it does not.
func (b *bench) status(name string) string {
	b.Helper()
	q := &corev1.ResourceQuota{}
	m := client.MappingFor[*corev1.ResourceQuota]()
	if err := b.server.Get(b.Context(), m, someKey, q); err != nil {
		b.Fatal(err)
	}
	used, ok := q.Status.Used[corev1.ResourceName(name)]
	if !ok {
		return ""
	}
	return used.String()
}

// raise is what admission does: it adds to what is used.
func (b *bench) raise(name string, to string) {
	b.Helper()
	q := &corev1.ResourceQuota{}
	m := client.MappingFor[*corev1.ResourceQuota]()
	if err := b.server.Get(b.Context(), m, someKey, q); err != nil {
		b.Fatal(err)
	}
	q.Status.Used[corev1.ResourceName(name)] = resource.MustParse(to)
	b.put(q)
	synctest.Wait()
}

func (b *bench) want(what, name, want string) {
	b.Helper()
	if got := b.status(name); got != want {
		b.Errorf("%s: %q %s are used, want %q", what, got, name, want)
	}
}

// feed watches objects on the server as the manager's own client would.
func (b *bench) feed(ctx context.Context, kind schema.GroupVersionKind, _ schema.GroupVersionResource, h listwatch.FeedHandler) error {
	if b.unlisted[kind.Kind] {
		<-ctx.Done()
		return nil
	}
	example, err := newObject(kind)
	if err != nil {
		return err
	}
	informer, err := b.server.NewInformer(ctx, example)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	listed := false
	tell := func(f func(metav1.Object)) func(any) {
		return func(o any) {
			mu.Lock()
			defer mu.Unlock()
			if object, ok := o.(metav1.Object); ok && listed && !b.down.Load() {
				f(object)
			}
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell(h.OnUpdate), UpdateFunc: func(_, o any) { tell(h.OnUpdate)(o) }, DeleteFunc: tell(h.OnDelete),
	})
	if err != nil {
		return err
	}
	cache.WaitForCacheSync(ctx.Done(), registration.HasSynced)
	list := func() {
		mu.Lock()
		defer mu.Unlock()
		var all []metav1.Object
		for _, o := range informer.GetStore().List() {
			all = append(all, o.(metav1.Object))
		}
		h.OnList(all)
		listed = true
		b.down.Store(false)
	}
	list()
	b.relist.Store(&list)
	<-ctx.Done()
	return nil
}

func newObject(kind schema.GroupVersionKind) (plan.Object, error) {
	switch kind.Kind {
	case "Pod":
		return &corev1.Pod{}, nil
	case "Service":
		return &corev1.Service{}, nil
	}
	return nil, fmt.Errorf("the bench has no %s", kind.Kind)
}

// run runs the controller in virtual time while a test works.
func run(t *testing.T, test func(b *bench)) { runAfter(t, func(*bench) {}, test) }

// runAfter does the same with what was there before.
func runAfter(t *testing.T, prepare, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, server: clienttest.NewServer(), unlisted: map[string]bool{}}
		prepare(b)
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		b.metadata = metadatafake.NewSimpleMetadataClient(scheme)
		b.metadata.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if b.unlisted[a.GetResource().Resource] {
				return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
			}
			return false, nil, nil
		})
		c := managertest.Context(t, b.server, New(Options{}), managertest.Cache{Example: &corev1.ResourceQuota{}})
		quotas, err := informers.Objects[*corev1.ResourceQuota](c.Informers)
		if err != nil {
			t.Fatal(err)
		}
		b.watches = metadata.New(b.metadata)
		defer b.watches.Shutdown()
		discover := func(context.Context, ...string) ([]client.Mapping, error) {
			if f := b.discover.Load(); f != nil {
				return (*f)()
			}
			return found()
		}
		b.live.Reader = c.Shared.Verifier
		b.caches = &caches{quotas: quotas, verifier: verifier{&b.live}, index: usage.New(usage.Config{
			Period: 5 * time.Minute, Arrivals: reservedFor, Resources: discover, Metadata: b.watches, Feed: b.feed,
		})}
		runner := reconcile.New(c.Shared, c.Access, b.controller(2))
		clienttest.Run(t, runner.Run, func() { test(b) })
	})
}
