package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// createRC makes a ReplicationController.
func (b *bench) createRC(rc *corev1.ReplicationController) {
	b.Helper()
	all := b.Client.CoreV1().ReplicationControllers(b.ns)
	if _, err := all.Create(b.Context(), rc, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) rc(name string) *corev1.ReplicationController {
	b.Helper()
	rc, err := b.Client.CoreV1().ReplicationControllers(b.ns).Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return rc
}

func (b *bench) scaleRC(name string, size int32) {
	b.Helper()
	b.patchMeta("replicationcontroller", name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, size))
}

// waitRC waits until the ReplicationController says that it has so many pods, all available, and returns those.
func (b *bench) waitRC(name string, size int32) (own []corev1.Pod) {
	b.Helper()
	b.wait(fmt.Sprintf("RC-14: the ReplicationController %s tells of %d pods", name, size), func() error {
		rc := b.rc(name)
		want := corev1.ReplicationControllerStatus{Replicas: size, FullyLabeledReplicas: size, ReadyReplicas: size, AvailableReplicas: size,
			ObservedGeneration: rc.Generation, Conditions: rc.Status.Conditions}
		if diff := cmp.Diff(want, rc.Status); diff != "" {
			return fmt.Errorf("status (-want +got): %s", diff)
		}
		own = b.podsOf(rc)
		if len(own) != int(size) {
			return fmt.Errorf("it has %d", len(own))
		}
		return nil
	})
	return own
}

// podsOf are the active pods that an object controls.
func (b *bench) podsOf(owner metav1.Object) []corev1.Pod {
	b.Helper()
	return slices.DeleteFunc(b.pods(), func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, owner) })
}

