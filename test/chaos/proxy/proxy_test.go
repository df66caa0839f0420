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
	"strings"
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

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
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
func (s *server) start(t *testing.T, faults, contentType string, o Options) (*Proxy, *kubernetes.Clientset) {
	t.Helper()
	dir := t.TempDir()
	o.Kubeconfig = filepath.Join(dir, "server")
	text := fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],`+
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
	play(t, p, faults)
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

// play begins a fault, if there is one.
func play(t *testing.T, p *Proxy, fault string) {
	t.Helper()
	if fault == "" {
		return
	}
	s, err := script.Parse(strings.NewReader("at 0s fault m0 " + fault))
	if err == nil {
		err = p.Play(s, "m0")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// process notes what is done to it.
type process struct{ killed chan struct{} }

func (p process) Kill(time.Duration) { close(p.killed) }
func (p process) Stop(time.Duration) {}
func (p process) Pause(bool)         {}

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
		fault string
		want  []string      // ? for an end in one way or another
		late  time.Duration // how late, at least, the first event comes
	}{
		{"", []string{"p1", "p2", "p3", "p4", "end"}, 0},
		{"delay pods 200ms for=10s", []string{"p1", "p2", "p3", "p4", "end"}, 200},
		{"freeze pods for=300ms", []string{"p1", "p2", "p3", "p4", "end"}, 300},
		{"silent for=300ms", []string{"p1", "p2", "p3", "p4", "end"}, 300},
		{"freeze pods for=200ms hide=true", []string{gone, "end"}, 200},
		{"expire pods", []string{gone, "end"}, 0},
		{"cut pods", []string{"?"}, 0},
		{"down for=200ms", []string{"?"}, 0},
		{"cut services", []string{"p1", "p2", "p3", "p4", "end"}, 0},
		{"freeze services for=10s", []string{"p1", "p2", "p3", "p4", "end"}, 0},
	} {
		for _, format := range formats {
			t.Run(format+" "+row.fault, func(t *testing.T) {
				s := newServer(t)
				p, client := s.start(t, "", format, Options{})
				w, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				began := time.Now()
				play(t, p, row.fault)
				for _, n := range []int{1, 2, 3, 4, 0} {
					s.events <- n
				}
				for i, want := range row.want {
					got, at := next(t, w)
					if ends := got == "end" || strings.Contains(got, "unable to decode"); got != want && (want != "?" || !ends) {
						t.Fatalf("event %d is %q, want %q", i, got, want)
					}
					if late := row.late * time.Millisecond; at.Sub(began) < late {
						t.Errorf("event %d came after %v, want %v", i, at.Sub(began), late)
					}
				}
			})
		}
	}
}

func TestRequestFaults(t *testing.T) {
	for _, row := range []struct {
		fault   string
		created int32
		check   func(error) bool
		late    time.Duration
	}{
		{"", 1, func(err error) bool { return err == nil }, 0},
		{"refuse n=1 code=429", 1, func(err error) bool { return err == nil }, time.Second}, // client-go tries again
		{"refuse code=500 for=10s", 0, apierrors.IsInternalError, 0},
		{"refuse code=503 resource=pods", 0, apierrors.IsServiceUnavailable, 0},
		{"refuse code=409", 1, func(err error) bool { return err == nil }, 0}, // it is no change
		{"slow 200ms for=10s", 1, func(err error) bool { return err == nil }, 200 * time.Millisecond},
		{"silent for=200ms", 1, func(err error) bool { return err == nil }, 200 * time.Millisecond},
		{"refuse code=504 after=true", 1, apierrors.IsTimeout, 0},
		{"refuse code=0 after=true", 1, func(err error) bool { return err != nil && !apierrors.IsTimeout(err) }, 0},
		{"refuse code=-1 after=true", 1, func(err error) bool { return err != nil }, 300 * time.Millisecond},
		{"refuse code=-1", 0, func(err error) bool { return err != nil }, 300 * time.Millisecond},
		{"refuse code=0", 0, func(err error) bool { return err != nil }, 0},
		{"down for=10s", 0, func(err error) bool { return err != nil }, 0},
	} {
		t.Run(row.fault, func(t *testing.T) {
			s := newServer(t)
			p, client := s.start(t, row.fault, runtime.ContentTypeProtobuf, Options{})
			if strings.Contains(row.fault, "code=-1") {
				time.AfterFunc(row.late, p.Calm)
			}
			began := time.Now()
			_, err := client.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
				metav1.CreateOptions{})
			took := time.Since(began)
			if n := s.created.Load(); n != row.created || !row.check(err) || took < row.late {
				t.Errorf("%d were created, after %v the error is %v", n, took, err)
			}
		})
	}
}

// A client is killed before its write arrives, or when it was carried out and the client does not know.
func TestKill(t *testing.T) {
	for after, created := range map[string]int32{"false": 1, "true": 2} {
		t.Run("after="+after, func(t *testing.T) {
			s := newServer(t)
			killed := process{make(chan struct{})}
			p, client := s.start(t, "crash writes=1 after="+after, runtime.ContentTypeProtobuf, Options{Process: killed})
			create := func() error {
				_, err := client.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
					metav1.CreateOptions{})
				return err
			}
			if err := create(); err != nil {
				t.Fatal(err)
			}
			if create() == nil {
				t.Error("the client knows what became of its write")
			}
			<-killed.killed
			if n := s.created.Load(); n != created || p.Writes() != int(created) || len(p.Injections()) != 1 {
				t.Errorf("%d created, %d writes, injections %v", n, p.Writes(), p.Injections())
			}
		})
	}
}

func TestASimulatedServerIsNeeded(t *testing.T) {
	for _, fault := range []string{"lag pods 2s", "vanish apps"} {
		s, err := script.Parse(strings.NewReader("at 0s fault m* " + fault))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := newServer(t).start(t, "", runtime.ContentTypeJSON, Options{})
		if err := p.Play(s, "m0"); err == nil {
			t.Errorf("%q is taken", fault)
		}
	}
}

func TestExchangesAreTold(t *testing.T) {
	s := newServer(t)
	var told []Exchange
	_, client := s.start(t, "", runtime.ContentTypeProtobuf, Options{Answered: func(x Exchange) { told = append(told, x) }})
	pods := client.CoreV1().Pods("shop")
	options := metav1.DeleteOptions{GracePeriodSeconds: new(int64(3)),
		Preconditions: &metav1.Preconditions{UID: new(types.UID("u")), ResourceVersion: new("5")}}
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
	p, client := first.start(t, "", runtime.ContentTypeJSON, Options{})
	for name, server := range map[string]string{"b": second.URL} {
		if err := p.AddUpstream(name, server); err != nil {
			t.Fatal(err)
		}
	}
	create := func() {
		t.Helper()
		for range 3 { // the first after the cut may fail
			_, err := client.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
				metav1.CreateOptions{})
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
