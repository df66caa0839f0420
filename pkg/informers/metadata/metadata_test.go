package metadata

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
)

// listModes are the ways in which objects are listed, as faults of the server.
var listModes = map[string]int{"watch list": 0, "list": noWatchList}

type resources = []schema.GroupVersionResource

// withMetadata runs a test in virtual time, against a server in memory. Goroutines that are left fail it.
func withMetadata(t *testing.T, test func(t *testing.T, s *server, i *Informers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		i := New(s.client())
		defer i.Shutdown()
		test(t, s, i)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var errAway = errors.New("connection refused")

// buffered returns a logger, and what it has logged.
func buffered(t *testing.T) (klog.Logger, fmt.Stringer) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
	return logger, logger.GetSink().(ktesting.Underlier).GetBuffer()
}

func wantTold(t *testing.T, m *model, when, want string) {
	t.Helper()
	synctest.Wait()
	if got := m.told(); got != want {
		t.Errorf("%s: told %q, want %q", when, got, want)
	}
}

// A handler is told of what there is, of each change, and of what is gone, without what nobody reads.
func TestMetadataReachesHandlers(t *testing.T) {
	for name, fault := range listModes {
		t.Run(name, func(t *testing.T) {
			withMetadata(t, func(t *testing.T, s *server, i *Informers) {
				m := newModel(t)
				sub := i.Subscribe(m)
				s.setFault(fault, widgets)
				s.set(widgets, object("shop", "apple", "1"))
				s.set(widgets, object("bank", "axe", "2"))
				if sub.Synced(widgets) {
					t.Error("synced before it is wanted")
				}
				sub.SetResources(t.Context(), resources{widgets})
				wantTold(t, m, "at first", "+apple +axe")
				s.set(widgets, object("shop", "bean", "3"))
				s.set(widgets, object("shop", "apple", "1"))
				s.remove(widgets, "bank", "axe")
				wantTold(t, m, "changes", "+apple +bean -axe")
				all := m.knows(widgets)
				if len(all) != 2 {
					t.Errorf("known are %v", all)
				}
				for _, o := range all {
					if o.Annotations != nil || o.ManagedFields != nil || o.Kind != "" {
						t.Errorf("kept %+v", o)
					}
				}
			})
		})
	}
}

// A kind that is not wanted any more (its CRD is gone) has its watch ended, with its goroutines; the handler is not told that
// objects are gone. If it comes back, the handler is told the difference.
func TestAKindVanishesAndComesBack(t *testing.T) {
	for name, fault := range listModes {
		t.Run(name, func(t *testing.T) {
			withMetadata(t, func(t *testing.T, s *server, i *Informers) { testAKindVanishes(t, s, i, fault) })
		})
	}
}

func testAKindVanishes(t *testing.T, s *server, i *Informers, fault int) {
	m := newModel(t)
	s.setFault(fault, widgets)
	sub := i.Subscribe(m)
	s.set(widgets, object("shop", "stays", "1"))
	s.set(widgets, object("shop", "goes", "2"))
	s.set(widgets, object("shop", "again", "3"))
	sub.SetResources(t.Context(), resources{widgets, gadgets})
	wantTold(t, m, "at first", "+again +goes +stays")
	before := runtime.NumGoroutine()
	sub.SetResources(t.Context(), resources{gadgets})
	synctest.Wait()
	s.look(widgets, func(k *servedKind) {
		if after := runtime.NumGoroutine(); k.open != 0 || after >= before {
			t.Errorf("%d watches are open, %d goroutines, before %d", k.open, after, before)
		}
	})
	if sub.Synced(widgets) || !sub.Synced(gadgets) {
		t.Error("synced is what is not wanted, or not what is")
	}
	s.remove(widgets, "shop", "goes")
	s.remove(widgets, "shop", "again")
	s.set(widgets, object("shop", "again", "4"))
	time.Sleep(time.Hour)
	wantTold(t, m, "while it is not wanted", "")
	sub.SetResources(t.Context(), resources{widgets})
	wantTold(t, m, "when it is wanted again", "+again -again -goes")
	if !sub.Synced(widgets) {
		t.Error("not synced")
	}
	sub.SetResources(t.Context(), resources{gadgets})
	sub.Forget(widgets)
	delete(m.objects, widgets)
	sub.SetResources(t.Context(), resources{widgets})
	wantTold(t, m, "when it was forgotten meanwhile", "+again +stays")
	sub.Close()
	sub.SetResources(t.Context(), resources{widgets})
	if got := sub.Resources(); len(got) != 0 || len(i.States()) != 0 {
		t.Errorf("closed, and wants %v", got)
	}
}

// Several who want one resource share one watch, which ends with the last of them. Who comes later is told everything, the
// others nothing twice.
func TestSubscriptionsShareWatches(t *testing.T) {
	withMetadata(t, func(t *testing.T, s *server, i *Informers) {
		check := func(when string, open, asked int) {
			t.Helper()
			synctest.Wait()
			s.look(widgets, func(k *servedKind) {
				if k.open != open || k.asked != asked {
					t.Errorf("%s: %d watches are open after %d requests, want %d, %d", when, k.open, k.asked, open, asked)
				}
			})
		}
		graph, late := newModel(t), newModel(t)
		s.set(widgets, object("shop", "a", "1"))
		one, two := i.Subscribe(graph), i.Subscribe(late)
		one.SetResources(t.Context(), resources{widgets})
		check("one", 1, 1)
		wantTold(t, graph, "one", "+a")
		two.SetResources(t.Context(), resources{widgets})
		if !one.Synced(widgets) || two.Synced(widgets) {
			t.Error("who joins must wait, and nobody else")
		}
		check("another one joins: listed again", 1, 2)
		wantTold(t, late, "listed again", "+a")
		wantTold(t, graph, "listed again", "")
		s.set(widgets, object("shop", "b", "2"))
		wantTold(t, graph, "a change", "+b")
		wantTold(t, late, "a change", "+b")
		one.Close()
		s.set(widgets, object("shop", "c", "3"))
		wantTold(t, graph, "closed", "")
		wantTold(t, late, "still open", "+c")
		check("one is left", 1, 2)
		two.Close()
		check("none is left", 0, 2)
	})
}

// GC-15: a kind that cannot be listed, for whatever reason, blocks no other, neither at the start nor later, and no wait longer
// than it may. It is there soon after it has been mended.
func TestABrokenKindBlocksNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		fault int
		back  time.Duration // within this, after ten minutes
	}{
		"conversion webhook is dead":      {http.StatusInternalServerError, time.Minute},
		"aggregated API is away":          {http.StatusServiceUnavailable, time.Minute},
		"storage is being initialized":    {http.StatusTooManyRequests, 15 * time.Second},
		"forbidden":                       {http.StatusForbidden, 90 * time.Second},
		"not found":                       {http.StatusNotFound, 90 * time.Second},
		"server does not answer":          {hangs, answerTimeout + time.Minute},
		"initial events are not answered": {noHeaders, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withMetadata(t, func(t *testing.T, s *server, i *Informers) {
				m := newModel(t)
				sub := i.Subscribe(m)
				for _, r := range (resources{widgets, gadgets, secrets}) {
					s.set(r, object("shop", r.Resource, r.Resource))
				}
				s.setFault(c.fault, widgets)
				begun := time.Now()
				sub.SetResources(t.Context(), resources{widgets, gadgets})
				if got := sub.WaitForSync(t.Context(), 30*time.Second); !slices.Equal(got, resources{widgets}) ||
					time.Since(begun) != 30*time.Second {
					t.Errorf("unsynced after %v: %v", time.Since(begun), got)
				}
				begun = time.Now()
				sub.SetResources(t.Context(), resources{widgets, gadgets, secrets})
				if got := sub.WaitForSync(t.Context(), 30*time.Second, secrets, gadgets); got != nil || time.Since(begun) != 0 {
					t.Errorf("the others after %v: %v", time.Since(begun), got)
				}
				wantTold(t, m, "the others", "+gadgets +secrets")
				time.Sleep(10 * time.Minute)
				s.setFault(0, widgets)
				if got := sub.WaitForSync(t.Context(), c.back, widgets); got != nil {
					t.Errorf("unsynced %v after it was mended", c.back)
				}
				s.remove(widgets, "shop", "widgets")
				wantTold(t, m, "mended", "+widgets -widgets")
			})
		})
	}
}

