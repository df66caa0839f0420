package projectiontest

import (
	"bytes"
	"math/rand"
	"runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/randfill"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

// When is the time of all that has happened to [FullPod].
var When = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// FullPod is a pod as a node runs it, with about everything that pods have.
func FullPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: "web-", Namespace: "shop", UID: types.UID("uid-" + name), ResourceVersion: "7",
			Generation:        2,
			CreationTimestamp: When, DeletionTimestamp: &When, DeletionGracePeriodSeconds: ptr.To[int64](30),
			Labels: map[string]string{"app": "web", "pod-template-hash": "6d4b9"},
			Annotations: map[string]string{corev1.PodDeletionCost: "5",
				"example.com/long": "a long text that nobody reads here"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "web",
				UID: "rs"}, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
			Finalizers: []string{"example.com/f"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", Operation: "Update", Time: &When, FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`"` + strings.Repeat("x", 1200) + `"`)},
				{Manager: "kubelet", Operation: "Update", Time: &When, FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`"` + strings.Repeat("x", 1500) + `"`), Subresource: "status"},
			},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Hostname: "h", Subdomain: "s", ServiceAccountName: "default",
			SchedulerName: "default-scheduler",
			Containers: []corev1.Container{
				{Name: "web", Image: "registry.example.com/web:1", Command: []string{"web"},
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
					Env:   []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(
						"100m"), "memory": resource.MustParse("64Mi")}},
					VolumeMounts: []corev1.VolumeMount{{Name: "token",
						MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
					LivenessProbe: &corev1.Probe{PeriodSeconds: 10}, ReadinessProbe: &corev1.Probe{PeriodSeconds: 5}},
			},
			InitContainers: []corev1.Container{{Name: "proxy", Image: "registry.example.com/proxy:1",
				RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
			Volumes: []corev1.Volume{{Name: "token",
				VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{{
						ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists",
				Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute",
					TolerationSeconds: ptr.To[int64](300)}},
		},
		Status: corev1.PodStatus{
			ObservedGeneration: 2, Phase: corev1.PodRunning, Reason: "Evicted", Message: "a long message",
			HostIP: "10.0.0.1", StartTime: &When,
			PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}, {IP: "fd00::3"}},
			QOSClass: corev1.PodQOSBurstable,
			Conditions: []corev1.PodCondition{
				{Type: "PodReadyToStartContainers", Status: "True", LastTransitionTime: When},
				{Type: "Initialized", Status: "True", LastTransitionTime: When},
				{Type: "Ready", Status: "True", LastTransitionTime: When},
				{Type: "ContainersReady", Status: "True", LastTransitionTime: When},
				{Type: "PodScheduled", Status: "True", LastTransitionTime: When},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", RestartCount: 3,
				Image: "registry.example.com/web:1", Ready: true,
				ContainerID: "containerd://0123456789abcdef",
				State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: When}}}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", RestartCount: 1,
				Image: "registry.example.com/proxy:1"}},
			EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "debug", RestartCount: 1}},
		},
	}
}

// Decoded is the same pod as it is decoded from what a server sends: each string in memory of its own, lists with
// room to grow.
func Decoded(t testing.TB, name string) *corev1.Pod {
	data, err := FullPod(name).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{}
	if err := p.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	return p
}

// Encode returns an object in protobuf, as a server sends it.
func Encode(t rapid.TB, o apiruntime.Object) []byte {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b); err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b.Bytes()
}

// Filler fills objects at random.
func Filler(seed int64) *randfill.Filler {
	return fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(seed),
		scheme.Codecs).NilChance(0.2).NumElements(1, 3)
}

// AddWhatIsKept gives a random pod values of fields that are kept, which random values seldom are.
func AddWhatIsKept(t *rapid.T, p *corev1.Pod) {
	p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"", "Pending", "Running", "Succeeded", "Failed"}).Draw(t,
		"phase")
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].Type = rapid.SampledFrom([]corev1.PodConditionType{"Ready", "DisruptionTarget",
			"PodScheduled"}).Draw(t, "condition")
	}
	for i := range p.Spec.Containers {
		if rapid.Bool().Draw(t, "no ports") {
			p.Spec.Containers[i].Ports, p.Spec.Containers[i].RestartPolicy = nil, nil
		}
	}
	for _, key := range []string{corev1.PodDeletionCost, metav1.InitialEventsAnnotationKey} {
		if rapid.Bool().Draw(t, key) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, "7")
		}
	}
}

// HeapInUse returns how many bytes of the heap are in use, after a collection.
func HeapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
