package library

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/controllers/deployment"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicaset"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
	"github.com/standalone-kcm/controller-manager/test/library/website"
)

// definition is whether the definition of Websites is installed. It stands between a manager and the API server. For others, Websites are
// there all the time.
type definition struct {
	plane *controlPlane
	next  http.RoundTripper

	mu       sync.Mutex
	code     int // of all answers about Websites; 0: they are served
	requests int // about Websites, discovery left out
	cut      []context.CancelFunc
}

func (p *controlPlane) definition() *definition {
	return &definition{plane: p, next: p.config.Transport}
}

// config is how a manager reaches the API server.
func (d *definition) config() *rest.Config {
	own := *d.plane.config
	own.Transport = d
	return &own
}

// answers lets all requests about Websites end with the code, or be served (0). Watches that are open are cut.
func (d *definition) answers(code int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.code = code
	d.plane.server.Hide(website.GroupVersion.Group, code != 0)
	for _, cut := range d.cut {
		cut()
	}
	d.cut = nil
}

// RoundTrip implements http.RoundTripper.
func (d *definition) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, "/apis/"+website.GroupVersion.Group) {
		return d.next.RoundTrip(r)
	}
	d.mu.Lock()
	code := d.code
	if strings.Contains(r.URL.Path, "/websites") {
		d.requests++
	}
	if code == 0 && r.URL.Query().Get("watch") != "" {
		ctx, cancel := context.WithCancel(r.Context())
		r = r.WithContext(ctx)
		d.cut = append(d.cut, cancel)
	}
	d.mu.Unlock()
	if code == 0 {
		return d.next.RoundTrip(r)
	}
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","code":` + strconv.Itoa(code) + `}`
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status))}, nil
}

func (d *definition) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.requests
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

// off returns why the controller of Websites is off; "" if it is not. All who may ask are told the same (REG-68).
func off(t *testing.T, m *manager.Manager) (reason string) {
	t.Helper()
	for _, o := range m.OffStates() {
		if o.Name == "website-controller" {
			reason = o.Reason
		}
	}
	for _, c := range m.Readyz() {
		switch err := c.Err(); {
		case c.Name != "needs" && err != nil:
			t.Errorf("%s holds up the whole process: %v", c.Name, err)
		case c.Name == "needs" && (err != nil) != (reason != ""), c.Name == "needs" && !c.Advisory:
			t.Errorf("needs: %v, off: %q", err, reason)
		}
	}
	for _, c := range m.Livez() {
		if err := c.Err(); err != nil {
			t.Errorf("livez %s: %v", c.Name, err)
		}
	}
	for _, c := range m.ControllerStates() {
		if c.Name != "website-controller" {
			continue
		}
		if c.Running != (reason == "") {
			t.Errorf("running: %v, off: %q", c.Running, reason)
		}
		answer := httptest.NewRecorder()
		m.Explain().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/explain/website-controller", nil))
		if told := answer.Body.String(); (answer.Code == http.StatusOK) != (reason == "") || reason != "" && told != "website-controller is off: "+reason+"\n" {
			t.Errorf("explain says %q", told)
		}
	}
	return reason
}

const notServed = "the API server does not serve websites.v1.example.com"