// A wait ends with its context, and does not wait for what is not wanted or vanishes.
func TestWaitForSyncIsBounded(t *testing.T) {
	withMetadata(t, func(t *testing.T, s *server, i *Informers) {
		sub := i.Subscribe(nobody)
		s.setFault(hangs, widgets, gadgets)
		sub.SetResources(t.Context(), resources{widgets, gadgets})
		begun := time.Now()
		if got := sub.WaitForSync(t.Context(), time.Hour, secrets); !slices.Equal(got, resources{secrets}) || time.Since(begun) != 0 {
			t.Errorf("what is not wanted: %v after %v", got, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := sub.WaitForSync(ctx, time.Hour); len(got) != 2 || time.Since(begun) != time.Second {
			t.Errorf("ended with its context: %v after %v", got, time.Since(begun))
		}
		time.AfterFunc(time.Second, sub.Close)
		if got := sub.WaitForSync(t.Context(), time.Hour); len(got) != 2 || time.Since(begun) != 2*time.Second {
			t.Errorf("what vanishes: %v after %v", got, time.Since(begun))
		}
	})
}

// Sixty kinds of one dead conversion webhook leave room for others: each is asked less and less, and the log does not grow.
func TestABrokenKindCostsLittle(t *testing.T) {
	withMetadata(t, func(t *testing.T, s *server, i *Informers) {
		logger, buffer := buffered(t)
		sub := i.Subscribe(nobody)
		s.setFault(http.StatusInternalServerError, widgets)
		sub.SetResources(klog.NewContext(t.Context(), logger), resources{widgets})
		time.Sleep(2 * time.Hour)
		s.look(widgets, func(k *servedKind) {
			if k.asked > 200 {
				t.Errorf("asked %d times in two hours", k.asked)
			}
		})
		lines := strings.Split(strings.TrimSpace(buffer.String()), "\n")
		if len(lines) > 10 || !strings.Contains(lines[0], `type="widgets.example.com" failures=1 err="conversion webhook failed"`) {
			t.Errorf("%d lines:\n%s", len(lines), buffer)
		}
		state := i.States()[0]
		if state.Synced || state.Err == nil || !strings.Contains(state.Err.Error(), "conversion webhook failed") ||
			!state.LastActivity.IsZero() {
			t.Errorf("%+v", state)
		}
	})
}

// A server that does not answer, refuses, or has nothing to say does not make a watch stalled; that nothing happens for longer
// than a watch can last does.
func TestMetadataStalled(t *testing.T) {
	for _, fault := range []int{0, http.StatusInternalServerError, http.StatusForbidden, hangs, noHeaders, noEnd} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			withMetadata(t, func(t *testing.T, s *server, i *Informers) {
				s.setFault(fault, widgets)
				i.Subscribe(nobody).SetResources(t.Context(), resources{widgets})
				for range 100 {
					time.Sleep(time.Minute)
					state := i.States()[0]
					if err := state.Stalled(12 * time.Minute); err != nil {
						t.Fatalf("%v: %+v", err, state)
					}
				}
			})
		})
	}
}

