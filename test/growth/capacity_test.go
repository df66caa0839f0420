//go:build unix

package growth

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/generated"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

var capacity = flag.String("capacity", "", "measure what an object of each kind costs in memory, and write that to this page")

// measured is how many objects of a kind are measured.
const measured = 2000

// population is the i-th of many alike, and what they have in common.
type population struct {
	name   string
	common []apiserver.Object
	one    func(i int) apiserver.Object
}

// TestCapacity measures what one object at rest costs the manager in memory, with all controllers: what of the live heap goes with the
// manager when there are many, less what goes when there are none.
func TestCapacity(t *testing.T) {
	if *capacity == "" {
		t.Skip("runs with -capacity=PAGE: make capacity")
	}
	var none population
	base := heapOf(t, none)
	var table strings.Builder
	table.WriteString("| object | bytes as the API server sends it | bytes in the manager |\n|---|---:|---:|\n")
	for _, p := range populations() {
		encoded, err := p.one(0).(interface{ Marshal() ([]byte, error) }).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&table, "| %s | %d | %d |\n", p.name, len(encoded), (heapOf(t, p)-base)/measured)
	}
	t.Log("\n" + table.String())
	page, err := os.ReadFile(*capacity)
	if err != nil {
		t.Fatal(err)
	}
	text, err := generated.Replace(string(page), "make capacity", table.String())
	if err == nil {
		err = os.WriteFile(*capacity, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// heapOf is what a manager has that has a population in its caches.
func heapOf(t *testing.T, p population) (bytes int64) {
	t.Helper()
	inBubble(t, func(w *world) {
		for _, o := range p.common {
			w.server.Put(o)
		}
		for i := range measured {
			if p.one != nil {
				w.server.Put(p.one(i))
			}
		}
		stop := w.start(manager.Options{Controllers: registry(t)})
		time.Sleep(10 * time.Minute)
		w.tidy()
		bytes = -costs.Heap(func() {
			stop()
			stop, w.manager = nil, nil
			w.tidy()
		})
		runtime.KeepAlive(w)
	})
	return bytes
}

// populations are objects at rest: nobody has anything to do about them.
func populations() []population {
	const setUID, deploymentUID = types.UID("set"), types.UID("deployment")
	set := &appsv1.ReplicaSet{ObjectMeta: about("many"), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](measured),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "many"}}, Template: templateOf("many")},
		Status: appsv1.ReplicaSetStatus{Replicas: measured, ReadyReplicas: measured, AvailableReplicas: measured,
			FullyLabeledReplicas: measured}}
	set.UID = setUID
	named := func(prefix string, i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%05d", prefix, i), Labels: map[string]string{"app": "many"},
			Annotations: map[string]string{"example.com/team": "web"}}
	}
	return []population{
		{"a Pod of a ReplicaSet, with two containers", []apiserver.Object{set}, func(i int) apiserver.Object {
			p := &corev1.Pod{ObjectMeta: named("many", i), Spec: templateOf("many").Spec}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "many", UID: setUID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
			p.Spec.NodeName = "node"
			address := fmt.Sprintf("10.1.%d.%d", i>>8, i&255)
			p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, HostIP: "10.0.0.1",
				StartTime: ptr.To(metav1.Now()), Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
					LastTransitionTime: metav1.Now()}}}
			for _, c := range p.Spec.Containers {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image,
					Ready: true, ContainerID: "containerd://" + strings.Repeat("0", 64), State: corev1.ContainerState{
						Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
			}
			return p
		}},
		{"a ReplicaSet of 0, as a Deployment keeps it for a way back", nil, func(i int) apiserver.Object {
			s := &appsv1.ReplicaSet{ObjectMeta: named("old", i), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "old"}}, Template: templateOf("old")}}
			return s
		}},
		{"a Deployment of 0, paused", nil, func(i int) apiserver.Object {
			d := &appsv1.Deployment{ObjectMeta: named("web", i), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0), Paused: true,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("paused-", i)}}}}
			d.Spec.Template = templateOf(fmt.Sprint("paused-", i))
			d.UID = deploymentUID + types.UID(fmt.Sprint(i))
			return d
		}},
		{"a Job that has ended", nil, func(i int) apiserver.Object {
			j := &batchv1.Job{ObjectMeta: named("done", i), Spec: jobSpec()}
			j.Spec.Suspend = nil
			j.Status = batchv1.JobStatus{Succeeded: 1, StartTime: ptr.To(metav1.Now()), CompletionTime: ptr.To(metav1.Now()),
				Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}
			return j
		}},
		{"a Service without a selector", nil, func(i int) apiserver.Object {
			return &corev1.Service{ObjectMeta: named("service", i), Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.9",
				Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
		}},
		{"an EndpointSlice of 10 addresses", nil, func(i int) apiserver.Object {
			s := &discoveryv1.EndpointSlice{ObjectMeta: named("slice", i), AddressType: discoveryv1.AddressTypeIPv4,
				Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80)}}}
			for n := range 10 {
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.2.%d.%d", i&255, n)},
					NodeName: ptr.To("node"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: fmt.Sprint("web-", n)}})
			}
			return s
		}},
		{"a Secret of 4 KB", nil, func(i int) apiserver.Object {
			return &corev1.Secret{ObjectMeta: named("secret", i), Data: map[string][]byte{"tls.crt": make([]byte, 4<<10)}}
		}},
		{"a ConfigMap of 4 KB", nil, func(i int) apiserver.Object {
			return &corev1.ConfigMap{ObjectMeta: named("config", i), Data: map[string]string{"config.yaml": strings.Repeat("x", 4<<10)}}
		}},
		{"a Node with 50 images", nil, func(i int) apiserver.Object {
			n := ordinaryNode()
			n.Name, n.Annotations = fmt.Sprintf("node-%05d", i), map[string]string{"node.alpha.kubernetes.io/ttl": "300"}
			n.Labels = map[string]string{"kubernetes.io/hostname": n.Name, "topology.kubernetes.io/zone": "a"}
			n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi")}
			for image := range 50 {
				n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 20, Names: []string{
					fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", image, image)}})
			}
			return n
		}},
		{"a Lease", nil, func(i int) apiserver.Object {
			return &coordinationv1.Lease{ObjectMeta: named("lease", i), Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("somebody"),
				RenewTime: ptr.To(metav1.NowMicro())}}
		}},
	}
}

// templateOf is that of pods of an app with two containers, as they are in many clusters.
func templateOf(app string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}}
	for _, name := range []string{"app", "sidecar"} {
		c := corev1.Container{Name: name, Image: "registry.example.com/team/" + name + ":v1.2.3", Command: []string{"/" + name, "--config=/etc/config"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"),
				"memory": resource.MustParse("128Mi")}}}
		for i := range 15 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: strings.Repeat("v", 60)})
		}
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready"}}}
		t.Spec.Containers = append(t.Spec.Containers, c)
	}
	t.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return t
}
