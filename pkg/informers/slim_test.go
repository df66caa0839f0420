package informers

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

var when = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// fullPod is a pod as a node runs it, with about everything that pods have.
func fullPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: "web-", Namespace: "shop", UID: types.UID("uid-" + name), ResourceVersion: "7", Generation: 2,
			CreationTimestamp: when, DeletionTimestamp: &when, DeletionGracePeriodSeconds: ptr.To[int64](30),
			Labels:          map[string]string{"app": "web", "pod-template-hash": "6d4b9"},
			Annotations:     map[string]string{corev1.PodDeletionCost: "5", "example.com/long": "a long text that nobody reads here"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "web", UID: "rs"}, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
			Finalizers:      []string{"example.com/f"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", Operation: "Update", Time: &when, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`"` + strings.Repeat("x", 1200) + `"`)},
				{Manager: "kubelet", Operation: "Update", Time: &when, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`"` + strings.Repeat("x", 1500) + `"`), Subresource: "status"},
			},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Hostname: "h", Subdomain: "s", ServiceAccountName: "default", SchedulerName: "default-scheduler",
			Containers: []corev1.Container{
				{Name: "web", Image: "registry.example.com/web:1", Command: []string{"web"},
					Ports:         []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
					Env:           []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
					Resources:     corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}},
					VolumeMounts:  []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
					LivenessProbe: &corev1.Probe{PeriodSeconds: 10}, ReadinessProbe: &corev1.Probe{PeriodSeconds: 5}},
			},
			InitContainers: []corev1.Container{{Name: "proxy", Image: "registry.example.com/proxy:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)}},
		},
		Status: corev1.PodStatus{
			ObservedGeneration: 2, Phase: corev1.PodRunning, Reason: "Evicted", Message: "a long message", HostIP: "10.0.0.1", StartTime: &when,
			PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}, {IP: "fd00::3"}}, QOSClass: corev1.PodQOSBurstable,
			Conditions: []corev1.PodCondition{
				{Type: "PodReadyToStartContainers", Status: "True", LastTransitionTime: when}, {Type: "Initialized", Status: "True", LastTransitionTime: when},
				{Type: "Ready", Status: "True", LastTransitionTime: when}, {Type: "ContainersReady", Status: "True", LastTransitionTime: when},
				{Type: "PodScheduled", Status: "True", LastTransitionTime: when},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", RestartCount: 3, Image: "registry.example.com/web:1", Ready: true,
				ContainerID: "containerd://0123456789abcdef", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: when}}}},
			InitContainerStatuses:      []corev1.ContainerStatus{{Name: "proxy", RestartCount: 1, Image: "registry.example.com/proxy:1"}},
			EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "debug", RestartCount: 1}},
		},
	}
}

func slimmed(t interface{ Fatalf(string, ...any) }, o any) any {
	slim, err := Slim(o)
	if err != nil {
		t.Fatalf("slim: %v", err)
	}
	return slim
}

func TestSlimPod(t *testing.T) {
	full := fullPod("a")
	full.Spec.Containers = append(full.Spec.Containers, corev1.Container{Name: "portless", Image: "x"})
	full.Spec.InitContainers = append(full.Spec.InitContainers, corev1.Container{Name: "setup", Image: "x"})
	full.Status.ContainerStatuses = append(full.Status.ContainerStatuses, corev1.ContainerStatus{Name: "portless", Image: "x"})
	before := full.DeepCopy()
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "shop", UID: "uid-a", ResourceVersion: "7", Generation: 2,
			CreationTimestamp: when, DeletionTimestamp: &when, DeletionGracePeriodSeconds: ptr.To[int64](30),
			Labels: full.Labels, OwnerReferences: full.OwnerReferences, Finalizers: full.Finalizers,
			Annotations: map[string]string{corev1.PodDeletionCost: "5"},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Hostname: "h", Subdomain: "s",
			Containers:     []corev1.Container{{Name: "web", Ports: full.Spec.Containers[0].Ports}},
			InitContainers: []corev1.Container{{Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		},
		Status: corev1.PodStatus{
			ObservedGeneration: 2, Phase: corev1.PodRunning, Reason: "Evicted", PodIP: "10.1.2.3", PodIPs: full.Status.PodIPs,
			Conditions:            []corev1.PodCondition{{Type: "Ready", Status: "True", LastTransitionTime: when}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", RestartCount: 3}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", RestartCount: 1}},
		},
	}
	got := slimmed(t, full)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slim (-want +got):\n%s", diff)
	}
	if !reflect.DeepEqual(before, full) {
		t.Error("the pod that was given was changed")
	}
	if diff := cmp.Diff(got, slimmed(t, got)); diff != "" {
		t.Errorf("not idempotent:\n%s", diff)
	}
}

