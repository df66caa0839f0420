package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/paging"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	protobufType = runtime.ContentTypeProtobuf
	jsonType     = runtime.ContentTypeJSON
)

// recorder is a server that keeps what it was sent last, and answers with what it is told to.
type recorder struct {
	mu     sync.Mutex
	sent   *http.Request
	body   string
	status int
	answer string
}

func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.body = r, string(body)
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.answer)
}

func startRecorder(t *testing.T, answer string) (*recorder, *rest.Config) {
	s := &recorder{status: http.StatusOK, answer: answer}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{
		ContentType: protobufType, AcceptContentTypes: protobufType + ", */*"}}
}

func newClients(t *testing.T, config *rest.Config, o Options) *Clients {
	t.Helper()
	mapper, err := NewMapper(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClients(config, mapper, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func builtIn(t *testing.T, o runtime.Object) Mapping {
	t.Helper()
	kind, err := KindOf(o)
	if err != nil {
		t.Fatal(err)
	}
	m, ok := BuiltIn(kind)
	if !ok {
		t.Fatalf("%T is not built in", o)
	}
	return m
}

var (
	widgets = Mapping{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
		Resource: "widgets", Namespaced: true}
	worlds = Mapping{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "World"}, Resource: "worlds"}
)

func widget(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
	u.SetGroupVersionKind(widgets.GroupVersionKind)
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

func TestWireFormat(t *testing.T) {
	const (
		anObject = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","uid":"u","resourceVersion":"7"}}`
		asMeta   = ";g=meta.k8s.io;v=v1;as=PartialObjectMetadata, "
		metaPB   = protobufType + asMeta + protobufType + ", */*" // CI-3
		metaJSON = jsonType + asMeta + jsonType + ", */*"
		asList   = ";g=meta.k8s.io;v=v1;as=PartialObjectMetadataList, "
	)
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a"}
	a := plan.Key{Namespace: "ns", Name: "a"}
	pods, deployments, nodes := builtIn(t, &corev1.Pod{}), builtIn(t, &appsv1.Deployment{}), builtIn(t, &corev1.Node{})
	csrs, namespaces := builtIn(t, &certificatesv1.CertificateSigningRequest{}), builtIn(t, &corev1.Namespace{})
	type call = func(Client) error
	metadataOf := func(m *metav1.PartialObjectMetadata, err error) error {
		if err == nil && (m.Name != "a" || m.UID != "u" || m.ResourceVersion != "7") {
			return fmt.Errorf("understood as %+v", m)
		}
		return err
	}
	create := func(m Mapping, o plan.Object, opts WriteOptions) call {
		return func(c Client) error { return metadataOf(c.Create(t.Context(), m, o, opts)) }
	}
	update := func(m Mapping, o plan.Object, opts WriteOptions) call {
		return func(c Client) error { return metadataOf(c.Update(t.Context(), m, o, opts)) }
	}
	patch := func(m Mapping, key plan.Key, kind types.PatchType, opts WriteOptions) call {
		return func(c Client) error {
			return metadataOf(c.Patch(t.Context(), m, key, Patch{kind, []byte(`{"x":1}`)}, opts))
		}
	}
	get := func(m Mapping, key plan.Key, into plan.Object) call {
		return func(c Client) error { return c.Get(t.Context(), m, key, into) }
	}
	list := func(m Mapping, namespace string, o metav1.ListOptions, into runtime.Object) call {
		return func(c Client) error { return c.List(t.Context(), m, namespace, o, into) }
	}
	for name, c := range map[string]struct {
		call                      call
		want, contentType, accept string
		body                      string // what it holds
	}{
		"create": {create(pods, &corev1.Pod{ObjectMeta: meta}, WriteOptions{}),
			"POST /api/v1/namespaces/ns/pods", protobufType, metaPB, "k8s\x00"},
		"create, named manager": {create(deployments, &appsv1.Deployment{ObjectMeta: meta}, WriteOptions{FieldManager: "x"}),
			"POST /apis/apps/v1/namespaces/ns/deployments?fieldManager=x", protobufType, metaPB, "apps/v1"},
		"create for the cluster": {create(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, WriteOptions{}),
			"POST /api/v1/nodes", protobufType, metaPB, "Node"},
		"create custom": {create(widgets, widget("a"), WriteOptions{}),
			"POST /apis/example.com/v1/namespaces/ns/widgets", jsonType, metaJSON, `"spec":{"size":3}`},
		"evict": {create(pods, &policyv1.Eviction{ObjectMeta: meta}, WriteOptions{Subresource: "eviction"}),
			"POST /api/v1/namespaces/ns/pods/a/eviction", protobufType, metaPB, "policy/v1"},
		"update": {update(deployments, &appsv1.Deployment{ObjectMeta: meta}, WriteOptions{}),
			"PUT /apis/apps/v1/namespaces/ns/deployments/a", protobufType, metaPB, "Deployment"},
		"RB-13: status": {update(deployments, &appsv1.Deployment{ObjectMeta: meta}, WriteOptions{Subresource: "status"}),
			"PUT /apis/apps/v1/namespaces/ns/deployments/a/status", protobufType, metaPB, "Deployment"},
		"scale": {update(deployments, &autoscalingv1.Scale{ObjectMeta: meta}, WriteOptions{Subresource: "scale"}),
			"PUT /apis/apps/v1/namespaces/ns/deployments/a/scale", protobufType, metaPB, "autoscaling/v1"},
		"scale custom": {update(widgets, &autoscalingv1.Scale{ObjectMeta: meta}, WriteOptions{Subresource: "scale"}),
			"PUT /apis/example.com/v1/namespaces/ns/widgets/a/scale", jsonType, metaJSON, `"apiVersion":"autoscaling/v1"`},
		"CSR-32: approval": {update(csrs, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			WriteOptions{Subresource: "approval"}),
			"PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval", protobufType, metaPB, ""},
		"NS-36: finalize": {update(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			WriteOptions{Subresource: "finalize"}),
			"PUT /api/v1/namespaces/a/finalize", protobufType, metaPB, "Namespace"},
		"patch": {patch(pods, a, types.StrategicMergePatchType, WriteOptions{Subresource: "status"}),
			"PATCH /api/v1/namespaces/ns/pods/a/status", string(types.StrategicMergePatchType), metaPB, `{"x":1}`},
		"patch custom": {patch(widgets, a, types.MergePatchType, WriteOptions{}),
			"PATCH /apis/example.com/v1/namespaces/ns/widgets/a", string(types.MergePatchType), metaJSON, `{"x":1}`},
		"apply": {patch(pods, a, types.ApplyPatchType, WriteOptions{FieldManager: "x", Force: true}),
			"PATCH /api/v1/namespaces/ns/pods/a?fieldManager=x&force=true", string(types.ApplyPatchType), metaPB, `{"x":1}`},
		"delete": {func(c Client) error {
			return c.Delete(t.Context(), pods, a,
				metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0)), Preconditions: metav1.NewUIDPreconditions("u")})
		},
			"DELETE /api/v1/namespaces/ns/pods/a", jsonType, "",
			`"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u"}`},
		"delete custom, in the foreground": {func(c Client) error {
			return c.Delete(t.Context(), worlds, plan.Key{Name: "a"},
				metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
		},
			"DELETE /apis/example.com/v1/worlds/a", jsonType, "", `"propagationPolicy":"Foreground"`},
		"delete a collection": {func(c Client) error {
			return c.DeleteCollection(t.Context(), widgets, "ns", metav1.ListOptions{LabelSelector: "a=b"}, metav1.DeleteOptions{})
		},
			"DELETE /apis/example.com/v1/namespaces/ns/widgets?labelSelector=a%3Db", jsonType, "", `"kind":"DeleteOptions"`},
		"get":          {get(pods, a, &corev1.Pod{}), "GET /api/v1/namespaces/ns/pods/a", "", protobufType + ", */*", ""},
		"get metadata": {get(nodes, plan.Key{Name: "a"}, &metav1.PartialObjectMetadata{}), "GET /api/v1/nodes/a", "", metaPB, ""},
		"get anything": {get(pods, a, &unstructured.Unstructured{}), "GET /api/v1/namespaces/ns/pods/a", "", jsonType, ""},
		"get custom metadata": {get(widgets, a, &metav1.PartialObjectMetadata{}),
			"GET /apis/example.com/v1/namespaces/ns/widgets/a", "", metaJSON, ""},
		"get the scale": {func(c Client) error { _, err := c.GetScale(t.Context(), widgets, a); return err },
			"GET /apis/example.com/v1/namespaces/ns/widgets/a/scale", "", jsonType, ""},
		"list metadata": {list(pods, "", metav1.ListOptions{Limit: 1, LabelSelector: "a"}, &metav1.PartialObjectMetadataList{}),
			"GET /api/v1/pods?labelSelector=a&limit=1", "", protobufType + asList + protobufType + ", */*", ""},
		"list custom metadata": {list(widgets, "ns", metav1.ListOptions{}, &metav1.PartialObjectMetadataList{}),
			"GET /apis/example.com/v1/namespaces/ns/widgets?limit=500", "", jsonType + asList + jsonType + ", */*", ""},
		"ask who may": {func(c Client) error {
			_, err := c.SubjectAccessReview(t.Context(), authorizationv1.SubjectAccessReviewSpec{User: "somebody"})
			return err
		}, "POST /apis/authorization.k8s.io/v1/subjectaccessreviews", protobufType, protobufType + ", */*", "somebody"},
		"get raw": {func(c Client) error {
			_, err := c.GetRaw(t.Context(), "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods", url.Values{"labelSelector": {"a=b"}})
			return err
		}, "GET /apis/metrics.k8s.io/v1beta1/namespaces/ns/pods?labelSelector=a%3Db", "", jsonType, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, config := startRecorder(t, anObject)
			if strings.HasPrefix(c.want, "GET") || strings.Contains(c.want, "subjectaccessreviews") {
				s.answer = `{"kind":"Status","apiVersion":"v1","status":"Success"}` // any kind may be asked for
			}
			if err := c.call(newClients(t, config, Options{}).Client()); err != nil {
				t.Fatal(err)
			}
			if got := s.sent.Method + " " + s.sent.URL.RequestURI(); got != c.want {
				t.Errorf("sent %s, want %s", got, c.want)
			}
			if got := s.sent.Header.Get("Content-Type"); got != c.contentType {
				t.Errorf("content type %q, want %q", got, c.contentType)
			}
			if got := s.sent.Header.Get("Accept"); c.accept != "" && got != c.accept {
				t.Errorf("accepts %q, want %q", got, c.accept)
			}
			if !strings.Contains(s.body, c.body) {
				t.Errorf("the body lacks %q: %q", c.body, s.body)
			}
		})
	}
}