// What is ended ends at once, whatever its requests wait for.
func TestABrokenKindEndsAtOnce(t *testing.T) {
	for _, fault := range []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusForbidden, hangs, noHeaders} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			withMetadata(t, func(t *testing.T, s *server, i *Informers) {
				sub := i.Subscribe(nobody)
				s.setFault(fault, widgets)
				sub.SetResources(t.Context(), resources{widgets})
				time.Sleep(10 * time.Minute)
				begun := time.Now()
				sub.Close()
				i.Shutdown()
				if took := time.Since(begun); took != 0 {
					t.Errorf("ended after %v", took)
				}
				sub.SetResources(t.Context(), resources{gadgets})
				if got := i.States(); got != nil {
					t.Errorf("begun after the end: %v", got)
				}
			})
		})
	}
}

// After a watch that has expired, what was missed is found, and the rest is not told again. A list is never older than what
// the handler knows.
func TestMissedChangesAreFound(t *testing.T) {
	for name, fault := range listModes {
		t.Run(name, func(t *testing.T) {
			withMetadata(t, func(t *testing.T, s *server, i *Informers) {
				m := newModel(t)
				sub := i.Subscribe(m)
				s.setFault(fault, widgets)
				for _, name := range []string{"same", "gone", "changed", "anew"} {
					s.set(widgets, object("shop", name, name))
				}
				sub.SetResources(t.Context(), resources{widgets})
				wantTold(t, m, "at first", "+anew +changed +gone +same")
				s.compact(func() {
					s.remove(widgets, "shop", "gone")
					s.set(widgets, object("shop", "changed", "changed"))
					s.remove(widgets, "shop", "anew")
					s.set(widgets, object("shop", "anew", "another"))
				})
				time.Sleep(time.Minute)
				wantTold(t, m, "after the watch has expired", "+anew +changed -anew -gone")
			})
		})
	}
}

