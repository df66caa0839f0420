package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// What somebody with a namespace of their own can try against a controller that has rights in all namespaces. docs/security.md
// lists the same attempts.

// decoy creates a pod that claims, by its labels and an owner reference, to belong to an object of another namespace.
func decoy(b *bench, ns, name string, owner metav1.OwnerReference) *corev1.Pod {
	b.Helper()
	pod, err := b.Client.CoreV1().Pods(ns).Create(b.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return pod
}

func (b *bench) podOf(ns, name string) *corev1.Pod {
	b.Helper()
	pod, err := b.Client.CoreV1().Pods(ns).Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return pod
}

func TestOwnersInOtherNamespacesCountForNothing(t *testing.T) { // RS-11, RS-20
	b := alone(t)
	b.Manager(t, onlyWorkloads) // without the garbage collector, which deletes such pods
	b.create(deployment("web", 2))
	b.waitComplete("web")
	set := b.sets()[0]
	ref := *metav1.NewControllerRef(&set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	attacker := b.Cluster.Namespace(t)
	planted := decoy(b, attacker, "planted", ref)
	forged := ref
	forged.UID = "00000000-0000-0000-0000-000000000000"
	decoy(b, b.ns, "forged", forged)
	// A planted pod that counted would make the set delete one: the scaling up and down shows how many it counts.
	b.patch("web", `{"spec":{"replicas":3}}`)
	b.waitComplete("web")
	b.patch("web", `{"spec":{"replicas":1}}`)
	b.waitComplete("web")
	if p := b.podOf(attacker, "planted"); p.DeletionTimestamp != nil || p.UID != planted.UID || len(p.OwnerReferences) != 1 {
		t.Errorf("the pod of another namespace was touched: %+v", p.ObjectMeta)
	}
	if p := b.podOf(b.ns, "forged"); p.DeletionTimestamp != nil || p.OwnerReferences[0].UID != forged.UID {
		t.Errorf("the pod of an owner that does not exist was touched: %+v", p.ObjectMeta)
	}
	own := 0
	for _, p := range b.pods() {
		if metav1.IsControlledBy(&p, &set) {
			own++
		}
	}
	if own != 1 {
		t.Errorf("the set has %d pods, want 1", own)
	}
}

func TestNobodyAdoptsAcrossNamespaces(t *testing.T) { // RS-22
	b := share(t)
	attacker := &bench{t, b.Cluster, b.Cluster.Namespace(t)}
	orphan, err := b.Client.CoreV1().Pods(attacker.ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bait", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.create(deployment("web", 2))
	b.waitComplete("web")
	if got := len(b.pods()); got != 2 {
		t.Errorf("%d pods, want 2 of its own", got)
	}
	if p := b.podOf(attacker.ns, "bait"); len(p.OwnerReferences) != 0 || p.UID != orphan.UID {
		t.Errorf("the pod of another namespace was adopted: %+v", p.OwnerReferences)
	}
}

// A claim to an object that somebody else controls is refused by the server; one that is let in by the back door of an old
// object must not make two controllers fight.
func TestAnotherControllersPodIsLeftToIt(t *testing.T) { // RS-20
	b := share(t)
	b.create(deployment("web", 1))
	b.waitComplete("web")
	other := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Gang", Name: "web", UID: "11111111-1111-1111-1111-111111111111",
		Controller: ptr.To(true)}
	pod := decoy(b, b.ns, "theirs", other)
	b.patch("web", `{"spec":{"replicas":0}}`)
	b.waitComplete("web")
	if p := b.podOf(b.ns, "theirs"); p.DeletionTimestamp != nil || p.OwnerReferences[0].UID != other.UID || p.UID != pod.UID {
		t.Errorf("another controller's pod was touched: %+v", p.ObjectMeta)
	}
}

// Labels and annotations as large as the server lets them be, and a pod template of 1.4 MB.
func TestHugeObjectsKeepNobodyElseWaiting(t *testing.T) {
	b := share(t)
	bomb := deployment("bomb", 2)
	bomb.Annotations = map[string]string{"example.com/bomb": strings.Repeat("x", 250<<10)}
	bomb.Spec.Template.Annotations = map[string]string{"example.com/bomb": strings.Repeat("y", 250<<10)}
	for i := range 200 {
		bomb.Spec.Template.Labels[fmt.Sprintf("example.com/label-%d", i)] = strings.Repeat("z", 63)
	}
	b.create(bomb)
	large := deployment("large", 2)
	// etcd takes 1.5 MiB
	large.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "BLOB", Value: strings.Repeat("b", 1_400_000)}}
	b.create(large)
	b.create(deployment("web", 2))
	b.waitComplete("web")
	b.waitComplete("large")
	b.wait("the Deployment with huge annotations is rolled out, or says why not", func() error {
		d := b.get("bomb")
		progressing := condition(d, appsv1.DeploymentProgressing)
		if err := suite.Complete(d); err == nil || progressing != nil && progressing.Status == corev1.ConditionFalse {
			return nil
		}
		return fmt.Errorf("conditions %+v", d.Status.Conditions)
	})
	b.setImage("web", "web:2")
	b.waitComplete("web")
}

