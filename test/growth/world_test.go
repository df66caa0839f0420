//go:build unix

package growth

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// settles is how long, in virtual time, a change may take until all that follows from it is done: reports are debounced, and what is
// created is looked at once more two seconds later.
const settles = 5 * time.Second

// meter is the way to the API server. It tells what that has spent.
type meter struct {
	next  http.RoundTripper
	spent atomic.Int64
}

func (m *meter) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/namespaces/"+hangs) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	m.spent.Add(int64(costs.CPU(func() { answer, err = m.next.RoundTrip(r) })))
	if err == nil {
		answer.Body = body{answer.Body, m}
	}
	return answer, err
}

// body is that of an answer, or a watch, whose events are encoded when they are read.
type body struct {
	io.ReadCloser
	meter *meter
}

func (b body) Read(into []byte) (n int, err error) {
	b.meter.spent.Add(int64(costs.CPU(func() { n, err = b.ReadCloser.Read(into) })))
	return n, err
}

// world is a manager that works on an API server in memory, with ordinary objects.
type world struct {
	*testing.T
	server  *apiserver.Server
	meter   *meter
	manager *manager.Manager
	tidied  int // how often
	slow    slowness
}

// registry returns all controllers but some, with flags that let all of them run.
func registry(t *testing.T, without ...string) []manager.Controller {
	t.Helper()
	all := controllers.Registry()
	if err := managertest.SetFlags(all, flags()); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c manager.Controller) bool { return slices.Contains(without, c.Name) })
}

// inWorld runs a test with controllers.
func inWorld(t *testing.T, o manager.Options, test func(w *world)) {
	t.Helper()
	inBubble(t, func(w *world) {
		defer w.start(o)()
		test(w)
	})
}

// inBubble runs a test in virtual time, with an API server that has ordinary objects. No garbage is collected but by the test.
func inBubble(t *testing.T, test func(w *world)) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(3 << 30))
	touch(512 << 20)
	klog.SetLogger(logr.Discard())
	defer klog.ClearLogger()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, server: apiserver.New(1), slow: slowness(costs.Slowness())}
		w.meter = &meter{next: &apiserver.Client{Server: w.server, Name: "manager"}}
		for _, name := range []string{namespace, metav1.NamespacePublic} {
			w.server.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		w.server.Put(ordinaryNode())
		for _, o := range ordinary("web") {
			w.server.Put(o)
		}
		test(w)
	})
}

// touch has the process own so much memory, so that it need not be given any while something is measured.
func touch(bytes int) {
	pages := make([]byte, bytes)
	for i := 0; i < bytes; i += 4096 {
		pages[i] = 1
	}
	runtime.KeepAlive(pages)
}

func ordinaryNode() *corev1.Node {
	n := &corev1.Node{ObjectMeta: global("node")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	return n
}

// start runs the manager until the returned function is called.
func (w *world) start(o manager.Options) (stop func()) {
	o.RootCAFile, o.Logger, o.FeatureGates = suite.RootCAFile(), logr.Discard(), managertest.Gates(o.Controllers...)
	m, err := manager.New(&rest.Config{Host: "http://memory", Transport: w.meter}, o)
	if err != nil {
		w.Fatal(err)
	}
	w.manager = m
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	if err := m.WaitUntilRunning(ctx); err != nil {
		w.Fatal(err)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the manager has ended with: %v", err)
		}
		time.Sleep(client.RequestTimeout) // discovery that is under way does not end with the manager
	}
}

// cost returns the CPU time that the manager takes over a change, and that which its requests take in the API server.
func (w *world) cost(change func()) (own, served time.Duration) {
	change()
	before := w.meter.spent.Load()
	all := costs.Process(func() {
		time.Sleep(settles)
		synctest.Wait()
	})
	served = time.Duration(w.meter.spent.Load() - before)
	return all - served, served
}

// orphaned removes what belonged to an object that is gone.
func (w *world) orphaned(owner types.UID) {
	for _, o := range w.server.Everything() {
		if slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner }) {
			w.server.Remove(o.Resource, o.GetNamespace(), o.GetName())
		}
	}
	time.Sleep(settles)
}

// stored counts the objects that there are, by resource.
func (w *world) stored() map[string]int {
	all := map[string]int{}
	for _, o := range w.server.Everything() {
		all[o.Resource]++
	}
	return all
}

// tidy forgets what has happened so far.
func (w *world) tidy() {
	for _, e := range apiserver.All[*corev1.Event](w.server) {
		w.server.Remove("events", e.Namespace, e.Name)
	}
	synctest.Wait()
	w.server.Forget()
	if w.tidied++; w.tidied%8 == 0 {
		runtime.GC()
	}
}
