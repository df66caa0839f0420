package devicetainteviction

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bench is a server on which the controller works in virtual time.
type bench struct {
	*testing.T
	*clienttest.Server
	events  *record.FakeRecorder
	metrics metrics.KubeRegistry
	brake   *brake.Brake
	held    []brake.Hold // by the last leader
}

// run runs the controller, for each term as the leader anew.
func run(t *testing.T, terms ...func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Server: clienttest.NewServer(), events: record.NewFakeRecorder(1000)}
		for _, test := range terms {
			b.start(func() { test(b) })
		}
	})
}

// start runs the controller while something is done. It knows what the one before has held.
func (b *bench) start(test func()) {
	entry := New(Options{})
	var caches []managertest.Cache
	for _, o := range []plan.Object{&corev1.Pod{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{},
		&resourcev1.DeviceTaintRule{}} {
		caches = append(caches, managertest.Cache{Example: o})
	}
	c := managertest.Context(b.T, b.Server, entry, caches...)
	c.Brake.Inherit(time.Now(), b.held)
	c.Access.Events, b.brake, b.metrics = b.events, c.Brake, metrics.NewKubeRegistry()
	c.RegisterMetrics = b.metrics.MustRegister
	managertest.Run(b.T, c, entry, func() {
		test()
		b.held = b.brake.Noted(time.Now())
	})
}

func (b *bench) put(objects ...plan.Object) {
	b.Helper()
	for _, o := range objects {
		if _, err := b.Put(o); err != nil {
			b.Fatal(err)
		}
	}
	synctest.Wait()
}

// rule puts a rule in its next generation.
func (b *bench) rule(generation int64, selector *resourcev1.DeviceTaintSelector, effect resourcev1.DeviceTaintEffect) {
	b.Helper()
	r := newRule("r", selector, now("k"))
	r.Spec.Taint.Effect, r.Generation, r.CreationTimestamp = effect, generation, metav1.Time{Time: time.Now()}
	is := &resourcev1.DeviceTaintRule{}
	if err := b.Get(b.Context(), client.MappingFor[*resourcev1.DeviceTaintRule](), plan.Key{Name: "r"}, is); err == nil {
		r.Status, r.CreationTimestamp = is.Status, is.CreationTimestamp
	}
	b.put(r)
}

func remove[T plan.Object](b *bench, key plan.Key) {
	b.Helper()
	if err := b.Delete(b.Context(), client.MappingFor[T](), key, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// now is a NoExecute taint that is added now.
func now(key string) resourcev1.DeviceTaint {
	t := bad(key, 0)
	t.TimeAdded = &metav1.Time{Time: time.Now()}
	return t
}

// told returns the events of evictions so far.
func (b *bench) told() (events []string) {
	for {
		select {
		case e := <-b.events.Events:
			if text, ok := strings.CutPrefix(e, "Normal DeviceTaintManagerEviction "); ok {
				events = append(events, text)
			}
		default:
			return events
		}
	}
}

// left checks which pods are there.
func (b *bench) left(want ...string) {
	b.Helper()
	synctest.Wait()
	got := b.Names(client.KindFor[*corev1.Pod]())
	if slices.Sort(got); !slices.Equal(got, want) {
		b.Errorf("there are %v, want %v: %v", got, want, b.Log())
	}
}

// status is what the rule says.
func (b *bench) status() string {
	r := &resourcev1.DeviceTaintRule{}
	err := b.Get(b.Context(), client.MappingFor[*resourcev1.DeviceTaintRule](), plan.Key{Name: "r"}, r)
	if err != nil || len(r.Status.Conditions) != 1 {
		return fmt.Sprint(err, r.Status)
	}
	c := r.Status.Conditions[0]
	return fmt.Sprintf("%s %s %d %s", c.Status, c.Reason, c.ObservedGeneration, c.Message)
}

// A pod waits for as long as its claim tolerates the taint, stays if that is gone in time, and goes when the time is over.
func TestTimes(t *testing.T) { // DTE-3, DTE-5, DTE-6
	run(t, func(b *bench) {
		web := newPod("web", names("c"))
		b.put(web, newClaim("c", by(web), tolerating(tolerates("k", 300))), newSlice("s", 1, now("k")))
		time.Sleep(299 * time.Second)
		b.left("web")
		b.put(newSlice("s", 1))
		time.Sleep(time.Hour)
		b.left("web")
		if events := b.told(); !slices.Equal(events, []string{"Cancelling deletion"}) || b.CountWrites("") > 0 {
			b.Error(events, b.Log())
		}
		b.put(newSlice("s", 1, now("k")))
		time.Sleep(301 * time.Second)
		b.left()
		if events := b.told(); !slices.Equal(events, []string{"Marking for deletion"}) || b.CountWrites("") != 2 {
			b.Error(events, b.Log())
		}
	})
}

// At rest nothing is written, whatever is tainted and tolerated, and whoever begins to lead.
func TestNothingIsWrittenAtRest(t *testing.T) {
	rest := func(b *bench) {
		before := b.CountWrites("")
		time.Sleep(time.Hour)
		if b.CountWrites("") != before {
			b.Error(b.Log())
		}
	}
	run(t, func(b *bench) {
		web := newPod("web", names("c"))
		b.put(web, newClaim("c", by(web), tolerating(tolerates("", -1))), newSlice("s", 1, now("k")))
		b.rule(1, everything(), "NoExecute")
		time.Sleep(time.Minute)
		rest(b)
	}, rest, func(b *bench) {
		gone := newPod("gone", names("d"))
		b.put(gone, newClaim("d", by(gone)))
		time.Sleep(time.Minute)
		b.left("web")
		rest(b)
	}, rest)
}

// A pod goes, whatever has been done of it when a process has ended.
func TestCrashAtEveryWrite(t *testing.T) {
	for writes := range 5 {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{T: t, Server: clienttest.NewServer(), events: record.NewFakeRecorder(1000)}
			web, db := newPod("web", names("c")), newPod("db", names("d"))
			b.put(web, db, newClaim("c", by(web)), newClaim("d", by(db)), newSlice("s", 1, now("k")))
			stopped := errors.New("the process has ended")
			b.BeforeWrite(func(clienttest.Write) error {
				if b.CountWrites("") > writes {
					return stopped
				}
				return nil
			})
			b.start(func() { time.Sleep(time.Minute) })
			b.BeforeWrite(nil)
			b.start(func() { time.Sleep(time.Minute) })
			b.left()
		})
	}
}

// An eviction that fails is tried again without end, and told once.
func TestEvictionsAreNotLost(t *testing.T) { // DTE-1
	run(t, func(b *bench) {
		b.BeforeWrite(func(clienttest.Write) error { return apierrors.NewInternalError(errors.New("a webhook")) })
		web := newPod("web", names("c"))
		b.put(web, newClaim("c", by(web)), newSlice("s", 1, now("k")))
		time.Sleep(10 * time.Minute)
		b.left("web")
		b.BeforeWrite(nil)
		time.Sleep(2 * time.Minute)
		b.left()
		if events := b.told(); len(events) != 1 {
			b.Error(events)
		}
	})
}

// While the caches are behind, no pod goes for a taint that is gone, and none in the place of another one.
func TestEverythingIsReadLive(t *testing.T) { // DTE-5
	for name, gone := range map[string]func(b *bench, web *corev1.Pod){
		"the taint in a slice": func(b *bench, _ *corev1.Pod) {
			b.FreezeWatches(client.KindFor[*resourcev1.ResourceSlice]())
			b.put(newSlice("s", 1))
		},
		"the taint in a rule": func(b *bench, _ *corev1.Pod) {
			b.put(newSlice("s", 1))
			b.FreezeWatches(client.KindFor[*resourcev1.DeviceTaintRule]())
			remove[*resourcev1.DeviceTaintRule](b, plan.Key{Name: "r"})
		},
		"the effect of a rule": func(b *bench, _ *corev1.Pod) {
			b.put(newSlice("s", 1))
			b.FreezeWatches(client.KindFor[*resourcev1.DeviceTaintRule]())
			b.rule(2, everything(), "None")
		},
		"the latest generation of the pool": func(b *bench, _ *corev1.Pod) {
			b.FreezeWatches(client.KindFor[*resourcev1.ResourceSlice]())
			b.put(newSlice("next", 2))
		},
		"the pod": func(b *bench, web *corev1.Pod) {
			b.FreezeWatches(client.KindFor[*corev1.Pod]())
			remove[*corev1.Pod](b, plan.KeyOf(web))
			b.put(newPod("web", names("c"), uid("another")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *bench) {
				web := newPod("web", names("c"))
				b.put(web, newClaim("c", by(web), tolerating(tolerates("k", 60))), newSlice("s", 1))
				if b.rule(1, everything(), "NoExecute"); !strings.HasSuffix(name, "a rule") {
					b.rule(2, everything(), "None")
					b.put(newSlice("s", 1, now("k")))
				}
				time.Sleep(50 * time.Second)
				gone(b, web)
				time.Sleep(time.Hour)
				b.left("web")
				if b.CountWrites("patch Pod") > 0 {
					b.Error(b.Log())
				}
			})
		})
	}
}