func TestSlimConditions(t *testing.T) {
	all := func() []corev1.PodCondition {
		return []corev1.PodCondition{
			{Type: "PodScheduled", Status: "True", LastTransitionTime: when, Reason: "r", Message: "m"},
			{Type: "Ready", Status: "False", LastTransitionTime: when, LastProbeTime: when, Reason: "PodCompleted"},
			{Type: "DisruptionTarget", Status: "True", LastTransitionTime: when, Reason: "DeletionByPodGC", Message: "m", ObservedGeneration: 3},
		}
	}
	ready := corev1.PodCondition{Type: "Ready", Status: "False", LastTransitionTime: when}
	for _, c := range []struct {
		name  string
		phase corev1.PodPhase
		want  []corev1.PodCondition
	}{
		{"of a pod that runs, whether it is ready or disrupted (RS-43, PGC-15)", corev1.PodRunning, []corev1.PodCondition{ready, all()[2]}},
		{"of a pod that has ended, when things happened", corev1.PodSucceeded,
			[]corev1.PodCondition{{Type: "PodScheduled", Status: "True", LastTransitionTime: when}, ready, all()[2]}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &corev1.Pod{Status: corev1.PodStatus{Phase: c.phase, Conditions: all()}}
			if diff := cmp.Diff(c.want, slimmed(t, p).(*corev1.Pod).Status.Conditions); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Decoders leave room to grow in lists; that room must not stay.
func TestSlimPodKeepsNoSpareRoom(t *testing.T) {
	full := fullPod("a")
	full.Status.Conditions = append(make([]corev1.PodCondition, 0, 100), full.Status.Conditions...)
	full.Spec.Containers[0].Ports = append(make([]corev1.ContainerPort, 0, 100), full.Spec.Containers[0].Ports...)
	slim := slimmed(t, full).(*corev1.Pod)
	if n := cap(slim.Status.Conditions); n != 1 {
		t.Errorf("room for %d conditions", n)
	}
	if n := cap(slim.Spec.Containers[0].Ports); n != 1 {
		t.Errorf("room for %d ports", n)
	}
}

func TestSlimOtherKinds(t *testing.T) {
	meta := func() metav1.ObjectMeta {
		m := fullPod("a").ObjectMeta
		m.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "keep": "me"}
		return m
	}
	for _, c := range []struct {
		name        string
		o           apiruntime.Object
		lastApplied bool
	}{
		{"Deployments are written back whole", &appsv1.Deployment{ObjectMeta: meta()}, true},
		{"ReplicaSets, too, and their annotations are read (DEP-14, DEP-51)", &appsv1.ReplicaSet{ObjectMeta: meta()}, true},
		{"Endpoints, too (EP-28)", &corev1.Endpoints{ObjectMeta: meta()}, true},
		{"what is not known is not judged", &corev1.ConfigMap{ObjectMeta: meta()}, true},
		{"Services are only read", &corev1.Service{ObjectMeta: meta()}, false},
		{"Nodes are only read", &corev1.Node{ObjectMeta: meta()}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			annotations := c.o.(metav1.Object).GetAnnotations()
			want := c.o.DeepCopyObject().(metav1.Object)
			want.SetManagedFields(nil)
			if !c.lastApplied {
				want.SetAnnotations(map[string]string{"keep": "me"})
			}
			got := slimmed(t, c.o)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("slim (-want +got):\n%s", diff)
			}
			if len(annotations) != 2 {
				t.Error("a map that may be shared was changed")
			}
			again := got.(apiruntime.Object).DeepCopyObject()
			if diff := cmp.Diff(got, slimmed(t, again)); diff != "" {
				t.Errorf("not idempotent:\n%s", diff)
			}
		})
	}
}

