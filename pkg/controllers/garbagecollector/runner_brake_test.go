package garbagecollector

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// widgetAPI answers lists of Widgets, and counts them.
type widgetAPI struct {
	objects, lists atomic.Int32
	down           atomic.Bool
}

func (a *widgetAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.lists.Add(1)
	if a.down.Load() {
		return nil, fmt.Errorf("%s does not answer", r.URL.Path)
	}
	return inJSON(http.StatusOK, metadataList(make([]metav1.PartialObjectMetadata, a.objects.Load())))
}

const (
	registration = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com"
	served       = `{"spec":{"groupPriorityMinimum":1000},"status":{"conditions":[{"type":"Available","status":"True"}]}}`
	aggregated   = `{"spec":{"service":{"name":"widgets"}},"status":{"conditions":[{"type":"Available","status":"True"}]}}`
	unavailable  = `{"spec":{"service":{"name":"widgets"}},"status":{"conditions":[{"type":"Available","status":"False","message":"no endpoints"}]}}`
)

// runWidgets runs the test with a watch of Widgets, whose API is registered as given; empty: it is not.
func runWidgets(t *testing.T, registered string, test func(b *bench, api *widgetAPI)) {
	t.Helper()
	run(t, func(b *bench) {
		api := &widgetAPI{}
		b.asks(api)
		b.mu.Lock()
		b.mapper = builtIns{{GroupVersionKind: widgetKind.GroupVersionKind, Resource: "widgets", Namespaced: true}}
		b.term.kinds[widgets] = widgetKind
		b.mu.Unlock()
		if registered != "" {
			b.server.ServeRaw(registration, []byte(registered))
		}
		test(b, api)
	})
}

// seeWidgetDependents puts ConfigMaps that belong to Widgets, one to each, and shows them.
func (b *bench) seeWidgetDependents(from, to int) {
	b.Helper()
	for i := from; i < to; i++ {
		b.see(b.putOwned(fmt.Sprint("dependent-", i), widgetKind, widgetName(i)))
	}
}

func widgetName(i int) string { return fmt.Sprint("widget-", i) }

// watchWidgets has the watch show Widgets that the server need not have.
func (b *bench) watchWidgets(from, to int) {
	for i := from; i < to; i++ {
		b.OnUpdate(widgets, object(widgetName(i)))
	}
}

// loseWidgets has a list of the watch lack Widgets.
func (b *bench) loseWidgets(from, to int) {
	for i := from; i < to; i++ {
		b.OnDelete(widgets, object(widgetName(i), version("")))
		time.Sleep(time.Millisecond) // the collector has time for what it has seen so far
	}
}

// wantDeletions expects that so many dependents have been deleted.
func (b *bench) wantDeletions(want int) {
	b.Helper()
	if n := b.deletions(); n != want {
		b.Errorf("%d deletions, want %d", n, want)
	}
}

// quiet expects that the brake holds nothing, and has told nobody of anything.
func (b *bench) quiet() {
	b.Helper()
	held, ended := b.brake.Events(time.Now())
	if len(held)+len(ended)+len(b.brake.Holds(time.Now())) > 0 {
		b.Errorf("false alarm: %v %v", held, ended)
	}
}

