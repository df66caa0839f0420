package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/sums"
	"github.com/standalone-kcm/controller-manager/internal/quota/usage"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// discoverEvery is after how long resources are looked for again.
const discoverEvery = 30 * time.Second

// second is another quota of the same namespace.
func second(hard corev1.ResourceList, edits ...func(*corev1.ResourceQuota)) *corev1.ResourceQuota {
	q := quotaOf(hard, edits...)
	q.Name, q.UID = "second", "second"
	return q
}

func (b *bench) secondUsed(name string) string {
	b.Helper()
	q := &corev1.ResourceQuota{}
	m := client.MappingFor[*corev1.ResourceQuota]()
	key := someKey
	key.Name = "second"
	if err := b.server.Get(b.Context(), m, key, q); err != nil {
		b.Fatal(err)
	}
	used, ok := q.Status.Used[corev1.ResourceName(name)]
	if !ok {
		return ""
	}
	return used.String()
}

// RQ-42, RQ-49, RQ-15: discovery cannot tell of a group. The rest is counted; and the resource, once it is found.
func TestAGroupThatCannotBeDiscovered(t *testing.T) {
	run(t, func(b *bench) {
		b.discover.Store(ptr.To[discoverFunc](func() ([]client.Mapping, error) {
			all, _ := found()
			return all[:1],
				&discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Version: "v1"}: errors.New("no endpoints")}}
		}))
		b.put(podNamed("a"))
		b.put(quotaOf(amounts("pods", 5, "secrets", 3)))
		time.Sleep(usage.ListWithin / 2)
		b.want("while it is sought", "pods", "")
		if all := b.index.Unlisted(); len(all) > 0 {
			b.Errorf("REG-103: %v fail a check already", all)
		}
		time.Sleep(usage.ListWithin)
		b.want("what can be counted", "pods", "1")
		b.want("what cannot be found", "secrets", "")
		secrets := schema.GroupResource{Resource: "secrets"}
		if s := b.index.States(sums.Limits{Resources: map[schema.GroupResource]bool{secrets: true}})[secrets]; s.State != usage.Failing {
			b.Errorf("it is %v", s.State)
		}
		if all := b.index.Unlisted(); !slices.Equal(all, []string{"secrets"}) {
			b.Errorf("REG-103: a check fails for %v", all)
		}
		time.Sleep(10 * time.Minute)
		b.delete(podKind, "a")
		time.Sleep(time.Second)
		b.want("the pod is gone", "pods", "0")
		b.discover.Store(nil)
		time.Sleep(discoverEvery + time.Second)
		b.want("it is found", "secrets", "0")
	})
}

// RQ-15: the version of a resource that is watched cannot be discovered, and another one can. The watch stays.
func TestAGroupThatIsDiscoveredInPart(t *testing.T) {
	run(t, func(b *bench) {
		b.put(quotaOf(amounts("pods", 5, "configmaps", 3)))
		time.Sleep(time.Second)
		names := map[schema.GroupResource]bool{{Resource: "configmaps"}: true}
		before := b.index.States(sums.Limits{Resources: names})
		b.discover.Store(ptr.To[discoverFunc](func() ([]client.Mapping, error) {
			all, _ := found()
			for i := range all {
				all[i].GroupVersionKind.Version = "v2"
			}
			return all,
				&discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Version: "v1"}: errors.New("no endpoints")}}
		}))
		time.Sleep(2 * discoverEvery)
		if after := b.index.States(sums.Limits{Resources: names}); len(before) != 1 || !maps.Equal(before, after) {
			b.Errorf("watched anew: %+v, then %+v", before, after)
		}
	})
}

// A resource that was not there stays so while discovery cannot tell: its names do not keep others waiting.
func TestAMissingGroupThatFails(t *testing.T) {
	run(t, func(b *bench) {
		widgets := schema.GroupResource{Resource: "widgets", Group: "example.com"}
		b.put(quotaOf(amounts("pods", 5, "count/widgets.example.com", 3)))
		time.Sleep(time.Second)
		b.discover.Store(ptr.To[discoverFunc](func() ([]client.Mapping, error) { return nil, errors.New("timeout") }))
		time.Sleep(time.Minute)
		if s := b.index.States(sums.Limits{Resources: map[schema.GroupResource]bool{widgets: true}})[widgets]; s.State != usage.Absent {
			b.Errorf("it is %v", s.State)
		}
	})
}

