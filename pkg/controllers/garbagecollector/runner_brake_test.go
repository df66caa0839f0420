package garbagecollector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// withWidgets knows one kind more.
type withWidgets struct{ builtIns }

func (w withWidgets) Mapping(ctx context.Context, kind schema.GroupVersionKind) (client.Mapping, error) {
	if kind == widgetKind.GroupVersionKind {
		return client.Mapping{GroupVersionKind: kind, Resource: "widgets", Namespaced: true}, nil
	}
	return w.builtIns.Mapping(ctx, kind)
}

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
	list := metav1.PartialObjectMetadataList{Items: make([]metav1.PartialObjectMetadata, a.objects.Load())}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	body, err := json.Marshal(list)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}, err
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
		b.mapper = withWidgets{}
		b.kinds[widgets] = widgetKind
		b.mu.Unlock()
		if registered != "" {
			b.server.ServeRaw(registration, []byte(registered))
		}
		test(b, api)
	})
}

// dependents puts ConfigMaps that belong to Widgets, one to each, and shows them.
func (b *bench) dependents(from, to int) {
	b.Helper()
	for i := from; i < to; i++ {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprint("dependent-", i), UID: types.UID(fmt.Sprint("dependent-", i)),
			OwnerReferences: []metav1.OwnerReference{ref(widgetKind, widgetName(i))},
		}}
		made, err := b.server.Put(o)
		if err != nil {
			b.Fatal(err)
		}
		b.see(&metav1.PartialObjectMetadata{ObjectMeta: made.(*corev1.ConfigMap).ObjectMeta})
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

func (b *bench) deletions() int { return b.server.CountWrites("delete ConfigMap dependent-") }

// quiet expects that the brake holds nothing, and has told nobody of anything.
func (b *bench) quiet() {
	b.Helper()
	held, ended := b.brake.News(time.Now())
	if len(held)+len(ended)+len(b.brake.Holds(time.Now())) > 0 {
		b.Errorf("false alarm: %v %v", held, ended)
	}
}

// What is ordinary is done at once, and raises no alarm.
func TestOrdinaryWorkIsNotHeld(t *testing.T) {
	t.Run("a Deployment with 5000 pods is deleted in the background", func(t *testing.T) {
		run(t, func(b *bench) {
			owner := b.put("owner")
			b.see(owner)
			for i := range 5000 {
				b.see(b.put(fmt.Sprint("dependent-", i), "owner"))
			}
			b.OnDelete(configMaps, owner)
			b.allGone(5000)
		})
	})
	t.Run("a definition with 10,000 objects is deleted", func(t *testing.T) {
		runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
			b.watchWidgets(0, 10000)
			b.dependents(0, 10000)
			for i := range 10000 {
				b.OnDelete(widgets, object(widgetName(i), version("2")))
			}
			b.allGone(10000)
			if n := api.lists.Load(); n > 0 || strings.Contains(strings.Join(b.server.live(), " "), "Widget") {
				b.Errorf("%d lists, or Widgets were read", n)
			}
		})
	})
	t.Run("a backup was restored, and all owners have other uids", func(t *testing.T) {
		run(t, func(b *bench) {
			for i := range 1000 {
				b.see(b.put(fmt.Sprint("dependent-", i), fmt.Sprint("restored-", i)))
			}
			b.allGone(1000)
		})
	})
	for name, registered := range map[string]string{"served by the API server": served, "aggregated": aggregated} {
		t.Run("owners that are gone are custom resources, "+name, func(t *testing.T) {
			runWidgets(t, registered, func(b *bench, api *widgetAPI) {
				api.objects.Store(1)
				b.dependents(0, 1000)
				b.allGone(1000)
			})
		})
	}
	t.Run("the definition itself is gone a moment later", func(t *testing.T) {
		runWidgets(t, served, func(b *bench, api *widgetAPI) {
			b.dependents(0, 10)
			b.allGone(10)
			b.mapper = builtIns{}
			time.Sleep(provedFor)
			b.server.raw(registration, apierrors.NewNotFound(schema.GroupResource{}, registration))
			b.watchWidgets(20, 40)
			b.dependents(20, 40)
			b.loseWidgets(20, 40)
			time.Sleep(2 * time.Minute)
			b.quiet()
		})
	})
	t.Run("a role that may not read who serves a group", func(t *testing.T) {
		runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
			b.server.raw(registration, apierrors.NewForbidden(schema.GroupResource{}, registration, nil))
			b.dependents(0, 1000)
			b.allGone(1000)
		})
	})
	t.Run("a server that does not aggregate", func(t *testing.T) {
		runWidgets(t, "", func(b *bench, api *widgetAPI) {
			b.server.raw(registration, apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "404 page not found", 0, true))
			b.dependents(0, 1000)
			b.allGone(1000)
		})
	})
	t.Run("four dependents are few", func(t *testing.T) {
		runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
			b.dependents(0, 4)
			b.allGone(4)
			if n := api.lists.Load(); n > 0 {
				b.Errorf("%d lists", n)
			}
		})
	})
	t.Run("half of them are not more than half", func(t *testing.T) {
		runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
			b.watchWidgets(0, 500)
			b.dependents(0, 500)
			b.dependents(500, 900)
			b.allGone(400)
			if n := api.lists.Load(); n > 0 {
				b.Errorf("%d lists", n)
			}
		})
	})
	t.Run("switched off", func(t *testing.T) {
		runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
			b.brake = brake.New(brake.Budget{Share: -1})
			b.dependents(0, 100)
			b.allGone(100)
		})
	})
}

