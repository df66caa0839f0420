package projection

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/projection/projectiontest"
	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

// sample is what the tests project to: pods, nodes and services in part, the rest whole.
var sample = func() *Projection {
	core, apps := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion
	p, err := New(
		Fields{Kinds: map[schema.GroupVersionKind][]string{
			core.WithKind("Pod"): strings.Fields(`metadata.annotations[` + corev1.PodDeletionCost + `] status.phase status.conditions
				status.containerStatuses.name status.containerStatuses.restartCount
				status.initContainerStatuses.name status.initContainerStatuses.restartCount`),
			core.WithKind("Service"): {"spec"}, core.WithKind("Endpoints"): nil, apps.WithKind("ReplicaSet"): nil,
		}, PodCondition: ReadyCondition},
		Fields{Kinds: map[schema.GroupVersionKind][]string{
			core.WithKind("Pod"): strings.Fields(`spec.nodeName spec.hostname spec.containers.name spec.containers.ports
				spec.containers.restartPolicy spec.initContainers.name spec.initContainers.ports spec.initContainers.restartPolicy
				status.phase status.podIP status.podIPs status.conditions`),
			core.WithKind("Node"): {"spec.taints", "status.conditions"}, apps.WithKind("Deployment"): nil,
		}, PodCondition: func(p *corev1.Pod, t corev1.PodConditionType) bool {
			return t == corev1.DisruptionTarget || p.Status.Phase == corev1.PodSucceeded
		}},
	)
	if err != nil {
		panic(err)
	}
	return p
}()

func projected(t interface{ Fatalf(string, ...any) }, o any) any {
	got, err := sample.Transform(o)
	if err != nil {
		t.Fatalf("project: %v", err)
	}
	return got
}

func TestProjectPod(t *testing.T) {
	full := projectiontest.FullPod("a")
	full.Spec.Containers = append(full.Spec.Containers, corev1.Container{Name: "portless", Image: "x"})
	full.Spec.InitContainers = append(full.Spec.InitContainers, corev1.Container{Name: "setup", Image: "x"})
	full.Status.ContainerStatuses = append(full.Status.ContainerStatuses, corev1.ContainerStatus{Name: "portless", Image: "x"})
	before := full.DeepCopy()
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "shop", UID: "uid-a", ResourceVersion: "7", Generation: 2,
			CreationTimestamp: projectiontest.When, DeletionTimestamp: &projectiontest.When, DeletionGracePeriodSeconds: ptr.To[int64](30),
			Labels: full.Labels, OwnerReferences: full.OwnerReferences, Finalizers: full.Finalizers,
			Annotations: map[string]string{corev1.PodDeletionCost: "5"},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Hostname: "h",
			Containers:     []corev1.Container{{Name: "web", Ports: full.Spec.Containers[0].Ports}},
			InitContainers: []corev1.Container{{Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.1.2.3", PodIPs: full.Status.PodIPs,
			Conditions:            []corev1.PodCondition{{Type: "Ready", Status: "True", LastTransitionTime: projectiontest.When}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", RestartCount: 3}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", RestartCount: 1}},
		},
	}
	got := projected(t, full)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("projected (-want +got):\n%s", diff)
	}
	if !reflect.DeepEqual(before, full) {
		t.Error("the pod that was given was changed")
	}
	if diff := cmp.Diff(got, projected(t, got)); diff != "" {
		t.Errorf("not idempotent:\n%s", diff)
	}
}

func TestProjectConditions(t *testing.T) {
	all := func() []corev1.PodCondition {
		return []corev1.PodCondition{
			{Type: "PodScheduled", Status: "True", LastTransitionTime: projectiontest.When, Reason: "r", Message: "m"},
			{Type: "Ready", Status: "False", LastTransitionTime: projectiontest.When, LastProbeTime: projectiontest.When,
				Reason: "PodCompleted"},
			{Type: "DisruptionTarget", Status: "True", LastTransitionTime: projectiontest.When, Reason: "DeletionByPodGC", Message: "m",
				ObservedGeneration: 3},
		}
	}
	for _, c := range []struct {
		name  string
		phase corev1.PodPhase
		want  []corev1.PodCondition
	}{
		{"of a pod that runs, whether it is ready or disrupted (RS-43, PGC-15)", corev1.PodRunning, all()[1:]},
		{"of a pod that has ended, when things happened", corev1.PodSucceeded, all()},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &corev1.Pod{Status: corev1.PodStatus{Phase: c.phase, Conditions: all()}}
			if diff := cmp.Diff(c.want, projected(t, p).(*corev1.Pod).Status.Conditions); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Decoders leave room to grow in lists; that room must not stay.
func TestProjectedPodsHaveNoSpareRoom(t *testing.T) {
	full := projectiontest.FullPod("a")
	full.Status.Conditions = append(make([]corev1.PodCondition, 0, 100), full.Status.Conditions...)
	full.Spec.Containers[0].Ports = append(make([]corev1.ContainerPort, 0, 100), full.Spec.Containers[0].Ports...)
	got := projected(t, full).(*corev1.Pod)
	if n := cap(got.Status.Conditions); n != 1 {
		t.Errorf("room for %d conditions", n)
	}
	if n := cap(got.Spec.Containers[0].Ports); n != 1 {
		t.Errorf("room for %d ports", n)
	}
}

func TestProjectOtherKinds(t *testing.T) {
	meta := func() metav1.ObjectMeta {
		m := projectiontest.FullPod("a").ObjectMeta
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
			got := projected(t, c.o)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("projected (-want +got):\n%s", diff)
			}
			if len(annotations) != 2 {
				t.Error("a map that may be shared was changed")
			}
			again := got.(apiruntime.Object).DeepCopyObject()
			if diff := cmp.Diff(got, projected(t, again)); diff != "" {
				t.Errorf("not idempotent:\n%s", diff)
			}
		})
	}
}