// RQ-42: a resource that cannot be listed live keeps only its own names from being counted, and is tried again.
func TestALiveListThatFails(t *testing.T) {
	run(t, func(b *bench) {
		b.put(quotaOf(amounts("pods", 5, "configmaps", 5)))
		time.Sleep(time.Second)
		if n := b.live.n.Load(); n != 0 {
			b.Errorf("%d live lists for the first quota, whose watches begin after it", n)
		}
		b.live.before.Store(ptr.To(func(resource string) error {
			if resource == "configmaps" {
				return errors.New("conversion webhook is dead")
			}
			return nil
		}))
		b.put(podNamed("a"))
		b.put(second(amounts("count/pods", 5, "configmaps", 5)))
		time.Sleep(3 * time.Second)
		if got := b.secondUsed("count/pods"); got != "1" {
			b.Errorf("%q pods are used", got)
		}
		if got := b.secondUsed("configmaps"); got != "" {
			b.Errorf("%q ConfigMaps are used, though nobody knows", got)
		}
		b.live.before.Store(nil)
		time.Sleep(lookAgain + time.Second)
		if got := b.secondUsed("configmaps"); got != "0" {
			b.Errorf("%q ConfigMaps are used", got)
		}
	})
}

// RQ-42: a resource whose live list hangs holds up one worker at a time, so that quotas that do not name it do not wait.
func TestALiveListThatHangs(t *testing.T) {
	run(t, func(b *bench) {
		b.put(quotaOf(amounts("pods", 5, "configmaps", 5)))
		time.Sleep(time.Second)
		b.live.before.Store(ptr.To(func(resource string) error {
			if resource == "configmaps" {
				time.Sleep(usage.ListWithin + time.Millisecond)
				return context.DeadlineExceeded
			}
			return nil
		}))
		for i := range 6 {
			q := quotaOf(amounts("configmaps", 5))
			q.Namespace, q.UID = fmt.Sprint("hangs", i), types.UID(fmt.Sprint(i))
			b.put(q)
		}
		time.Sleep(15 * time.Second)
		for i := range 4 {
			b.put(podNamed(fmt.Sprint("p", i)))
			before := b.status("pods")
			time.Sleep(2 * time.Second)
			if after := b.status("pods"); after == before {
				b.Errorf("%s pods are used, and there is one more", after)
			}
			time.Sleep(5 * time.Second)
		}
		b.live.before.Store(nil)
		time.Sleep(3 * lookAgain)
		for i := range 6 {
			q, m := &corev1.ResourceQuota{}, mappingOf("ResourceQuota")
			if err := b.server.Get(b.Context(), m, plan.Key{Namespace: fmt.Sprint("hangs", i), Name: "some"}, q); err != nil ||
				len(q.Status.Used) != 1 {
				b.Errorf("%v: %+v", err, q.Status)
			}
		}
	})
}

// A name that two resources are charged to is not counted while one of them fails. The other one is listed live once.
func TestANameOfTwoResources(t *testing.T) {
	run(t, func(b *bench) {
		b.live.before.Store(ptr.To(func(resource string) error {
			if resource != "pods" {
				return errors.New("it is dead")
			}
			return nil
		}))
		q := quotaOf(amounts("requests.example.com/gpus", 5))
		b.gates, b.verifier = quota.Gates{ExtendedResourcesByClaims: true}, &b.live
		states := func() map[schema.GroupResource]usage.Status {
			return map[schema.GroupResource]usage.Status{
				quota.Pods(): {State: usage.Listed, Watch: 3, Mapping: mappingOf("Pod")},
				quota.ResourceClaims(): {State: usage.Listed, Watch: 4,
					Mapping: client.Mapping{GroupVersionKind: mappingOf("Pod").GroupVersionKind, Resource: "resourceclaims"}},
			}
		}
		m := memory{}
		for range 3 {
			all := states()
			compared, err := b.verify(b.Context(), q, time.Time{}, m, all)
			if err != nil || fmt.Sprint(compared) != "[3]" || all[quota.Pods()].State != usage.Verified ||
				all[quota.ResourceClaims()].State != usage.Failing {
				b.Errorf("%v %v %+v", compared, err, all)
			}
			m.Compared = compared
		}
		if n := b.live.n.Load(); n != 4 {
			b.Errorf("%d live lists, want one of pods and three that fail", n)
		}
	})
}

// RQ-43: quotas that were there before the process are counted without live lists.
func TestQuotasThatAreThereAtTheStart(t *testing.T) {
	runAfter(t, func(b *bench) {
		for i := range 5 {
			q := quotaOf(amounts("pods", 5, "configmaps", 5), said(amounts("pods", 1, "configmaps", 0)))
			q.Namespace, q.UID = fmt.Sprint("shop", i), types.UID(fmt.Sprint(i))
			b.put(q)
		}
		b.put(quotaOf(amounts("pods", 5)))
	}, func(b *bench) {
		time.Sleep(time.Minute)
		b.want("nothing is there", "pods", "0")
		if n := b.live.n.Load(); n != 0 {
			b.Errorf("%d live lists", n)
		}
		if n := b.server.CountWrites("update ResourceQuota some"); n != 6 {
			b.Errorf("%d statuses are written: %v", n, b.server.Log())
		}
	})
}

