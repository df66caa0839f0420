package quota

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

var (
	epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	all   = Gates{PodLevelResources: true, PodLevelResize: true, ExtendedResourcesByClaims: true}
)

// list makes a list of "name=amount".
func list(items ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for _, item := range items {
		name, amount, _ := strings.Cut(item, "=")
		l[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return l
}

// text shows a list in order, without what only counts objects.
func text(l corev1.ResourceList) string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if q := l[name]; !strings.HasPrefix(string(name), "count/") {
			items = append(items, fmt.Sprintf("%s=%s", name, q.String()))
		}
	}
	return strings.Join(items, " ")
}

func pod(edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func asking(requests ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list(requests...) }
}

func limited(limits ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = list(limits...) }
}

func phase(ph corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = ph }
}

func initAsking(always bool, requests ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.Container{Name: fmt.Sprint("init-", len(p.Spec.InitContainers)),
			Resources: corev1.ResourceRequirements{Requests: list(requests...)}}
		if always {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

// beside adds a container with limits.
func beside(limits ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers,
			corev1.Container{Name: "beside", Resources: corev1.ResourceRequirements{Limits: list(limits...)}})
	}
}

// resizing gives a pod two containers of which one is to grow and the other one to shrink.
func resizing(p *corev1.Pod) {
	p.Spec.Containers = nil
	for name, cpu := range map[string][2]string{"a": {"cpu=100m", "cpu=300m"}, "b": {"cpu=300m", "cpu=100m"}} {
		p.Spec.Containers = append(p.Spec.Containers,
			corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list(cpu[0])}})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, AllocatedResources: list(cpu[1]), Resources: &corev1.ResourceRequirements{Requests: list(cpu[1])},
		})
	}
}

// A row is a sentence: a pod like this is charged with that.
func TestPod(t *testing.T) {
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"RQ-26 what is not asked for is not charged", pod(), "pods=1"},
		{"RQ-26 requests have two names, limits one", pod(asking("cpu=100m", "memory=1Gi"), limited("cpu=1", "ephemeral-storage=2Gi")),
			"cpu=100m limits.cpu=1 limits.ephemeral-storage=2Gi memory=1Gi pods=1 requests.cpu=100m requests.memory=1Gi"},
		{"MEND-30 a container without a limit of cpu leaves the pod without one",
			pod(limited("cpu=1", "memory=1Gi", "ephemeral-storage=2Gi"), beside("memory=1Gi")),
			"limits.ephemeral-storage=2Gi limits.memory=2Gi pods=1"},
		{"MEND-30 so does an init container", pod(limited("cpu=1", "memory=1Gi"), initAsking(false, "cpu=1")),
			"cpu=1 pods=1 requests.cpu=1"},
		{"MEND-30 and a limit of zero", pod(limited("cpu=1"), beside("cpu=0")), "pods=1"},
		{"MEND-30 and its overhead does not count alone",
			pod(limited("cpu=1"), beside(), func(p *corev1.Pod) { p.Spec.Overhead = list("cpu=250m") }),
			"cpu=250m pods=1 requests.cpu=250m"},
		{"MEND-30 the limit of the pod itself counts",
			pod(limited("cpu=1"), beside(), func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Limits: list("cpu=5")} }),
			"limits.cpu=5 pods=1"},
		{"RQ-26 hugepages have two names", pod(asking("hugepages-2Mi=4Mi"), limited("hugepages-2Mi=4Mi")),
			"hugepages-2Mi=4Mi pods=1 requests.hugepages-2Mi=4Mi"},
		{"RQ-26 extended resources are charged as requests only", pod(asking("example.com/gpu=2"), limited("example.com/gpu=2")),
			"pods=1 requests.example.com/gpu=2"},
		{"RQ-26 so are the devices of a class", pod(asking("deviceclass.resource.kubernetes.io/gpu=1")),
			"pods=1 requests.deviceclass.resource.kubernetes.io/gpu=1"},
		{"RQ-21 resources of Kubernetes' own are no extended ones", pod(asking("attachable.kubernetes.io/x=2")), "pods=1"},
		{"RQ-25 the largest phase of the initialization", pod(asking("cpu=1"), initAsking(false, "cpu=3"), initAsking(false, "cpu=2")),
			"cpu=3 pods=1 requests.cpu=3"},
		{"RQ-25 sidecars are added", pod(asking("cpu=1"), initAsking(true, "cpu=3")), "cpu=4 pods=1 requests.cpu=4"},
		{"RQ-25 overhead is added", pod(asking("cpu=1"), func(p *corev1.Pod) { p.Spec.Overhead = list("cpu=250m") }),
			"cpu=1250m pods=1 requests.cpu=1250m"},
		{"RQ-25 the resources of the pod replace the sum", pod(asking("cpu=1"), func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu=5")}
		}), "cpu=5 pods=1 requests.cpu=5"},
		{"RQ-25 a resize that is under way", pod(asking("cpu=1"), func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: list("cpu=2"),
				Resources: &corev1.ResourceRequirements{Requests: list("cpu=2")}}}
		}), "cpu=2 pods=1 requests.cpu=2"},
		{"RQ-25 resizes in opposite directions: the larger of the sums", pod(resizing), "cpu=400m pods=1 requests.cpu=400m"},
		{"RQ-25 what cannot be granted is not charged", pod(asking("cpu=5"), func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: list("cpu=1"),
				Resources: &corev1.ResourceRequirements{Requests: list("cpu=1")}}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
				Reason: corev1.PodReasonInfeasible}}
		}), "cpu=1 pods=1 requests.cpu=1"},
		{"RQ-24 a pod that has succeeded is only counted", pod(asking("cpu=1"), phase(corev1.PodSucceeded)), ""},
		{"RQ-24 a pod that has failed is only counted", pod(asking("cpu=1"), phase(corev1.PodFailed)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := Pod(c.pod, all)
			if got := text(i.At(epoch)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if n := i.At(epoch)["count/pods"]; n.Value() != 1 { // RQ-24
				t.Errorf("it is counted %s times", n.String())
			}
		})
	}
}

