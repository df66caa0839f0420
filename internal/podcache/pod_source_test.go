package podcache

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
)

// podServer is an API server that has pods, as far as informers can tell.
type podServer struct {
	*httptest.Server
	t       testing.TB
	streams bool // whether it can stream what there is
	json    bool // whether JSON is all that it speaks
	short   bool // whether lists break off

	mu      sync.Mutex
	pods    []*corev1.Pod
	latest  chan []byte // frames for the latest watch
	lists   int
	watches int
}

func newPodServer(t testing.TB, n int) *podServer {
	s := &podServer{t: t, streams: true}
	for i := range n {
		p := projectiontest.FullPod(fmt.Sprintf("p%d", i))
		p.ResourceVersion = fmt.Sprint(i + 1)
		s.pods = append(s.pods, p)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	initial := q.Get("sendInitialEvents") == "true"
	switch {
	case initial && !s.streams:
		s.answer(w, http.StatusUnprocessableEntity, &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
	case q.Get("watch") != "":
		s.watch(w, r, initial)
	default:
		s.lists++
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1000"}}
		for _, p := range s.pods {
			list.Items = append(list.Items, *p)
		}
		s.answer(w, http.StatusOK, list)
	}
}

func (s *podServer) contentType() string {
	if s.json {
		return apiruntime.ContentTypeJSON
	}
	return apiruntime.ContentTypeProtobuf
}

func (s *podServer) encode(o apiruntime.Object) []byte {
	if !s.json {
		return projectiontest.Encode(s.t, o)
	}
	kinds, _, _ := scheme.Scheme.ObjectKinds(o)
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var b bytes.Buffer
	err := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{}).Encode(o, &b)
	if err != nil {
		panic(err) // the server then answers nothing
	}
	return b.Bytes()
}

func (s *podServer) answer(w http.ResponseWriter, code int, o apiruntime.Object) {
	data := s.encode(o)
	if s.short {
		data = data[:len(data)-len(data)/3]
	}
	w.Header().Set("Content-Type", s.contentType())
	w.WriteHeader(code)
	_, _ = w.Write(data)
}

// frame is an event as it is sent.
func (s *podServer) frame(event string, o apiruntime.Object) []byte {
	e := metav1.WatchEvent{Type: event, Object: apiruntime.RawExtension{Raw: s.encode(o)}}
	if s.json {
		return []byte(fmt.Sprintf(`{"type":%q,"object":%s}`, event, e.Object.Raw))
	}
	data, _ := e.Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

// send sends an event to the latest watch, when there is one.
func (s *podServer) send(t *testing.T, event string, o apiruntime.Object) {
	t.Helper()
	s.awaitWatches(t, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest <- s.frame(event, o)
}

// awaitWatches waits until so many watches have begun.
func (s *podServer) awaitWatches(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.watches >= n && s.latest != nil
	})
}

func (s *podServer) watch(w http.ResponseWriter, r *http.Request, initial bool) {
	w.Header().Set("Content-Type", s.contentType())
	if !s.json {
		w.Header().Set("Content-Type", s.contentType()+";stream=watch")
	}
	send := func(frame []byte) {
		_, _ = w.Write(frame)
		w.(http.Flusher).Flush()
	}
	w.(http.Flusher).Flush()
	if initial {
		for _, p := range s.pods {
			send(s.frame("ADDED", p))
		}
		send(s.frame("BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1000",
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}))
	}
	frames := make(chan []byte, 100)
	s.latest, s.watches = frames, s.watches+1
	s.mu.Unlock()
	defer s.mu.Lock()
	for {
		select {
		case frame := <-frames:
			send(frame)
		case <-r.Context().Done():
			return
		}
	}
}

// podStore is the cache of an informer.
type podStore struct{ informer cache.SharedIndexInformer }

// newPodStore returns the cache of an informer that does not run.
func newPodStore(client *listwatch.Client) podStore {
	informer, _ := NewInformer(client, (*cache.InformerName)(nil).WithResource(corev1.SchemeGroupVersion.WithResource("pods")), 0)
	return podStore{informer}
}

func (s podStore) Get(namespace, name string) *corev1.Pod {
	o, _, _ := s.informer.GetStore().GetByKey(namespace + "/" + name)
	p, _ := o.(*corev1.Pod)
	return p
}