// What is ordinary is done at once, and raises no alarm.
func TestOrdinaryWorkIsNotHeld(t *testing.T) {
	dependents := func(n int) func(*bench, *widgetAPI) {
		return func(b *bench, _ *widgetAPI) { b.seeWidgetDependents(0, n) }
	}
	othersExist := func(b *bench, api *widgetAPI) {
		api.objects.Store(1)
		b.seeWidgetDependents(0, 1000)
	}
	fails := func(err error) func(*bench, *widgetAPI) {
		return func(b *bench, _ *widgetAPI) {
			b.server.fails(registration, err)
			b.seeWidgetDependents(0, 1000)
		}
	}
	notAggregating := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "404 page not found", 0, true)
	for _, c := range []struct {
		name       string
		registered string
		work       func(*bench, *widgetAPI)
		deletions  int
		unasked    bool // no list is asked for
	}{
		{"a Deployment with 5000 pods is deleted in the background", "", func(b *bench, _ *widgetAPI) {
			owner := b.put("owner")
			b.see(owner)
			b.seeDependents(5000, "owner")
			b.OnDelete(configMaps, owner)
		}, 5000, true},
		{"a backup was restored, and all owners have other uids", "", func(b *bench, _ *widgetAPI) {
			for i := range 1000 {
				b.see(b.put(fmt.Sprint("dependent-", i), fmt.Sprint("restored-", i)))
			}
		}, 1000, true},
		{"owners that are gone are custom resources, served by the API server", served, othersExist, 1000, false},
		{"owners that are gone are custom resources, aggregated", aggregated, othersExist, 1000, false},
		{"a role that may not read who serves a group", aggregated,
			fails(apierrors.NewForbidden(schema.GroupResource{}, registration, nil)), 1000, false},
		{"a server that does not aggregate", "", fails(notAggregating), 1000, false},
		{"four dependents are few", aggregated, dependents(4), 4, true},
		{"half of them are not more than half", aggregated, func(b *bench, _ *widgetAPI) {
			b.watchWidgets(0, 500)
			b.seeWidgetDependents(0, 900)
		}, 400, true},
		{"switched off", aggregated, func(b *bench, _ *widgetAPI) {
			b.term.brake = brake.New(brake.Budget{Share: -1})
			b.seeWidgetDependents(0, 100)
		}, 100, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			runWidgets(t, c.registered, func(b *bench, api *widgetAPI) {
				c.work(b, api)
				b.allGone(c.deletions)
				if n := api.lists.Load(); n > 0 && c.unasked {
					b.Errorf("%d lists", n)
				}
			})
		})
	}
	t.Run("a definition with 10,000 objects is deleted", func(t *testing.T) {
		runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
			b.watchWidgets(0, 10000)
			b.seeWidgetDependents(0, 10000)
			for i := range 10000 {
				b.OnDelete(widgets, object(widgetName(i), version("2")))
			}
			b.allGone(10000)
			if n := api.lists.Load(); n > 0 || strings.Contains(strings.Join(b.server.live(), " "), "Widget") {
				b.Errorf("%d lists, or Widgets were read", n)
			}
		})
	})
	t.Run("the definition itself is gone a moment later", func(t *testing.T) {
		runWidgets(t, served, func(b *bench, _ *widgetAPI) {
			b.seeWidgetDependents(0, 10)
			b.allGone(10)
			b.mapper = builtIns{}
			time.Sleep(provedFor)
			b.server.fails(registration, apierrors.NewNotFound(schema.GroupResource{}, registration))
			b.watchWidgets(20, 40)
			b.seeWidgetDependents(20, 40)
			b.loseWidgets(20, 40)
			time.Sleep(2 * time.Minute)
			b.quiet()
		})
	})
}

// allGone expects so many deletions within five seconds, and no alarm in the next minute.
func (b *bench) allGone(want int) {
	b.Helper()
	time.Sleep(5 * time.Second)
	b.wantDeletions(want)
	b.quiet()
	time.Sleep(time.Minute)
	b.quiet()
}

// An aggregated API whose storage is lost answers with an empty list, and finds none of its objects: nothing is deleted.
func TestEmptyListOfABrokenAPI(t *testing.T) {
	for _, c := range []struct {
		name      string
		then      func(b *bench, api *widgetAPI) // 50 minutes after the loss
		cause     brake.Cause                    // empty if the dependents are held on
		deletions int
	}{
		{"it is believed after an hour", func(b *bench, _ *widgetAPI) {
			time.Sleep(9 * time.Minute)
			b.wantDeletions(0)
			time.Sleep(2 * time.Minute)
		}, brake.ByTime, 100},
		{"the hour begins anew when it does not answer", func(_ *bench, api *widgetAPI) {
			api.down.Store(true)
			time.Sleep(20 * time.Minute)
			api.down.Store(false)
			time.Sleep(50 * time.Minute)
		}, "", 0},
		{"an operator releases it", func(b *bench, _ *widgetAPI) { b.brake.SetReleased(true) }, brake.ByOperator, 100},
		{"it has other objects: these were really gone", func(_ *bench, api *widgetAPI) { api.objects.Store(1) }, brake.ByProof, 100},
		{"its storage is back: all owners are read again, and found", func(b *bench, api *widgetAPI) {
			b.putWidgets(0, 90)
			api.objects.Store(1)
		}, brake.ByProof, 10},
		{"the watch shows them again", func(b *bench, _ *widgetAPI) {
			b.putWidgets(0, 100)
			b.watchWidgets(0, 100)
		}, brake.NothingLeft, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
				b.watchWidgets(0, 100)
				b.seeWidgetDependents(0, 100)
				b.loseWidgets(0, 100)
				time.Sleep(50 * time.Minute)
				b.unwritten()
				held, _ := b.brake.Events(time.Now())
				if len(held) != 1 || held[0].What != "the dependents of Widget.example.com" ||
					!strings.Contains(held[0].Why, "no object at all") {
					b.Errorf("the brake says: %v", held)
				}
				if rec, _ := b.records.Get(plan.Key{Namespace: "shop", Name: "ConfigMap:dependent-7"}); !strings.Contains(rec.Why,
					"waits: its owner has not been found") {
					b.Errorf("explained: %+v", rec)
				}
				c.then(b, api)
				time.Sleep(15 * time.Second)
				b.wantDeletions(c.deletions)
				if _, ended := b.brake.Events(time.Now()); c.cause == "" && len(ended) > 0 || c.cause != "" &&
					(len(ended) != 1 || ended[0].Cause != c.cause) {
					b.Errorf("the brake says: %v", ended)
				}
			})
		})
	}
}