// A namespace whose quota refuses everything makes events, but neither a flood nor silence for the others.
func TestAFailingNamespaceFloodsNobody(t *testing.T) { // CI-42
	b := share(t)
	failing := &bench{t, b.Cluster, b.Cluster.Namespace(t)}
	failing.quota(0)
	for i := range 20 {
		failing.create(deployment(fmt.Sprintf("web-%d", i), 5))
	}
	failing.wait("all of them say why", func() error {
		for i := range 20 {
			if c := condition(failing.get(fmt.Sprintf("web-%d", i)), appsv1.DeploymentReplicaFailure); c == nil {
				return fmt.Errorf("web-%d does not", i)
			}
		}
		return nil
	})
	b.create(deployment("web", 2))
	b.waitComplete("web")
	b.wait("the others' events come through", func() error {
		if got := events(t.Context(), t, b.Client, b.ns, "web"); len(got) == 0 {
			return errors.New("no event")
		}
		return nil
	})
	list, err := b.Client.CoreV1().Events(failing.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(list.Items); n > 20*12 {
		t.Errorf("%d events in the failing namespace", n)
	}
}

// Timestamps that are a day off, in either direction, neither block nor spin.
func TestClocksThatAreADayOff(t *testing.T) {
	b := share(t)
	d := deployment("web", 2)
	d.Spec.MinReadySeconds = 1
	b.create(d)
	b.waitComplete("web")
	for i, p := range b.pods() {
		off := metav1.NewTime(time.Now().Add(time.Duration(2*i-1) * 24 * time.Hour))
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: off}}
		if _, err := b.Client.CoreV1().Pods(b.ns).UpdateStatus(t.Context(), &p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.create(deployment("other", 1))
	b.waitComplete("other")
	b.setImage("web", "web:2")
	b.waitComplete("web")
}

func TestPodsThatFailAtStartAreReplacedAtAFallingRate(t *testing.T) {
	b := share(t)
	b.create(deployment("web", 1, annotated(cluster.Fail, "true")))
	b.wait("the ReplicaSet says that its pods fail", func() error {
		sets := b.sets()
		if len(sets) != 1 {
			return errors.New("no ReplicaSet")
		}
		for _, c := range sets[0].Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Reason == "BackOff" {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", sets[0].Status.Conditions)
	})
	list, err := b.Client.CoreV1().Pods(b.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(list.Items); n < 6 || n > 9 {
		t.Errorf("%d pods have been made before the first pause, want 6", n)
	}
	b.wait("an event tells", func() error {
		for _, e := range events(t.Context(), t, b.Client, b.ns, b.sets()[0].Name) {
			if strings.HasPrefix(e, "BackOff: pods have failed at start") {
				return nil
			}
		}
		return errors.New("no event")
	})
	b.patch("web", `{"spec":{"template":{"metadata":{"annotations":{"`+cluster.Fail+`":null}}}}}`)
	b.waitComplete("web") // another template is another chance
}
