package usage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/sums"
	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// selectorOf selects by a scope; everything if it is empty.
func selectorOf(t rapid.TB, scope corev1.ResourceQuotaScope) quota.Selector {
	spec := &corev1.ResourceQuotaSpec{}
	if scope != "" {
		spec.Scopes = []corev1.ResourceQuotaScope{scope}
	}
	selector, err := quota.NewSelector(spec)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

// drawPod makes a version of one of a few pods. Its time to end may be over, or its phase.
func drawPod(t *rapid.T) *corev1.Pod {
	return podNamed(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "pod")), func(p *corev1.Pod) {
		p.Namespace = rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, "namespace")
		p.UID = types.UID(p.Namespace + "-" + p.Name)
		switch cpu := rapid.SampledFrom([]string{"", "100m", "2"}).Draw(t, "cpu"); cpu {
		case "":
			p.Spec.Containers[0].Resources.Requests = nil
		default:
			p.Spec.Containers[0].Resources.Requests = amounts("cpu", cpu)
		}
		switch rapid.SampledFrom([]string{"runs", "has ended", "is overdue"}).Draw(t, "state") {
		case "has ended":
			p.Status.Phase = corev1.PodFailed
		case "is overdue":
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: epoch.Add(-time.Hour)}, ptr.To[int64](1)
		}
	})
}

// counted adds up what the selected pods of a namespace are charged with.
func counted(pods map[types.UID]*corev1.Pod, namespace string, s quota.Selector) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, p := range pods {
		if item := quota.Pod(p, quota.Gates{}); p.Namespace == namespace && s.Matches(item.Traits) {
			quota.Add(sum, item.At(time.Now()))
		}
	}
	return sum
}

// differ reports whether two sums are not the same. Sums that are kept have names of which nothing is left.
func differ(a, b corev1.ResourceList) bool { return len(quota.Over(a, b))+len(quota.Over(b, a)) > 0 }

// RQ-52: whatever comes, changes and goes, and when all is listed anew, the sums that are kept are those that counting the objects
// finds, also when they are made anew; and each quota is told whose sum has changed.
func TestSumsAreThoseOfTheObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newIndex(quota.Gates{})
		counter := x.newCounter(quota.Pods(), func() {})
		pods, quotas := map[types.UID]*corev1.Pod{}, map[plan.Key]sums.Limits{}
		for _, namespace := range []string{"shop", "bank"} {
			for _, scope := range []corev1.ResourceQuotaScope{"", corev1.ResourceQuotaScopeBestEffort,
				corev1.ResourceQuotaScopeNotBestEffort} {
				l := sums.Limits{Selector: selectorOf(t, scope), Resources: map[schema.GroupResource]bool{quota.Pods(): true}}
				key := plan.Key{Namespace: namespace, Name: string(scope)}
				quotas[key] = l
				x.sums.SetQuota(key, &l)
			}
		}
		list := func() (all []metav1.Object) {
			for _, uid := range slices.Sorted(maps.Keys(pods)) {
				all = append(all, pods[uid])
			}
			return all
		}
		counter.OnList(nil)
		before := map[plan.Key]corev1.ResourceList{}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			p := drawPod(t)
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				delete(pods, p.UID)
				counter.OnDelete(p)
			case 1: // while the watch is cut, pods come and go
				delete(pods, p.UID)
				other := drawPod(t)
				pods[other.UID] = other
				counter.OnList(list())
			case 2:
				x.sums.Recount()
			default:
				pods[p.UID] = p
				counter.OnUpdate(p)
			}
			told := x.changes.take()
			for key, l := range quotas {
				sum, _, _ := x.Count(key.Namespace, l, 0)
				if want := counted(pods, key.Namespace, l.Selector); differ(sum, want) {
					t.Fatalf("%s: %v, of the objects %v", key, sum, want)
				}
				if !told[key] && differ(before[key], sum) {
					t.Errorf("%s is not told: %v, then %v", key, before[key], sum)
				}
				before[key] = sum
			}
		}
	})
}

// RQ-2, RQ-7: sums are made anew in each period, and the quotas are told.
func TestRecount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newIndex(quota.Gates{})
		l := sums.Limits{Resources: map[schema.GroupResource]bool{quota.Pods(): true}}
		x.sums.SetQuota(someKey, &l)
		x.newCounter(quota.Pods(), func() {}).OnUpdate(podNamed("a"))
		x.changes.take()
		ctx, cancel := context.WithCancel(t.Context())
		go x.tick(ctx)
		defer synctest.Wait()
		defer cancel()
		time.Sleep(4 * time.Minute)
		if told := x.changes.take(); len(told) > 0 {
			t.Errorf("within the period %v are told", told)
		}
		time.Sleep(2 * time.Minute)
		sum, _, _ := x.Count("shop", l, 0)
		if n := sum["pods"]; n.Value() != 1 || !x.changes.take()[someKey] {
			t.Errorf("after the period %v", sum)
		}
	})
}

