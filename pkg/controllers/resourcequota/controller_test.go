package resourcequota

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/sums"
	"github.com/standalone-kcm/controller-manager/internal/quota/usage"
)

// RQ-1, RQ-2, RQ-48
func TestEntry(t *testing.T) {
	e := New(Options{})
	if e.Name != "resourcequota-controller" || e.Alias != "resourcequota" || e.Account != "resourcequota-controller" || e.OffByDefault {
		t.Errorf("%+v", e)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	e.Flags.AddFlags(fs)
	for name, want := range map[string]string{"concurrent-resource-quota-syncs": "5", "resource-quota-sync-period": "5m0s"} {
		if f := fs.Lookup(name); f == nil || f.DefValue != want {
			t.Errorf("--%s is %+v, want %s", name, f, want)
		}
	}
	if err := fs.Set("concurrent-resource-quota-syncs", "0"); err != nil || len(e.Flags.Validate()) != 1 {
		t.Error("no workers are accepted")
	}
	if err := fs.Parse([]string{"--concurrent-resource-quota-syncs=1", "--resource-quota-sync-period=-1s"}); err != nil ||
		len(e.Flags.Validate()) != 1 {
		t.Error("a negative period is accepted")
	}
	if section, _ := e.Flags.Configz(); section != "ResourceQuotaController" {
		t.Error(section)
	}
	if own := Rights().Own; len(own) != 1 || own[0].Resource != "resourcequotas/status" || strings.Join(own[0].Verbs, "") != "update" {
		t.Errorf("%+v", own)
	}
}

// RQ-4, RQ-8, RQ-38, RQ-43, RQ-46: a quota is counted, and follows its pods within a second.
func TestUsageFollows(t *testing.T) {
	run(t, func(b *bench) {
		b.put(podNamed("a"))
		b.put(quotaOf(amounts("pods", 5, "requests.cpu", 2, "beer", 1)))
		time.Sleep(time.Second)
		b.want("at first", "pods", "1")
		b.want("at first", "requests.cpu", "100m")
		b.want("nobody counts it", "beer", "")
		b.raise("pods", "2")
		b.put(podNamed("b"))
		time.Sleep(time.Second)
		b.want("with another one", "pods", "2")
		b.want("with another one", "requests.cpu", "200m")
		b.delete(podKind, "a")
		time.Sleep(time.Second)
		b.want("one is gone", "pods", "1")
		b.delete(podKind, "b")
		time.Sleep(time.Second)
		b.want("RQ-44 all are gone", "pods", "0")
		writes := len(b.server.Log())
		time.Sleep(time.Hour)
		if more := b.server.Log()[writes:]; len(more) > 0 {
			b.Errorf("written at rest: %v", more)
		}
	})
}

// RQ-57: what admission has reserved is not lowered before its object is seen, or a minute has passed.
func TestReservationsStay(t *testing.T) {
	run(t, func(b *bench) {
		b.put(podNamed("a"))
		b.put(quotaOf(amounts("pods", 5)))
		time.Sleep(time.Second)
		b.raise("pods", "2")
		b.delete(podKind, "a")
		time.Sleep(time.Second)
		b.want("one is reserved, and another one is gone", "pods", "1")
		b.put(podNamed("b"))
		time.Sleep(time.Second)
		b.want("it is there", "pods", "1")
		b.delete(podKind, "b")
		time.Sleep(time.Second)
		b.want("it is gone", "pods", "0")
		b.raise("pods", "3")
		time.Sleep(reservedFor - 5*time.Second)
		b.want("nothing comes", "pods", "3")
		time.Sleep(10 * time.Second)
		b.want("nothing has come", "pods", "0")
	})
}

// RQ-57: a process takes over a quota of which all five are used, and counts four pods. The fifth may have been admitted just now and
// sit in webhooks. How long what it uses is held depends on when the status was written.
func TestWhatIsUsedAndNotCountedAfterATakeover(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of virtual time
	for name, c := range map[string]struct {
		edit    func(*corev1.ResourceQuota)
		refused bool // nothing is read live
		held    time.Duration
	}{
		"the status was written a moment ago":           {writtenAt(start.Add(-time.Second)), false, reservedFor},
		"the status was written at the end of a minute": {writtenAt(start.Add(-reservedFor)), false, reservedFor},
		"the clock of the server is ahead":              {writtenAt(start.Add(time.Minute)), false, reservedFor},
		"the status was written long ago":               {writtenAt(start.Add(-2 * reservedFor)), false, assumedFor},
		"nobody knows when it was written":              {func(*corev1.ResourceQuota) {}, false, reservedFor},
		"no answer tells when it was written":           {writtenAt(start.Add(-2 * reservedFor)), true, reservedFor},
	} {
		t.Run(name, func(t *testing.T) {
			runAfter(t, func(b *bench) {
				b.put(quotaOf(amounts("pods", 5), said(amounts("pods", 5)), c.edit))
				for _, pod := range []string{"a", "b", "c", "d"} {
					b.put(podNamed(pod))
				}
				b.live.before.Store(ptr.To(func(resource string) error {
					if c.refused && resource == "resourcequotas" {
						return apierrors.NewTooManyRequests("later", 1)
					}
					return nil
				}))
				go func() { // the controller begins now
					time.Sleep(c.held - time.Second)
					b.want("it may come", "pods", "5")
					time.Sleep(3 * time.Second)
					b.want("it has not come", "pods", "4")
				}()
			}, func(b *bench) { b.want("in the end", "pods", "4") })
		})
	}
}

// RQ-57: the watch of pods is late. Nothing is lowered meanwhile, and a new quota waits.
func TestAWatchThatIsLate(t *testing.T) {
	run(t, func(b *bench) {
		b.put(quotaOf(amounts("pods", 5)))
		time.Sleep(time.Second)
		b.want("at first", "pods", "0")
		b.server.FreezeWatches(podKind)
		b.raise("pods", "1")
		b.put(podNamed("a"))
		time.Sleep(10 * time.Second)
		b.want("while it is late", "pods", "1")
		other := quotaOf(amounts("count/pods", 5))
		other.Name, other.UID = "other", "o"
		b.put(other)
		time.Sleep(usage.ListWithin - 2*time.Second)
		if n := b.server.CountWrites("update ResourceQuota other"); n > 0 {
			b.Error("a new quota is counted from a watch that is late")
		}
		b.server.ResumeWatches(podKind)
		time.Sleep(3 * time.Second)
		b.want("it has caught up", "pods", "1")
		if log := strings.Join(b.server.Log(), "\n"); !strings.Contains(log, "other") {
			b.Errorf("the new quota is not counted: %s", log)
		}
		b.delete(podKind, "a")
		time.Sleep(time.Second)
		b.want("it is gone", "pods", "0")
	})
}

// RQ-57: a pod was admitted, stored and deleted while the watch of pods was down, and another one was admitted and sits in webhooks.
// The list that follows shows neither, and nothing tells them apart: what both use is held.
func TestAListDoesNotTellWhatWillCome(t *testing.T) {
	run(t, func(b *bench) {
		b.put(quotaOf(amounts("pods", 5)))
		time.Sleep(time.Second)
		b.down.Store(true)
		b.raise("pods", "1")
		b.put(podNamed("deleted"))
		b.raise("pods", "2")
		b.put(podNamed("stays"))
		b.raise("pods", "3")
		b.delete(podKind, "deleted")
		time.Sleep(time.Second)
		b.want("while the watch is down", "pods", "3")
		(*b.relist.Load())()
		time.Sleep(time.Second)
		b.want("one is listed, two may come", "pods", "3")
		b.put(podNamed("comes"))
		time.Sleep(time.Second)
		b.want("one of them has come", "pods", "3")
		time.Sleep(reservedFor)
		b.want("the other one has not", "pods", "2")
	})
}

// RQ-57: an object that was listed and is gone, as the watch says, is not missed: a new quota is counted at once.
func TestAnObjectThatGoesWhileItIsListed(t *testing.T) {
	run(t, func(b *bench) {
		b.put(quotaOf(amounts("pods", 5)))
		b.put(podNamed("a"))
		b.put(podNamed("b"))
		time.Sleep(time.Second)
		b.live.after.Store(ptr.To(func(string) {
			b.delete(podKind, "a")
			time.Sleep(100 * time.Millisecond)
		}))
		b.put(second(amounts("count/pods", 5)))
		time.Sleep(time.Second)
		if got, n := b.secondUsed("count/pods"), b.live.n.Load(); got != "1" || n != 1 {
			b.Errorf("%q pods are used, after %d live lists", got, n)
		}
	})
}

// RQ-49, RQ-42, RQ-18: what cannot be listed keeps its own names from being counted, and nothing else.
func TestAKindThatCannotBeListed(t *testing.T) {
	run(t, func(b *bench) {
		b.unlisted["secrets"] = true
		b.put(podNamed("a"))
		b.put(quotaOf(amounts("pods", 5, "secrets", 3), said(amounts("secrets", 2))))
		time.Sleep(25 * time.Second)
		b.want("of what is listed", "pods", "1")
		b.want("of what is not listed, what was said before", "secrets", "2")
	})
}

// RQ-19, RQ-20, RQ-14: objects of a kind without rules are counted.
func TestObjectsAreCounted(t *testing.T) {
	run(t, func(b *bench) {
		o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "a"}}
		secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
		if err := b.metadata.Tracker().Create(secrets, o, "shop"); err != nil {
			b.Fatal(err)
		}
		b.put(quotaOf(amounts("secrets", 5, "count/secrets", 5, "count/widgets.example.com", 1)))
		time.Sleep(time.Second)
		b.want("one", "secrets", "1")
		b.want("one", "count/secrets", "1")
		b.want("RQ-38 there is no such kind", "count/widgets.example.com", "")
		if err := b.metadata.Tracker().Delete(secrets, "shop", "a"); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Second)
		b.want("none", "secrets", "0")
	})
}