// A server that does not end its watches, and may send nothing any more, does not hold a kind for long.
func TestAWatchIsBounded(t *testing.T) {
	withMetadata(t, func(t *testing.T, s *server, i *Informers) {
		sub := i.Subscribe(nobody)
		s.setFault(noEnd, widgets)
		sub.SetResources(t.Context(), resources{widgets})
		synctest.Wait()
		for range 5 {
			asked := 0
			s.look(widgets, func(k *servedKind) { asked = k.asked })
			time.Sleep(10*time.Minute + watchOvertime)
			synctest.Wait()
			s.look(widgets, func(k *servedKind) {
				if k.asked == asked || k.open != 1 {
					t.Errorf("%d requests, %d watches are open", k.asked-asked, k.open)
				}
			})
		}
	})
}

// Whatever happens to objects, watches and wishes, handlers end up with what the server has.
func TestMetadataConverges(t *testing.T) {
	for seed := range uint64(150) {
		with := withMetadata
		if seed%2 > 0 {
			with = withCaches
		}
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			with(t, func(t *testing.T, s *server, i *Informers) {
				draw, all := rand.New(rand.NewPCG(seed, 0)), resources{widgets, gadgets, secrets}
				models := []*model{newModel(t), newModel(t)}
				subs := []*Subscription{
					i.Subscribe(models[0]),
					i.Subscribe(models[1]),
				}
				for step := range 60 {
					r, sub := all[draw.IntN(3)], subs[draw.IntN(2)]
					switch name := fmt.Sprint("o", draw.IntN(5)); draw.IntN(9) {
					case 0, 1, 2:
						o, uid := object("shop", name, ""), fmt.Sprint(name, "-", step)
						s.look(r, func(k *servedKind) {
							if before := k.objects["shop/"+name]; before != nil {
								uid = string(before.UID)
							}
						})
						o.UID = types.UID(uid)
						s.set(r, o)
					case 3, 4:
						s.remove(r, "shop", name)
					case 5:
						s.compact(func() { s.remove(r, "shop", name) })
					case 6:
						s.setFault([]int{0, http.StatusInternalServerError, hangs, noWatchList}[draw.IntN(4)], r)
					case 7:
						sub.SetResources(t.Context(), all[:draw.IntN(4)])
					case 8:
						time.Sleep(time.Duration(draw.Int64N(int64(20 * time.Second))))
					}
				}
				s.setFault(0, all...)
				for _, sub := range subs {
					sub.SetResources(t.Context(), all)
					if unsynced := sub.WaitForSync(t.Context(), 5*time.Minute); unsynced != nil {
						t.Fatalf("unsynced: %v", unsynced)
					}
				}
				time.Sleep(5 * time.Minute)
				for _, r := range all {
					want := map[types.UID]string{}
					s.look(r, func(k *servedKind) {
						for _, o := range k.objects {
							want[o.UID] = o.ResourceVersion
						}
					})
					for n, got := range [][]*metav1.PartialObjectMetadata{models[0].knows(r), models[1].knows(r)} {
						if versions := versionsOf(got); !maps.Equal(versions, want) {
							t.Errorf("%s, %d: %v, want %v", r.Resource, n, versions, want)
						}
					}
				}
			})
		})
	}
}

func versionsOf(objects []*metav1.PartialObjectMetadata) map[types.UID]string {
	all := map[types.UID]string{}
	for _, o := range objects {
		all[o.UID] = o.ResourceVersion
	}
	return all
}