// Whatever the objects are, nothing panics, and when all of them and the quota are gone, nothing is remembered.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		x := newIndex(quota.Gates{ExtendedResourcesByClaims: true, PodLevelResources: true})
		q := &corev1.ResourceQuota{}
		fill(q)
		l, err := sums.LimitsOf(q, x.config.Gates)
		if err == nil {
			x.sums.SetQuota(someKey, &l)
		}
		var counters []*typedCounter
		for _, of := range []schema.GroupResource{quota.Pods(), quota.Services(), quota.Claims(), quota.ResourceClaims()} {
			counters = append(counters, x.newCounter(of, func() {}))
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "objects") {
			for k, o := range []metav1.Object{&corev1.Pod{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{},
				&resourcev1.ResourceClaim{}} {
				fill(o)
				o.SetNamespace("shop")
				o.SetName(fmt.Sprint(i))
				o.SetUID(types.UID(fmt.Sprint(i)))
				counters[k].OnUpdate(o)
			}
		}
		x.Count("shop", l, 0)
		for _, counter := range counters {
			counter.OnList(nil)
		}
		x.sums.SetQuota(someKey, nil)
		if n := len(x.devices.claims) + len(x.devices.pods) + len(x.devices.byPod); n > 0 || !x.sums.Empty() {
			t.Errorf("things are remembered of what is gone, %d by the devices", n)
		}
	})
}

// lister lists the pods of a namespace live.
type lister struct {
	client.Reader
	uids   []types.UID
	during func()
	err    error
}

// List implements client.Reader.
func (l lister) List(_ context.Context, _ client.Mapping, _ string, _ metav1.ListOptions, into runtime.Object) error {
	for _, uid := range l.uids {
		into.(*metav1.PartialObjectMetadataList).Items = append(into.(*metav1.PartialObjectMetadataList).Items,
			metav1.PartialObjectMetadata{ObjectMeta: *object(string(uid), 1)})
	}
	if l.during != nil {
		l.during()
	}
	return l.err
}

// A row is a sentence: the index knows the pods a and b of the namespace.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name string
		list lister
		gone string // meanwhile
		want State
	}{
		{"the server has the same", lister{uids: []types.UID{"a", "b"}}, "", Verified},
		{"the server has fewer: the watch will tell", lister{uids: []types.UID{"a"}}, "", Verified},
		{"the server has more", lister{uids: []types.UID{"a", "b", "c"}}, "", Late},
		{"one goes while the list is read", lister{uids: []types.UID{"a", "b"}}, "b", Verified},
		{"the list fails", lister{err: errors.New("no")}, "", Failing},
	} {
		x := newIndex(quota.Gates{})
		counter := x.newCounter(quota.Pods(), func() {})
		counter.OnList([]metav1.Object{podNamed("a"), podNamed("b")})
		if c.gone != "" {
			c.list.during = func() { counter.OnDelete(podNamed(c.gone)) }
		}
		if got := x.Compare(t.Context(), c.list, quota.Pods(), client.Mapping{}, "shop"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if counter.OnList(nil); !x.sums.Empty() {
			t.Errorf("%s: the comparison has not ended, or more is remembered than there is", c.name)
		}
	}
}

// Whoever gives up has not found out anything: the next one may ask at once.
func TestCompareGivenUp(t *testing.T) {
	x := newIndex(quota.Gates{})
	ctx, cancel := context.WithCancel(t.Context())
	x.Compare(ctx, lister{during: cancel, err: context.Canceled}, quota.Pods(), client.Mapping{}, "shop")
	if got := x.Compare(t.Context(), lister{}, quota.Pods(), client.Mapping{}, "shop"); got != Verified {
		t.Errorf("%v", got)
	}
}

// What is charged follows from the fields that are cached, whatever the objects are; and nothing panics.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := projection.New(Fields())
	if err != nil {
		t.Fatal(err)
	}
	every := quota.Gates{PodLevelResources: true, PodLevelResize: true, ExtendedResourcesByClaims: true}
	same := func(t *rapid.T, a, b quota.Item) {
		if !quota.Equal(a.At(epoch), b.At(epoch)) || fmt.Sprintf("%+v", a.Traits) != fmt.Sprintf("%+v", b.Traits) {
			t.Errorf("%v %+v with all fields, %v %+v with the cached ones", a.At(epoch), a.Traits, b.At(epoch), b.Traits)
		}
	}
	decode := func(t *rapid.T, o interface {
		Marshal() ([]byte, error)
	}, into interface{ Unmarshal([]byte) error }, kind schema.GroupVersionKind) {
		data, err := o.Marshal()
		if err == nil {
			mask := kept.Masks()[kind]
			err = into.Unmarshal(mask.Mask.Apply(data))
		}
		if err != nil {
			t.Skip(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		var p, p2 corev1.Pod
		var s, s2 corev1.Service
		var c, c2 corev1.PersistentVolumeClaim
		var r, r2 resourcev1.ResourceClaim
		fill(&p)
		fill(&s)
		fill(&c)
		fill(&r)
		decode(t, &p, &p2, corev1.SchemeGroupVersion.WithKind("Pod"))
		same(t, quota.Pod(&p, every), quota.Pod(&p2, every))
		decode(t, &s, &s2, corev1.SchemeGroupVersion.WithKind("Service"))
		same(t, quota.Service(&s), quota.Service(&s2))
		decode(t, &c, &c2, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
		same(t, quota.Claim(&c), quota.Claim(&c2))
		decode(t, &r, &r2, resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"))
		same(t, quota.ResourceClaim(&r, nil, nil, every), quota.ResourceClaim(&r2, nil, nil, every))
	})
}