// run starts an informer of the server's pods and waits until it has them.
func (s *podServer) run(t *testing.T) (*listwatch.Client, podStore) {
	t.Helper()
	client := must(listwatch.NewClient(&rest.Config{Host: s.URL, QPS: -1, ContentConfig: rest.ContentConfig{
		ContentType: apiruntime.ContentTypeProtobuf, AcceptContentTypes: apiruntime.ContentTypeProtobuf + ", */*"}}, sample))
	pods := newPodStore(client)
	must[any](nil, listwatch.SetWatchErrorHandler(pods.informer))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { pods.informer.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); s.CloseClientConnections(); running.Wait() })
	eventually(t, pods.informer.HasSynced)
	return client, pods
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time")
		}
	}
}

// By every way that servers send pods, the cache has what the projection keeps of them, and follows.
func TestPodsFromAServer(t *testing.T) {
	for _, c := range []struct {
		name           string
		streams, json  bool
		lists, watches int
	}{
		{"streamed", true, false, 0, 1},
		{"listed, then watched", false, false, 1, 1},
		{"streamed in JSON", true, true, 0, 1},
		{"listed in JSON", false, true, 2, 1}, // once to find out
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newPodServer(t, 50)
			s.streams, s.json = c.streams, c.json
			_, pods := s.run(t)
			s.awaitWatches(t, c.watches)
			if n := len(pods.informer.GetStore().List()); n != 50 {
				t.Fatalf("%d pods", n)
			}
			for _, p := range s.pods {
				if diff := cmp.Diff(kept(p), pods.Get("shop", p.Name)); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			}
			later := projectiontest.FullPod("later")
			later.ResourceVersion = "1001"
			s.send(t, "ADDED", later)
			eventually(t, func() bool { return pods.Get("shop", "later") != nil })
			if diff := cmp.Diff(kept(later), pods.Get("shop", "later")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			s.send(t, "BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1500"}})
			later.ResourceVersion = "1501"
			s.send(t, "DELETED", later)
			eventually(t, func() bool { return pods.Get("shop", "later") == nil })
			eventually(t, func() bool { return pods.informer.GetStore().LastStoreSyncResourceVersion() == "1501" })
			if s.lists != c.lists || s.watches != c.watches {
				t.Errorf("%d lists and %d watches", s.lists, s.watches)
			}
		})
	}
}

// kept is what the cache has of a pod.
func kept(p *corev1.Pod) *corev1.Pod {
	p = sample.ProjectPod(p)
	p.TypeMeta = metav1.TypeMeta{}
	return p
}

// When a watch has expired, all is fetched once more. What has not changed is not stored anew (CI-13).
func TestPodsAreSharedWithARepeatedList(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprint("streams ", streams), func(t *testing.T) {
			s := newPodServer(t, 10)
			s.streams = streams
			_, pods := s.run(t)
			stored := pods.informer.(compactInformer).SharedIndexInformer.GetStore()
			before := map[string]any{}
			for _, o := range stored.List() {
				before[o.(*compactPod).Name] = o
			}
			s.mu.Lock()
			s.pods[3] = s.pods[3].DeepCopy()
			s.pods[3].ResourceVersion, s.pods[3].Status.PodIP = "1002", "10.9.9.9"
			s.pods[4] = s.pods[4].DeepCopy()
			s.pods[4].UID = "a namesake of the same version"
			s.mu.Unlock()
			s.send(t, "ERROR", &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonExpired, Code: 410, Message: "too old"})
			eventually(t, func() bool {
				p := pods.Get("shop", "p3")
				return p != nil && p.Status.PodIP == "10.9.9.9"
			})
			for _, o := range stored.List() {
				name := o.(*compactPod).Name
				if same := o == before[name]; same != (name != "p3" && name != "p4") {
					t.Errorf("pod %s is the one from before: %t", name, same)
				}
			}
			if p := pods.Get("shop", "p4"); p.UID != s.pods[4].UID {
				t.Errorf("uid %q", p.UID)
			}
		})
	}
}

// A list that breaks off must not pass for all there is: controllers would make up for what is missing.
func TestBrokenList(t *testing.T) {
	s := newPodServer(t, 20)
	s.short = true
	client, err := listwatch.NewClient(&rest.Config{Host: s.URL,
		ContentConfig: rest.ContentConfig{ContentType: apiruntime.ContentTypeProtobuf}}, sample)
	if err != nil {
		t.Fatal(err)
	}
	source := must(newPodSource(client))
	source.interner, source.known = newInterner(nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	if list, err := source.list(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("no error, but %v", list)
	}
	// A server's refusal arrives as what it is.
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.short = false
		s.answer(w, http.StatusGone, &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonExpired, Code: 410})
	})
	_, err = source.list(t.Context(), metav1.ListOptions{})
	if status := (interface{ Status() metav1.Status })(nil); !errors.As(err, &status) ||
		status.Status().Reason != metav1.StatusReasonExpired {
		t.Errorf("got %v", err)
	}
}