// A read for another pod may be older than the taint that the cache shows. The pod goes a moment later then.
func TestOldReadsDoNotKeepPods(t *testing.T) { // DTE-5
	run(t, func(b *bench) {
		web, db := newPod("web", names("c")), newPod("db", names("d"))
		b.put(web, db, newClaim("c", by(web)), newClaim("d", by(db), only("q", "d0")))
		b.put(newSlice("s", 1, now("k")))
		b.left("db")
		time.Sleep(time.Second / 2)
		b.put(sliceOf("q", "t", 1, now("k")))
		time.Sleep(2 * time.Second)
		b.left()
		if events := b.told(); !slices.Equal(events, []string{"Marking for deletion", "Marking for deletion"}) {
			b.Error(events)
		}
	})
}

// One list of the slices of a driver does for all pods that are due together.
func TestReadBudget(t *testing.T) {
	run(t, func(b *bench) {
		b.put(crowd(40)...)
		b.put(newSlice("s", 1, now("k")))
		time.Sleep(time.Minute)
		b.left()
		if got := b.CountWrites(""); got != 80 {
			b.Errorf("%d writes", got)
		}
	})
}

// Pods that a rule concerns out of the ordinary are held for five minutes, whoever leads, and people are told.
func TestBrake(t *testing.T) { // DTE-22
	all := []string{"web-0", "web-1", "web-2", "web-3", "web-4", "web-5"}
	begin := func(b *bench) {
		b.put(crowd(6)...)
		b.rule(1, everything(), "NoExecute")
		time.Sleep(4 * time.Minute)
		b.left(all...)
	}
	t.Run("for its time", func(t *testing.T) {
		run(t, func(b *bench) {
			begin(b)
			held, _ := b.brake.Events(time.Now())
			if len(held) != 1 || held[0].What != "pods that the DeviceTaintRule r evicts" || held[0].Why != "it concerns 6 of 6 pods with devices" {
				b.Errorf("%+v", held)
			}
			if got := b.status(); !strings.HasPrefix(got, "True PodsPendingEviction 1 6 pods") {
				b.Error(got)
			}
			time.Sleep(61 * time.Second)
			b.left()
			if _, ended := b.brake.Events(time.Now()); len(ended) != 1 || ended[0].Cause != brake.ByTime {
				b.Errorf("%+v", ended)
			}
		})
	})
	t.Run("by the next leader, too", func(t *testing.T) {
		var began, deleted time.Time
		var mu sync.Mutex
		run(t, func(b *bench) {
			begin(b)
			b.BeforeWrite(func(w clienttest.Write) error {
				mu.Lock()
				defer mu.Unlock()
				if w.Verb == "delete" && deleted.IsZero() {
					deleted = time.Now()
				}
				return nil
			})
			began = time.Now()
		}, func(b *bench) { b.left() })
		if took := deleted.Sub(began); took < 59*time.Second || took > 61*time.Second {
			t.Errorf("they go %s after the process began to lead", took)
		}
	})
	t.Run("until the rule is gone", func(t *testing.T) {
		run(t, func(b *bench) {
			begin(b)
			b.brake.Events(time.Now())
			remove[*resourcev1.DeviceTaintRule](b, plan.Key{Name: "r"})
			time.Sleep(time.Hour)
			b.left(all...)
			if _, ended := b.brake.Events(time.Now()); len(ended) != 1 || ended[0].Cause != brake.NothingLeft {
				b.Errorf("%+v", ended)
			}
		})
	})
	t.Run("until an operator releases it", func(t *testing.T) {
		run(t, func(b *bench) {
			begin(b)
			b.brake.SetReleased(true)
			time.Sleep(lookAtHeld + time.Second)
			b.left()
		})
	})
	t.Run("unless the status has told of it", func(t *testing.T) {
		run(t, func(b *bench) {
			b.put(crowd(6)...)
			b.rule(1, everything(), "None")
			time.Sleep(time.Minute)
			b.left(all...)
			b.rule(2, everything(), "NoExecute")
			time.Sleep(time.Second)
			b.left()
		})
	})
	t.Run("unless its status has told of fewer", func(t *testing.T) {
		run(t, func(b *bench) {
			b.put(crowd(1)...)
			b.rule(1, everything(), "None")
			time.Sleep(time.Minute)
			b.put(crowd(6)...)
			b.rule(2, everything(), "NoExecute")
			time.Sleep(4 * time.Minute)
			b.left(all...)
		})
	})
	t.Run("from when they are due", func(t *testing.T) {
		run(t, func(b *bench) {
			for i := range 6 {
				p := newPod(all[i], names(all[i]))
				b.put(p, newClaim(all[i], by(p), tolerating(tolerates("k", 600))))
			}
			b.rule(1, everything(), "NoExecute")
			time.Sleep(14 * time.Minute)
			b.left(all...)
			time.Sleep(61 * time.Second)
			b.left()
		})
	})
	t.Run("for another rule anew", func(t *testing.T) {
		run(t, func(b *bench) {
			for i := range 6 {
				p := newPod(all[i], names(all[i]))
				b.put(p, newClaim(all[i], by(p), tolerating(tolerates("k", 240))))
			}
			b.rule(1, everything(), "NoExecute")
			time.Sleep(8 * time.Minute)
			b.put(newRule("other", everything(), now("other")))
			time.Sleep(30 * time.Second)
			remove[*resourcev1.DeviceTaintRule](b, plan.Key{Name: "r"})
			time.Sleep(4 * time.Minute)
			b.left(all...)
			time.Sleep(31 * time.Second)
			b.left()
		})
	})
	t.Run("also for another rule of the name", func(t *testing.T) {
		run(t, begin, func(b *bench) {
			b.left()
			remove[*resourcev1.DeviceTaintRule](b, plan.Key{Name: "r"})
			r := newRule("r", everything(), now("k"))
			r.UID, r.CreationTimestamp = "another", metav1.Time{Time: time.Now()}
			b.put(crowd(6)...)
			b.put(r)
			time.Sleep(4 * time.Minute)
			b.left(all...)
		})
	})
	t.Run("and not if it concerns few", func(t *testing.T) {
		run(t, func(b *bench) {
			b.put(crowd(6)...)
			b.put(newClaim("web-0", by(newPod("web-0")), only("q", "d0")), newClaim("web-1", by(newPod("web-1")), only("q", "d0")))
			b.rule(1, inPool("q"), "NoExecute")
			time.Sleep(time.Second)
			b.left(all[2:]...)
		})
	})
}

