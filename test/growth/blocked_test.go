//go:build unix

package growth

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/version"

	"github.com/standalone-kcm/controller-manager/internal/health"
	"github.com/standalone-kcm/controller-manager/internal/metrics"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// blocker is a controller that stops at one place, whatever locks are held there.
type blocker struct {
	place   string
	reached atomic.Bool
	release chan struct{}
}

// at blocks if this is the place, and the object is the one that blocks.
func (b *blocker) at(place, name string) {
	if place == b.place && name == "blocked" {
		b.reached.Store(true)
		<-b.release
	}
}

func (b *blocker) controller() manager.Controller {
	return manager.Controller{Name: "blocker", Alias: "blocker", Account: "blocker", Init: func(c manager.Context) (manager.Runner, error) {
		claims, err := informers.Objects[*corev1.PersistentVolumeClaim](c.Informers)
		if err != nil {
			return nil, err
		}
		return &blockedRunner{c, b, reconcile.New(c.Shared, c.Access, b.reconciler(claims))}, nil
	}}
}

func (b *blocker) reconciler(claims informers.Store[*corev1.PersistentVolumeClaim]) reconcile.Controller[string, struct{}, struct{}] {
	return reconcile.Controller[string, struct{}, struct{}]{
		Name: "blocker", Workers: 1, Explained: []string{"PersistentVolumeClaim"}, SkipVerification: true,
		Watches: []reconcile.Watch{claims.Watch(func(before, after plan.Object) []plan.Key {
			keys := informers.Itself(before, after)
			b.at("a handler", keys[0].Name)
			return keys
		}, informers.WithDelay(func(key plan.Key) time.Duration {
			b.at("a delay", key.Name)
			return 0
		}))},
		Observe: func(_ context.Context, r reconcile.Request[struct{}]) (reconcile.Observation[string, struct{}], error) {
			b.at("Observe", r.Key.Name)
			return reconcile.Observation[string, struct{}]{Exists: claims.Get(r.Key.Namespace, r.Key.Name) != nil, Snapshot: r.Key.Name},
				nil
		},
		Plan: reconcile.PlanOnly(func(_ time.Time, name string) plan.Plan {
			b.at("Plan", name)
			return plan.Plan{}
		}),
		Report: reconcile.ReportOnly[string, struct{}](func(_ time.Time, name string, _ plan.Outcome) plan.Plan {
			b.at("Report", name)
			return plan.Plan{}
		}),
		Remember: func(_ time.Time, name string, _ struct{}, seen *struct{}, _, _ plan.Outcome) (*struct{}, bool) {
			b.at("Remember", name)
			return seen, true
		},
		Applied: func(_ context.Context, name string, _ struct{}, _, _ plan.Outcome) { b.at("Applied", name) },
	}
}

// blockedRunner also follows the metadata of a resource that the garbage collector follows, too.
type blockedRunner struct {
	manager.Context
	*blocker
	runner *reconcile.Runner[string, struct{}, struct{}]
}

func (r *blockedRunner) Statuses() []reconcile.Status { return r.runner.Statuses() }

func (r *blockedRunner) Run(ctx context.Context) error {
	sub := r.Metadata.Subscribe(r)
	defer sub.Close()
	sub.SetResources(ctx, []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("limitranges")})
	return r.runner.Run(ctx)
}

// OnUpdate implements metadata.Handler.
func (r *blockedRunner) OnUpdate(_ schema.GroupVersionResource, o *metav1.PartialObjectMetadata) {
	r.at("a handler of metadata", o.Name)
}

// OnDelete implements metadata.Handler.
func (r *blockedRunner) OnDelete(schema.GroupVersionResource, *metav1.PartialObjectMetadata) {}

// Health checks, metrics and /debug/explain answer while a controller is stuck, wherever that is.
func TestHealthNeedsNoController(t *testing.T) {
	for _, place := range []string{"a handler", "a delay", "Observe", "Plan", "Report", "Remember", "Applied", "a handler of metadata"} {
		t.Run(place, func(t *testing.T) {
			// A lock that is waited for stops the virtual time, and so the test.
			dog := time.AfterFunc(30*time.Second, func() { panic("health waits for what is held at " + place) })
			defer dog.Stop()
			measured := metrics.New(version.Get())
			b := &blocker{place: place}
			inWorld(t, manager.Options{
				Controllers: append(registry(t), b.controller()), Hooks: measured.Hooks, RegisterMetrics: measured.Register,
			}, func(w *world) {
				defer measured.Follow(w.manager)()
				b.release = make(chan struct{})
				w.server.Put(&corev1.PersistentVolumeClaim{ObjectMeta: about("blocked")})
				w.server.Put(&corev1.LimitRange{ObjectMeta: about("blocked")})
				time.Sleep(settles)
				synctest.Wait()
				if !b.reached.Load() {
					t.Error("it was not reached")
				}
				w.answers()
				close(b.release)
				time.Sleep(settles)
			})
		})
	}
}

// answers asks for all that a manager tells of itself.
func (w *world) answers() {
	w.Helper()
	for path, h := range map[string]http.Handler{
		"/healthz": health.Handler("healthz", w.manager.Healthz), "/livez": health.Handler("livez", w.manager.Livez),
		"/readyz": health.Handler("readyz", w.manager.Readyz), "/metrics": metrics.Handler(), "/debug/explain": w.manager.Explain(),
	} {
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
		if r.Code != http.StatusOK {
			w.Errorf("%s: %d: %.500s", path, r.Code, r.Body)
		}
	}
}
