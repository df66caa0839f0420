package usage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/quota"
	"github.com/standalone-kcm/controller-manager/internal/quota/sums"
)

const gpu = "requests.example.com/gpu"

// devicesBench has the counters of pods and ResourceClaims, without watches.
type devicesBench struct {
	*Index
	pods, claims *typedCounter
}

func newDevicesBench() *devicesBench {
	x := newIndex(quota.Gates{ExtendedResourcesByClaims: true})
	x.devices.setClasses(func(all map[string]corev1.ResourceName) { all["gpus"] = "example.com/gpu" })
	return &devicesBench{x, x.newCounter(quota.Pods(), func() {}), x.newCounter(quota.ResourceClaims(), func() {})}
}

// used returns how many devices the pods and the claims of a namespace are charged with.
func (b *devicesBench) used(namespace string) string {
	var all []string
	for _, of := range []schema.GroupResource{quota.Pods(), quota.ResourceClaims()} {
		sum, _, _ := b.Count(namespace, sums.Limits{Resources: map[schema.GroupResource]bool{of: true}}, 0)
		n := sum[gpu]
		all = append(all, fmt.Sprintf("%s %s", of.Resource, n.String()))
	}
	return fmt.Sprint(all)
}

// gpuPod is a pod that asks for extended resources.
func gpuPod(namespace, name string, n int64, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := podNamed(name, edits...)
	p.Namespace, p.UID = namespace, types.UID(name)
	p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = *resource.NewQuantity(n, resource.DecimalSI)
	return p
}

// gpuClaim is a claim for as many devices, that was made for a pod of this uid; for none if it is empty.
func gpuClaim(namespace, name string, n int64, pod types.UID) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpus", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n}}}
	if pod != "" {
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", UID: pod, Controller: ptr.To(true)}}
	}
	return c
}

// RQ-32: what a pod pays for is not paid again for its claim.
func TestClaimsOfPods(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(b *devicesBench)
		want string
	}{
		{"RQ-32 the pod pays", func(b *devicesBench) {
			b.pods.OnUpdate(gpuPod("shop", "p", 2))
			b.claims.OnUpdate(gpuClaim("shop", "c", 2, "p"))
		}, "[pods 2 resourceclaims 0]"},
		{"RQ-32 whichever comes first", func(b *devicesBench) {
			b.claims.OnUpdate(gpuClaim("shop", "c", 2, "p"))
			b.pods.OnUpdate(gpuPod("shop", "p", 2))
		}, "[pods 2 resourceclaims 0]"},
		{"RQ-32 what the claim asks for beyond the pod is paid", func(b *devicesBench) {
			b.pods.OnUpdate(gpuPod("shop", "p", 2))
			b.claims.OnUpdate(gpuClaim("shop", "c", 5, "p"))
		}, "[pods 2 resourceclaims 3]"},
		{"RQ-32 a pod of another namespace pays for nothing", func(b *devicesBench) {
			b.pods.OnUpdate(gpuPod("bank", "p", 8))
			b.claims.OnUpdate(gpuClaim("bank", "c", 8, "p"))
			b.claims.OnUpdate(gpuClaim("shop", "a", 8, "p"))
		}, "[pods 0 resourceclaims 8]"},
		{"the claim does not belong to the pod any more", func(b *devicesBench) {
			b.pods.OnUpdate(gpuPod("shop", "p", 2))
			b.claims.OnUpdate(gpuClaim("shop", "c", 2, "p"))
			b.claims.OnUpdate(gpuClaim("shop", "d", 2, "p"))
			b.claims.OnUpdate(gpuClaim("shop", "c", 2, ""))
		}, "[pods 2 resourceclaims 2]"},
		{"which is gone then, as is the pod", func(b *devicesBench) {
			b.pods.OnUpdate(gpuPod("shop", "p", 2))
			b.claims.OnUpdate(gpuClaim("shop", "c", 2, "p"))
			b.claims.OnUpdate(gpuClaim("shop", "c", 2, ""))
			b.claims.OnDelete(gpuClaim("shop", "c", 2, ""))
			b.pods.OnUpdate(gpuPod("shop", "p", 3))
			b.pods.OnDelete(gpuPod("shop", "p", 3))
		}, "[pods 0 resourceclaims 0]"},
		{"the pod is gone", func(b *devicesBench) {
			b.pods.OnUpdate(gpuPod("shop", "p", 2))
			b.claims.OnUpdate(gpuClaim("shop", "c", 2, "p"))
			b.pods.OnDelete(gpuPod("shop", "p", 2))
		}, "[pods 0 resourceclaims 2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newDevicesBench()
			c.play(b)
			if got := b.used("shop"); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// RQ-24, RQ-32: when a pod pays no longer, because its time to end is over, its claim does.
func TestClaimsOfPodsWhoseTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newDevicesBench()
		b.pods.OnUpdate(gpuPod("shop", "p", 2, func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(time.Now().Add(30*time.Second))), ptr.To[int64](30)
		}))
		b.claims.OnUpdate(gpuClaim("shop", "c", 2, "p"))
		ctx, cancel := context.WithCancel(t.Context())
		go b.tick(ctx)
		defer synctest.Wait()
		defer cancel()
		time.Sleep(59 * time.Second)
		if got := b.used("shop"); got != "[pods 2 resourceclaims 0]" {
			t.Errorf("too early: %s", got)
		}
		time.Sleep(3 * time.Second)
		if got := b.used("shop"); got != "[pods 0 resourceclaims 2]" {
			t.Error(got)
		}
	})
}

// What pods and claims are charged with follows from what is there, in whatever order it came, changed and went.
func TestDevicesAreChargedAsFromLists(t *testing.T) { // RQ-32
	rapid.Check(t, func(t *rapid.T) {
		b, pods, claims := newDevicesBench(), map[string]*corev1.Pod{}, map[string]*resourcev1.ResourceClaim{}
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			namespace, name := rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, "namespace"),
				rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "name")
			key, n := namespace+"/"+name, rapid.Int64Range(0, 3).Draw(t, "devices")
			switch rapid.SampledFrom([]string{"pod", "claim", "claim", "no pod", "no claim"}).Draw(t, "change") {
			case "pod":
				pods[key] = gpuPod(namespace, "p"+name, n, func(p *corev1.Pod) {
					if named := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "recorded"); named != "" {
						p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: named}
					}
				})
				b.pods.OnUpdate(pods[key])
			case "claim":
				claims[key] = gpuClaim(namespace, name, n, rapid.SampledFrom([]types.UID{"", "p1", "p2", "p3"}).Draw(t, "made for"))
				b.claims.OnUpdate(claims[key])
			case "no pod":
				if p := pods[key]; p != nil {
					delete(pods, key)
					b.pods.OnDelete(p)
				}
			case "no claim":
				if c := claims[key]; c != nil {
					delete(claims, key)
					b.claims.OnDelete(c)
				}
			}
		}
		fresh := newDevicesBench()
		fresh.pods.OnList(objects(pods))
		fresh.claims.OnList(objects(claims))
		for _, namespace := range []string{"shop", "bank"} {
			if got, want := b.used(namespace), fresh.used(namespace); got != want {
				t.Errorf("%s: %s, from lists %s", namespace, got, want)
			}
		}
	})
}

func objects[T metav1.Object](all map[string]T) (list []metav1.Object) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[key])
	}
	return list
}