// allGone expects so many deletions within five seconds, and no alarm in the next minute.
func (b *bench) allGone(want int) {
	b.Helper()
	time.Sleep(5 * time.Second)
	if n := b.deletions(); n != want {
		b.Errorf("%d deletions, want %d", n, want)
	}
	b.quiet()
	time.Sleep(time.Minute)
	b.quiet()
}

// An aggregated API whose storage is lost answers with an empty list, and finds none of its objects: nothing is deleted.
func TestEmptyListOfABrokenAPI(t *testing.T) {
	lost := func(t *testing.T, test func(b *bench, api *widgetAPI)) {
		t.Helper()
		runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
			b.watchWidgets(0, 100)
			b.dependents(0, 100)
			b.loseWidgets(0, 100)
			time.Sleep(50 * time.Minute)
			if log := b.server.Log(); len(log) > 0 {
				b.Fatalf("written: %v", log)
			}
			held, _ := b.brake.News(time.Now())
			if len(held) != 1 || held[0].What != "the dependents of Widget.example.com" || !strings.Contains(held[0].Why, "no object at all") {
				b.Errorf("the brake says: %v", held)
			}
			if rec, _ := b.records.Get(plan.Key{Namespace: "shop", Name: "ConfigMap:dependent-7"}); !strings.Contains(rec.Why, "waits: its owner has not been found") {
				b.Errorf("explained: %+v", rec)
			}
			test(b, api)
		})
	}
	ends := func(b *bench, cause brake.Cause, deletions int) {
		b.Helper()
		if n := b.deletions(); n != deletions {
			b.Errorf("%d deletions, want %d", n, deletions)
		}
		if _, ended := b.brake.News(time.Now()); len(ended) != 1 || ended[0].Cause != cause {
			b.Errorf("the brake says: %v", ended)
		}
	}
	t.Run("it is believed after an hour", func(t *testing.T) {
		lost(t, func(b *bench, api *widgetAPI) {
			time.Sleep(9 * time.Minute)
			if n := b.deletions(); n > 0 {
				b.Errorf("%d deletions after 59 minutes", n)
			}
			time.Sleep(2 * time.Minute)
			ends(b, brake.ByTime, 100)
		})
	})
	t.Run("the hour begins anew when it does not answer", func(t *testing.T) {
		lost(t, func(b *bench, api *widgetAPI) {
			api.down.Store(true)
			time.Sleep(20 * time.Minute)
			api.down.Store(false)
			time.Sleep(50 * time.Minute)
			if n := b.deletions(); n > 0 {
				b.Errorf("%d deletions", n)
			}
		})
	})
	t.Run("an operator releases it", func(t *testing.T) {
		lost(t, func(b *bench, api *widgetAPI) {
			b.brake.SetReleased(true)
			time.Sleep(15 * time.Second)
			ends(b, brake.ByOperator, 100)
		})
	})
	t.Run("it has other objects: these were really gone", func(t *testing.T) {
		lost(t, func(b *bench, api *widgetAPI) {
			api.objects.Store(1)
			time.Sleep(15 * time.Second)
			ends(b, brake.ByProof, 100)
		})
	})
	t.Run("its storage is back: all owners are read again, and found", func(t *testing.T) {
		lost(t, func(b *bench, api *widgetAPI) {
			b.putWidgets(0, 90)
			api.objects.Store(1)
			time.Sleep(15 * time.Second)
			ends(b, brake.ByProof, 10)
		})
	})
	t.Run("the watch shows them again", func(t *testing.T) {
		lost(t, func(b *bench, api *widgetAPI) {
			b.putWidgets(0, 100)
			b.watchWidgets(0, 100)
			time.Sleep(15 * time.Second)
			ends(b, brake.NothingLeft, 0)
		})
	})
}