// Strange things pass through, tombstones with what is in them projected (CI-15).
func TestProjectToleratesAnything(t *testing.T) {
	for _, o := range []any{nil, 7, "text", struct{}{}, &metav1.Status{Message: "m"}, cache.DeletedFinalStateUnknown{Key: "k"},
		cache.DeletedFinalStateUnknown{Key: "k", Obj: 7}} {
		if got := projected(t, o); !reflect.DeepEqual(got, o) {
			t.Errorf("%v became %v", o, got)
		}
	}
	got := projected(t, cache.DeletedFinalStateUnknown{Key: "k", Obj: projectiontest.FullPod("a")})
	if diff := cmp.Diff(cache.DeletedFinalStateUnknown{Key: "k", Obj: projected(t, projectiontest.FullPod("a"))}, got); diff != "" {
		t.Error(diff)
	}
}

// ProjectIsIdempotent: what has been projected comes out the same and is not written to, whatever it is.
func TestProjectIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := projectiontest.FullPod(rapid.StringMatching("[a-z]{1,5}").Draw(t, "name"))
		if rapid.Bool().Draw(t, "bare") {
			p.Status, p.Spec, p.ObjectMeta = corev1.PodStatus{}, corev1.PodSpec{}, metav1.ObjectMeta{Name: "a"}
		}
		p.Spec.Containers = p.Spec.Containers[:rapid.IntRange(0, len(p.Spec.Containers)).Draw(t, "containers")]
		p.Status.Conditions = p.Status.Conditions[:rapid.IntRange(0, len(p.Status.Conditions)).Draw(t, "conditions")]
		once := projected(t, p)
		before := once.(*corev1.Pod).DeepCopy()
		twice := projected(t, once)
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Fatal(diff)
		}
		if !reflect.DeepEqual(before, once) {
			t.Fatal("a projected pod was written to")
		}
	})
}

// Of kinds that are narrowed, decoding leaves what some controller reads, and the metadata that all of them read.
func TestProjectOtherKindsInPart(t *testing.T) {
	full := projectiontest.FullPod("a").ObjectMeta
	meta := *full.DeepCopy()
	meta.GenerateName, meta.Annotations, meta.ManagedFields = "", nil, nil
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady}}
	for _, c := range []struct{ whole, want apiruntime.Object }{
		{&corev1.Node{ObjectMeta: full, Spec: corev1.NodeSpec{ProviderID: "x", Taints: []corev1.Taint{{Key: "k"}}},
			Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"app:1"}}}, Conditions: ready}},
			&corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k"}}},
				Status: corev1.NodeStatus{Conditions: ready}}},
		{&corev1.Service{ObjectMeta: full, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"},
			Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "x"}}}},
			&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}},
	} {
		got, err := sample.Project(c.whole)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// A kind is narrowed only if all controllers that name it read a part of it.
func TestUnionOfFields(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Node")
	reads := func(paths ...string) Fields { return Fields{Kinds: map[schema.GroupVersionKind][]string{kind: paths}} }
	node := &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "c", ProviderID: "p"}, Status: corev1.NodeStatus{Phase: "x"}}
	for _, c := range []struct {
		name        string
		controllers []Fields
		want        string // pod CIDR, provider, phase
	}{
		{"nobody names it", nil, "c p x"},
		{"one reads a part", []Fields{reads("spec.podCIDR")}, "c  "},
		{"two read different parts", []Fields{reads("spec.podCIDR"), reads("status")}, "c  x"},
		{"one part is within another", []Fields{reads("spec.podCIDR"), reads("spec")}, "c p "},
		{"one reads all of it", []Fields{reads("spec.podCIDR"), reads()}, "c p x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(c.controllers...)
			if err != nil {
				t.Fatal(err)
			}
			o, err := p.Project(node)
			if err != nil {
				t.Fatal(err)
			}
			kept := o.(*corev1.Node)
			if got := fmt.Sprintf("%s %s %s", kept.Spec.PodCIDR, kept.Spec.ProviderID, kept.Status.Phase); got != c.want {
				t.Errorf("kept %q, want %q", got, c.want)
			}
		})
	}
	if _, err := New(reads("spec.nonsense")); err == nil {
		t.Error("a field that does not exist is accepted")
	}
	if _, err := New(Fields{Kinds: map[schema.GroupVersionKind][]string{{Version: "v1", Kind: "Nonsense"}: nil}}); err == nil {
		t.Error("a kind that does not exist is accepted")
	}
}

