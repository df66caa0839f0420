package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
)

// server is a little of an API server: it takes pods and serves a watch of as many as it is told to make.
type server struct {
	*httptest.Server
	created atomic.Int32
	events  chan int // the number of the next pod of the watch
}

func newServer(t *testing.T) *server {
	s := &server{events: make(chan int, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		s.watch(w, r)
		return
	}
	if r.Method == http.MethodPost {
		s.created.Add(1)
	}
	w.Header().Set("Content-Type", "application/json")
	pod := numbered(7)
	pod.Name = "p"
	_ = json.NewEncoder(w).Encode(pod)
}

func numbered(n int) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("p%d", n), ResourceVersion: strconv.Itoa(n), UID: "answered"},
	}
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	media := runtime.ContentTypeJSON
	if accept := r.Header.Get("Accept"); len(accept) > 30 && accept[:len(runtime.ContentTypeProtobuf)] == runtime.ContentTypeProtobuf {
		media = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	w.Header().Set("Content-Type", media+";stream=watch")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	frames := streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(w), info.StreamSerializer.Serializer)
	for {
		select {
		case n := <-s.events:
			if n == 0 {
				return
			}
			raw, err := runtime.Encode(info.Serializer, numbered(n))
			if err == nil {
				err = frames.Encode(&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: raw}})
			}
			if err != nil || flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// start starts a proxy in front of the server and returns a client.
func (s *server) start(t *testing.T, script, contentType string, o Options) (*Proxy, *kubernetes.Clientset) {
	t.Helper()
	dir := t.TempDir()
	o.Kubeconfig = filepath.Join(dir, "server")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],`+
		`"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`, s.URL)
	if err := os.WriteFile(o.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	p.Run(parse(t, script))
	file := filepath.Join(dir, "client")
	if err := p.WriteKubeconfig(file); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType, config.QPS = contentType, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return p, client
}

var formats = []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}

// next is the name of the next event's object, or what happened instead, and when.
func next(t *testing.T, w watch.Interface) (string, time.Time) {
	t.Helper()
	select {
	case e, open := <-w.ResultChan():
		if !open {
			return "end", time.Now()
		}
		if pod, ok := e.Object.(*corev1.Pod); ok {
			return pod.Name, time.Now()
		}
		return apierrors.FromObject(e.Object).Error(), time.Now()
	case <-time.After(10 * time.Second):
		t.Fatal("no event in 10s")
		return "", time.Now()
	}
}

func TestWatchFaults(t *testing.T) {
	const gone = "injected fault: 410 Gone"
	for _, row := range []struct {
		script string
		want   []string
		late   map[int]time.Duration // how late, at least, an event comes
	}{
		{"", []string{"p1", "p2", "p3", "p4", "end"}, nil},
		{"event pods nth=2 : delay 200ms", []string{"p1", "p2", "p3", "p4", "end"}, map[int]time.Duration{1: 200, 2: 200}},
		{"event pods nth=2 : freeze 300ms", []string{"p1", "p2", "p3", "p4"}, map[int]time.Duration{1: 300, 2: 300}},
		{"event pods name=p2 : blackhole 300ms", []string{"p1", "p2", "p3", "p4"}, map[int]time.Duration{1: 300, 2: 300}},
		{"event pods nth=2 : drop 200ms", []string{"p1", gone, "end"}, map[int]time.Duration{1: 200}},
		{"event pods nth=3 : gone", []string{"p1", "p2", gone, "end"}, nil},
		{"event pods nth=3 : reset", []string{"p1", "p2", "?"}, nil},
		{"event pods nth=3 : cut", []string{"p1", "?"}, nil}, // p2 may be lost with the connection
		{"event services : cut", []string{"p1", "p2", "p3", "p4", "end"}, nil},
	} {
		for _, format := range formats {
			t.Run(format+" "+row.script, func(t *testing.T) {
				s := newServer(t)
				p, client := s.start(t, row.script, format, Options{})
				w, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				began := time.Now()
				for _, n := range []int{1, 2, 3, 4, 0} {
					s.events <- n
				}
				for i, want := range row.want {
					got, at := next(t, w)
					if want == "?" { // it ends in one way or another, with what was on the way or without
						for got == "p2" {
							got, _ = next(t, w)
						}
						if got != "p3" {
							break
						}
					}
					if got != want {
						t.Fatalf("event %d is %q, want %q", i, got, want)
					}
					if late := row.late[i] * time.Millisecond; at.Sub(began) < late {
						t.Errorf("event %d came after %v, want %v", i, at.Sub(began), late)
					}
				}
				if n := len(p.Injections()); (n > 0) != (row.script != "" && row.script != "event services : cut") {
					t.Errorf("%d injections are recorded", n)
				}
			})
		}
	}
}