// putWidgets stores Widgets with the uids that their dependents state.
func (b *bench) putWidgets(from, to int) {
	b.Helper()
	for i := from; i < to; i++ {
		w := &unstructured.Unstructured{}
		w.SetGroupVersionKind(widgetKind.GroupVersionKind)
		w.SetNamespace("shop")
		w.SetName(widgetName(i))
		w.SetUID(types.UID(widgetName(i)))
		if _, err := b.server.Put(w); err != nil {
			b.Fatal(err)
		}
	}
}

// After a restart, dependents come in one after the other: no more than a few go before the brake holds.
func TestBrakeAtTheStart(t *testing.T) {
	runWidgets(t, aggregated, func(b *bench, api *widgetAPI) {
		for i := range 100 {
			b.dependents(i, i+1)
			time.Sleep(time.Second)
		}
		if n := b.deletions(); n > 4 {
			b.Errorf("%d deletions", n)
		}
		time.Sleep(2 * time.Hour) // they are not held without end
		if n := b.deletions(); n != 100 {
			b.Errorf("%d deletions after two hours", n)
		}
	})
}

// An API that is not well, or whose registration is gone, proves nothing.
func TestUnwellAPI(t *testing.T) {
	for name, registered := range map[string]string{"it is not available": unavailable, "it says nonsense": "no JSON", "it is not registered": ""} {
		t.Run(name, func(t *testing.T) {
			runWidgets(t, registered, func(b *bench, api *widgetAPI) {
				b.dependents(0, 100)
				time.Sleep(20 * time.Minute)
				if log := b.server.Log(); len(log) > 0 {
					b.Errorf("written: %v", log)
				}
				if len(b.brake.Holds(time.Now())) != 1 {
					b.Error("nobody is told")
				}
				b.server.ServeRaw(registration, []byte(served))
				time.Sleep(15 * time.Second)
				if n := b.deletions(); n != 100 {
					b.Errorf("%d deletions when it is well", n)
				}
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
		if log := b.server.Log(); len(log) > 0 {
			b.Errorf("written: %v", log)
		}
	})
}

// raw has the server answer a path with an error.
func (s *reads) raw(path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[path] = err
}

func (s *reads) GetRaw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	s.mu.Lock()
	err := s.fail[path]
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Server.GetRaw(ctx, path, query)
}