// Whatever a server answers with, its metadata is understood.
func TestAnswersAreMetadata(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7"}
	proto := func(apiVersion, kind string, o interface{ Marshal() ([]byte, error) }) string {
		raw, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return "k8s\x00" + string(data)
	}
	const inJSON = `"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"7"}`
	pods := builtIn(t, &corev1.Pod{})
	for name, c := range map[string]struct {
		mapping             Mapping
		contentType, answer string
	}{
		"metadata": {pods, protobufType,
			proto("meta.k8s.io/v1", "PartialObjectMetadata", &metav1.PartialObjectMetadata{ObjectMeta: meta})},
		"the object":         {pods, protobufType, proto("v1", "Pod", &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "n"}})},
		"metadata in JSON":   {pods, jsonType, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` + inJSON + `}`},
		"the object in JSON": {pods, jsonType, `{"kind":"Pod","apiVersion":"v1",` + inJSON + `,"spec":{"nodeName":"n"}}`},
		"a custom resource":  {widgets, jsonType, `{"kind":"Widget","apiVersion":"example.com/v1",` + inJSON + `,"spec":{"size":3}}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				_, _ = io.WriteString(w, c.answer)
			}))
			defer server.Close()
			client := newClients(t, &rest.Config{Host: server.URL, QPS: -1}, Options{}).Client()
			made, err := client.Patch(t.Context(), c.mapping, plan.Key{Namespace: "ns", Name: "a"},
				Patch{types.MergePatchType, []byte("{}")}, WriteOptions{})
			if err != nil || !reflect.DeepEqual(made.ObjectMeta, meta) {
				t.Errorf("%+v, %v", made, err)
			}
		})
	}
}