func TestReplicationControllers(t *testing.T) {
	b := share(t)
	begin := b.AuditEnd(t)
	b.orphanOf("web")
	web := replicationController("web", 3)
	web.Spec.Selector = nil // RC-10: the server makes it of the template's labels
	b.createRC(web)
	single := replicationController("single", 1)
	single.Spec.Replicas = nil
	b.createRC(single)

	run := func(name string, test func(b *bench)) {
		t.Run(name, func(t *testing.T) { test(&bench{t, b.Cluster, b.ns}) })
	}
	run("RC-4 an orphan is adopted, the others are created", func(b *bench) {
		own := b.waitRC("web", 3)
		rc := b.rc("web")
		want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ReplicationController", Name: "web", UID: rc.UID,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
		for _, p := range own {
			if diff := cmp.Diff(want, p.OwnerReferences); diff != "" {
				b.Errorf("%s (-want +got):\n%s", p.Name, diff)
			}
		}
		if !slices.ContainsFunc(own, func(p corev1.Pod) bool { return p.Name == "web-orphan" }) {
			b.Errorf("the orphan is not among %s", names(own))
		}
	})
	run("RC-12 without replicas there is one pod", func(b *bench) { b.waitRC("single", 1) })
	run("RC-10 a pod that is relabelled is released and replaced", func(b *bench) {
		b.patchMeta("pod", "web-orphan", `{"metadata":{"labels":{"app":"x"}}}`)
		b.wait("it has no owner", func() error {
			if p := b.pod("web-orphan"); p == nil || len(p.OwnerReferences) > 0 {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
		b.waitRC("web", 3)
	})
	run("RC-15, RC-18 scaled up and down; what others have written stays", func(b *bench) { b.scalesRC() })
	run("RC-4 a ReplicaSet of the same name and labels", func(b *bench) { b.besideAReplicaSet() })
	run("RC-1, RC-5 events", func(b *bench) { b.eventsOfRC() })
	run("RC-17 what was asked", func(b *bench) { b.statusByUpdate(begin) })
	run("RC-1, RC-30 the queue's name", func(b *bench) {
		queue := metric{"RC-30", "workqueue_depth", "GAUGE", "name", "name=replicationmanager", ""}
		if err := queue.check(askShared(t).scrape("/metrics")[queue.name]); err != nil {
			b.Error(err)
		}
	})
	run("RC-19 pods of one that is being deleted", func(b *bench) { b.deletesRC() })
}

func (b *bench) scalesRC() {
	b.Helper()
	var rc *corev1.ReplicationController
	custom := corev1.ReplicationControllerCondition{Type: "Custom", Status: corev1.ConditionTrue, Reason: "R"}
	b.wait("somebody writes a condition", func() error { // the manager may write at the same time
		rc = b.rc("web")
		rc.Status.Conditions = []corev1.ReplicationControllerCondition{custom}
		_, err := b.Client.CoreV1().ReplicationControllers(b.ns).UpdateStatus(b.Context(), rc, metav1.UpdateOptions{})
		return err
	})
	for _, size := range []int32{8, 2} {
		b.scaleRC("web", size)
		b.waitRC("web", size)
	}
	after := b.rc("web")
	if len(after.Status.Conditions) != 1 || after.Status.Conditions[0] != custom || !cmp.Equal(rc.Spec.Template, after.Spec.Template) {
		b.Errorf("%+v", after)
	}
}

func (b *bench) deletesRC() {
	b.Helper()
	b.patchMeta("replicationcontroller", "web", hold)
	// by default its pods would be orphans
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := b.Client.CoreV1().ReplicationControllers(b.ns).Delete(b.Context(), "web", background); err != nil {
		b.Fatal(err)
	}
	defer b.patchMeta("replicationcontroller", "web", `{"metadata":{"finalizers":null}}`)
	own := b.podsOf(b.rc("web"))
	if err := b.Client.CoreV1().Pods(b.ns).Delete(b.Context(), own[0].Name, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	cluster.Always(b.T, time.Second, "the other pod stays, and no more are made", func() error {
		if left := b.podsOf(b.rc("web")); names(left) != names(own[1:]) {
			return fmt.Errorf("pods are %s, were %s", names(left), names(own))
		}
		return nil
	})
}

// besideAReplicaSet: each of the two has pods of its own, and one that is scaled leaves those of the other.
func (b *bench) besideAReplicaSet() {
	b.Helper()
	b.createRC(replicationController("twin", 2))
	set, err := b.Client.AppsV1().ReplicaSets(b.ns).Create(b.Context(), replicaSet("twin", 2), metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.waitRC("twin", 2)
	b.wait("RC-4: the ReplicaSet has its pods", func() error {
		if n := len(b.podsOf(set)); n != 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	of := names(b.podsOf(set))
	b.scaleRC("twin", 1)
	b.waitRC("twin", 1)
	if got := names(b.podsOf(set)); got != of {
		b.Errorf("RC-4: the ReplicaSet's pods were %s, are %s", of, got)
	}
}

func (b *bench) eventsOfRC() {
	b.Helper()
	b.wait("RC-5: there are events about the ReplicationController", func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(b.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=ReplicationController,involvedObject.apiVersion=v1,involvedObject.name=twin,source=replication-controller"})
		if err != nil {
			return err
		}
		seen := map[string]int{}
		for _, e := range list.Items {
			seen[e.Type+" "+e.Reason] += int(e.Count)
		}
		if diff := cmp.Diff(map[string]int{"Normal SuccessfulCreate": 2, "Normal SuccessfulDelete": 1}, seen); diff != "" {
			return fmt.Errorf("-want +got: %s", diff)
		}
		return nil
	})
}

// statusByUpdate looks at what the controller's account has asked about the ReplicationControllers of the namespace.
func (b *bench) statusByUpdate(begin int64) {
	b.Helper()
	asked := map[string]bool{}
	requests, _ := b.Requests(b.T, begin)
	for _, r := range requests {
		if strings.HasSuffix(r.User.Username, ":replication-controller") && r.ObjectRef.Resource == "replicationcontrollers" &&
			r.ObjectRef.Namespace == b.ns {
			asked[r.User.Username+" "+r.Verb+" "+r.ObjectRef.Subresource] = true
		}
	}
	const account = "system:serviceaccount:kube-system:replication-controller "
	want := map[string]bool{account + "update status": true, account + "get ": true} // the latter before the adoption
	if diff := cmp.Diff(want, asked); diff != "" {
		b.Errorf("RC-1, RC-17: requests (-want +got):\n%s", diff)
	}
}
