package why

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// causeOf is the cause of an answer, and whether it is certain; the summary if there is none.
func causeOf(a Answer) string {
	switch {
	case a.Cause == nil:
		return a.Summary
	case !a.Cause.Certain:
		return "perhaps " + a.Cause.Object.String() + ": " + a.Cause.Reason
	}
	return a.Cause.Object.String() + ": " + a.Cause.Reason
}

func requesting(cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

func tainted(name string) *corev1.Node {
	return newNode(corev1.ConditionTrue, func(n *corev1.Node) {
		n.Name, n.Spec.Taints = name, []corev1.Taint{{Key: "control-plane", Effect: corev1.TaintEffectNoSchedule}}
	})
}

func large(cpu string) *corev1.Node {
	return newNode(corev1.ConditionTrue, func(n *corev1.Node) {
		n.Name, n.Status.Allocatable[corev1.ResourceCPU] = "large", resource.MustParse(cpu)
	})
}

// A node that refuses a pod is the cause only if no other one would take it, and a node counts only if the pod may be on it.
func TestNodesThatAreNotToBlame(t *testing.T) {
	const full = "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 Insufficient cpu."
	small := newNode(corev1.ConditionTrue, func(n *corev1.Node) { n.Labels = map[string]string{"pool": "small"} })
	for what, c := range map[string]struct {
		pod   *corev1.Pod
		nodes []plan.Object
		want  string
	}{
		"the worker is full": {newPod(unschedulable(full, requesting("1"))), []plan.Object{tainted("cp"), small},
			"Pod shop/web-1-a: NoRoom"},
		"there is no worker": {newPod(unschedulable(full, requesting("1"))), []plan.Object{tainted("cp")}, "Node cp: Tainted"},
		"the pod is too large": {newPod(unschedulable(full, requesting("9"))), []plan.Object{tainted("cp"), small},
			"Pod shop/web-1-a: TooLarge"},
		"for its pool, as well": {inPool(newPod(unschedulable(full, requesting("9")))), []plan.Object{large("64"), small},
			"Pod shop/web-1-a: TooLarge"},
	} {
		if got := causeOf(askAbout(t, c.pod, append(c.nodes, c.pod)...)); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

func inPool(p *corev1.Pod) *corev1.Pod {
	p.Spec.NodeSelector = map[string]string{"pool": "small"}
	return p
}

// A pod that has failed long ago is not why those that have taken its place do not work, and is not why all is well.
func TestPodsThatHaveFailedBefore(t *testing.T) {
	evicted := newPod(func(p *corev1.Pod) {
		p.Name, p.UID, p.CreationTimestamp = "web-1-0", "old", metav1.NewTime(time.Now().Add(-time.Hour))
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Shutdown", "the node was shut down"
	})
	crashing := newPod(waitingFor("CrashLoopBackOff", "back-off"))
	rejected := evicted.DeepCopy()
	rejected.CreationTimestamp = metav1.Now()
	node := newNode(corev1.ConditionTrue, nil)
	for what, c := range map[string]struct {
		pods []plan.Object
		want string
	}{
		"another one crashes": {[]plan.Object{evicted, crashing}, "Pod shop/web-1-a: CrashLoopBackOff"},
		"another one starts": {[]plan.Object{evicted, newPod(func(p *corev1.Pod) { p.CreationTimestamp = metav1.Now() })},
			"Deployment shop/web: 3 of 3 pods are of the latest template, 0 are available"},
		"it was made just now": {[]plan.Object{rejected}, "Pod shop/web-1-0: Shutdown"},
	} {
		a := askAbout(t, newDeployment(0), append(c.pods, newDeployment(0), newReplicaSet(3, 0, ""), node)...)
		if got := causeOf(a); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

// How a container has ended says nothing of why it is not ready long after.
func TestContainersThatHaveCrashedBefore(t *testing.T) {
	for since, want := range map[time.Duration]string{time.Minute: "OOMKilled", time.Hour: "NotReady"} {
		p := newPod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Spec.InitContainers = []corev1.Container{{Name: "first", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "first", RestartCount: 3,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-since))}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 137, Reason: "OOMKilled"}}}}
		})
		a := askAbout(t, p, p, newNode(corev1.ConditionTrue, nil))
		if got := causeOf(a); got != "Pod shop/web-1-a: "+want {
			t.Errorf("it has run for %s: %s", since, got)
		}
		if want == "OOMKilled" && !strings.Contains(a.Summary, "64Mi") {
			t.Errorf("the limit of an init container: %s", a.Summary)
		}
	}
}

