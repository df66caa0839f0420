package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

func TestRollout(t *testing.T) {
	b := share(t)
	b.create(deployment("web", 3))
	b.waitComplete("web")

	rs := b.sets()[0]
	for key, want := range map[string]string{ // DEP-20, DEP-83
		"deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "3",
		"deployment.kubernetes.io/max-replicas": "4",
	} {
		if got := rs.Annotations[key]; got != want {
			t.Errorf("DEP-20: annotation %s is %q, want %q", key, got, want)
		}
	}
	if got := b.get("web").Annotations["deployment.kubernetes.io/revision"]; got != "1" {
		t.Errorf("DEP-17: revision of the Deployment is %q", got)
	}
	if hash := rs.Labels["pod-template-hash"]; rs.Name != "web-"+hash || rs.Spec.Selector.MatchLabels["pod-template-hash"] != hash {
		t.Errorf("DEP-19: name %s, hash %s", rs.Name, hash)
	}
	for _, f := range rs.ManagedFields {
		if f.Manager != "kube-controller-manager" {
			t.Errorf("CI-1: field manager %q", f.Manager)
		}
	}

	b.setImage("web", "web:2")
	b.waitComplete("web")
	old, new := b.sets()[0], b.sets()[1]
	b.wait("the events of DEP-84 are there", func() error {
		got := events(t.Context(), t, b.Client, b.ns, "web")
		want := []string{
			"ScalingReplicaSet: Scaled up replica set " + old.Name + " from 0 to 3",
			"ScalingReplicaSet: Scaled up replica set " + new.Name + " from 0 to 1",
			"ScalingReplicaSet: Scaled down replica set " + old.Name + " from 3 to 2",
			"ScalingReplicaSet: Scaled up replica set " + new.Name + " from 1 to 2",
			"ScalingReplicaSet: Scaled down replica set " + old.Name + " from 2 to 1",
			"ScalingReplicaSet: Scaled up replica set " + new.Name + " from 2 to 3",
			"ScalingReplicaSet: Scaled down replica set " + old.Name + " from 1 to 0",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			return fmt.Errorf("got %s", strings.Join(got, "\n"))
		}
		return nil
	})
}

func TestRolloutUndoWithKubectl(t *testing.T) { // DEP-53, DEP-87
	b := share(t)
	b.create(deployment("web", 3))
	b.waitComplete("web")
	first := b.sets()[0].Name
	b.setImage("web", "web:2")
	b.waitComplete("web")
	b.Kubectl(t, "-n", b.ns, "rollout", "undo", "deployment/web")
	b.Kubectl(t, "-n", b.ns, "rollout", "status", "deployment/web", "--timeout=60s")
	sets := b.sets()
	if len(sets) != 2 || sets[1].Name != first || sets[1].Annotations["deployment.kubernetes.io/revision"] != "3" ||
		sets[1].Annotations["deployment.kubernetes.io/revision-history"] != "1" || *sets[1].Spec.Replicas != 3 {
		t.Errorf("DEP-87: %+v", sets)
	}
	b.wait("the Deployment shows revision 3", func() error {
		if got := b.get("web").Annotations["deployment.kubernetes.io/revision"]; got != "3" {
			return errors.New(got)
		}
		return nil
	})
	if out := b.Kubectl(t, "-n", b.ns, "rollout", "history", "deployment/web"); !strings.Contains(out, "2 ") ||
		!strings.Contains(out, "3 ") {
		t.Errorf("DEP-54: %s", out)
	}
}