// The status of a rule is written at once when its spec has changed, and otherwise no more often than each ten seconds.
func TestStatusIsPaced(t *testing.T) { // DTE-7
	run(t, func(b *bench) {
		b.put(crowd(30)...)
		b.rule(1, &resourcev1.DeviceTaintSelector{}, "None")
		if got := b.status(); !strings.HasPrefix(got, "False NoEffect 1 ") || !strings.Contains(got, "30 pods") {
			b.Error(got)
		}
		for i := range 20 { // one after the other gets the taint
			name := fmt.Sprint("web-", i)
			b.put(newClaim(name, by(newPod(name)), only("q", "d0")))
		}
		if b.CountWrites("") != 1 {
			b.Error("what would be evicted is counted once: ", b.Log())
		}
		b.rule(2, inPool("p"), "NoExecute")
		b.left(slices.Sorted(func(yield func(string) bool) {
			for i := range 20 {
				yield(fmt.Sprint("web-", i))
			}
		})...)
		time.Sleep(9 * time.Second)
		if got := b.CountWrites("patch DeviceTaintRule"); got != 2 {
			b.Errorf("%d writes: %v", got, b.Log())
		}
		time.Sleep(2 * time.Second)
		if got := b.status(); got != "False Completed 2 10 pods evicted since starting the controller." {
			b.Error(got)
		}
		time.Sleep(time.Hour)
		if got := b.CountWrites("patch DeviceTaintRule"); got != 3 {
			b.Errorf("%d writes: %v", got, b.Log())
		}
	})
}