// A pull secret that is missing is the cause for sure only if the registry has refused the kubelet.
func TestPullSecrets(t *testing.T) {
	for message, want := range map[string]string{
		"not found": "perhaps Secret shop/regcred: NotFound",
		"pull access denied, insufficient_scope: authorization failed": "Secret shop/regcred: NotFound",
	} {
		p := newPod(waitingFor("ErrImagePull", message))
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "reg"}, {Name: "regcred"}}
		e := warning(p, "Pod", "FailedToRetrieveImagePullSecret",
			"Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.")
		if got := causeOf(askAbout(t, p, p, e, newNode(corev1.ConditionTrue, nil))); got != want {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
}

// Kubelets say in two ways that they have evicted a pod.
func TestEvictedByItsKubelet(t *testing.T) {
	p := newPod(func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory.",
			Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: corev1.PodReasonTerminationByKubelet, Message: "The node was low on resource: memory."}}}
	})
	if got := causeOf(askAbout(t, p, p, newNode(corev1.ConditionTrue, nil))); got != "Node node-1: WasLow" {
		t.Error(got)
	}
}

// A pod of another owner, whose name begins alike, was not preempted for this one.
func TestPreemptedForOthers(t *testing.T) {
	db := &appsv1.StatefulSet{ObjectMeta: of("web"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3),
		Selector: &metav1.LabelSelector{MatchLabels: webLabels}}, Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 1}}
	for name, want := range map[string]bool{"web-0": true, "web-api-x7k2p": false} {
		e := warning(&corev1.Pod{ObjectMeta: of(name)}, "Pod", "Preempted", "Preempted by pod abc on node n")
		e.Type = corev1.EventTypeNormal
		if got := causeOf(askAbout(t, db, db, e)); strings.HasSuffix(got, "Preempted") != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func withPorts(ready bool, ports ...int32) *corev1.Pod {
	return newPod(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		for _, port := range ports {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: port}}})
		}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
	})
}

func TestServicesThatWork(t *testing.T) {
	s := &corev1.Service{ObjectMeta: of("web"), Spec: corev1.ServiceSpec{Selector: webLabels, Ports: []corev1.ServicePort{{Port: 8080}}}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: of("web-x"), Endpoints: []discoveryv1.Endpoint{{}}}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	declared := withPorts(true, 15090)
	declared.Spec.Containers = declared.Spec.Containers[1:]
	for what, c := range map[string]struct {
		objects []plan.Object
		want    string
	}{
		"the container that serves names no port": {[]plan.Object{slice, withPorts(true, 15090)}, ""},
		"all containers name others":              {[]plan.Object{slice, declared}, "perhaps Service shop/web: NoSuchPort"},
		"pods are ready, and nobody makes slices": {[]plan.Object{withPorts(true)}, "Service shop/web: NoEndpoints"},
	} {
		a := askAbout(t, s, append(c.objects, s, newNode(corev1.ConditionTrue, nil))...)
		if c.want == "" && a.State != AsWanted || c.want != "" && !strings.Contains(causeOf(a), c.want) {
			t.Errorf("%s: %s (%s), want %q", what, causeOf(a), a.Summary, c.want)
		}
	}
}

// A claim whose volume waits for the scheduler does not wait for its driver.
func TestClaimThatWaitsForTheScheduler(t *testing.T) {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: of("data"), Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("fast")}}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "x",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
	p := newPod(unschedulable("0/1 nodes are available: 1 Insufficient cpu.", requesting("9"), withClaim))
	objects := []plan.Object{c, class, p, newNode(corev1.ConditionTrue, nil)}
	if got := causeOf(askAbout(t, c, objects...)); got != "Pod shop/web-1-a: TooLarge" {
		t.Error(got)
	}
	c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "node-1"}
	if got := causeOf(askAbout(t, c, objects...)); got != "perhaps StorageClass fast: NoAnswer" {
		t.Error(got)
	}
}

