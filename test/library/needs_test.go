package library

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/controllers/deployment"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicaset"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
	"github.com/standalone-kcm/controller-manager/test/library/website"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// definedPlane is a control plane in which the definition of Websites may be missing. Only managers, which use its configuration,
// notice that: for the clients of the test, Websites are there all the time.
type definedPlane struct {
	*controlPlane
	next     http.RoundTripper
	requests atomic.Int32 // about Websites, discovery left out

	mu   sync.Mutex
	code int // of all answers about Websites; 0: they are served
	cut  []context.CancelFunc
}

// inVirtualTime runs a test on a control plane that answers requests about Websites with the code.
func inVirtualTime(t *testing.T, code int, test func(t *testing.T, plane *definedPlane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		plane := &definedPlane{controlPlane: newControlPlane()}
		t.Cleanup(plane.stop)
		plane.next, plane.config.Transport = plane.config.Transport, plane
		plane.answers(code)
		test(t, plane)
	})
}

// answers lets all requests about Websites end with the code, or be served (0). Watches that are open are cut.
func (p *definedPlane) answers(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code = code
	p.server.Hide(website.GroupVersion.Group, code != 0)
	for _, cut := range p.cut {
		cut()
	}
	p.cut = nil
}

// RoundTrip implements http.RoundTripper.
func (p *definedPlane) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, "/apis/"+website.GroupVersion.Group) {
		return p.next.RoundTrip(r)
	}
	if strings.Contains(r.URL.Path, "/websites") {
		p.requests.Add(1)
	}
	p.mu.Lock()
	code := p.code
	if code == 0 && r.URL.Query().Get("watch") != "" {
		ctx, cancel := context.WithCancel(r.Context())
		r = r.WithContext(ctx)
		p.cut = append(p.cut, cancel)
	}
	p.mu.Unlock()
	if code == 0 {
		return p.next.RoundTrip(r)
	}
	status := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code)
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(status))}, nil
}

// createSites creates Websites of one server each.
func (p *definedPlane) createSites(names ...string) {
	for _, name := range names {
		p.createWebsite(name, website.Spec{Image: "web:1", Replicas: 1})
	}
}

// wantReady expects that so many servers of a Website become ready.
func (p *definedPlane) wantReady(t *testing.T, name string, want int32) {
	t.Helper()
	if n := p.waitForWebsite(name, want); n != want {
		t.Errorf("%s: %d of %d are ready", name, n, want)
	}
}

func (p *definedPlane) deploymentOf(name string) *appsv1.Deployment {
	return apiserver.One[*appsv1.Deployment](p.server, metav1.NamespaceDefault, name)
}

// options are those of a manager with the controller of Websites and two others.
func options(t *testing.T) manager.Options {
	scheme := runtime.NewScheme()
	if err := website.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return manager.Options{Scheme: scheme, Controllers: []manager.Controller{
		website.New(), deployment.New(deployment.Options{}), replicaset.New(replicaset.Options{}),
	}}
}

const notServed = "the API server does not serve websites.v1.example.com"

// wantOff expects that the controller of Websites is off for that reason; "": that it is not off. All who may ask are told the same
// (REG-68).
func wantOff(t *testing.T, m *manager.Manager, when, want string) {
	t.Helper()
	reason := ""
	for _, o := range m.OffStates() {
		if o.Name == "website-controller" {
			reason = o.Reason
		}
	}
	for _, c := range m.Readyz() {
		switch err := c.Err(); {
		case c.Name != "needs" && err != nil:
			t.Errorf("%s: %s holds up the whole process: %v", when, c.Name, err)
		case c.Name == "needs" && ((err != nil) != (reason != "") || !c.Advisory):
			t.Errorf("%s: needs: %v, off: %q", when, err, reason)
		}
	}
	for _, c := range m.Livez() {
		if err := c.Err(); err != nil {
			t.Errorf("%s: livez %s: %v", when, c.Name, err)
		}
	}
	for _, c := range m.ControllerStates() {
		if c.Name != "website-controller" {
			continue
		}
		if c.Running != (reason == "") {
			t.Errorf("%s: running: %v, off: %q", when, c.Running, reason)
		}
		answer := httptest.NewRecorder()
		m.Explain().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/explain/website-controller", nil))
		if told := answer.Body.String(); (answer.Code == http.StatusOK) != (reason == "") ||
			reason != "" && told != "website-controller is off: "+reason+"\n" {
			t.Errorf("%s: explain says %q", when, told)
		}
	}
	if reason != want {
		t.Fatalf("%s: off because %q", when, reason)
	}
}

