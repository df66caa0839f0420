package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"

	"github.com/standalone-kcm/controller-manager/internal/health"
	"github.com/standalone-kcm/controller-manager/internal/metrics"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/nodelifecycle"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// embedded is a manager in this process, so that a test can choose bounds and controllers that no flag offers, with what
// the command would serve of it.
type embedded struct {
	*testing.T
	url string
}

// embed runs a manager until the test ends.
func embed(t *testing.T, client *rest.Config, registry []manager.Controller, edit func(*manager.Options)) *embedded {
	t.Helper()
	measured := metrics.New(version.Get())
	o := manager.Options{
		Component: "kube-controller-manager", Controllers: registry, Hooks: measured.Hooks, RegisterMetrics: measured.Register,
	}
	edit(&o)
	ctx, cancel := context.WithCancel(context.Background())
	m, err := manager.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for name, checks := range map[string]func() []manager.Check{"healthz": m.Healthz, "livez": m.Livez, "readyz": m.Readyz} {
		h := health.Handler(name, checks)
		mux.Handle("/"+name, h)
		mux.Handle("/"+name+"/", h)
	}
	mux.Handle("/metrics", metrics.Handler())
	mux.Handle("/metrics/slis", metrics.SLIHandler())
	mux.Handle("/debug/explain", m.Explain())
	mux.Handle("/debug/explain/", m.Explain())
	unfollow := measured.Follow(m)
	server := httptest.NewServer(mux)
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended with: %v", err)
		}
		server.Close()
		unfollow()
	})
	return &embedded{t, server.URL}
}