// A pod that has failed is not why a Job was too late, nor why it goes on.
func TestJobsWithAFailedPod(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: of("web-1"), Spec: batchv1.JobSpec{Selector: &metav1.LabelSelector{MatchLabels: webLabels},
		Completions: ptr.To[int32](9)}, Status: batchv1.JobStatus{Failed: 1, Active: 1, StartTime: ptr.To(metav1.Now())}}
	p := newPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	p.OwnerReferences[0].Kind = "Job"
	if a := askAbout(t, j, j, p); a.State == Failing {
		t.Errorf("it goes on: %s", a.Summary)
	}
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue,
		Reason: batchv1.JobReasonDeadlineExceeded, Message: "too late"}}
	if got := causeOf(askAbout(t, j, j, p)); got != "Job shop/web-1: DeadlineExceeded" {
		t.Error(got)
	}
}

func TestQuotaOfNothing(t *testing.T) {
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	q := &corev1.ResourceQuota{ObjectMeta: of("frozen"), Status: corev1.ResourceQuotaStatus{Hard: none, Used: none}}
	if got := causeOf(askAbout(t, q, q)); got != "ResourceQuota shop/frozen: UsedUp" {
		t.Error(got)
	}
}

// What owners of other kinds have made is judged, and so is a namespace that is being deleted.
func TestOverviewOfWhatOthersOwn(t *testing.T) {
	p := newPod(waitingFor("CrashLoopBackOff", "back-off"))
	p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "db.example.com/v1", "Postgres"
	g := newGuest(t, p, newNode(corev1.ConditionTrue, nil), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	o, err := AskNamespace(t.Context(), g, resources{}, time.Now(), ns)
	if err != nil || len(o.Answers) != 1 || causeOf(o.Answers[0]) != "Pod shop/web-1-a: CrashLoopBackOff" {
		t.Errorf("%v: %s %+v", err, o.Summary, o.Answers)
	}
	g = newGuest(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, DeletionTimestamp: ptr.To(metav1.Now())},
		Status: corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{{Type: corev1.NamespaceContentRemaining,
			Status: corev1.ConditionTrue, Message: "Some resources are remaining: widgets.example.com has 1 resource instances"}}}})
	o, err = AskNamespace(t.Context(), g, resources{}, time.Now(), ns)
	if err != nil || len(o.Answers) != 1 || !strings.Contains(o.Answers[0].Summary, "widgets.example.com has 1") {
		t.Errorf("%v: %s %+v", err, o.Summary, o.Answers)
	}
}

// What could not be listed is not said to be missing.
func TestListsThatCouldNotBeRead(t *testing.T) {
	s := &corev1.Service{ObjectMeta: of("web"), Spec: corev1.ServiceSpec{Selector: webLabels}}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: of("data"), Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("fast")}}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"},
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
	cron := &batchv1.CronJob{ObjectMeta: of("report")}
	for kind, about := range map[string]plan.Object{"ReplicaSet": newDeployment(0), "Pod": s, "EndpointSlice": s, "Job": cron} {
		g := newGuest(t, newDeployment(0), s, c, class, cron, withPorts(false))
		g.forbidden = func(m client.Mapping) bool { return m.Kind == kind }
		for _, o := range []plan.Object{about, c} {
			of, err := client.KindOf(o)
			if err != nil {
				t.Fatal(err)
			}
			a, err := Ask(t.Context(), g, resources{}, time.Now(), Question{of, ns, o.GetName()})
			if o == c && kind != "Pod" {
				continue
			}
			if err != nil || a.Cause == nil || a.Cause.Certain || len(a.Unread) == 0 || !strings.Contains(a.Summary, "could not be read") {
				t.Errorf("%s, of %s: %s, %v", a.Summary, kind, causeOf(a), err)
			}
		}
	}
}