func TestUndoToASetThatNeverStartsTimesOut(t *testing.T) { // DEP-87's quirk is not ours
	b := share(t)
	d := deployment("web", 2, strategy(1, 0), annotated(cluster.NeverReady, "true"))
	deadline := int32(3)
	d.Spec.ProgressDeadlineSeconds = &deadline
	b.create(d)
	b.waitCondition("web", appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")
	b.patch("web", `{"spec":{"template":{"metadata":{"annotations":{"`+cluster.NeverReady+`":null}}}}}`)
	b.waitComplete("web")
	b.Kubectl(t, "-n", b.ns, "rollout", "undo", "deployment/web")
	b.waitCondition("web", appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")
	if _, err := b.TryKubectl(t, "-n", b.ns, "rollout", "status", "deployment/web", "--timeout=10s"); err == nil {
		t.Error("DEP-76: rollout status does not fail")
	}
}

func TestScaleInTheMiddle(t *testing.T) {
	b := share(t)
	t.Run("DEP-37 in proportion", func(t *testing.T) {
		b := &bench{t, b.Cluster, b.ns}
		b.create(deployment("web", 10, strategy(3, 2)))
		b.waitComplete("web")
		b.patch("web", `{"spec":{"template":{"metadata":{"annotations":{"`+cluster.NeverReady+`":"true"}}}}}`)
		b.wait("8 old and 5 new", func() error { return b.haveSizes(8, 5) })
		b.patch("web", `{"spec":{"replicas":15,"strategy":{"rollingUpdate":{"maxSurge":4}}}}`)
		b.wait("DEP-85: 12 old and 7 new", func() error { return b.haveSizes(12, 7) })
		b.patch("web", `{"spec":{"template":{"metadata":{"annotations":{"`+cluster.NeverReady+`":null,"x":"y"}}}}}`)
		b.waitComplete("web")
	})
	t.Run("with maxSurge 0 it does not stick", func(t *testing.T) { // the original returns early for ever
		b := &bench{t, b.Cluster, b.Namespace(t)}
		b.create(deployment("web", 4, strategy(0, 1)))
		b.waitComplete("web")
		b.patch("web", `{"spec":{"template":{"metadata":{"annotations":{"`+cluster.ReadyAfter+`":"1s"}}}}}`)
		b.wait("the rollout is under way", func() error {
			if sets := b.sets(); len(sets) != 2 || *sets[0].Spec.Replicas == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		b.patch("web", `{"spec":{"replicas":6}}`)
		b.waitComplete("web")
		b.patch("web", `{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"web","image":"web:3"}]}}}}`)
		b.waitComplete("web")
	})
	t.Run("DEP-88 without a rollout, one step and one event", func(t *testing.T) {
		b := &bench{t, b.Cluster, b.Namespace(t)}
		b.create(deployment("web", 3))
		b.waitComplete("web")
		b.patch("web", `{"spec":{"replicas":5}}`)
		b.waitComplete("web")
		rs := b.sets()[0]
		if rs.Annotations["deployment.kubernetes.io/desired-replicas"] != "5" ||
			rs.Annotations["deployment.kubernetes.io/max-replicas"] != "7" {
			t.Errorf("annotations %v", rs.Annotations)
		}
		b.patch("web", `{"spec":{"replicas":0}}`)
		b.waitComplete("web")
	})
}

func (b *bench) haveSizes(sizes ...int32) error {
	var got []int32
	for _, rs := range b.sets() {
		got = append(got, *rs.Spec.Replicas)
	}
	if fmt.Sprint(got) != fmt.Sprint(sizes) {
		return fmt.Errorf("sizes are %v", got)
	}
	return nil
}

func TestPauseAndResume(t *testing.T) { // DEP-89
	b := share(t)
	b.create(deployment("web", 5))
	b.waitComplete("web")
	b.Kubectl(t, "-n", b.ns, "rollout", "pause", "deployment/web")
	b.waitCondition("web", appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentPaused")
	b.setImage("web", "web:2")
	b.wait("DEP-59: no replica is up to date", func() error {
		if d := b.get("web"); d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != 0 {
			return fmt.Errorf("%+v", d.Status)
		}
		return nil
	})
	b.patch("web", `{"spec":{"replicas":7}}`)
	b.wait("DEP-57: a paused Deployment scales", func() error { return b.haveSizes(7) })
	b.Kubectl(t, "-n", b.ns, "rollout", "resume", "deployment/web")
	b.waitComplete("web")
	if err := b.haveSizes(0, 7); err != nil {
		t.Error(err)
	}
}

func TestAdoptionAndOrphaning(t *testing.T) { // DEP-7, RS-21, RS-22
	b := share(t)
	b.create(deployment("web", 2))
	b.waitComplete("web")
	rs := b.sets()[0]
	orphan := metav1.DeletePropagationOrphan
	err := b.Client.AppsV1().Deployments(b.ns).Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &orphan})
	if err != nil {
		t.Fatal(err)
	}
	b.wait("the garbage collector has orphaned the ReplicaSet", func() error {
		_, err := b.Client.AppsV1().Deployments(b.ns).Get(t.Context(), "web", metav1.GetOptions{})
		if sets := b.sets(); !apierrors.IsNotFound(err) || len(sets) != 1 || len(sets[0].OwnerReferences) != 0 {
			return fmt.Errorf("%d ReplicaSets, Deployment: %v", len(sets), err)
		}
		return nil
	})
	pods := names(b.pods())
	b.create(deployment("web", 2))
	b.waitComplete("web")
	sets := b.sets()
	if len(sets) != 1 || sets[0].UID != rs.UID || !metav1.IsControlledBy(&sets[0], b.get("web")) {
		t.Errorf("the ReplicaSet was not adopted: %+v", sets)
	}
	if got := names(b.pods()); got != pods {
		t.Errorf("pods were %s, are %s", pods, got)
	}

	t.Run("RS-58 a relabelled pod is released and replaced", func(t *testing.T) {
		victim := b.pods()[0]
		b.Kubectl(t, "-n", b.ns, "label", "pod", victim.Name, "app=quarantine", "--overwrite")
		b.wait("it is replaced and free", func() error {
			p, err := b.Client.CoreV1().Pods(b.ns).Get(t.Context(), victim.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if metav1.GetControllerOf(p) != nil || len(b.pods()) != 3 {
				return fmt.Errorf("%d pods, owner %v", len(b.pods()), p.OwnerReferences)
			}
			return nil
		})
	})
	t.Run("RS-22 an orphan that matches is adopted and one too many goes", func(t *testing.T) {
		stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stray", Labels: b.sets()[0].Spec.Template.Labels},
			Spec: b.sets()[0].Spec.Template.Spec}
		if _, err := b.Client.CoreV1().Pods(b.ns).Create(t.Context(), stray, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.wait("there are as many as before", func() error {
			if got := len(b.pods()); got != 3 { // two and the one in quarantine
				return fmt.Errorf("%d pods", got)
			}
			return nil
		})
	})
}

func (b *bench) patchMeta(kind, name, document string) {
	b.Helper()
	if _, err := b.TryKubectl(b.T, "-n", b.ns, "patch", kind, name, "--type=merge", "-p", document); err != nil &&
		!strings.Contains(err.Error(), "NotFound") {
		b.Fatal(err)
	}
}

func names(pods []corev1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

func TestDeletedDeploymentIsLeftToTheGarbageCollector(t *testing.T) { // DEP-61, RS-19
	b := share(t)
	d := deployment("web", 2)
	d.Finalizers = []string{"example.com/wait"}
	b.create(d)
	b.waitComplete("web")
	if err := b.Client.AppsV1().Deployments(b.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.setImage("web", "web:2")
	b.wait("the status follows", func() error {
		if d := b.get("web"); d.Status.ObservedGeneration < d.Generation {
			return fmt.Errorf("observed %d of %d", d.Status.ObservedGeneration, d.Generation)
		}
		return nil
	})
	if len(b.sets()) != 1 || len(b.pods()) != 2 {
		t.Errorf("%d ReplicaSets, %d pods", len(b.sets()), len(b.pods()))
	}
	b.patchMeta("deployment", "web", `{"metadata":{"finalizers":null}}`)
}

func TestQuotaRefusedPods(t *testing.T) { // DEP-68, RS-52
	b := share(t)
	b.quota(1)
	b.create(deployment("web", 3))
	c := b.waitCondition("web", appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")
	if !strings.Contains(c.Message, "exceeded quota") {
		t.Errorf("message %q", c.Message)
	}
	if n := len(b.pods()); n != 1 {
		t.Errorf("%d pods, want 1", n)
	}
	if err := b.Client.CoreV1().ResourceQuotas(b.ns).Delete(t.Context(), "few", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.waitComplete("web")
	if c := condition(b.get("web"), appsv1.DeploymentReplicaFailure); c != nil {
		t.Errorf("the failure is still reported: %+v", c)
	}
}

func TestHistoryIsCleanedUp(t *testing.T) { // DEP-62
	b := share(t)
	d := deployment("web", 1)
	limit := int32(2)
	d.Spec.RevisionHistoryLimit = &limit
	b.create(d)
	b.waitComplete("web")
	for i := 2; i <= 5; i++ {
		b.setImage("web", fmt.Sprintf("web:%d", i))
		b.waitComplete("web")
	}
	b.wait("two old revisions are left", func() error {
		var revisions []string
		for _, rs := range b.sets() {
			revisions = append(revisions, rs.Annotations["deployment.kubernetes.io/revision"])
		}
		if fmt.Sprint(revisions) != "[3 4 5]" {
			return fmt.Errorf("revisions %v", revisions)
		}
		return nil
	})
}

func TestProgressDeadline(t *testing.T) { // DEP-72, DEP-73, DEP-74
	b := share(t)
	d := deployment("web", 2, annotated(cluster.NeverReady, "true"))
	deadline := int32(2)
	d.Spec.ProgressDeadlineSeconds = &deadline
	b.create(d)
	b.waitCondition("web", appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")
	for _, p := range b.pods() {
		b.patchMeta("pod", p.Name, `{"metadata":{"annotations":{"`+cluster.NeverReady+`":null}}}`)
	}
	b.waitComplete("web") // late, and yet complete
}

func TestProgressOfARolloutThatStops(t *testing.T) { // DEP-69, DEP-72
	b := share(t)
	b.create(deployment("web", 5))
	b.waitComplete("web")
	b.patch("web", `{"spec":{"template":{"metadata":{"annotations":{"`+cluster.NeverReady+`":"true"}}}}}`)
	c := b.waitCondition("web", appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated")
	if name := b.sets()[1].Name; c.Message != fmt.Sprintf("ReplicaSet %q is progressing.", name) {
		t.Errorf("message %q, the new ReplicaSet is %s", c.Message, name)
	}
}

func TestReplicaSetLostToANameConflict(t *testing.T) { // DEP-25, DEP-69
	b := share(t)
	b.create(deployment("web", 2))
	b.waitComplete("web")
	lost := b.sets()[0].Name
	b.patchMeta("replicaset", lost, `{"metadata":{"ownerReferences":null,"labels":null}}`)
	b.wait("Progressing tells of the ReplicaSet that was made", func() error {
		c := condition(b.get("web"), appsv1.DeploymentProgressing)
		for _, rs := range b.sets() {
			if rs.Name != lost && c != nil && c.Message == fmt.Sprintf("ReplicaSet %q has successfully progressed.", rs.Name) {
				return nil
			}
		}
		return fmt.Errorf("the lost one is %s, Progressing is %v", lost, c)
	})
}

func TestMinReadySeconds(t *testing.T) { // RS-18, RS-44
	b := share(t)
	d := deployment("web", 2)
	const seconds = 10
	d.Spec.MinReadySeconds = seconds
	b.create(d)
	b.wait("ready but not available", func() error {
		if s := b.get("web").Status; s.ReadyReplicas != 2 || s.AvailableReplicas != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	b.waitComplete("web")
	for _, p := range b.pods() {
		if took := time.Since(p.CreationTimestamp.Time); took < (seconds-1)*time.Second {
			t.Errorf("%s counts as available after %v", p.Name, took)
		}
	}
}