// putWidgets stores Widgets with the uids that their dependents state.
func (b *bench) putWidgets(from, to int) {
	b.Helper()
	for i := from; i < to; i++ {
		w := object(widgetName(i))
		w.SetGroupVersionKind(widgetKind.GroupVersionKind)
		b.store(w)
	}
}

// After a restart, dependents come in one after the other: no more than a few go before the brake holds.
func TestBrakeAtTheStart(t *testing.T) {
	runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
		for i := range 100 {
			b.seeWidgetDependents(i, i+1)
			time.Sleep(time.Second)
		}
		if n := b.deletions(); n > 4 {
			b.Errorf("%d deletions", n)
		}
		time.Sleep(2 * time.Hour) // they are not held without end
		b.wantDeletions(100)
	})
}

// What the previous leader has held is held on, also if so few are left that these alone would go, until there is proof.
func TestWhatThePreviousLeaderHeld(t *testing.T) {
	for name, inherited := range map[string]bool{"held": true, "not held": false} {
		t.Run(name, func(t *testing.T) {
			runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
				if inherited {
					b.brake.Inherit(time.Now(), []brake.Hold{{What: held(widgetKind.GroupKind()), Since: time.Now().Add(-time.Minute)}})
				}
				b.seeWidgetDependents(0, 3)
				time.Sleep(2 * time.Minute)
				if !inherited {
					b.wantDeletions(3)
					return
				}
				b.unwritten()
				if holds := b.brake.Holds(time.Now()); len(holds) != 1 || time.Since(holds[0].Since) < 3*time.Minute-time.Second {
					b.Errorf("holds %v", holds)
				}
				api.objects.Store(1)
				time.Sleep(15 * time.Second)
				b.wantDeletions(3)
				b.seeWidgetDependents(3, 6)
				time.Sleep(2 * time.Minute)
				b.wantDeletions(6)
			})
		})
	}
}

// An API that is not well, or whose registration is gone, proves nothing.
func TestUnwellAPI(t *testing.T) {
	for name, registered := range map[string]string{"it is not available": unavailable, "it says nonsense": "no JSON",
		"it is not registered": ""} {
		t.Run(name, func(t *testing.T) {
			runWidgets(t, registered, func(b *bench, api *widgetAPI) {
				b.seeWidgetDependents(0, 100)
				time.Sleep(20 * time.Minute)
				b.unwritten()
				if len(b.brake.Holds(time.Now())) != 1 {
					b.Error("nobody is told")
				}
				b.server.ServeRaw(registration, []byte(served))
				time.Sleep(15 * time.Second)
				b.wantDeletions(100)
			})
		})
	}
}

// A reference to an owner that is not proved to be gone is not removed, either.
func TestReferencesAreHeldToo(t *testing.T) {
	runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
		b.see(b.put("owner"))
		for i := range 10 {
			o := b.put(fmt.Sprint("dependent-", i), "owner")
			o.OwnerReferences = append(o.OwnerReferences, ref(widgetKind, widgetName(i)))
			b.see(o)
		}
		time.Sleep(10 * time.Minute)
		b.unwritten()
	})
}