func TestReadInto(t *testing.T) {
	_, config := startRecorder(t, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"nodeName":"n"}}`)
	client := newClients(t, config, Options{}).Reader()
	pod, anything := &corev1.Pod{}, &unstructured.Unstructured{}
	for _, into := range []plan.Object{pod, anything} {
		if err := client.Get(t.Context(), builtIn(t, pod), plan.Key{Namespace: "ns", Name: "a"}, into); err != nil {
			t.Fatal(err)
		}
	}
	if name, _, _ := unstructured.NestedString(anything.Object, "spec", "nodeName"); pod.Spec.NodeName != "n" || name != "n" {
		t.Errorf("read %v and %v", pod, anything)
	}
}

func TestSubjectAccessReviewIsAnswered(t *testing.T) {
	_, config := startRecorder(t,
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true,"reason":"r"}}`)
	status, err := newClients(t, config, Options{}).Reader().SubjectAccessReview(t.Context(), authorizationv1.SubjectAccessReviewSpec{})
	if err != nil || !status.Allowed || status.Reason != "r" {
		t.Errorf("%+v, %v", status, err)
	}
}

// An eviction is answered with a status.
func TestAnswerWithoutMetadata(t *testing.T) {
	s, config := startRecorder(t, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`)
	client := newClients(t, config, Options{}).Client()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	made, err := client.Create(t.Context(), builtIn(t, &corev1.Pod{}), eviction, WriteOptions{Subresource: "eviction"})
	if err != nil || made.UID != "" {
		t.Errorf("%v, %v", made, err)
	}
	s.status, s.answer = http.StatusConflict, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`
	if _, err := client.Create(t.Context(), builtIn(t, &corev1.Pod{}), eviction,
		WriteOptions{Subresource: "eviction"}); !apierrors.IsConflict(err) {
		t.Errorf("a conflict is %v", err)
	}
}

// What cannot be right is refused here: an API server would answer that there is no such path, or list instead of get.
func TestRefused(t *testing.T) {
	s, config := startRecorder(t, "{}")
	client := newClients(t, config, Options{}).Client()
	pods, nodes := builtIn(t, &corev1.Pod{}), builtIn(t, &corev1.Node{})
	for name, err := range map[string]error{
		"no namespace":      client.Get(t.Context(), pods, plan.Key{Name: "a"}, &corev1.Pod{}),
		"a namespace":       client.Get(t.Context(), nodes, plan.Key{Namespace: "ns", Name: "a"}, &corev1.Node{}),
		"no name":           client.Get(t.Context(), pods, plan.Key{Namespace: "ns"}, &corev1.Pod{}),
		"delete no name":    client.Delete(t.Context(), pods, plan.Key{Namespace: "ns"}, metav1.DeleteOptions{}),
		"delete everywhere": client.DeleteCollection(t.Context(), pods, "", metav1.ListOptions{}, metav1.DeleteOptions{}),
		"create nowhere":    second(client.Create(t.Context(), pods, &corev1.Pod{}, WriteOptions{})),
		"a path as a name":  client.Get(t.Context(), pods, plan.Key{Namespace: "ns", Name: "../a"}, &corev1.Pod{}),
		"update metadata": second(client.Update(t.Context(), pods,
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}, WriteOptions{})),
	} {
		if err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	if s.sent != nil {
		t.Errorf("sent %s %s", s.sent.Method, s.sent.URL)
	}
}

func second[A any](_ A, err error) error { return err }

// Others may hold what is written: not even the encoder may touch it.
func TestWritesLeaveTheirObjectsAlone(t *testing.T) {
	_, config := startRecorder(t, `{"metadata":{"name":"a"}}`)
	client := newClients(t, config, Options{}).Client()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	var wg sync.WaitGroup
	for range 8 { // the race detector watches
		wg.Go(func() {
			if _, err := client.Create(t.Context(), builtIn(t, role), role, WriteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if role.Kind != "" {
		t.Errorf("the object now says that it is a %s", role.Kind)
	}
}

func TestListInPages(t *testing.T) {
	const size = 3
	var expired atomic.Bool // once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		from := 0
		if token := r.URL.Query().Get("continue"); token != "" {
			_, _ = fmt.Sscan(token, &from)
			if expired.CompareAndSwap(true, false) {
				w.WriteHeader(http.StatusGone)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
				return
			}
		}
		next := `"continue":"` + fmt.Sprint(from+1) + `","remainingItemCount":1,`
		until := from + 1
		if from == size-1 || r.URL.Query().Get("limit") == "" {
			next, until = "", size
		}
		var items []string
		for i := from; i < until; i++ {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":"p%d"}}`, i))
		}
		_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{%s"resourceVersion":"9"},"items":[%s]}`, next,
			strings.Join(items, ","))
	}))
	defer server.Close()
	client := newClients(t, &rest.Config{Host: server.URL, QPS: -1}, Options{}).Reader()
	pods := builtIn(t, &corev1.Pod{})
	for _, gone := range []bool{false, true} {
		typed, anything, metadata := &corev1.PodList{}, &unstructured.UnstructuredList{}, &metav1.PartialObjectMetadataList{}
		for _, into := range []interface {
			runtime.Object
			metav1.ListInterface
		}{typed, anything, metadata} {
			expired.Store(gone)
			if err := client.List(t.Context(), pods, "ns", metav1.ListOptions{}, into); err != nil {
				t.Fatal(err)
			}
			if into.GetResourceVersion() != "9" || into.GetContinue() != "" || into.GetRemainingItemCount() != nil {
				t.Errorf("%T: version %s, continue %q", into, into.GetResourceVersion(), into.GetContinue())
			}
		}
		if len(typed.Items) != size || len(anything.Items) != size || len(metadata.Items) != size || metadata.Items[2].Name != "p2" {
			t.Errorf("expired %v: %d, %d and %d items", gone, len(typed.Items), len(anything.Items), len(metadata.Items))
		}
	}
	page := &metav1.PartialObjectMetadataList{}
	if err := client.List(t.Context(), pods, "ns", metav1.ListOptions{Limit: 1}, page); err != nil || len(page.Items) != 1 ||
		page.Continue == "" {
		t.Errorf("one page: %+v, %v", page, err)
	}
}

// A server that makes a list go on for ever is left at the first token that comes again.
func TestListWithoutAnEnd(t *testing.T) {
	for name, c := range map[string]struct{ tokens, most int32 }{"the same token": {1, 2}, "tokens that come again": {5, 6}} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", jsonType)
				_, _ = fmt.Fprintf(w,
					`{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"t%d"},"items":[{"metadata":{"name":"p"}}]}`,
					asked.Add(1)%c.tokens)
			}))
			defer server.Close()
			client := newClients(t, &rest.Config{Host: server.URL, QPS: -1}, Options{}).Reader()
			err := client.List(t.Context(), builtIn(t, &corev1.Pod{}), "ns", metav1.ListOptions{}, &metav1.PartialObjectMetadataList{})
			if !errors.Is(err, paging.ErrEndless) || asked.Load() != c.most {
				t.Errorf("%d requests: %v", asked.Load(), err)
			}
		})
	}
}

func TestRequestsAreBounded(t *testing.T) {
	deadlines := make(chan time.Duration, 1)
	config := &rest.Config{Host: "http://127.0.0.1:1", QPS: -1, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if at, ok := r.Context().Deadline(); ok {
			deadlines <- time.Until(at)
		} else {
			deadlines <- 0
		}
		return nil, errors.New("away")
	})}
	type worker struct{}
	var done atomic.Int32
	ctx := context.WithValue(t.Context(), worker{}, "w1")
	client := newClients(t, config, Options{OnRequestDone: func(ctx context.Context) {
		if ctx.Value(worker{}) == "w1" {
			done.Add(1)
		}
	}}).Client()
	nodes, a := builtIn(t, &corev1.Node{}), plan.Key{Name: "a"}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for i, call := range []func() error{
		func() error { return client.Get(ctx, nodes, a, n) },
		func() error { return client.List(ctx, nodes, "", metav1.ListOptions{}, &corev1.NodeList{}) },
		func() error { return second(client.GetScale(ctx, nodes, a)) },
		func() error {
			return second(client.SubjectAccessReview(ctx, authorizationv1.SubjectAccessReviewSpec{}))
		},
		func() error { return second(client.GetRaw(ctx, "/apis", nil)) },
		func() error { return second(client.Create(ctx, nodes, n, WriteOptions{})) },
		func() error { return second(client.Update(ctx, nodes, n, WriteOptions{})) },
		func() error {
			return second(client.Patch(ctx, nodes, a, Patch{types.MergePatchType, []byte("{}")}, WriteOptions{}))
		},
		func() error { return client.Delete(ctx, nodes, a, metav1.DeleteOptions{}) },
		func() error {
			return client.DeleteCollection(ctx, nodes, "", metav1.ListOptions{}, metav1.DeleteOptions{})
		},
	} {
		if err := call(); err == nil {
			t.Errorf("call %d did not fail", i)
		}
		if left := <-deadlines; left <= 0 || left > RequestTimeout {
			t.Errorf("call %d has %v", i, left)
		}
		if int(done.Load()) != i+1 {
			t.Errorf("call %d did not tell that it ended", i)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A reader has no way to write: neither its interface nor what is behind it has a method that does.
func TestReaderCannotWrite(t *testing.T) {
	_, config := startRecorder(t, "{}")
	r := newClients(t, config, Options{}).Reader()
	if _, ok := r.(Client); ok {
		t.Error("a reader is a client")
	}
	declared := reflect.TypeFor[Reader]()
	if actual := reflect.TypeOf(r); actual.NumMethod() != declared.NumMethod() {
		t.Errorf("%v has %d exported methods, a Reader has %d", actual, actual.NumMethod(), declared.NumMethod())
	}
	for _, m := range methods(reflect.TypeFor[Client]()) {
		_, reads := declared.MethodByName(m.Name)
		if writes := strings.HasPrefix(m.Name, "Create") || strings.HasPrefix(m.Name, "Update") ||
			strings.HasPrefix(m.Name, "Patch") || strings.HasPrefix(m.Name, "Delete"); writes == reads {
			t.Errorf("%s: reads %v, writes %v", m.Name, reads, writes)
		}
	}
}

// What the server puts off is not repeated: a write would be carried out that was planned long before.
func TestWhatIsPutOffIsNotRepeated(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "later", http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	c := newClients(t, &rest.Config{Host: server.URL}, Options{}).Client()
	m, _ := BuiltIn(corev1.SchemeGroupVersion.WithKind("Pod"))
	_, err := c.Create(t.Context(), m, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}, WriteOptions{})
	if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 1 || !apierrors.IsTooManyRequests(err) || asked.Load() != 1 {
		t.Errorf("%v after %d requests", err, asked.Load())
	}
}