// staysOff expects that the controller of Websites is off in each of the next minutes.
func staysOff(t *testing.T, m *manager.Manager, when string, minutes int) {
	t.Helper()
	for range minutes {
		time.Sleep(time.Minute)
		wantOff(t, m, when, notServed)
	}
}

// REG-68 A custom resource whose definition is not there, is installed, deleted and installed again. The controller of it is off
// meanwhile, and holds up nothing.
func TestAnAPIThatComesAndGoes(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	inVirtualTime(t, http.StatusNotFound, func(t *testing.T, plane *definedPlane) {
		plane.createSites("early")
		m := managertest.StartWith(t, plane.config, options(t)) // and it runs
		plane.createDeployment("own", 2)
		if n := plane.waitForDeployment("own", 2); n != 2 {
			t.Errorf("the controllers beside it are held up: %d of 2", n)
		}
		staysOff(t, m, "missing at the start", 60)
		if n := plane.requests.Load(); n > 2 {
			t.Errorf("%d requests about what is not served", n)
		}

		plane.answers(0)
		time.Sleep(time.Minute)
		wantOff(t, m, "it has come", "")
		if plane.deploymentOf("early") == nil {
			t.Fatal("it has come, and its Website has no Deployment")
		}
		plane.createSites("gone", "kept")
		plane.wantReady(t, "gone", 1)
		plane.wantReady(t, "kept", 1)

		plane.answers(http.StatusNotFound)
		time.Sleep(time.Minute)
		before := plane.requests.Load()
		staysOff(t, m, "gone", 30)
		if n := plane.requests.Load() - before; n > 0 {
			t.Errorf("%d requests about what is not served", n)
		}
		// Nobody acts upon what the cache held when the API went.
		if err := plane.sites.Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the garbage collector is played
		if plane.deploymentOf("gone") != nil {
			t.Fatal("the Deployment is still there")
		}
		plane.scaleWebsite("kept", 3)
		generation := plane.deploymentOf("kept").Generation

		plane.answers(0)
		time.Sleep(time.Minute)
		plane.wantReady(t, "kept", 3)
		wantOff(t, m, "it has returned", "")
		time.Sleep(time.Hour)
		if now := plane.deploymentOf("kept").Generation; now != generation+1 {
			t.Errorf("the Deployment was changed %d times", now-generation)
		}
		if plane.deploymentOf("gone") != nil {
			t.Error("a Website that was deleted meanwhile got a Deployment")
		}
		wantOff(t, m, "an hour later", "")
	})
	goleak.VerifyNone(t, leaks)
}

// A controller that does not say that an API may be missing waits for it, and the process is not ready, as without anybody who says so.
func TestAnAPIThatSomebodyWaitsFor(t *testing.T) {
	inVirtualTime(t, http.StatusNotFound, func(t *testing.T, plane *definedPlane) {
		o, waits := options(t), census()
		waits.Uses = nil
		o.Controllers = append(o.Controllers, waits)
		m, err := manager.New(plane.config, o)
		if err != nil {
			t.Fatal(err)
		}
		defer begin(m)()
		patience, end := context.WithTimeout(t.Context(), 10*time.Minute)
		defer end()
		if err := m.WaitUntilRunning(patience); err == nil ||
			!strings.Contains(err.Error(), "cache-websites.example.com: the cache has not been filled yet") {
			t.Errorf("got %v", err)
		}
		plane.answers(0)
		time.Sleep(time.Minute)
		if err := m.WaitUntilRunning(t.Context()); err != nil {
			t.Errorf("it has come: %v", err)
		}
		wantOff(t, m, "it has come", "")
	})
}

// Discovery that fails switches nothing off.
func TestAnAPIThatIsUnavailable(t *testing.T) {
	inVirtualTime(t, 0, func(t *testing.T, plane *definedPlane) {
		m := managertest.StartWith(t, plane.config, options(t))
		plane.answers(http.StatusServiceUnavailable)
		for range 30 {
			time.Sleep(time.Minute)
			for _, o := range m.OffStates() {
				t.Fatalf("%s is off: %s", o.Name, o.Reason)
			}
		}
		plane.answers(0)
		plane.createSites("late")
		plane.wantReady(t, "late", 1)
	})
}