// Pods that were deleted here are counted, and not those that somebody else deletes.
func TestDTE8MEND33Metrics(t *testing.T) {
	run(t, func(b *bench) {
		web, db := newPod("web", names("c")), newPod("db", names("d"))
		b.put(web, db, newClaim("c", by(web), tolerating(tolerates("k", 60))), newClaim("d", by(db), tolerating(tolerates("k", 60))))
		b.put(newSlice("s", 1, now("k")))
		b.FreezeWatches(client.KindFor[*corev1.Pod]())
		b.put(newPod("db", names("d"), leaving, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/x"} }))
		time.Sleep(2 * time.Minute)
		families, err := b.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			got[f.GetName()] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if sum := m.GetHistogram().GetSampleSum(); sum > 1 {
				b.Errorf("%v seconds", sum)
			}
		}
		const subsystem = "device_taint_eviction_controller_"
		if len(got) != 2 || got[subsystem+"pod_deletions_total"] != 1 || got[subsystem+"pod_deletion_duration_seconds"] != 1 {
			b.Error(got, b.Log())
		}
	})
}

// DTE-7: a preview is written once, so whoever counts for it waits for all caches.
func TestPreviewsWaitForAllCaches(t *testing.T) {
	k := newTestCaches(t)
	waits := map[string]bool{}
	for _, w := range k.statuses().Watches {
		waits[w.Kind.Kind] = true
	}
	for _, kind := range []string{"DeviceTaintRule", "ResourceClaim", "ResourceSlice", "Pod"} {
		if !waits[kind] {
			t.Errorf("it does not wait for each %s", kind)
		}
	}
}

// A gate switches it off, and another one its obedience to rules.
func TestREG43Gates(t *testing.T) {
	entry := New(Options{})
	if entry.Name != "device-taint-eviction-controller" || entry.Account != entry.Name || entry.Alias != "" || entry.OffByDefault ||
		fmt.Sprint(entry.Gates) != "[DRADeviceTaints]" || len(entry.Needs) != 2 || len(entry.Uses) != 1 {
		t.Errorf("%+v", entry)
	}
	for _, obeyed := range []bool{true, false} {
		k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0), obeyed)
		if err != nil || (k.rules != nil) != obeyed || len(k.allRules()) > 0 {
			t.Errorf("obeyed: %t: %+v, %v", obeyed, k, err)
		}
		ctx := managertest.Context(t, clienttest.NewServer(), entry)
		ctx.Enabled = func(gate string) bool { return gate != rulesGate || obeyed }
		if _, err := entry.Init(ctx); err != nil {
			t.Error(err)
		}
	}
}