// RQ-25: without the gate, the resources of pods say nothing.
func TestPodLevelResourcesAreSwitchedOff(t *testing.T) {
	p := pod(asking("cpu=1"), func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu=5")} })
	if got := text(Pod(p, Gates{}).Usage); got != "cpu=1 pods=1 requests.cpu=1" {
		t.Error(got)
	}
}

// RQ-24: a pod is charged until the grace period after its deletion is over.
func TestPodThatDoesNotEnd(t *testing.T) {
	at := metav1.NewTime(epoch)
	i := Pod(pod(asking("cpu=1"), func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, ptr.To(int64(30)) }), all)
	for after, want := range map[time.Duration]string{0: "cpu=1 pods=1 requests.cpu=1", 30 * time.Second: "cpu=1 pods=1 requests.cpu=1",
		31 * time.Second: ""} {
		if got := text(i.At(epoch.Add(after))); got != want {
			t.Errorf("after %v: %s, want %s", after, got, want)
		}
	}
}

// RQ-24: a grace period may be longer than a time.Duration.
func TestAnyGracePeriod(t *testing.T) {
	at := metav1.NewTime(epoch)
	for seconds, later := range map[int64]time.Time{10_000_000_000: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC),
		math.MaxInt64: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		i := Pod(pod(asking("cpu=1"), func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &seconds }), all)
		if i.Ended(later) {
			t.Errorf("it is over %d seconds after %v", seconds, epoch)
		}
	}
}