// Strange things pass through, tombstones with what is in them slimmed (CI-15).
func TestSlimToleratesAnything(t *testing.T) {
	for _, o := range []any{nil, 7, "text", struct{}{}, &metav1.Status{Message: "m"}, cache.DeletedFinalStateUnknown{Key: "k"},
		cache.DeletedFinalStateUnknown{Key: "k", Obj: 7}} {
		if got := slimmed(t, o); !reflect.DeepEqual(got, o) {
			t.Errorf("%v became %v", o, got)
		}
	}
	got := slimmed(t, cache.DeletedFinalStateUnknown{Key: "k", Obj: fullPod("a")})
	if diff := cmp.Diff(cache.DeletedFinalStateUnknown{Key: "k", Obj: slimmed(t, fullPod("a"))}, got); diff != "" {
		t.Error(diff)
	}
}

// SlimIsIdempotent: what has been slimmed comes out the same and is not written to, whatever it is.
func TestSlimIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := fullPod(rapid.StringMatching("[a-z]{1,5}").Draw(t, "name"))
		if rapid.Bool().Draw(t, "bare") {
			p.Status, p.Spec, p.ObjectMeta = corev1.PodStatus{}, corev1.PodSpec{}, metav1.ObjectMeta{Name: "a"}
		}
		p.Spec.Containers = p.Spec.Containers[:rapid.IntRange(0, len(p.Spec.Containers)).Draw(t, "containers")]
		p.Status.Conditions = p.Status.Conditions[:rapid.IntRange(0, len(p.Status.Conditions)).Draw(t, "conditions")]
		once := slimmed(t, p)
		before := once.(*corev1.Pod).DeepCopy()
		twice := slimmed(t, once)
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Fatal(diff)
		}
		if !reflect.DeepEqual(before, once) {
			t.Fatal("a slimmed pod was written to")
		}
	})
}

// BenchmarkPodMemory reports how much heap a decoded pod takes, whole and slimmed.
func BenchmarkPodMemory(b *testing.B) {
	calm := func(p *corev1.Pod) *corev1.Pod { // most pods have not restarted and bear no cost
		p.Annotations, p.Status.ContainerStatuses[0].RestartCount, p.Status.InitContainerStatuses[0].RestartCount = nil, 0, 0
		return p
	}
	for _, c := range []struct {
		name string
		keep func(*corev1.Pod) any
	}{
		{"slim, never restarted", func(p *corev1.Pod) any { o, _ := Slim(calm(p)); return o }},
		{"whole", func(p *corev1.Pod) any { return p }},
		{"slim", func(p *corev1.Pod) any { o, _ := Slim(p); return o }},
	} {
		b.Run(c.name, func(b *testing.B) {
			const n = 2000
			var total float64
			for b.Loop() {
				kept := make([]any, n)
				before := heap()
				for i := range kept {
					kept[i] = c.keep(decoded(b, fmt.Sprintf("web-6d4b9-%05d", i)))
				}
				total += float64(heap()-before) / n
				runtime.KeepAlive(kept)
			}
			b.ReportMetric(total/float64(b.N), "heap-B/pod")
		})
	}
}

// decoded is a pod as it comes off the wire: each string in memory of its own, lists with room to grow.
func decoded(t testing.TB, name string) *corev1.Pod {
	data, err := fullPod(name).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{}
	if err := p.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	return p
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
