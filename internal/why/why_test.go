package why

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// resources finds kinds of which the plural is the lower case with an s.
type resources struct{ client.BuiltIns }

func (resources) Kind(_ context.Context, r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	if r.Resource == "configmaps" {
		return client.KindFor[*corev1.ConfigMap](), nil
	}
	return schema.GroupVersionKind{}, apierrors.NewNotFound(r.GroupResource(), "")
}

const ns = "shop"

var webLabels = map[string]string{"app": "web"}

func of(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(name), Generation: 1}
}

func owned(m metav1.ObjectMeta, kind, name string) metav1.ObjectMeta {
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name),
		Controller: ptr.To(true)}}
	m.Labels = webLabels
	return m
}

// newDeployment wants three pods, of which so many are available.
func newDeployment(available int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: of("web"),
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: webLabels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: webLabels}}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3,
			AvailableReplicas: available},
	}
}

func newReplicaSet(there, available int32, failure string) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: owned(of("web-1"), "Deployment", "web"),
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: webLabels}},
		Status: appsv1.ReplicaSetStatus{ObservedGeneration: 1, Replicas: there, AvailableReplicas: available}}
	if failure != "" {
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure,
			Status: corev1.ConditionTrue, Message: failure}}
	}
	return rs
}

func newPod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: owned(of("web-1-a"), "ReplicaSet", "web-1"),
		Spec:   corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "web:2"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending}}
	change(p)
	return p
}

func waitingFor(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

func unschedulable(message string, change ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Message: message}}
		for _, f := range change {
			f(p)
		}
	}
}

func withClaim(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
}

func newNode(ready corev1.ConditionStatus, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready,
			Message: "kubelet stopped posting node status"}}}}
	if change != nil {
		change(n)
	}
	return n
}

func warning(about plan.Object, kind, reason, message string) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: about.GetName() + "." + reason},
		Type: "Warning", Reason: reason,
		Message: message, InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: ns, Name: about.GetName(),
			UID: about.GetUID()}}
}

// The cause of each is in another object, and the first line has its name.
func TestCauses(t *testing.T) {
	class := "fast"
	pending := &corev1.PersistentVolumeClaim{ObjectMeta: of("data"),
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}}
	job := &batchv1.Job{ObjectMeta: of("job"), Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	down := func(objects ...plan.Object) []plan.Object {
		return append(objects, newDeployment(0), newReplicaSet(3, 0, ""))
	}
	for _, row := range []struct {
		what    string
		objects []plan.Object
		ask     plan.Object
		cause   string
		says    string
	}{
		{"quota", []plan.Object{newDeployment(0), newReplicaSet(1, 0,
			`pods "web-1-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`)},
			newDeployment(0), "ResourceQuota shop/small", "limited: pods=1"},
		{"pod security", []plan.Object{newDeployment(0), newReplicaSet(0, 0,
			`pods "web-1-x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true (container "main")`)},
			newDeployment(0), "Namespace shop", "runAsNonRoot"},
		{"policy", []plan.Object{newDeployment(0), newReplicaSet(0, 0,
			`pods "web-1-x" is forbidden: ValidatingAdmissionPolicy 'no-latest' with binding 'all' denied request: no tag`)},
			newDeployment(0), "ValidatingAdmissionPolicy no-latest", "no tag"},
		{"account", []plan.Object{newDeployment(0), newReplicaSet(0, 0,
			`pods "web-1-" is forbidden: error looking up service account shop/robot: serviceaccount "robot" not found`)},
			newDeployment(0), "ServiceAccount shop/robot", "does not exist"},
		{"image", down(newNode(corev1.ConditionTrue, nil), newPod(waitingFor("ImagePullBackOff", "no such image"))),
			newDeployment(0), "Pod shop/web-1-a", "web:2"},
		{"key of a ConfigMap", down(newNode(corev1.ConditionTrue, nil), newPod(waitingFor("CreateContainerConfigError",
			"couldn't find key port in ConfigMap shop/settings"))), newDeployment(0), "ConfigMap shop/settings", "no key port"},
		{"node", down(newNode(corev1.ConditionUnknown, nil), newPod(func(*corev1.Pod) {})), newDeployment(0),
			"Node node-1", "silent"},
		{"claim", down(newPod(unschedulable(`0/1 nodes are available: persistentvolumeclaim "data" not found.`))),
			newDeployment(0),
			"PersistentVolumeClaim shop/data", "does not exist"},
		{"class", down(pending,
			newPod(unschedulable("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
				withClaim))),
			newDeployment(0), "StorageClass fast", "does not exist"},
		{"cordoned", down(newPod(unschedulable("0/1 nodes are available: 1 node(s) were unschedulable.")),
			newNode(corev1.ConditionTrue,
				func(n *corev1.Node) { n.Spec.Unschedulable = true })), newDeployment(0), "Node node-1", "cordoned"},
		{"class of a claim", []plan.Object{pending}, pending, "StorageClass fast", "does not exist"},
		{"first consumer", []plan.Object{pending, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class},
			Provisioner:       "x",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}}, pending, "PersistentVolumeClaim shop/data", "no"},
		{"job", []plan.Object{job}, job, "Job shop/job", "suspended"},
		{"mount", down(newNode(corev1.ConditionTrue, nil), newPod(func(*corev1.Pod) {}),
			warning(newPod(func(*corev1.Pod) {}), "Pod", "FailedMount",
				`MountVolume.SetUp failed for volume "v" : secret "tls" not found`)), newDeployment(0), "Secret shop/tls", "does not exist"},
	} {
		a := askAbout(t, row.ask, row.objects...)
		switch {
		case a.Cause == nil:
			t.Errorf("%s: no cause: %s", row.what, a.Summary)
		case a.Cause.Object.String() != row.cause || !a.Cause.Certain || !strings.Contains(a.Summary, row.cause) ||
			!strings.Contains(a.Summary, row.says):
			t.Errorf("%s: %s, certain: %t", row.what, a.Summary, a.Cause.Certain)
		}
	}
}