// A row is a sentence: a Service like this is charged with that.
func TestService(t *testing.T) {
	ports := []corev1.ServicePort{{Port: 80}, {Port: 81, NodePort: 30000}}
	for _, c := range []struct {
		name string
		spec corev1.ServiceSpec
		want string
	}{
		{"RQ-28 for the cluster", corev1.ServiceSpec{Ports: ports}, "services=1 services.loadbalancers=0 services.nodeports=0"},
		{"RQ-28 on nodes", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports},
			"services=1 services.loadbalancers=0 services.nodeports=2"},
		{"RQ-28 a balancer", corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports},
			"services=1 services.loadbalancers=1 services.nodeports=2"},
		{"RQ-28 a balancer without ports on nodes",
			corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports, AllocateLoadBalancerNodePorts: new(bool)},
			"services=1 services.loadbalancers=1 services.nodeports=1"},
	} {
		if got := text(Service(&corev1.Service{Spec: c.spec}).Usage); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A row is a sentence: a claim like this is charged with that.
func TestClaim(t *testing.T) {
	claim := func(edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{}
		c.Spec.Resources.Requests = list("storage=1Gi")
		for _, edit := range edits {
			edit(c)
		}
		return c
	}
	classed := func(name string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
	}
	for _, c := range []struct {
		name  string
		claim *corev1.PersistentVolumeClaim
		want  string
	}{
		{"RQ-29 without a class", claim(), "persistentvolumeclaims=1 requests.storage=1Gi"},
		{"RQ-29 of a class", claim(classed("fast")),
			"fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 fast.storageclass.storage.k8s.io/requests.storage=1Gi " +
				"persistentvolumeclaims=1 requests.storage=1Gi"},
		{"RQ-29 an empty class is none", claim(classed("")), "persistentvolumeclaims=1 requests.storage=1Gi"},
		{"RQ-29 the annotation comes first", claim(classed("fast"), func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "old"}
		}),
			"old.storageclass.storage.k8s.io/persistentvolumeclaims=1 old.storageclass.storage.k8s.io/requests.storage=1Gi " +
				"persistentvolumeclaims=1 requests.storage=1Gi"},
		{"RQ-29 what is allocated, if that is more",
			claim(func(c *corev1.PersistentVolumeClaim) { c.Status.AllocatedResources = list("storage=2Gi") }),
			"persistentvolumeclaims=1 requests.storage=2Gi"},
		{"RQ-29 not if it is less", claim(func(c *corev1.PersistentVolumeClaim) { c.Status.AllocatedResources = list("storage=1Mi") }),
			"persistentvolumeclaims=1 requests.storage=1Gi"},
		{"RQ-29 whole bytes", claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = list("storage=1500m") }),
			"persistentvolumeclaims=1 requests.storage=2"},
		{"one that asks for nothing", claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = nil }),
			"persistentvolumeclaims=1"},
	} {
		if got := text(Claim(c.claim).Usage); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func exactly(class string, mode resourcev1.DeviceAllocationMode, count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: mode, Count: count}}
}

func devicesOf(requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpus", UID: "c"}}
	c.Spec.Devices.Requests = requests
	return c
}

