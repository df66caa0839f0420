package apiserver

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

func TestKindsAreThoseOfTheScheme(t *testing.T) {
	s := New(1)
	for resource, want := range map[string]string{
		"statefulsets": "apps/v1 StatefulSet", "horizontalpodautoscalers": "autoscaling/v2 HorizontalPodAutoscaler",
		"endpointslices": "discovery.k8s.io/v1 EndpointSlice", "networkpolicies": "networking.k8s.io/v1 NetworkPolicy",
		"events": "v1 Event",
	} {
		k := s.Kind(resource)
		if k == nil || k.GroupVersion().String()+" "+k.GroupVersionKind.Kind != want {
			t.Errorf("%s is %v, expected %s", resource, k, want)
		}
	}
	if k := s.Kind("clusterroles"); !k.Cluster {
		t.Error("a ClusterRole has a namespace")
	}
	made(t, s, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}})
	if One[*rbacv1.ClusterRole](s, "", "r") == nil {
		t.Error("it is not there")
	}
}

// Addresses are named by themselves, those of IPv6 with colons, which no other names have.
func TestNamesOfAddresses(t *testing.T) {
	s := New(1)
	made(t, s, &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "fd00::1"}})
	if One[*networkingv1.IPAddress](s, "", "fd00::1") == nil {
		t.Error("it is not there")
	}
}

// The table of rules and the list of kinds without namespaces name only kinds that there are.
func TestRulesAreOfKinds(t *testing.T) {
	resources, kinds := map[string]bool{}, map[string]bool{}
	for _, k := range builtIn() {
		resources[k.Resource], kinds[k.GroupVersionKind.Kind] = true, true
	}
	for resource := range specialRules() {
		if !resources[resource] {
			t.Errorf("there is a rule for %s, but no such resource", resource)
		}
	}
	for kind := range clusterScoped {
		if !kinds[kind] {
			t.Errorf("there is no kind %s", kind)
		}
	}
}

var widget = Custom{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Resource: "widgets",
	Status: true}

func newWidget(size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "default", "name": "w"},
		"spec": map[string]any{"size": size}, "status": map[string]any{"size": size},
	}}
}

func TestCustomResources(t *testing.T) {
	s := New(1)
	s.Define(widget)
	c, err := dynamic.NewForConfig(&rest.Config{Host: "http://memory", Transport: &Client{Server: s, Name: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	widgets := c.Resource(widget.GroupVersion().WithResource("widgets")).Namespace("default")
	w, err := widgets.Create(t.Context(), newWidget(1), metav1.CreateOptions{})
	if err != nil || w.GetGeneration() != 1 || w.Object["status"] != nil {
		t.Fatalf("created %v, %v", w, err)
	}
	watched, err := widgets.Watch(t.Context(), metav1.ListOptions{ResourceVersion: w.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	w.Object["spec"], w.Object["status"] = newWidget(2).Object["spec"], newWidget(2).Object["status"]
	if w, err = widgets.Update(t.Context(), w, metav1.UpdateOptions{}); err != nil || w.GetGeneration() != 2 || w.Object["status"] != nil {
		t.Fatalf("updated %v, %v", w, err)
	}
	w.Object["spec"], w.Object["status"] = newWidget(3).Object["spec"], newWidget(3).Object["status"]
	w.SetLabels(map[string]string{"a": "b"})
	w, err = widgets.UpdateStatus(t.Context(), w, metav1.UpdateOptions{})
	size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size")
	if err != nil || w.GetGeneration() != 2 || size != 2 || w.Object["status"] == nil || w.GetLabels() != nil {
		t.Errorf("with a status %v, %v", w, err)
	}
	if e := <-watched.ResultChan(); e.Type != watch.Modified || e.Object.(*unstructured.Unstructured).GetName() != "w" {
		t.Errorf("watched %v", e)
	}
	if list, err := widgets.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("listed %v, %v", list, err)
	}
	w.SetResourceVersion("")
	if _, err := widgets.Update(t.Context(), w, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update without a version is answered with %v", err)
	}
}

func TestDiscovery(t *testing.T) {
	s := New(1)
	s.Define(widget)
	for _, legacy := range []bool{false, true} {
		c := client(t, s, nil, runtime.ContentTypeJSON).DiscoveryClient
		c.UseLegacyDiscovery = legacy
		_, lists, err := c.ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]metav1.APIResource{}
		for _, list := range lists {
			for _, r := range list.APIResources {
				found[list.GroupVersion+" "+r.Name] = r
			}
		}
		if len(found) < 60 {
			t.Errorf("legacy %v: %d versions with %d resources", legacy, len(lists), len(found))
		}
		if r := found["v1 nodes"]; r.Namespaced || r.Kind != "Node" || len(r.Verbs) != 8 {
			t.Errorf("legacy %v: nodes are %+v", legacy, r)
		}
		for _, name := range []string{"apps/v1 deployments/scale", "v1 pods/eviction", "v1 namespaces/finalize",
			"example.com/v1 widgets/status"} {
			if _, ok := found[name]; !ok {
				t.Errorf("legacy %v: no %s", legacy, name)
			}
		}
		s.Hide("apps", true)
		if _, lists, err = c.ServerGroupsAndResources(); err != nil || len(lists) < 5 {
			t.Errorf("legacy %v: with a group hidden there are %d versions, %v", legacy, len(lists), err)
		}
		if slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool { return l.GroupVersion == "apps/v1" }) {
			t.Errorf("legacy %v: a hidden group is shown", legacy)
		}
		s.Hide("apps", false)
	}
}

func TestMetadataIsWatched(t *testing.T) {
	s := New(1)
	s.Define(widget)
	c, err := metadata.NewForConfig(&rest.Config{Host: "http://memory", Transport: &Client{Server: s, Name: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("pods"),
		widget.GroupVersion().WithResource("widgets")} {
		w, err := c.Resource(r).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Resource == "pods" {
			made(t, s, pod("w", "n"))
		} else {
			made(t, s, newWidget(1))
		}
		e := <-w.ResultChan()
		w.Stop()
		if m, ok := e.Object.(*metav1.PartialObjectMetadata); !ok || m.Name != "w" || e.Type != watch.Added {
			t.Errorf("%s: watched %v", r.Resource, e)
		}
	}
}