// A watch that is stopped leaves nothing behind, although events are on their way.
func TestStoppedWatch(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	s := podSource{project: sample.ProjectPod, interner: newInterner(nil), known: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)}
	source := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
	opened := func(context.Context, metav1.ListOptions) (watch.Interface, error) { return source, nil }
	w := must(must(listwatch.NewClient(&rest.Config{Host: "http://api"}, sample)).Pods(nil, opened, s.convert).WatchWithContext(t.Context(),
		metav1.ListOptions{}))
	for range 5 {
		source.Add(projectiontest.FullPod("a"))
	}
	if e := <-w.ResultChan(); e.Object.(*compactPod).volumes != nil {
		t.Error("it was not projected")
	}
	w.Stop()
	w.Stop()
	goleak.VerifyNone(t, leaks)
}

// An event that cannot be decoded ends the watch, and the next one goes on.
func TestDamagedEvent(t *testing.T) {
	s := newPodServer(t, 3)
	_, pods := s.run(t)
	s.awaitWatches(t, 1)
	frame := s.frame("MODIFIED", s.pods[0])
	copy(frame[len(frame)-2000:], strings.Repeat("\xff", 2000))
	s.mu.Lock()
	s.latest <- frame
	s.mu.Unlock()
	s.awaitWatches(t, 2)
	p := s.pods[1].DeepCopy()
	p.ResourceVersion, p.Status.PodIP = "1003", "10.8.8.8"
	s.send(t, "MODIFIED", p)
	eventually(t, func() bool { return pods.Get("shop", "p1").Status.PodIP == "10.8.8.8" })
}

// A cached pod takes less than 1 KB of memory with all that leads to it, however large it is (a corev1.Pod alone takes 1280
// bytes), and pods of one owner share what they have in common.
func TestMemoryOfPods(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const n = 20000
	client := must(listwatch.NewClient(&rest.Config{Host: "http://api"}, sample))
	pods := newPodStore(client)
	store := pods.informer.GetIndexer()
	source := must(newPodSource(client))
	source.interner, source.known = newInterner(nil), store
	before := projectiontest.HeapInUse()
	for i := range n {
		full := projectiontest.FullPod(fmt.Sprintf("web-6d4b9-%05d", i))
		full.ResourceVersion, full.OwnerReferences[0].UID = fmt.Sprint(i), types.UID(fmt.Sprintf("uid-of-owner-%024d", i/20))
		full.UID = types.UID(fmt.Sprintf("%036d", i))
		full.Spec.InitContainers = nil
		full.Annotations, full.DeletionTimestamp, full.Finalizers = nil, nil, nil
		full.Status.ContainerStatuses[0].RestartCount, full.Status.InitContainerStatuses = 0, nil
		list := bytes.NewReader(projectiontest.Encode(t, &corev1.PodList{Items: []corev1.Pod{*full}}))
		must(projection.ReadList(list, apiruntime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, source.mask, func(item []byte) error {
			return store.Add(source.share(must(source.decoder.Decode(item))))
		}))
	}
	each := (projectiontest.HeapInUse() - before) / n
	t.Logf("%d bytes of heap for a pod", each)
	if each > 1000 {
		t.Errorf("%d bytes of heap for a pod", each)
	}
	runtime.KeepAlive(store)
	a, b := pods.Get("shop", "web-6d4b9-00000"), pods.Get("shop", "web-6d4b9-00001")
	if &a.OwnerReferences[0] != &b.OwnerReferences[0] || &a.Spec.Containers[0] != &b.Spec.Containers[0] {
		t.Error("pods of one owner do not share")
	}
}

// What a real server sends is noted, by every way that it sends it: a bookmark is activity, and promises others.
func TestActivityOfAServer(t *testing.T) {
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprint("JSON ", json), func(t *testing.T) {
			s := newPodServer(t, 3)
			s.json = json
			client, _ := s.run(t)
			a := client.Liveness().Of("pods")
			bookmarks := func() bool { // others are expected, so that silence is a fault
				err := a.Stalled(0)
				return err != nil && strings.Contains(err.Error(), "the watch is open")
			}
			if bookmarks() {
				t.Error("the end of the initial events is taken for a bookmark that others follow")
			}
			before := a.LastActivity()
			s.send(t, "BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}})
			eventually(t, bookmarks)
			if !a.LastActivity().After(before) {
				t.Error("a bookmark is no activity")
			}
			if err := a.Stalled(time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
}