// A row is a sentence: a claim for devices is charged with that.
func TestResourceClaim(t *testing.T) {
	const exact = resourcev1.DeviceAllocationModeExactCount
	for _, c := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		want  string
	}{
		{"RQ-31 a number of devices", devicesOf(exactly("gpu", exact, 2), exactly("gpu", exact, 1)),
			"gpu.deviceclass.resource.k8s.io/devices=3"},
		{"RQ-31 all devices", devicesOf(exactly("gpu", resourcev1.DeviceAllocationModeAll, 0)),
			"gpu.deviceclass.resource.k8s.io/devices=32"},
		{"RQ-31 an unknown mode", devicesOf(exactly("gpu", "Some", 5)), "gpu.deviceclass.resource.k8s.io/devices=0"},
		{"RQ-31 the most of alternatives, for each class", devicesOf(resourcev1.DeviceRequest{FirstAvailable: []resourcev1.DeviceSubRequest{
			{DeviceClassName: "big", AllocationMode: exact, Count: 1}, {DeviceClassName: "small", AllocationMode: exact, Count: 2},
			{DeviceClassName: "small", AllocationMode: exact, Count: 4},
		}}), "big.deviceclass.resource.k8s.io/devices=1 small.deviceclass.resource.k8s.io/devices=4"},
	} {
		if got := text(ResourceClaim(c.claim, nil, nil, Gates{}).Usage); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A row is a sentence: what a claim is charged with for extended resources.
func TestRQ32ExtendedResources(t *testing.T) {
	classes := map[string]corev1.ResourceName{"gpu": "example.com/gpu"}
	made := func(edits ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		c := devicesOf(exactly("gpu", resourcev1.DeviceAllocationModeExactCount, 3))
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "p", Controller: ptr.To(true)}}
		for _, edit := range edits {
			edit(c)
		}
		return c
	}
	owner := func(edits ...func(*Owner)) *Owner {
		o := &Owner{UID: "p", Oldest: "c", Charged: list("requests.example.com/gpu=2")}
		for _, edit := range edits {
			edit(o)
		}
		return o
	}
	const full = "gpu.deviceclass.resource.k8s.io/devices=3 requests.deviceclass.resource.kubernetes.io/gpu=3 requests.example.com/gpu=3"
	const rest = "gpu.deviceclass.resource.k8s.io/devices=3 requests.deviceclass.resource.kubernetes.io/gpu=3 requests.example.com/gpu=1"
	for _, c := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		owner *Owner
		want  string
	}{
		{"a claim of its own", devicesOf(exactly("gpu", resourcev1.DeviceAllocationModeExactCount, 3)), nil, full},
		{"one that was made for a pod", made(), owner(), rest},
		{"that is recorded", made(), owner(func(o *Owner) { o.Recorded, o.Oldest = "gpus", "x" }), rest},
		{"another one is recorded", made(), owner(func(o *Owner) { o.Recorded = "other" }), full},
		{"another one is older", made(), owner(func(o *Owner) { o.Oldest = "x" }), full},
		{"the pod is gone", made(), nil, full},
		{"another pod of that name", made(), owner(func(o *Owner) { o.UID = "q" }), full},
		{"the annotation is not true", made(func(c *resourcev1.ResourceClaim) { c.Annotations = nil }), owner(), full},
		{"the pod is charged with more", made(), owner(func(o *Owner) {
			o.Charged = list("requests.example.com/gpu=5", "requests.deviceclass.resource.kubernetes.io/gpu=5")
		}), "gpu.deviceclass.resource.k8s.io/devices=3"},
	} {
		if got := text(ResourceClaim(c.claim, classes, c.owner, all).Usage); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A row is a sentence: objects of these resources are charged to a name.
func TestCharged(t *testing.T) {
	for _, c := range []struct {
		name, limit, want string
	}{
		{"RQ-19 objects of the core group", "count/configmaps", "configmaps"},
		{"RQ-19 objects of any group", "count/widgets.example.com", "widgets.example.com"},
		{"RQ-20 plain names", "configmaps", "configmaps"},
		{"RQ-20 of few resources only", "deployments", ""},
		{"RQ-21 pods", "pods", "pods"}, {"RQ-21 cpu", "cpu", "pods"}, {"RQ-21 limits", "limits.memory", "pods"},
		{"RQ-21 hugepages", "requests.hugepages-2Mi", "pods"}, {"RQ-21 limits of hugepages", "limits.hugepages-2Mi", ""},
		{"RQ-21 extended resources are those of claims, too", "requests.example.com/gpu", "pods resourceclaims.resource.k8s.io"},
		{"RQ-21 with their prefix", "example.com/gpu", ""},
		{"RQ-21 resources of Kubernetes", "requests.kubernetes.io/x", ""},
		{"RQ-21 devices of a class", "requests.deviceclass.resource.kubernetes.io/gpu", "pods resourceclaims.resource.k8s.io"},
		{"RQ-22 Services", "services.nodeports", "services"},
		{"RQ-23 storage", "requests.storage", "persistentvolumeclaims"},
		{"RQ-23 storage of a class", "fast.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"},
		{"RQ-23 anything else of a class", "fast.storageclass.storage.k8s.io/cpu", ""},
		{"RQ-23b devices", "gpu.deviceclass.resource.k8s.io/devices", "resourceclaims.resource.k8s.io"},
		{"RQ-23b claims", "count/resourceclaims.resource.k8s.io", "resourceclaims.resource.k8s.io"},
		{"an unknown name", "beer", ""}, {"an empty name", "", ""}, {"nothing to count", "count/", ""},
	} {
		var got []string
		for _, of := range Charged(corev1.ResourceName(c.limit), all) {
			got = append(got, of.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
	if got := Charged("requests.example.com/gpu", Gates{}); len(got) != 1 { // RQ-23b
		t.Errorf("without the gate: %v", got)
	}
}

// RQ-19, RQ-20: an object is counted under its names.
func TestObject(t *testing.T) {
	for of, want := range map[schema.GroupResource]string{
		{Resource: "secrets"}:                   "[count/secrets secrets]",
		{Group: "apps", Resource: "daemonsets"}: "[count/daemonsets.apps]",
	} {
		if got := fmt.Sprint(slices.Sorted(maps.Keys(Object(of).Usage))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func in(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) corev1.ResourceQuotaSpec {
	return corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: scope, Operator: operator, Values: values}}}}
}

// A row is a sentence: these scopes select an object.
func TestScopes(t *testing.T) {
	scopes := func(all ...corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{Scopes: all}
	}
	lasting := podTraits(pod(asking("cpu=1"), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(0)) }))
	plain := podTraits(pod())
	urgent := podTraits(pod(func(p *corev1.Pod) { p.Spec.PriorityClassName = strings.Repeat("high.", 20) + "x" }))
	roaming := podTraits(pod(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{PodAffinityTerm: corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}}}}}
	}))
	class := urgent.PriorityClass
	const vac = corev1.ResourceQuotaScopeVolumeAttributesClass
	claim := Claim(&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: ptr.To("gold")},
		Status: corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: ptr.To("silver"),
			ModifyVolumeStatus: &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "tin"}}}).Traits
	bare := Claim(&corev1.PersistentVolumeClaim{}).Traits
	for _, c := range []struct {
		name   string
		spec   corev1.ResourceQuotaSpec
		traits Traits
		want   bool
	}{
		{"none select everything", corev1.ResourceQuotaSpec{}, Traits{}, true},
		{"RQ-27 a deadline", scopes("Terminating"), lasting, true}, {"RQ-27 no deadline", scopes("Terminating"), plain, false},
		{"RQ-27 not a deadline", scopes("NotTerminating"), lasting, false}, {"RQ-27 neither", scopes("NotTerminating"), plain, true},
		{"RQ-27 best effort", scopes("BestEffort"), plain, true},
		{"RQ-27 one that asks for something", scopes("BestEffort"), lasting, false},
		{"RQ-27 not best effort", scopes("NotBestEffort"), lasting, true},
		{"RQ-33 both", scopes("NotBestEffort", "NotTerminating"), lasting, false},
		{"RQ-27 any class", in("PriorityClass", "Exists"), urgent, true}, {"RQ-27 no class", in("PriorityClass", "Exists"), plain, false},
		{"RQ-27 this class, whose name is no label", in("PriorityClass", "In", "low", class), urgent, true},
		{"RQ-27 another class", in("PriorityClass", "In", "low"), urgent, false},
		{"RQ-27 not this class", in("PriorityClass", "NotIn", class), urgent, false},
		{"RQ-27 no class is not this one", in("PriorityClass", "NotIn", class), plain, true},
		{"RQ-27 no class is absent", in("PriorityClass", "DoesNotExist"), plain, true},
		{"RQ-27 none is in nothing", in("PriorityClass", "In", ""), plain, false},
		{"RQ-27 near pods of other namespaces", scopes("CrossNamespacePodAffinity"), roaming, true},
		{"RQ-27 near none", scopes("CrossNamespacePodAffinity"), plain, false},
		{"RQ-30 any class of volumes", in(vac, "Exists"), claim, true}, {"RQ-30 none", in(vac, "Exists"), bare, false},
		{"RQ-30 the wanted one", in(vac, "In", "gold"), claim, true}, {"RQ-30 the present one", in(vac, "In", "silver"), claim, true},
		{"RQ-30 the next one", in(vac, "In", "tin"), claim, true}, {"RQ-30 another", in(vac, "In", "x"), claim, false},
		{"RQ-30 one of them is not it", in(vac, "NotIn", "gold"), claim, true},
		{"RQ-30 none is absent", in(vac, "NotIn", "gold"), bare, true},
		{"RQ-34 a pod has no volumes", in(vac, "DoesNotExist"), plain, false},
		{"RQ-34 a claim has no deadline", scopes("NotTerminating"), bare, false},
		{"RQ-34 other objects know no scopes", scopes("NotTerminating"), Traits{}, false},
		{"RQ-34 an unknown scope", scopes("Unknown"), plain, false},
	} {
		s, err := NewSelector(&c.spec)
		if err != nil || s.Matches(c.traits) != c.want {
			t.Errorf("%s: not %v (%v)", c.name, c.want, err)
		}
	}
	if _, err := NewSelector(ptr.To(in("PriorityClass", "Perhaps"))); err == nil {
		t.Error("an unknown operator is accepted")
	}
}

// RQ-39, RQ-44: amounts are compared as numbers, and a sum has the format of what came first.
func TestArithmetic(t *testing.T) {
	if !Equal(list("cpu=1000m"), list("cpu=1")) || Equal(list("cpu=1"), list("cpu=1", "memory=0")) || !Equal(nil, corev1.ResourceList{}) {
		t.Error("amounts are not compared as numbers")
	}
	sum := list()
	Add(sum, list("memory=1Gi"))
	Add(sum, list("memory=1G", "cpu=1"))
	Subtract(sum, list("memory=1G", "cpu=1"))
	if got := text(sum); got != "cpu=0 memory=1Gi" {
		t.Error(got)
	}
	if got := text(Over(list("cpu=3", "memory=1"), list("cpu=1", "memory=2"))); got != "cpu=2" {
		t.Error(got)
	}
}
