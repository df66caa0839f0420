package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/test/aggregated"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

var widgets = schema.GroupVersionResource{Group: "lost.example.com", Version: "v1", Resource: "widgets"}

// widgetServer is an aggregated API server that can lose its storage. It has widgets, and is an http.Handler.
type widgetServer struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]types.UID
	lost    bool
	version int           // of the storage; what was listed before is expired
	ended   chan struct{} // closed when all watches end
	watches int
}

// change changes what the server has, and ends all watches, which have to list anew.
func (s *widgetServer) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.version++
	close(s.ended)
	s.ended = make(chan struct{})
}

// watched says that not enough watches are open.
func (s *widgetServer) watched(least int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches < least {
		return fmt.Errorf("%d watches are open", s.watches)
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *widgetServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, "/apis/"+widgets.GroupVersion().String())
	if !ok {
		http.NotFound(w, r)
		return
	}
	namespace, name := "", ""
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	if len(parts) == 2 {
		name = parts[1]
	}
	switch query := r.URL.Query(); {
	case path == "":
		respond(w, http.StatusOK,
			metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
				GroupVersion: widgets.GroupVersion().String(),
				APIResources: []metav1.APIResource{{Name: widgets.Resource, SingularName: "widget", Kind: "Widget", Namespaced: true,
					Verbs: metav1.Verbs{"delete", "get", "list", "watch"}}}})
	case query.Get("watch") != "" && query.Get("sendInitialEvents") != "":
		respondError(w, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	case query.Get("watch") != "":
		s.watch(w, r)
	case name == "":
		respond(w, http.StatusOK, s.list(namespace))
	default:
		s.one(w, r, types.NamespacedName{Namespace: namespace, Name: name})
	}
}

func (s *widgetServer) list(namespace string) metav1.PartialObjectMetadataList {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "WidgetList", APIVersion: widgets.GroupVersion().String()},
		Items: []metav1.PartialObjectMetadata{}}
	list.ResourceVersion = fmt.Sprint(s.version)
	for key := range s.objects {
		if !s.lost && (namespace == "" || namespace == key.Namespace) {
			list.Items = append(list.Items, s.object(key))
		}
	}
	return list
}

// object is called with the lock held.
func (s *widgetServer) object(key types.NamespacedName) (o metav1.PartialObjectMetadata) {
	o.Kind, o.APIVersion = "Widget", widgets.GroupVersion().String()
	o.Namespace, o.Name, o.UID, o.ResourceVersion = key.Namespace, key.Name, s.objects[key], fmt.Sprint(s.version)
	return o
}

func (s *widgetServer) one(w http.ResponseWriter, r *http.Request, key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[key]; !ok || s.lost {
		respondError(w, apierrors.NewNotFound(widgets.GroupResource(), key.Name))
		return
	}
	respond(w, http.StatusOK, s.object(key))
	if r.Method == http.MethodDelete {
		delete(s.objects, key) // watches need not tell
	}
}

// watch has no events. It ends with the storage.
func (s *widgetServer) watch(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	ended, current := s.ended, r.URL.Query().Get("resourceVersion") == fmt.Sprint(s.version)
	if current {
		s.watches++
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.watches--
		}()
	}
	s.mu.Unlock()
	if !current {
		respondError(w, apierrors.NewResourceExpired("the storage is another one"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // the client sees it, too
	select {
	case <-ended:
	case <-r.Context().Done():
	}
}

func respond(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client sees it, too
}

func respondError(w http.ResponseWriter, err *apierrors.StatusError) {
	err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	respond(w, int(err.ErrStatus.Code), err.ErrStatus)
}

// Decision 11: an aggregated API server loses its storage, and answers with empty lists and that it finds nothing. The garbage collector
// believes it only when it has objects again. What is held is told by events of the lease, whose annotation releases it.
func TestAnAggregatedAPIThatLosesItsStorage(t *testing.T) {
	// By itself: a garbage collector that another test starts might find each owner to be gone before it has seen any of them.
	c := cluster.Start(t)
	b := &bench{t, c, c.Namespace(t)}
	const owners = 6
	server := &widgetServer{objects: map[types.NamespacedName]types.UID{}, ended: make(chan struct{})}
	for i := range owners {
		server.objects[b.widget(i)] = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	}
	registered, err := aggregated.Start(t.Context(), b.RESTConfig, "test-widgets", []schema.GroupVersion{widgets.GroupVersion()}, server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registered.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range owners {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("of-", i), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: widgets.GroupVersion().String(), Kind: "Widget", Name: b.widget(i).Name, UID: server.objects[b.widget(i)]}}}}
		if _, err := b.Client.CoreV1().ConfigMaps(b.ns).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const lease = "aggregated-test"
	b.Manager(t, "--controllers=garbagecollector", "--leader-elect=true", "--leader-elect-resource-name="+lease)
	cluster.Eventually(t, 2*patience, "the garbage collector watches the widgets", func() error { return server.watched(1) })

	server.change(func() { server.lost = true })
	b.waitEvents(lease, 1, "BrakeHolds: garbage-collector-controller holds the dependents of Widget.lost.example.com: ")
	b.wantDependents(0, 1, 2, 3, 4, 5)

	server.change(func() { server.lost = false; delete(server.objects, b.widget(5)) })
	b.waitEvents(lease, 1, "BrakeReleased: garbage-collector-controller no longer holds the dependents of Widget.lost.example.com: ")
	b.wait("the dependent goes whose owner is gone", func() error { return b.dependents(0, 1, 2, 3, 4) })

	server.change(func() { server.lost = true })
	b.waitEvents(lease, 2, "BrakeHolds: ")
	b.wantDependents(0, 1, 2, 3, 4)
	annotation, err := json.Marshal(coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{"controller-manager/release-brakes": "garbagecollector"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client.CoordinationV1().Leases("kube-system").Patch(t.Context(), lease, types.MergePatchType, annotation,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.wait("an operator has released the brake", func() error { return b.dependents() })
}

func (b *bench) widget(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: b.ns, Name: fmt.Sprint("widget-", i)}
}

// waitEvents waits until the lease has so many events that begin like this, repetitions not counted.
func (b *bench) waitEvents(lease string, least int, like string) {
	b.Helper()
	b.wait("the lease says "+like, func() error {
		list, err := b.Client.CoreV1().Events("kube-system").List(b.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + lease})
		if err != nil {
			return err
		}
		n := 0
		for _, e := range list.Items {
			if strings.HasPrefix(e.Reason+": "+e.Message, like) {
				n += int(max(1, e.Count))
			}
		}
		if n < least {
			return fmt.Errorf("it says so %d times", n)
		}
		return nil
	})
}

// dependents says which dependents are not as wanted.
func (b *bench) dependents(want ...int) error {
	list, err := b.Client.CoreV1().ConfigMaps(b.ns).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	var names, wanted []string
	for _, c := range list.Items {
		if strings.HasPrefix(c.Name, "of-") {
			names = append(names, c.Name)
		}
	}
	for _, i := range want {
		wanted = append(wanted, fmt.Sprint("of-", i))
	}
	if !slices.Equal(names, wanted) {
		return fmt.Errorf("there are %v, want %v", names, wanted)
	}
	return nil
}

func (b *bench) wantDependents(want ...int) {
	b.Helper()
	if err := b.dependents(want...); err != nil {
		b.Error(err)
	}
}
