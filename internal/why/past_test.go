package why

import (
	"io"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Events of the past are not the cause.
func TestEventsOfThePast(t *testing.T) {
	running := newPod(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{}}}}
	})
	mount := warning(running, "Pod", "FailedMount", `MountVolume.SetUp failed for volume "v" : secret "tls" not found`)
	a := askAbout(t, running, running, newNode(corev1.ConditionTrue, nil), mount)
	if a.Cause == nil || a.Cause.Reason != "NotReady" {
		t.Errorf("a container runs: %s", a.Summary)
	}

	ended := newPod(func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}}}}
	})
	for after, want := range map[time.Duration]bool{-time.Minute: false, time.Minute: true} { // since the node was booted
		mount.LastTimestamp = metav1.NewTime(time.Now().Add(after))
		a := askAbout(t, ended, ended, newNode(corev1.ConditionTrue, nil), mount)
		if got := a.Cause != nil && a.Cause.Object.Kind == "Secret"; got != want {
			t.Errorf("an event %s after a container has ended: %s", after, a.Summary)
		}
	}

	db := &appsv1.StatefulSet{ObjectMeta: of("db"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3),
		Selector: &metav1.LabelSelector{MatchLabels: webLabels}}, Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 1}}
	refused := warning(db, "StatefulSet", "FailedCreate",
		`pods "db-0" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1`)
	refused.LastTimestamp = metav1.Now()
	for created, want := range map[time.Duration]bool{-time.Minute: true, time.Minute: true, 2 * quietFor: false} {
		p := newPod(func(p *corev1.Pod) {
			p.ObjectMeta = owned(of("db-0"), "StatefulSet", "db")
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			p.CreationTimestamp = metav1.NewTime(refused.LastTimestamp.Add(created))
		})
		a := askAbout(t, db, db, p, refused)
		if got := strings.Contains(a.Summary, "ResourceQuota shop/small"); got != want {
			t.Errorf("a pod was created %s after it was refused: %s", created, a.Summary)
		}
	}
}

// A claim with the storage class "" gets no volume of a default class.
func TestEmptyStorageClass(t *testing.T) {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: of("data")}
	if a := askAbout(t, c, c); !strings.Contains(a.Summary+a.Cause.Ends, "default") {
		t.Errorf("%s", a.Summary)
	}
	c.Spec.StorageClassName = ptr.To("")
	if a := askAbout(t, c, c); strings.Contains(a.Summary+a.Cause.Ends, "default") || !strings.Contains(a.Summary, `""`) {
		t.Errorf("%s", a.Summary)
	}
}

// Names that tenants choose make no lines of their own.
func TestNamesWithManyLines(t *testing.T) {
	const name = "x\nPod shop/web  fine"
	pod := Ref{Kind: "Pod", Name: "p"}
	d := Deletions{Items: []PendingDeletion{{Object: pod, Rule: "its owner " + name + " is gone"}}, Unread: []string{name}}
	a := Answer{Chain: []Link{{Object: pod}, {Object: Ref{Kind: "Secret", Name: name}}}, Deletion: &Deletion{Rule: name}}
	for _, write := range []func(io.Writer){d.WriteText, a.WriteText} {
		var b strings.Builder
		write(&b)
		if strings.Contains(b.String(), "\nPod shop/web") {
			t.Errorf("%s", b.String())
		}
	}
}