// A standby knows what is missing, and when it leads, it works with what has come meanwhile.
func TestAnAPIThatComesToAStandby(t *testing.T) {
	inVirtualTime(t, http.StatusNotFound, func(t *testing.T, plane *definedPlane) {
		elected := func() (m *manager.Manager, end func()) {
			o := options(t)
			o.LeaderElect = true
			m, err := manager.New(plane.config, o)
			if err != nil {
				t.Fatal(err)
			}
			end = sync.OnceFunc(begin(m))
			t.Cleanup(end)
			time.Sleep(time.Minute)
			return m, end
		}
		_, endLeader := elected()
		standby, _ := elected()
		wantOff(t, standby, "a standby", notServed)
		plane.createSites("site")
		endLeader()
		time.Sleep(time.Minute)
		wantOff(t, standby, "a new leader", notServed)
		plane.answers(0)
		time.Sleep(time.Minute)
		plane.wantReady(t, "site", 1)
		wantOff(t, standby, "it has come", "")
	})
}

// census is a controller that labels ConfigMaps with the number of Websites of their namespace, or without the API with "none".
func census() manager.Controller {
	return manager.Controller{
		Name: "census", Account: "census", Uses: []schema.GroupVersionResource{website.GroupVersion.WithResource("websites")},
		Init: func(c manager.Context) (manager.Runner, error) {
			maps, err1 := informers.Objects[*corev1.ConfigMap](c.Informers, informers.MetadataOnly)
			sites, err2 := informers.Objects[*website.Website](c.Informers)
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			type seen struct {
				Map   *corev1.ConfigMap
				Label string
			}
			all := func(_, _ plan.Object) []plan.Key {
				return []plan.Key{{Namespace: metav1.NamespaceDefault, Name: "census"}}
			}
			return reconcile.New(c.Shared, c.Access, reconcile.Controller[seen, struct{}, struct{}]{
				Name: "census", Workers: 1, Explained: []string{"ConfigMap"},
				Watches: []reconcile.Watch{maps.Watch(informers.Itself, informers.WithResync), sites.Watch(all)},
				Observe: func(_ context.Context, r reconcile.Request[struct{}]) (o reconcile.Observation[seen, struct{}], err error) {
					o.Snapshot = seen{maps.Get(r.Key.Namespace, r.Key.Name), "none"}
					if o.Exists = o.Snapshot.Map != nil; !sites.Missing() {
						o.Snapshot.Label = strconv.Itoa(len(slices.Collect(sites.All())))
					}
					return o, nil
				},
				Owner: func(s seen) plan.Object { return s.Map },
				Plan: reconcile.PlanOnly(func(_ time.Time, s seen) plan.Plan {
					changed := s.Map.DeepCopy()
					changed.Labels = map[string]string{"websites": s.Label}
					return plan.Plan{Why: "counted", Steps: []plan.Step{plan.Change{Old: s.Map, New: changed}}}
				}),
			}), nil
		},
	}
}

// A controller that uses an API works without it, and with it as soon as it is served.
func TestAnAPIThatIsUsedWhenItIsThere(t *testing.T) {
	inVirtualTime(t, http.StatusNotFound, func(t *testing.T, plane *definedPlane) {
		o := options(t)
		o.Controllers = []manager.Controller{census()}
		m := managertest.StartWith(t, plane.config, o)
		label := func(when, want string) {
			t.Helper()
			time.Sleep(2 * time.Minute)
			if got := apiserver.One[*corev1.ConfigMap](plane.server, metav1.NamespaceDefault, "census").Labels["websites"]; got != want {
				t.Errorf("%s: %q", when, got)
			}
			wantOff(t, m, when, "")
		}
		maps := plane.client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "census"}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		label("missing at the start", "none")
		plane.createSites("one")
		plane.answers(0)
		label("it has come", "1")
		plane.createSites("two")
		label("another one", "2")
		plane.answers(http.StatusNotFound)
		time.Sleep(time.Minute)
		if _, err := maps.Patch(t.Context(), "census", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		label("it has gone", "none")
		plane.createSites("three")
		plane.answers(0)
		label("it has returned", "3")
	})
}