// A handler that keeps nothing of an object has the only copy: nobody else keeps it.
func TestNoObjectIsKept(t *testing.T) {
	withMetadata(t, func(t *testing.T, s *server, i *Informers) {
		var seen weak.Pointer[metav1.PartialObjectMetadata]
		sub := i.Subscribe(handlerFunc(func(o *metav1.PartialObjectMetadata) { seen = weak.Make(o) }))
		sub.SetResources(t.Context(), resources{widgets})
		s.set(widgets, object("shop", "a", "1"))
		s.set(widgets, object("shop", "b", "2"))
		synctest.Wait()
		s.compact(func() {}) // the reflector lets go of its last event
		s.setFault(http.StatusInternalServerError, widgets)
		synctest.Wait()
		runtime.GC()
		runtime.GC()
		if seen.Value() != nil {
			t.Error("an object is kept")
		}
		if state := i.States()[0]; state.Objects != 2 || !state.Synced || state.LastActivity.IsZero() {
			t.Errorf("%+v", state)
		}
	})
}

// nobody is told, and keeps nothing.
var nobody = handlerFunc(func(*metav1.PartialObjectMetadata) {})

type handlerFunc func(*metav1.PartialObjectMetadata)

func (f handlerFunc) OnUpdate(_ schema.GroupVersionResource, o *metav1.PartialObjectMetadata) { f(o) }
func (f handlerFunc) OnDelete(schema.GroupVersionResource, *metav1.PartialObjectMetadata)     {}