// What is as wanted has no cause.
func TestNothingIsWrong(t *testing.T) {
	bound := &corev1.PersistentVolumeClaim{ObjectMeta: of("data"),
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "v"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	done := &batchv1.Job{ObjectMeta: of("job"), Status: batchv1.JobStatus{
		Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
	for _, o := range []plan.Object{newDeployment(3), bound, done, newNode(corev1.ConditionTrue, nil)} {
		if a := askAbout(t, o, o); a.Cause != nil || a.State != AsWanted {
			t.Errorf("%s", a.Summary)
		}
	}
}

func TestNoSuchObject(t *testing.T) {
	if a := askAbout(t, newDeployment(0)); a.State != NotFound || a.Cause == nil {
		t.Errorf("%+v", a)
	}
}

// askAbout asks about one of the objects of a server.
func askAbout(t *testing.T, about plan.Object, objects ...plan.Object) Answer {
	t.Helper()
	s := clienttest.NewServer()
	for _, o := range objects {
		if _, err := s.Put(o.DeepCopyObject().(plan.Object)); err != nil {
			t.Fatal(err)
		}
	}
	kind, err := client.KindOf(about)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Ask(t.Context(), s, resources{}, time.Now(), Question{kind, about.GetNamespace(), about.GetName()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// An object of any kind in which nothing is set has an answer, and so has one that is being deleted.
func TestObjectsWithNothingInThem(t *testing.T) {
	for kind := range scheme.Scheme.AllKnownTypes() {
		o, err := scheme.Scheme.New(kind)
		if err != nil {
			t.Fatal(err)
		}
		m, served := client.BuiltIn(kind)
		one, ok := o.(plan.Object)
		if !ok || !served {
			continue
		}
		one.SetName("odd")
		if m.Namespaced {
			one.SetNamespace(ns)
		}
		if a := askAbout(t, one, one); a.Summary == "" || len(a.Chain) == 0 {
			t.Errorf("%s: %+v", kind, a)
		}
		one.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		one.SetFinalizers([]string{"example.com/x"})
		if a := askAbout(t, one, one); a.Deletion == nil && a.State != NotFound {
			t.Errorf("%s: %+v", kind, a)
		}
	}
}