// A quota is deleted and made again while discovery answers: what it names is watched without a gap.
func TestAQuotaThatIsMadeAgain(t *testing.T) {
	run(t, func(b *bench) {
		b.put(quotaOf(amounts("pods", 5, "configmaps", 5)))
		time.Sleep(time.Second)
		b.discover.Store(ptr.To[discoverFunc](func() ([]client.Mapping, error) {
			time.Sleep(time.Second / 2)
			return found()
		}))
		b.put(podNamed("a"))
		time.Sleep(5 * time.Second)
		names := map[schema.GroupResource]bool{quota.Pods(): true, {Resource: "configmaps"}: true}
		before := b.index.States(sums.Limits{Resources: names})
		b.delete(quotaKind, "some")
		b.put(second(amounts("secrets", 5)))
		time.Sleep(200 * time.Millisecond)
		b.put(quotaOf(amounts("pods", 5, "configmaps", 5), func(q *corev1.ResourceQuota) { q.UID = "again" }))
		time.Sleep(time.Second)
		b.want("again", "pods", "1")
		if after := b.index.States(sums.Limits{Resources: names}); !maps.Equal(before, after) {
			b.Errorf("watched anew: %+v, then %+v", before, after)
		}
		b.raise("pods", "2")
		b.put(podNamed("c"))
		time.Sleep(5 * time.Second)
		b.delete(podKind, "c")
		time.Sleep(2 * time.Second)
		b.want("one is gone", "pods", "1")
	})
}

// What was reserved while nobody watched is not kept for long when the watch is there again.
func TestReservationsWhileNobodyWatches(t *testing.T) {
	run(t, func(b *bench) {
		b.put(quotaOf(amounts("pods", 5)))
		time.Sleep(time.Second)
		b.index.Unwatch()
		b.raise("pods", "1")
		time.Sleep(3 * time.Second)
		b.want("while nobody watches", "pods", "1")
		b.put(podNamed("a"))
		b.put(second(amounts("count/pods", 9))) // what it names is looked for
		time.Sleep(assumedFor + time.Second)
		b.delete(podKind, "a")
		time.Sleep(2 * time.Second)
		b.want("it is gone", "pods", "0")
	})
}

// What a source has shown that ends while a quota is looked at is not taken for gone.
func TestASourceThatEndsMeanwhile(t *testing.T) {
	run(t, func(b *bench) {
		b.put(podNamed("a"))
		b.put(quotaOf(amounts("pods", 5)))
		b.put(second(amounts("configmaps", 5)))
		time.Sleep(time.Second)
		b.live.before.Store(ptr.To(func(string) error {
			b.index.Unwatch()
			return nil
		}))
		b.put(quotaOf(amounts("pods", 5, "configmaps", 5), said(amounts("pods", 1))))
		for range 50 {
			time.Sleep(time.Second)
			b.want("it is always there", "pods", "1")
		}
		b.want("it is listed again", "configmaps", "0")
		if b.live.n.Load() == 0 {
			b.Error("nothing has ended")
		}
	})
}

// RQ-43, RQ-24: a pod that is beyond its time is not charged again by its updates.
func TestAPodBeyondItsTime(t *testing.T) {
	run(t, func(b *bench) {
		at := metav1.NewTime(time.Now().Add(-time.Minute))
		stuck := func(phase string) *corev1.Pod {
			return podNamed("a", func(p *corev1.Pod) {
				p.Finalizers, p.DeletionTimestamp, p.DeletionGracePeriodSeconds = []string{"x/y"}, &at, ptr.To(int64(10))
				p.Status.Message = phase
			})
		}
		b.put(stuck("first"))
		b.put(quotaOf(amounts("pods", 5)))
		time.Sleep(2100 * time.Millisecond)
		b.want("its time is over", "pods", "0")
		writes := len(b.server.Log())
		for i := range 20 {
			b.put(stuck(fmt.Sprint(i)))
			time.Sleep(300 * time.Millisecond)
		}
		if more := b.server.Log()[writes:]; len(more) > 0 {
			b.Errorf("written: %v", more)
		}
	})
}

// RQ-38: while what a quota newly names is being listed, the rest of it is counted.
func TestANewNameThatIsListed(t *testing.T) {
	run(t, func(b *bench) {
		b.unlisted["secrets"] = true
		b.put(podNamed("a"))
		b.put(quotaOf(amounts("pods", 5)))
		time.Sleep(time.Second)
		b.put(quotaOf(amounts("pods", 5, "secrets", 5), said(amounts("pods", 1))))
		time.Sleep(time.Second)
		b.delete(podKind, "a")
		time.Sleep(2 * time.Second)
		b.want("the pod is gone", "pods", "0")
		b.want("nobody knows", "secrets", "")
	})
}

// Nothing spins when the watches of metadata end before the controller. (In virtual time, that would never end.)
func TestWatchesThatEndFirst(t *testing.T) {
	run(t, func(b *bench) {
		b.watches.Shutdown()
		b.put(quotaOf(amounts("secrets", 5, "pods", 5)))
		time.Sleep(time.Minute)
		b.want("what can be counted", "pods", "0")
	})
}
