package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// An object that names its owner, but not as its controller, is adopted; the reference becomes the controlling one.
func TestAdoptionOfWhatNamesTheOwnerAlready(t *testing.T) { // RS-22, DEP-7
	b := share(t)
	b.create(deployment("web", 2))
	b.waitComplete("web")
	pod, rs := b.pods()[0], b.sets()[0]
	for _, document := range []struct{ kind, name, owner, apiVersion, of, uid string }{
		{"pod", pod.Name, rs.Name, "apps/v1", "ReplicaSet", string(rs.UID)},
		{"rs", rs.Name, "web", "apps/v1", "Deployment", string(b.get("web").UID)},
	} {
		b.patchMeta(document.kind, document.name,
			fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q}]}}`,
				document.apiVersion, document.of, document.owner, document.uid))
	}
	b.wait("both are controlled again, by one reference", func() error {
		p, err := b.Client.CoreV1().Pods(b.ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		set := b.sets()[0]
		if len(p.OwnerReferences) != 1 || !metav1.IsControlledBy(p, &set) || len(set.OwnerReferences) != 1 ||
			!metav1.IsControlledBy(&set, b.get("web")) {
			return fmt.Errorf("pod %+v, ReplicaSet %+v", p.OwnerReferences, set.OwnerReferences)
		}
		return nil
	})
	if len(b.pods()) != 2 || len(b.sets()) != 1 {
		t.Errorf("%d pods, %d ReplicaSets", len(b.pods()), len(b.sets()))
	}
	b.setImage("web", "web:2")
	b.waitComplete("web")
}

func TestLostRevisionIsNoRollout(t *testing.T) { // DEP-75
	b := share(t)
	d := deployment("web", 2)
	deadline := int32(2)
	d.Spec.ProgressDeadlineSeconds = &deadline
	b.create(d)
	b.waitComplete("web")
	b.patchMeta("pod", b.pods()[0].Name, `{"metadata":{"annotations":{"`+cluster.NeverReady+`":"true"}}}`)
	b.wait("a pod is not ready any more", func() error {
		if n := b.get("web").Status.ReadyReplicas; n != 1 {
			return fmt.Errorf("%d ready", n)
		}
		return nil
	})
	b.patchMeta("deployment", "web", `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":null}}}`)
	b.wait("the revision is back", func() error {
		if got := b.get("web").Annotations["deployment.kubernetes.io/revision"]; got != "1" {
			return fmt.Errorf("revision %q", got)
		}
		return nil
	})
	cluster.Always(t, 4*time.Second, "it stays rolled out", func() error {
		if c := condition(b.get("web"), appsv1.DeploymentProgressing); c == nil || c.Reason != "NewReplicaSetAvailable" {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// A ReplicaSet that is being deleted and kept by a finalizer keeps its pods, for nobody removes them here (RS-15). The
// rollout does not wait for them.
func TestRolloutPastASetInDeletion(t *testing.T) {
	b := share(t)
	b.create(deployment("web", 3))
	b.waitComplete("web")
	old := b.sets()[0].Name
	b.patchMeta("rs", old, `{"metadata":{"finalizers":["example.com/wait"]}}`)
	if err := b.Client.AppsV1().ReplicaSets(b.ns).Delete(t.Context(), old, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.setImage("web", "web:2")
	b.wait("the new ReplicaSet is complete", func() error {
		if sets := b.sets(); len(sets) != 2 || *sets[1].Spec.Replicas != 3 {
			return errors.New("not yet")
		}
		return nil
	})
	b.patchMeta("rs", old, `{"metadata":{"finalizers":null}}`)
}

// A failure that lasts does not keep the status from following the pods (RS-16).
func TestStatusFollowsDuringAFailure(t *testing.T) {
	b := share(t)
	b.quota(2)
	b.create(deployment("web", 3, annotated(cluster.NeverReady, "true")))
	b.waitCondition("web", appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")
	for _, p := range b.pods() {
		b.patchMeta("pod", p.Name, `{"metadata":{"annotations":{"`+cluster.NeverReady+`":null}}}`)
	}
	b.wait("both statuses show the ready pods", func() error {
		if d, rs := b.get("web"), b.sets()[0]; d.Status.ReadyReplicas != 2 || rs.Status.ReadyReplicas != 2 {
			return fmt.Errorf("Deployment %d, ReplicaSet %d", d.Status.ReadyReplicas, rs.Status.ReadyReplicas)
		}
		return nil
	})
	b.waitCondition("web", appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")
}

// Without a kubelet pods stay pending, as in many test suites: each set's status must show them soon all the same.
func TestStatusOfManySetsThatNeverBecomeReady(t *testing.T) {
	b := share(t)
	const many = 30
	for i := range many {
		b.create(deployment(fmt.Sprintf("web-%d", i), 2, annotated(cluster.Pending, "true")))
	}
	b.wait("all statuses show the pods", func() error {
		for _, rs := range b.sets() {
			if rs.Status.Replicas != 2 || rs.Status.ObservedGeneration != rs.Generation {
				return fmt.Errorf("%s: %+v", rs.Name, rs.Status)
			}
		}
		for i := range many {
			if s := b.get(fmt.Sprintf("web-%d", i)).Status; s.UpdatedReplicas != 2 || s.UnavailableReplicas != 2 {
				return fmt.Errorf("web-%d: %+v", i, s)
			}
		}
		return nil
	})
}

// quota lets the namespace have so many pods.
func (b *bench) quota(pods int64) {
	b.Helper()
	b.quotaOf(corev1.ResourcePods, pods)
}