// RQ-51, RQ-50: only what a quota names is watched.
func TestWatchesOnlyWhatIsNamed(t *testing.T) {
	run(t, func(b *bench) {
		watched := func() (n int) {
			names := map[schema.GroupResource]bool{quota.Pods(): true, quota.Services(): true, {Resource: "configmaps"}: true,
				{Resource: "secrets"}: true}
			for _, now := range b.index.States(sums.Limits{Resources: names}) {
				if now.Watch != 0 {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		if n := watched(); n != 0 {
			b.Errorf("%d resources are watched without a quota", n)
		}
		b.put(podNamed("a"))
		b.put(quotaOf(amounts("pods", 5, "configmaps", 1)))
		time.Sleep(time.Second)
		if n := watched(); n != 2 {
			b.Errorf("%d resources are watched, want 2", n)
		}
		b.delete(quotaKind, "some")
		time.Sleep(time.Minute)
		if n := watched(); n != 0 {
			b.Errorf("%d resources are watched after the quota is gone", n)
		}
	})
}

// RQ-9, RQ-24, RQ-55: a pod is not charged any more when it has finished, or when its time is over.
func TestPodsEnd(t *testing.T) {
	run(t, func(b *bench) {
		b.put(podNamed("a"))
		b.put(podNamed("b"))
		b.put(quotaOf(amounts("pods", 5, "count/pods", 5, "cpu", 1)))
		time.Sleep(time.Second)
		b.want("both", "cpu", "200m")
		b.put(podNamed("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
		time.Sleep(time.Second)
		b.want("one has finished", "cpu", "100m")
		b.want("it is counted", "count/pods", "2")
		at := metav1.NewTime(time.Now())
		b.put(podNamed("b", func(p *corev1.Pod) {
			p.Finalizers, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = []string{"x/y"}, &at, ptr.To(int64(10))
		}))
		time.Sleep(5 * time.Second)
		b.want("the other is about to end", "cpu", "100m")
		time.Sleep(10 * time.Second)
		b.want("its time is over", "cpu", "0")
	})
}

// RQ-5, RQ-39, RQ-59: limits and scopes change.
func TestTheSpecChanges(t *testing.T) {
	run(t, func(b *bench) {
		b.put(podNamed("a"))
		b.put(podNamed("b", func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }))
		q := quotaOf(amounts("pods", 5), func(q *corev1.ResourceQuota) {
			q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
				{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"high"}}}}
		})
		b.put(q)
		time.Sleep(time.Second)
		b.want("pods of the class", "pods", "1")
		q.Spec.ScopeSelector.MatchExpressions[0].Values = []string{"low"}
		q.Status = corev1.ResourceQuotaStatus{Hard: amounts("pods", 5), Used: amounts("pods", 1)}
		b.put(q)
		time.Sleep(time.Second)
		b.want("pods of another class", "pods", "0")
		q.Spec.ScopeSelector, q.Spec.Hard = nil, amounts("pods", 1, "cpu", 7)
		q.Status.Used = amounts("pods", 0)
		b.put(q)
		time.Sleep(time.Second)
		b.want("RQ-45 all pods", "pods", "2")
		b.want("another limit", "cpu", "200m")
		synctest.Wait()
	})
}

// RQ-40, RQ-41, RQ-54: the version that was seen is a precondition.
func TestRQ40Conflict(t *testing.T) {
	run(t, func(b *bench) {
		b.put(podNamed("a"))
		b.put(quotaOf(amounts("pods", 5)))
		time.Sleep(time.Second)
		b.server.FreezeWatches(quotaKind)
		b.raise("pods", "2")
		b.delete(podKind, "a")
		time.Sleep(5 * time.Second)
		b.want("the quota has changed, and the watch does not show that", "pods", "2")
		b.server.ResumeWatches(quotaKind)
		time.Sleep(time.Minute + 20*time.Second)
		b.want("in the end", "pods", "0")
	})
}