func (p *controlPlane) deploymentOf(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	d, err := p.client.AppsV1().Deployments(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return d
}

// REG-68 A custom resource whose definition is not there, is installed, deleted and installed again. The controller of it is off meanwhile, and
// holds up nothing.
func TestAnAPIThatComesAndGoes(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	synctest.Test(t, func(t *testing.T) {
		plane := newControlPlane()
		t.Cleanup(plane.stop)
		api := plane.definition()
		api.answers(http.StatusNotFound)
		plane.createWebsite("early", website.Spec{Image: "web:1", Replicas: 1})

		m := managertest.StartWith(t, api.config(), options(t)) // and it runs
		plane.createDeployment("own", 2)
		if n := plane.waitForDeployment("own", 2); n != 2 {
			t.Errorf("the controllers beside it are held up: %d of 2", n)
		}
		for range 60 {
			time.Sleep(time.Minute)
			if reason := off(t, m); reason != notServed {
				t.Fatalf("missing at the start: off because %q", reason)
			}
		}
		if n := api.count(); n > 2 {
			t.Errorf("%d requests about what is not served", n)
		}

		api.answers(0)
		if time.Sleep(time.Minute); off(t, m) != "" || plane.deploymentOf(t, "early") == nil {
			t.Fatalf("it has come: off because %q", off(t, m))
		}
		plane.createWebsite("gone", website.Spec{Image: "web:1", Replicas: 1})
		plane.createWebsite("kept", website.Spec{Image: "web:1", Replicas: 1})
		if gone, kept := plane.waitForWebsite("gone", 1), plane.waitForWebsite("kept", 1); gone != 1 || kept != 1 {
			t.Errorf("%d and %d of 1 are ready", gone, kept)
		}

		api.answers(http.StatusNotFound)
		time.Sleep(time.Minute)
		before := api.count()
		for range 30 {
			time.Sleep(time.Minute)
			if reason := off(t, m); reason != notServed {
				t.Fatalf("gone: off because %q", reason)
			}
		}
		if n := api.count() - before; n > 0 {
			t.Errorf("%d requests about what is not served", n)
		}
		// Nobody acts upon what the cache held when the API went.
		if err := plane.sites.Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the garbage collector is played
		if plane.deploymentOf(t, "gone") != nil {
			t.Fatal("the Deployment is still there")
		}
		plane.scaleWebsite("kept", 3)
		generation := plane.deploymentOf(t, "kept").Generation

		api.answers(0)
		time.Sleep(time.Minute)
		if n := plane.waitForWebsite("kept", 3); n != 3 || off(t, m) != "" {
			t.Errorf("it has returned, and %d of 3 are ready, off because %q", n, off(t, m))
		}
		time.Sleep(time.Hour)
		if now := plane.deploymentOf(t, "kept").Generation; now != generation+1 {
			t.Errorf("the Deployment was changed %d times", now-generation)
		}
		if plane.deploymentOf(t, "gone") != nil {
			t.Error("a Website that was deleted meanwhile got a Deployment")
		}
		off(t, m)
	})
	goleak.VerifyNone(t, leaks)
}

// A controller that does not say that an API may be missing waits for it, and the process is not ready, as without anybody who says so.
func TestAnAPIThatSomebodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := newControlPlane()
		t.Cleanup(plane.stop)
		api := plane.definition()
		api.answers(http.StatusNotFound)
		o, waits := options(t), census()
		waits.Uses = nil
		o.Controllers = append(o.Controllers, waits)
		m, err := manager.New(api.config(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		patience, end := context.WithTimeout(ctx, 10*time.Minute)
		defer end()
		if err := m.WaitUntilRunning(patience); err == nil || !strings.Contains(err.Error(), "cache-websites.example.com: the cache has not been filled yet") {
			t.Errorf("got %v", err)
		}
		api.answers(0)
		time.Sleep(time.Minute)
		if err := m.WaitUntilRunning(ctx); err != nil || off(t, m) != "" {
			t.Errorf("it has come: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Discovery that fails switches nothing off.
func TestAnAPIThatIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := newControlPlane()
		t.Cleanup(plane.stop)
		api := plane.definition()
		m := managertest.StartWith(t, api.config(), options(t))
		api.answers(http.StatusServiceUnavailable)
		for range 30 {
			time.Sleep(time.Minute)
			for _, o := range m.OffStates() {
				t.Fatalf("%s is off: %s", o.Name, o.Reason)
			}
		}
		api.answers(0)
		plane.createWebsite("late", website.Spec{Image: "web:1", Replicas: 1})
		if n := plane.waitForWebsite("late", 1); n != 1 {
			t.Errorf("%d of 1 are ready", n)
		}
	})
}

// A standby knows what is missing, and when it leads, it works with what has come meanwhile.
func TestAnAPIThatComesToAStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := newControlPlane()
		t.Cleanup(plane.stop)
		api := plane.definition()
		api.answers(http.StatusNotFound)
		elected := func() (m *manager.Manager, end func()) {
			o := options(t)
			o.LeaderElect = true
			m, err := manager.New(api.config(), o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- m.Run(ctx) }()
			time.Sleep(time.Minute)
			return m, func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		_, endLeader := elected()
		standby, endStandby := elected()
		defer endStandby()
		if reason := off(t, standby); reason != notServed {
			t.Errorf("a standby: off because %q", reason)
		}
		plane.createWebsite("site", website.Spec{Image: "web:1", Replicas: 1})
		endLeader()
		time.Sleep(time.Minute)
		if reason := off(t, standby); reason != notServed {
			t.Errorf("a new leader: off because %q", reason)
		}
		api.answers(0)
		time.Sleep(time.Minute)
		if n := plane.waitForWebsite("site", 1); n != 1 || off(t, standby) != "" {
			t.Errorf("%d of 1 are ready", n)
		}
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
				Name: "census", Workers: 1, Kinds: []string{"ConfigMap"},
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
	synctest.Test(t, func(t *testing.T) {
		plane := newControlPlane()
		t.Cleanup(plane.stop)
		api := plane.definition()
		api.answers(http.StatusNotFound)
		o := options(t)
		o.Controllers = []manager.Controller{census()}
		m := managertest.StartWith(t, api.config(), o)
		label := func(when, want string) {
			t.Helper()
			time.Sleep(2 * time.Minute)
			c, err := plane.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "census", metav1.GetOptions{})
			if got := c.Labels["websites"]; err != nil || got != want {
				t.Errorf("%s: %q, %v", when, got, err)
			}
			if reason := off(t, m); reason != "" {
				t.Errorf("%s: off because %q", when, reason)
			}
		}
		counted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "census"}}
		touch := func() {
			t.Helper()
			maps := plane.client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
			_, err := maps.Create(t.Context(), counted, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				_, err = maps.Update(t.Context(), counted, metav1.UpdateOptions{}) // without its label
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		touch()
		label("missing at the start", "none")
		plane.createWebsite("one", website.Spec{Image: "web:1", Replicas: 1})
		api.answers(0)
		label("it has come", "1")
		plane.createWebsite("two", website.Spec{Image: "web:1", Replicas: 1})
		label("another one", "2")
		api.answers(http.StatusNotFound)
		time.Sleep(time.Minute)
		touch()
		label("it has gone", "none")
		plane.createWebsite("three", website.Spec{Image: "web:1", Replicas: 1})
		api.answers(0)
		label("it has returned", "3")
	})
}