func (e *embedded) get(path string) (code int, body string) {
	e.Helper()
	resp, err := http.Get(e.url + path)
	if err != nil {
		e.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		e.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// wait waits until a path answers with the code.
func (e *embedded) wait(patience time.Duration, path string, code int) {
	e.Helper()
	cluster.Eventually(e.T, patience, fmt.Sprintf("%s answers %d", path, code), func() error { return e.has(path, code) })
}

// waitForEach waits until each check of a path has passed, if not all at the same time: a watch that nothing comes from is stale again soon
// if the bound is short, and watches open one after the other.
func (e *embedded) waitForEach(patience time.Duration, path string) {
	e.Helper()
	passed := map[string]bool{}
	cluster.Eventually(e.T, patience, "each check of "+path+" passes once", func() error {
		_, body := e.get(path + "?verbose")
		var missing []string
		for line := range strings.Lines(body) {
			name := strings.TrimPrefix(strings.TrimPrefix(strings.Fields(line + " .")[0], "[+]"), "[-]")
			switch {
			case strings.HasPrefix(line, "[+]"):
				passed[name] = true
			case strings.HasPrefix(line, "[-]") && !passed[name]:
				missing = append(missing, name)
			}
		}
		if len(passed) == 0 || len(missing) > 0 {
			return fmt.Errorf("%d have passed, and not %v", len(passed), missing)
		}
		return nil
	})
}

func (e *embedded) has(path string, code int) error {
	if got, body := e.get(path); got != code {
		return fmt.Errorf("%s: %d\n%s", path, got, body)
	}
	return nil
}

// idle is the resource of which nothing changes.
const idle = "podtemplates"

// gate is a proxy in front of the API server that can hold back what watches of a resource are sent. The server sends a bookmark a minute
// after a watch has begun, or shortly before it ends, so the gate has watches end soon. Those of the idle resource it keeps open.
type gate struct {
	mu     sync.Mutex
	frozen map[string]chan struct{} // by resource; closed when it thaws
	ended  map[string]bool          // by resource: a watch has ended
}

// waitEnded waits until a watch of the resource has ended, before which it was sent a bookmark.
func (g *gate) waitEnded(t *testing.T, resource string) {
	t.Helper()
	cluster.Eventually(t, patience, "a watch of "+resource+" has ended", func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.ended[resource] {
			return errors.New("it has not")
		}
		return nil
	})
}

// proxied starts a gate and returns the configuration that leads through it, with an administrator's rights.
func proxied(t *testing.T, c *cluster.Cluster) (*gate, *rest.Config) {
	t.Helper()
	target, err := url.Parse(c.RESTConfig.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(c.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{frozen: map[string]chan struct{}{}, ended: map[string]bool{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = target.Host
			if query := r.Out.URL.Query(); query.Get("watch") == "true" {
				query.Set("timeoutSeconds", "10")
				r.Out.URL.RawQuery = query.Encode()
			}
		},
		Transport:     transport,
		FlushInterval: -1,
		ModifyResponse: func(resp *http.Response) error {
			if resp.Request.URL.Query().Get("watch") == "true" {
				path := resp.Request.URL.Path
				resp.Body = &gated{resp.Body, g, path[strings.LastIndex(path, "/")+1:], resp.Request.Context()}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return g, &rest.Config{Host: server.URL}
}

func (g *gate) freeze(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen[resource] = make(chan struct{})
}

func (g *gate) thaw(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.frozen[resource])
	delete(g.frozen, resource)
}

// gated is the body of a watch. Nothing of it passes while its resource is frozen.
type gated struct {
	io.ReadCloser
	gate     *gate
	resource string
	ctx      context.Context
}

func (b *gated) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.gate.mu.Lock()
	thawed := b.gate.frozen[b.resource]
	b.gate.mu.Unlock()
	if thawed != nil {
		select {
		case <-thawed:
		case <-b.ctx.Done():
		}
	}
	if err != nil {
		b.gate.mu.Lock()
		b.gate.ended[b.resource] = true
		b.gate.mu.Unlock()
		if b.resource == idle {
			<-b.ctx.Done()
		}
	}
	return n, err
}

func pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{cluster.Pending: "true"}}}
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	return p
}

// A watch that is open and silent, although the server sends bookmarks on it, and one that speaks again. The manager has no
// controller that writes, so that it does not disturb the tests beside it. Nobody but this test could change PodTemplates.
func TestAFrozenWatch(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	ns := c.Namespace(t)
	g, client := proxied(t, c)
	const bound = 5 * time.Second
	e := embed(t, client, []manager.Controller{toy("toy", func(string) {})}, func(c *manager.Options) { c.Bounds.Watch = bound })
	e.wait(patience, "/readyz", http.StatusOK)
	e.wait(patience, "/livez?exclude=watch-"+idle, http.StatusOK)

	// At rest, the server owes nothing until its first bookmark has come. From then on there is one each minute.
	e.wait(patience, "/livez/watch-"+idle, http.StatusInternalServerError)
	if err := e.has("/readyz", http.StatusOK); err != nil { // its bound is still 3m
		t.Error(err)
	}

	stop := churn(t, c, ns)
	defer stop()
	e.wait(patience, "/livez/watch-pods", http.StatusOK)
	cluster.Always(t, 2*bound, "a watch with events is alive", func() error { return e.has("/livez/watch-pods", http.StatusOK) })
	g.waitEnded(t, "pods")
	g.freeze("pods")
	e.wait(patience, "/livez/watch-pods", http.StatusInternalServerError)
	if _, body := e.get("/livez?verbose"); !strings.Contains(body, "[-]watch-pods failed: reason withheld\n") ||
		!strings.Contains(body, "[+]toy-controller-workers ok\n") {
		t.Errorf("MH-15:\n%s", body)
	}
	if err := e.has("/healthz", http.StatusOK); err != nil {
		t.Errorf("MH-17: %v", err)
	}
	g.thaw("pods")
	e.wait(patience, "/livez/watch-pods", http.StatusOK)
}

// A watch of the Leases of nodes that stands still fails /livez. The manager is a standby, which has the caches of the node lifecycle
// controller and marks no nodes.
func TestAFrozenWatchOfLeases(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	g, client := proxied(t, c)
	elect := func(o *manager.Options) {
		// kubelets renew their Leases every ten
		o.LeaderElect, o.LeaderElection.Name, o.Bounds.Watch = true, "health-leases", 15*time.Second
	}
	leader := embed(t, c.RESTConfig, []manager.Controller{toy("toy", func(string) {})}, elect)
	leader.wait(patience, "/readyz", http.StatusOK)
	e := embed(t, client, []manager.Controller{nodelifecycle.New(nodelifecycle.Options{})}, elect)
	e.wait(patience, "/readyz", http.StatusOK)
	e.wait(patience, "/livez/watch-leases.coordination.k8s.io", http.StatusOK)
	g.waitEnded(t, "leases")
	g.freeze("leases")
	e.wait(patience, "/livez/watch-leases.coordination.k8s.io", http.StatusInternalServerError)
	g.thaw("leases")
	e.wait(patience, "/livez/watch-leases.coordination.k8s.io", http.StatusOK)
}

// churn changes a pod five times a second until it is stopped.
func churn(t *testing.T, c *cluster.Cluster, ns string) (stop func()) {
	t.Helper()
	pods := c.Client.CoreV1().Pods(ns)
	p, err := pods.Create(t.Context(), pod("busy"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"turn":"%d"}}}`, i)
			if _, err := pods.Patch(ctx, p.Name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil &&
				ctx.Err() == nil {
				t.Errorf("churn: %v", err)
				return
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return func() { cancel(); <-done }
}

// TestAPIServerStopsAndStarts: an API server that cannot be reached makes a process unready, and is no reason to restart it. When it is
// back, work goes on.
func TestAPIServerStopsAndStarts(t *testing.T) {
	b := alone(t)
	e := embed(t, b.RESTConfig, []manager.Controller{toy("toy", func(string) {})},
		func(c *manager.Options) { c.Bounds.Stale = 2 * time.Second })
	m := b.Manager(t, onlyWorkloads)
	b.create(deployment("web", 3))
	b.waitComplete("web")
	pods := names(b.pods())
	e.waitForEach(patience, "/readyz")
	b.StopAPIServer(t)
	e.wait(patience, "/readyz/watch-pods", http.StatusInternalServerError) // each watch becomes stale at a moment of its own
	if _, body := e.get("/readyz?verbose"); !strings.Contains(body, "[+]cache-pods ok\n[-]watch-pods failed: reason withheld\n") {
		t.Errorf("which check fails:\n%s", body)
	}
	cluster.Always(t, 2*time.Second, "both are alive", func() error {
		select {
		case <-m.Ended():
			return errors.New("the manager ended with the API server")
		default:
			return e.has("/livez", http.StatusOK)
		}
	})
	b.StartAPIServer(t)
	e.waitForEach(2*patience, "/readyz")
	if err := e.has("/livez", http.StatusOK); err != nil {
		t.Error(err)
	}
	if got := names(b.pods()); got != pods {
		t.Errorf("pods were %s, are %s", pods, got)
	}
	b.setImage("web", "web:2")
	b.waitComplete("web")
}

// A worker that never comes back from a key, and the keys that wait behind it.
func TestAStuckWorker(t *testing.T) {
	t.Parallel() // its controllers do nothing
	c := cluster.Start(t)
	ns := c.Namespace(t)
	release := make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(release) }) }
	defer free()
	stuck := toy("toy", func(key string) { // at one pod, until it is released
		if key == ns+"/bad" {
			<-release
		}
	})
	e := embed(t, c.RESTConfig, []manager.Controller{stuck, toy("other", func(string) {})}, func(c *manager.Options) {
		c.Bounds.Worker, c.Bounds.Queue = 4*time.Second, 3*time.Second
	})
	e.wait(patience, "/readyz", http.StatusOK)
	cluster.Always(t, 2*time.Second, "it is alive", func() error { return e.has("/livez", http.StatusOK) })
	for _, row := range []struct{ pod, check string }{{"bad", "workers"}, {"good", "queue"}} {
		if _, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), pod(row.pod), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.wait(patience, "/livez/toy-controller-"+row.check, http.StatusInternalServerError)
	}
	_, body := e.get("/livez?verbose&exclude=toy-controller-queue&exclude=toy-controller-workers")
	if !strings.Contains(body, "[+]other-controller-workers ok\n") || !strings.HasSuffix(body, "livez check passed\n") {
		t.Errorf("all others are alive:\n%s", body)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if err := e.has(path, http.StatusOK); err != nil {
			t.Error(err)
		}
	}
	free()
	e.wait(patience, "/livez", http.StatusOK)
	e.wait(patience, "/debug/explain/toy/"+ns+"/good", http.StatusOK)
}

// toy is a controller with one worker, which does something with the key of each pod and writes nothing. It watches
// PodTemplates, too.
func toy(name string, work func(key string)) manager.Controller {
	return manager.Controller{Name: name + "-controller", Alias: name, Account: name,
		Init: func(c manager.Context) (manager.Runner, error) {
			pods, err := informers.Pods(c.Informers)
			if err != nil {
				return nil, err
			}
			templates, err := informers.Objects[*corev1.PodTemplate](c.Informers)
			if err != nil {
				return nil, err
			}
			return reconcile.New(c.Shared, c.Access, reconcile.Controller[*corev1.Pod, struct{}, struct{}]{
				Name: name, Workers: 1,
				Watches: []reconcile.Watch{
					pods.Watch(informers.Itself),
					templates.Watch(informers.Itself),
				},
				Observe: func(_ context.Context, r reconcile.Request[struct{}]) (reconcile.Observation[*corev1.Pod, struct{}], error) {
					p := pods.Get(r.Key.Namespace, r.Key.Name)
					return reconcile.Observation[*corev1.Pod, struct{}]{Exists: p != nil, Snapshot: p}, nil
				},
				Plan: reconcile.PlanOnly(func(_ time.Time, p *corev1.Pod) plan.Plan {
					work(p.Namespace + "/" + p.Name)
					return plan.Plan{Why: "seen"}
				}),
			}), nil
		}}
}

// A standby is ready, and alive, and says of healthz what MH-18 says.
func TestAStandbyIsReady(t *testing.T) {
	c := cluster.Start(t)
	elect := func(c *manager.Options) {
		c.LeaderElect = true
		c.LeaderElection.Name = "health-standby"
	}
	registry := controllers.Registry()
	if err := managertest.SetFlags(registry, map[string]string{"service-account-private-key-file": c.TokenKeyFile(),
		"cluster-signing-cert-file": c.CAFile, "cluster-signing-key-file": c.CAKeyFile()}); err != nil {
		t.Fatal(err)
	}
	leader := embed(t, c.RESTConfig, registry, elect)
	leader.wait(patience, "/readyz", http.StatusOK)
	cluster.Eventually(t, patience, "it leads", func() error {
		if _, body := leader.get("/healthz?verbose"); !strings.Contains(body, "[+]deployment-controller ok") {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
	standby := embed(t, c.RESTConfig, controllers.Registry(), elect)
	standby.wait(patience, "/readyz", http.StatusOK)
	if _, body := standby.get("/readyz?verbose"); !strings.Contains(body, "[+]cache-replicasets.apps ok\n") {
		t.Errorf("%s", body)
	}
	if err := standby.has("/livez", http.StatusOK); err != nil {
		t.Error(err)
	}
	if _, body := standby.get("/healthz?verbose"); body != "[+]leaderElection ok\nhealthz check passed\n" {
		t.Errorf("MH-18:\n%s", body)
	}
	_, body := leader.get("/healthz?verbose")
	names := []string{"leaderElection"}
	for _, entry := range servedControllers(t, c) {
		closed := slices.ContainsFunc(entry.Gates, func(gate string) bool { return !manager.Options{}.Enabled(gate) })
		if entry.Name != "node-ipam-controller" && !closed { // IPAM-1: off without --allocate-node-cidrs
			names = append(names, entry.Name)
		}
	}
	for _, name := range names {
		if !strings.Contains(body, "[+]"+name+" ok\n") {
			t.Errorf("MH-17, %s:\n%s", name, body)
		}
	}
}