// Handlers may ask the subscription, also while SetResources changes what is wanted.
func TestHandlersMayAsk(t *testing.T) {
	withMetadata(t, func(t *testing.T, s *server, i *Informers) {
		asked := 0
		var sub *Subscription
		sub = i.Subscribe(handlerFunc(func(*metav1.PartialObjectMetadata) {
			if sub.Synced(gadgets) && len(sub.Resources()) > 0 {
				asked++
			}
		}))
		s.set(gadgets, object("shop", "g", "g"))
		sub.SetResources(t.Context(), resources{gadgets})
		synctest.Wait()
		for n := range 10 {
			s.set(widgets, object("shop", fmt.Sprint(n), fmt.Sprint(n)))
			sub.SetResources(t.Context(), resources{gadgets, widgets}[:1+n%2])
		}
		sub.SetResources(t.Context(), resources{gadgets, widgets})
		synctest.Wait()
		if asked < 10 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// Where the versions of a server have begun anew, its objects are other ones than before.
func TestVersionsThatBeginAnew(t *testing.T) {
	m, w := newModel(t), newResourceWatch(nil, widgets, &listwatch.Rollbacks{})
	w.feeds = []*feed{newFeed(widgets, m, nil)}
	w.sink = &sink{w}
	list := func(version, want string) {
		t.Helper()
		o := object("shop", "a", "uid")
		o.ResourceVersion = version
		must[any](nil, w.sink.Replace([]any{o}, version))
		if got := m.told(); got != want {
			t.Errorf("told %q of version %s, want %q", got, version, want)
		}
	}
	list("1000", "+a")
	list("1000", "")
	list("1001", "+a")
	list("10", "+a -a")
}

// What a reflector still brings after it was replaced, or ended, counts no more.
func TestReplacedReflectorsCountNoMore(t *testing.T) {
	m, w := newModel(t), newResourceWatch(nil, widgets, &listwatch.Rollbacks{})
	w.feeds = []*feed{newFeed(widgets, m, nil)}
	old := &sink{w}
	w.sink = old
	must[any](nil, old.Add(object("shop", "a", "1")))
	w.sink = &sink{w}
	must[any](nil, errors.Join(old.Add(object("shop", "b", "2")), old.Delete(object("shop", "a", "1")), old.Replace(nil, "1")))
	if got := m.told(); got != "+a" {
		t.Errorf("told %q", got)
	}
}

func TestStripMetadata(t *testing.T) { // CI-11
	o := object("shop", "a", "1")
	o.Annotations["keep"] = "me"
	o.Labels, o.Finalizers = map[string]string{"app": "web"}, []string{"orphan"}
	stripMetadata(o)
	if len(o.Annotations) != 1 || o.Annotations["keep"] != "me" || o.ManagedFields != nil || o.Labels["app"] != "web" ||
		len(o.Finalizers) != 1 {
		t.Errorf("%+v", o)
	}
	o = object("shop", "a", "1")
	if stripMetadata(o); o.Annotations != nil {
		t.Errorf("an empty map is kept: %v", o.Annotations)
	}
	if _, ok := o.Annotations[corev1.LastAppliedConfigAnnotation]; ok {
		t.Error("kept")
	}
	sink := &sink{}
	if err := sink.Add("nonsense"); err == nil {
		t.Error("no error")
	}
	// Of initial events the reflector keeps what this leaves, until all have come.
	if o := must(sink.Transformer()(object("shop", "a", "1"))).(*metav1.PartialObjectMetadata); o.ManagedFields != nil {
		t.Errorf("kept %+v", o)
	}
}

func partly(groups ...string) error {
	err := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{}}
	for _, g := range groups {
		err.Groups[schema.GroupVersion{Group: g, Version: "v1"}] = errors.New("stale")
	}
	return fmt.Errorf("wrapped: %w", err)
}

// GC-9, GC-10, RQ-15: failing discovery never drops anything.
func TestStillWanted(t *testing.T) {
	beta := widgets
	beta.Version = "v1beta1"
	for _, c := range []struct {
		name           string
		current, found resources
		err            error
		want           resources
	}{
		{"everything is found", resources{widgets, gadgets}, resources{widgets, secrets}, nil, resources{widgets, secrets}},
		{"a new version is preferred", resources{beta}, resources{widgets}, nil, resources{widgets}},
		{"nothing is known", resources{widgets, gadgets}, nil, errAway, resources{widgets, gadgets}},
		{"nothing is known, something is found", resources{widgets}, resources{gadgets}, errAway, resources{widgets, gadgets}},
		{"a group fails: what it has stays, what others have goes and comes", resources{widgets, gadgets}, resources{secrets},
			partly("example.com"), resources{widgets, secrets}},
		{"a group fails in its preferred version", resources{widgets}, resources{beta}, partly("example.com"), resources{widgets}},
		{"a group fails at the start", nil, resources{beta, gadgets}, partly("example.com"), resources{beta, gadgets}},
		{"the core group fails", resources{secrets, widgets}, nil, partly(""), resources{secrets}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := stillWanted(c.current, c.found, c.err); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// GC-6: at once, and then in the period after the end of the last time. Errors are logged when they begin, change and end.
func TestFollow(t *testing.T) {
	withMetadata(t, func(t *testing.T, s *server, i *Informers) {
		logger, buffer := buffered(t)
		sub := i.Subscribe(nobody)
		rounds := []struct {
			found resources
			err   error
			want  resources
		}{
			{resources{widgets, gadgets}, nil, resources{widgets, gadgets}},
			{nil, errAway, resources{widgets, gadgets}},
			{nil, errAway, resources{widgets, gadgets}},
			{nil, nil, resources{widgets, gadgets}},
			{resources{secrets}, partly(gadgets.Group), resources{secrets, gadgets}},
			{resources{secrets}, nil, resources{secrets}},
		}
		var asked []time.Duration
		var told []bool // whether the update had no error
		begun := time.Now()
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			sub.Follow(ctx, func(context.Context) (resources, error) {
				asked = append(asked, time.Since(begun))
				time.Sleep(5 * time.Second)
				round := rounds[len(asked)-1]
				return round.found, round.err
			}, 30*time.Second, func(_ context.Context, err error) {
				told = append(told, err == nil)
			})
		}()
		for n, round := range rounds {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := sub.Resources(); !slices.Equal(got, round.want) {
				t.Errorf("after %d: %v, want %v", n, got, round.want)
			}
			time.Sleep(20 * time.Second)
			if n < len(rounds)-1 {
				time.Sleep(5 * time.Second)
			}
		}
		cancel()
		<-ended
		if got := fmt.Sprint(told); got != "[true false false false false true]" {
			t.Errorf("told of updates: %s", got)
		}
		if got := fmt.Sprint(asked); got != "[0s 35s 1m10s 1m45s 2m20s 2m55s]" {
			t.Errorf("asked after %s", got)
		}
		if got := sub.WaitForSync(t.Context(), time.Second); got != nil {
			t.Errorf("the watches have ended with Follow: %v", got)
		}
		lines := strings.Split(strings.TrimSpace(buffer.String()), "\n")
		for n, want := range []string{"connection refused", "no resources were discovered", "stale", "complete again"} {
			if n >= len(lines) || len(lines) != 4 || !strings.Contains(lines[n], want) {
				t.Errorf("%d lines, want %q:\n%s", len(lines), want, buffer)
				break
			}
		}
	})
}
