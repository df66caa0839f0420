package clienttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
	pods, _    = client.BuiltIn(podKind)
	sets, _    = client.BuiltIn(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	widgets    = client.Mapping{GroupVersionKind: widgetKind, Resource: "widgets", Namespaced: true}
)

func pod(name, app string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": app}}}
}

func widget(name string, size int64) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	u.SetGroupVersionKind(widgetKind)
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

// must creates the objects.
func must(t *testing.T, s *Server, m client.Mapping, objects ...plan.Object) {
	t.Helper()
	for _, o := range objects {
		if _, err := s.Create(t.Context(), m, o, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWrites(t *testing.T) {
	s, ctx, none := NewServer(), t.Context(), client.WriteOptions{}
	generated := pod("", "web")
	generated.GenerateName = "web-"
	made, err := s.Create(ctx, pods, generated, none)
	if err != nil || made.Name != "web-1" || made.UID == "" || made.ResourceVersion != "2" || generated.Name != "" {
		t.Fatalf("%+v, %v", made, err)
	}
	p := &corev1.Pod{}
	if err := s.Get(ctx, pods, plan.KeyOf(made), p); err != nil || p.Labels["app"] != "web" || p.UID != made.UID {
		t.Fatalf("%+v, %v", p, err)
	}
	newer := p.DeepCopy()
	newer.Spec.NodeName = "n"
	if made, err = s.Update(ctx, pods, newer, none); err != nil || made.ResourceVersion != "3" {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := s.Update(ctx, pods, p, none); !apierrors.IsConflict(err) {
		t.Errorf("an update from an older version: %v", err)
	}
	p.ResourceVersion, p.UID = "", "other"
	if _, err := s.Update(ctx, pods, p, none); !apierrors.IsConflict(err) {
		t.Errorf("an update of another uid: %v", err)
	}
	if _, err := s.Create(ctx, pods, pod("web-1", ""), none); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := s.Create(ctx, pods, &metav1.PartialObjectMetadata{}, none); !apierrors.IsBadRequest(err) {
		t.Errorf("metadata: %v", err)
	}
	if err := s.Delete(ctx, pods, plan.KeyOf(made), preconditions("other", "")); !apierrors.IsConflict(err) {
		t.Errorf("a deletion of another uid: %v", err)
	}
	if err := s.Delete(ctx, pods, plan.KeyOf(made), preconditions(made.UID, "2")); !apierrors.IsConflict(err) {
		t.Errorf("a deletion of an older version: %v", err)
	}
	if err := s.Delete(ctx, pods, plan.KeyOf(made), preconditions(made.UID, "3")); err != nil {
		t.Error(err)
	}
	if err := s.Get(ctx, pods, plan.KeyOf(made), p); !apierrors.IsNotFound(err) {
		t.Errorf("deleted: %v", err)
	}
	want := []string{"create Pod web-*", "update Pod web-1", "refused update Pod web-1", "refused update Pod web-1",
		"refused create Pod web-1",
		"refused create Pod *", "refused delete Pod web-1", "refused delete Pod web-1", "delete Pod web-1"}
	if got := s.Log(); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s.CountWrites("refused update") != 2 || len(s.Names(podKind)) != 0 {
		t.Errorf("%v", s.Names(podKind))
	}
}

func preconditions(uid types.UID, version string) metav1.DeleteOptions {
	p := &metav1.Preconditions{UID: &uid}
	if version != "" {
		p.ResourceVersion = &version
	}
	return metav1.DeleteOptions{Preconditions: p}
}

func TestPatches(t *testing.T) {
	for _, c := range []struct {
		name  string
		m     client.Mapping
		o     plan.Object
		patch client.Patch
		fails func(error) bool
		want  string // of the label "app" and the size
	}{
		{"strategic", pods, pod("a", "web"),
			client.Patch{Type: types.StrategicMergePatchType, Data: []byte(`{"metadata":{"labels":{"app":"shop"}}}`)}, nil, "shop"},
		{"strategic, of a custom resource", widgets, widget("a", 1), client.Patch{Type: types.StrategicMergePatchType, Data: []byte(`{}`)},
			apierrors.IsUnsupportedMediaType, ""},
		{"merge", widgets, widget("a", 1),
			client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"app":"shop","x":null}},"spec":{"size":2}}`)},
			nil, "shop 2"},
		{"another uid", pods, pod("a", "web"), client.Patch{Type: types.StrategicMergePatchType, Data: []byte(`{"metadata":{"uid":"x"}}`)},
			apierrors.IsConflict, ""},
		{"another version", widgets, widget("a", 1),
			client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"resourceVersion":"9"}}`)}, apierrors.IsConflict, ""},
		{"apply", widgets, widget("a", 1), client.Patch{Type: types.ApplyPatchType, Data: []byte(`{"metadata":{"labels":{"app":"shop"}}}`)},
			nil, "shop 1"},
		{"not JSON", widgets, widget("a", 1), client.Patch{Type: types.MergePatchType, Data: []byte(`{`)}, apierrors.IsBadRequest, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewServer()
			must(t, s, c.m, c.o)
			made, err := s.Patch(t.Context(), c.m, plan.Key{Namespace: "ns", Name: "a"}, c.patch, client.WriteOptions{FieldManager: "me"})
			if c.fails != nil {
				if !c.fails(err) {
					t.Errorf("%v", err)
				}
				return
			}
			u := &unstructured.Unstructured{}
			if err != nil || made.ResourceVersion != "3" || s.Get(t.Context(), c.m, plan.KeyOf(made), u) != nil {
				t.Fatalf("%+v, %v", made, err)
			}
			got := u.GetLabels()["app"]
			if size, ok, _ := unstructured.NestedInt64(u.Object, "spec", "size"); ok {
				got += fmt.Sprint(" ", size)
			}
			if got != c.want || u.GetUID() != made.UID {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestApplyCreatesWhatIsMissing(t *testing.T) {
	s := NewServer()
	applied, err := pods.Applied(pod("a", "web"), client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Patch(t.Context(), pods, plan.Key{Namespace: "ns", Name: "a"}, applied,
		client.WriteOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("without a field manager: %v", err)
	}
	made, err := s.Patch(t.Context(), pods, plan.Key{Namespace: "ns", Name: "a"}, applied, client.WriteOptions{FieldManager: "me"})
	p := &corev1.Pod{}
	if err != nil || s.Get(t.Context(), pods, plan.KeyOf(made), p) != nil || p.Labels["app"] != "web" || p.UID == "" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestLists(t *testing.T) {
	s := NewServer()
	other := pod("c", "web")
	other.Namespace = "other"
	must(t, s, pods, pod("b", "web"), pod("a", "web"), pod("d", "shop"), other)
	for _, c := range []struct {
		namespace string
		o         metav1.ListOptions
		want      string
	}{
		{"", metav1.ListOptions{}, "a b d c"},
		{"ns", metav1.ListOptions{}, "a b d"},
		{"ns", metav1.ListOptions{LabelSelector: "app=web"}, "a b"},
		{"", metav1.ListOptions{FieldSelector: "metadata.name=c"}, "c"},
		{"ns", metav1.ListOptions{FieldSelector: "metadata.name=c"}, ""},
		{"", metav1.ListOptions{Limit: 2}, "a b"},
		{"", metav1.ListOptions{Limit: 2, Continue: "ns/b"}, "d c"},
	} {
		typed, partial, any := &corev1.PodList{}, &metav1.PartialObjectMetadataList{}, &unstructured.UnstructuredList{}
		if err := errors.Join(s.List(t.Context(), pods, c.namespace, c.o, typed), s.List(t.Context(), pods, c.namespace, c.o, partial),
			s.List(t.Context(), pods, c.namespace, c.o, any)); err != nil {
			t.Fatal(err)
		}
		var names, same, again []string
		for i := range typed.Items {
			names, same, again = append(names, typed.Items[i].Name), append(same, partial.Items[i].Name),
				append(again, any.Items[i].GetName())
		}
		if got := strings.Join(names, " "); got != c.want || !slices.Equal(same, names) || !slices.Equal(again, names) {
			t.Errorf("%q %+v: %s, %v, %v, want %s", c.namespace, c.o, got, same, again, c.want)
		}
		if typed.ResourceVersion != "5" || partial.ResourceVersion != "5" || any.GetResourceVersion() != "5" {
			t.Errorf("version %s", typed.ResourceVersion)
		}
	}
	if err := s.List(t.Context(), pods, "", metav1.ListOptions{FieldSelector: "spec.hostNetwork=true"},
		&corev1.PodList{}); !apierrors.IsBadRequest(err) {
		t.Errorf("a field that is not served: %v", err)
	}
	if err := s.DeleteCollection(t.Context(), pods, "ns", metav1.ListOptions{LabelSelector: "app=web"},
		metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if got := s.Names(podKind); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("left: %v", got)
	}
}

func TestFaults(t *testing.T) {
	s, no := NewServer(), errors.New("no")
	s.BeforeWrite(func(w Write) error {
		if w.Verb == "create" && w.Kind == "Pod" && w.Key.Name == "a" {
			return no
		}
		return nil
	})
	s.AfterWrite(func(w Write) error {
		if w.Key.Name == "b" {
			return no
		}
		return nil
	})
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.Create(t.Context(), pods, pod(name, ""), client.WriteOptions{}); (name != "c") != errors.Is(err, no) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.Names(podKind); !slices.Equal(got, []string{"b", "c"}) || len(s.Log()) != 2 {
		t.Errorf("%v, %v", got, s.Log())
	}
}

func TestInformers(t *testing.T) {
	for name, c := range map[string]struct {
		m   client.Mapping
		new func(name string) plan.Object
	}{
		"typed":        {pods, func(name string) plan.Object { return pod(name, "") }},
		"unstructured": {widgets, func(name string) plan.Object { return widget(name, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := NewServer()
				must(t, s, c.m, c.new("a"))
				informer, err := s.NewInformer(ctx, c.new(""))
				if err != nil {
					t.Fatal(err)
				}
				has := func(what string, want int) {
					t.Helper()
					synctest.Wait()
					if got := informer.GetStore().ListKeys(); len(got) != want {
						t.Errorf("%s: %v", what, got)
					}
				}
				has("listed", 1)
				s.FreezeWatches(c.m.GroupVersionKind)
				for i := range 500 {
					must(t, s, c.m, c.new(fmt.Sprint("b-", i)))
				}
				has("frozen", 1)
				s.ResumeWatches(c.m.GroupVersionKind)
				has("resumed", 501)
				if got := informer.GetStore().LastStoreSyncResourceVersion(); got != "502" {
					t.Errorf("the cache has come to %s", got)
				}
				if err := s.Delete(t.Context(), c.m, plan.Key{Namespace: "ns", Name: "a"}, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				has("deleted", 500)
				cancel()
				synctest.Wait()
			})
		})
	}
}

// What happens between a list and the watch that follows it is not lost, be the list empty or not.
func TestWatchFromAVersion(t *testing.T) {
	for _, before := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s, names := NewServer(), []string{"a", "b", "c"}
			put := func(names []string) {
				for _, name := range names {
					must(t, s, pods, pod(name, ""))
				}
			}
			put(names[:before])
			var list corev1.PodList
			if err := s.List(t.Context(), pods, "", metav1.ListOptions{}, &list); err != nil {
				t.Fatal(err)
			}
			put(names[before:])
			w := s.watch(podKind, list.ResourceVersion)
			defer w.Stop()
			for _, want := range names[before:] {
				if e := <-w.ResultChan(); e.Object.(*corev1.Pod).Name != want {
					t.Errorf("%+v, want %s", e, want)
				}
			}
		})
	}
}

func TestPut(t *testing.T) {
	s := NewServer()
	p := pod("a", "web")
	p.UID, p.DeletionTimestamp = "mine", ptr.To(metav1.Now())
	for want := range 2 {
		o, err := s.Put(p)
		if err != nil || o.GetUID() != "mine" || o.GetDeletionTimestamp() == nil || o.GetResourceVersion() != fmt.Sprint(want+2) {
			t.Errorf("%+v, %v", o, err)
		}
	}
	if len(s.Log()) != 0 {
		t.Errorf("logged: %v", s.Log())
	}
	if _, err := s.Put(&unstructured.Unstructured{}); err == nil {
		t.Error("an object without kind was stored")
	}
}

func TestScale(t *testing.T) {
	s := NewServer()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	must(t, s, sets, set)
	scale, err := s.GetScale(t.Context(), sets, plan.KeyOf(set))
	if err != nil || scale.Spec.Replicas != 3 || scale.Status.Selector != "app=web" {
		t.Fatalf("%+v, %v", scale, err)
	}
	scale.Spec.Replicas = 5
	if _, err := s.Update(t.Context(), sets, scale, client.WriteOptions{Subresource: "scale"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Get(t.Context(), sets, plan.KeyOf(set), set); err != nil || *set.Spec.Replicas != 5 || set.Spec.Selector == nil {
		t.Errorf("%+v, %v", set, err)
	}
	if _, err := s.Update(t.Context(), sets, &autoscalingv1.Scale{},
		client.WriteOptions{Subresource: "scale"}); !apierrors.IsNotFound(err) {
		t.Errorf("no such object: %v", err)
	}
}

func TestEviction(t *testing.T) {
	s := NewServer()
	must(t, s, pods, pod("a", ""))
	evict := func(subresource string, o *metav1.DeleteOptions) error {
		_, err := s.Create(t.Context(), pods, &policyv1.Eviction{ObjectMeta: pod("a", "").ObjectMeta, DeleteOptions: o},
			client.WriteOptions{Subresource: subresource})
		return err
	}
	other := types.UID("other")
	if err := evict("eviction", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}); !apierrors.IsConflict(err) {
		t.Errorf("another uid: %v", err)
	}
	if err := evict("binding", nil); err == nil {
		t.Error("a subresource that is not known")
	}
	if err := evict("eviction", nil); err != nil {
		t.Error(err)
	}
	if got := s.Names(podKind); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestReviewsAndRawPaths(t *testing.T) {
	s := NewServer()
	ask := authorizationv1.SubjectAccessReviewSpec{User: "u"}
	if status, err := s.SubjectAccessReview(t.Context(), ask); err != nil || !status.Allowed {
		t.Errorf("%+v, %v", status, err)
	}
	s.Authorize(func(ask authorizationv1.SubjectAccessReviewSpec) bool { return ask.User != "u" })
	if status, err := s.SubjectAccessReview(t.Context(), ask); err != nil || status.Allowed {
		t.Errorf("%+v, %v", status, err)
	}
	s.ServeRaw("/metrics", []byte("{}"))
	if data, err := s.GetRaw(t.Context(), "/metrics", nil); err != nil || string(data) != "{}" {
		t.Errorf("%s, %v", data, err)
	}
	if _, err := s.GetRaw(t.Context(), "/other", nil); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