func TestRequestFaults(t *testing.T) {
	for _, row := range []struct {
		script  string
		created int32
		check   func(error) bool
		late    time.Duration
	}{
		{"", 1, func(err error) bool { return err == nil }, 0},
		{"create pods : answer 409", 0, apierrors.IsConflict, 0},
		{"create pods times=1 : answer 429 1", 1, func(err error) bool { return err == nil }, time.Second}, // client-go tries again
		{"create pods : answer 500", 0, apierrors.IsInternalError, 0},
		{"create pods : answer 503", 0, apierrors.IsServiceUnavailable, 0},
		{"create pods : delay 200ms", 1, func(err error) bool { return err == nil }, 200 * time.Millisecond},
		{"create pods : blackhole 200ms", 1, func(err error) bool { return err == nil }, 200 * time.Millisecond},
		{"create pods : commit timeout 100ms", 1, apierrors.IsTimeout, 100 * time.Millisecond},
		{"create pods : commit cut", 1, func(err error) bool { return err != nil && !apierrors.IsTimeout(err) }, 0},
		{"create pods : commit hang 100ms", 1, func(err error) bool { return err != nil }, 100 * time.Millisecond},
		{"create pods : cut", 0, func(err error) bool { return err != nil }, 0},
		{"create pods : reset", 0, func(err error) bool { return err != nil }, 0},
	} {
		t.Run(row.script, func(t *testing.T) {
			s := newServer(t)
			_, client := s.start(t, row.script, runtime.ContentTypeProtobuf, Options{})
			began := time.Now()
			_, err := client.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
			took := time.Since(began)
			if n := s.created.Load(); n != row.created || !row.check(err) || took < row.late {
				t.Errorf("%d were created, after %v the error is %v", n, took, err)
			}
		})
	}
}

// A killed client is killed once its write was carried out: before it knows, or after.
func TestKill(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			s := newServer(t)
			killed := make(chan struct{})
			p, client := s.start(t, "write * nth=2 : kill "+when, runtime.ContentTypeProtobuf, Options{Kill: func() { close(killed) }})
			create := func() error {
				_, err := client.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
				return err
			}
			if err := create(); err != nil {
				t.Fatal(err)
			}
			err := create()
			<-killed
			if (err == nil) != (when == "after") || s.created.Load() != 2 || p.Writes() != 1 && p.Writes() != 2 {
				t.Errorf("error %v, %d created", err, s.created.Load())
			}
		})
	}
}

func TestExchangesAreTold(t *testing.T) {
	s := newServer(t)
	var told []Exchange
	_, client := s.start(t, "", runtime.ContentTypeProtobuf, Options{Answered: func(x Exchange) { told = append(told, x) }})
	pods := client.CoreV1().Pods("shop")
	options := metav1.DeleteOptions{GracePeriodSeconds: new(int64(3)), Preconditions: &metav1.Preconditions{UID: new(types.UID("u")), ResourceVersion: new("5")}}
	_, created := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
	_, patched := pods.Patch(t.Context(), "p", types.MergePatchType, []byte(`{"metadata":{"uid":"v"}}`), metav1.PatchOptions{})
	if err := errors.Join(created, patched, pods.Delete(t.Context(), "p", options)); err != nil {
		t.Fatal(err)
	}
	if len(told) != 3 {
		t.Fatalf("told %+v", told)
	}
	for i, e := range told {
		if e.Code != http.StatusOK || e.Version != "7" || e.Name != "p" || e.Namespace != "shop" || e.AnsweredUID != "answered" {
			t.Errorf("told of %d: %+v", i, e)
		}
	}
	if told[1].UID != "v" {
		t.Errorf("the patch demanded %q", told[1].UID)
	}
	if d := told[2]; d.UID != "u" || d.PreconditionVersion != "5" || d.Grace == nil || *d.Grace != 3 {
		t.Errorf("the deletion demanded %+v", d)
	}
}

func TestSwitchToAnotherServer(t *testing.T) {
	first, second := newServer(t), newServer(t)
	p, client := first.start(t, "delete pods : upstream b", runtime.ContentTypeJSON, Options{})
	for name, server := range map[string]string{"b": second.URL} {
		if err := p.AddUpstream(name, server); err != nil {
			t.Fatal(err)
		}
	}
	create := func() {
		t.Helper()
		for range 3 { // the first after the cut may fail
			_, err := client.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
			if err == nil {
				return
			}
		}
		t.Error("no pod could be created")
	}
	create()
	w, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Switch("b"); err != nil {
		t.Fatal(err)
	}
	if got, _ := next(t, w); got == "p1" {
		t.Errorf("the watch goes on: %s", got)
	}
	create()
	if a, b := first.created.Load(), second.created.Load(); a != 1 || b != 1 {
		t.Errorf("%d at the first, %d at the second", a, b)
	}
	if err := p.Switch("c"); err == nil {
		t.Error("switched to an unknown server")
	}
}

func TestCloseEndsWatches(t *testing.T) {
	s := newServer(t)
	p, client := s.start(t, "", runtime.ContentTypeProtobuf, Options{})
	w, err := client.CoreV1().Pods("shop").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.events <- 1
	if got, _ := next(t, w); got != "p1" {
		t.Fatal(got)
	}
	if err := p.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	for got := ""; got != "end"; got, _ = next(t, w) {
	}
}