// BenchmarkPodMemory reports how much heap a decoded pod takes, whole and projected.
func BenchmarkPodMemory(b *testing.B) {
	calm := func(p *corev1.Pod) *corev1.Pod { // most pods have not restarted and bear no cost
		p.Annotations, p.Status.ContainerStatuses[0].RestartCount, p.Status.InitContainerStatuses[0].RestartCount = nil, 0, 0
		return p
	}
	for _, c := range []struct {
		name string
		keep func(*corev1.Pod) any
	}{
		{"projected, never restarted", func(p *corev1.Pod) any { return sample.ProjectPod(calm(p)) }},
		{"whole", func(p *corev1.Pod) any { return p }},
		{"projected", func(p *corev1.Pod) any { return sample.ProjectPod(p) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			const n = 2000
			var total float64
			for b.Loop() {
				kept := make([]any, n)
				before := projectiontest.HeapInUse()
				for i := range kept {
					kept[i] = c.keep(projectiontest.Decoded(b, fmt.Sprintf("web-6d4b9-%05d", i)))
				}
				total += float64(projectiontest.HeapInUse()-before) / n
				runtime.KeepAlive(kept)
			}
			b.ReportMetric(total/float64(b.N), "heap-B/pod")
		})
	}
}

// TestProjectAffinity: the affinity says which node a pod is meant for, until the pod is assigned to it (DS-16). The field is not kept
// for any other purpose, and not at all while nobody reads it.
func TestProjectAffinity(t *testing.T) {
	const required = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	meant := func(node string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name",
					Operator: "In", Values: []string{"n1"}}}}},
			}},
			PodAffinity: &corev1.PodAffinity{},
		}}}
	}
	for _, c := range []struct {
		name string
		path string
		pod  *corev1.Pod
		kept bool
	}{
		{"a pod without a node", required, meant(""), true},
		{"a pod on its node", required, meant("n1"), false},
		{"nobody reads it", "spec.nodeName", meant(""), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(Fields{Kinds: map[schema.GroupVersionKind][]string{podKind: {c.path, "spec.nodeName"}}})
			if err != nil {
				t.Fatal(err)
			}
			got := p.ProjectPod(c.pod).Spec.Affinity
			if (got != nil) != c.kept ||
				c.kept && (got.PodAffinity != nil || !reflect.DeepEqual(got.NodeAffinity, c.pod.Spec.Affinity.NodeAffinity)) {
				t.Errorf("kept %+v", got)
			}
		})
	}
	whole, err := New(Fields{Kinds: map[schema.GroupVersionKind][]string{podKind: nil}})
	if err != nil {
		t.Fatal(err)
	}
	if got := whole.ProjectPod(meant("n1")).Spec.Affinity; got == nil {
		t.Error("whole pods keep their affinity")
	}
}

// Of the volumes of a pod, those are kept of which more than the name is read. The others, such as those with tokens, have names that
// differ from pod to pod.
func TestProjectVolumes(t *testing.T) {
	const of = "spec.volumes.volumeSource."
	p, err := New(Fields{Kinds: map[schema.GroupVersionKind][]string{podKind: {
		"spec.volumes.name", of + "persistentVolumeClaim.claimName", of + "ephemeral.volumeClaimTemplate.metadata.name",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	template := &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "x"}}
	full := projectiontest.FullPod("a")
	full.Spec.Volumes = append(full.Spec.Volumes,
		corev1.Volume{Name: "data",
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c",
				ReadOnly: true}}},
		corev1.Volume{Name: "scratch",
			VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template}}},
	)
	want := []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		{Name: "scratch",
			VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}},
	}
	data, err := full.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	decoder := p.PodDecoder()
	for range 3 { // the decoder uses its memory again
		decoded, err := decoder.Decode(p.PodMask().Apply(data))
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []*corev1.Pod{p.ProjectPod(full), decoded} {
			if diff := cmp.Diff(want, got.Spec.Volumes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
}
