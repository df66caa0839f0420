package integration

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	d := deployment(name, replicas)
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: d.Spec.Template.Labels},
		Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}}
}

func replicationController(name string, replicas int32) *corev1.ReplicationController {
	d := deployment(name, replicas)
	return &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: d.Spec.Template.Labels},
		Spec: corev1.ReplicationControllerSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Template.Labels, Template: &d.Spec.Template}}
}

// orphanOf makes a pod that a ReplicaSet or ReplicationController of that name may adopt.
func (b *bench) orphanOf(name string) {
	b.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-orphan", Labels: map[string]string{"app": name}}}
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	if _, err := b.Client.CoreV1().Pods(b.ns).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// workOfDeployments rolls out, scales, rolls back, has history deleted and a ReplicaSet adopted, with so many events that
// they are counted. It returns the ReplicaSet that a Deployment called "taken" has.
func (b *bench) workOfDeployments() *appsv1.ReplicaSet {
	b.Helper()
	b.waitComplete("web")
	for _, image := range []string{"web:2", "web:3"} {
		b.setImage("web", image)
		b.waitComplete("web")
	}
	b.wait("DEP-62: the oldest ReplicaSet is deleted", func() error {
		if n := len(b.sets()); n != 3 { // two of web, and solo
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	b.patchMeta("deployment", "web", `{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"2"}}}`)
	b.wait("DEP-50: it is rolled back", func() error {
		if image := b.get("web").Spec.Template.Spec.Containers[0].Image; image != "web:2" {
			return fmt.Errorf("the image is %s", image)
		}
		return nil
	})
	b.waitComplete("web")
	for range 2 { // the same words twice: an event that is counted
		for _, n := range []int{16, 2} {
			b.patch("web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
			b.waitComplete("web")
		}
	}
	owned := b.sets()[2] // the newest of web; solo has no revision, and comes first
	b.patchMeta("rs", owned.Name, `{"metadata":{"ownerReferences":null}}`)
	b.wait("DEP-7: the orphan is adopted", func() error {
		for _, rs := range b.sets() {
			if rs.Name == owned.Name && len(rs.OwnerReferences) == 1 {
				return nil
			}
		}
		return fmt.Errorf("%s has no owner", owned.Name)
	})

	b.create(deployment("taken", 1))
	b.waitComplete("taken")
	i := slices.IndexFunc(b.sets(), func(rs appsv1.ReplicaSet) bool { return rs.Labels["app"] == "taken" })
	set := b.sets()[i]
	b.Kubectl(b.T, "-n", b.ns, "delete", "deployment", "taken")
	b.wait("its ReplicaSet and pods are gone", func() error {
		if names := b.Kubectl(b.T, "-n", b.ns, "get", "replicaset,pod", "--selector=app=taken", "--output=name"); names != "" {
			return fmt.Errorf("left are %s", names)
		}
		return nil
	})
	return &set
}

// workOfBudgets has statuses written, a scale read live, events counted and a stale condition cleared.
func (b *bench) workOfBudgets() {
	b.Helper()
	b.pdb("none", "nothing", nil)
	b.waitBudget("none", "0 0 0 0 InsufficientPods")
	owner := b.get("web")
	for range 2 { // the same words again: an event that is counted
		b.Kubectl(b.T, "-n", b.ns, "patch", "pdb", "none", "--type=merge", "-p", `{"spec":{"selector":{"matchLabels":{"app":"web"}}}}`)
		b.waitBudget("none", fmt.Sprintf("1 %d %d %d SufficientPods", *owner.Spec.Replicas, *owner.Spec.Replicas-1, *owner.Spec.Replicas))
		b.Kubectl(b.T, "-n", b.ns, "patch", "pdb", "none", "--type=merge", "-p", `{"spec":{"selector":{"matchLabels":{"app":"nothing"}}}}`)
		b.waitBudget("none", "0 0 0 0 InsufficientPods")
	}
	b.loose("direct", "direct", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: owner.Name, UID: owner.UID})
	b.pdb("direct", "direct", nil)
	b.waitBudget("direct", fmt.Sprintf("0 1 %d %d InsufficientPods", *owner.Spec.Replicas-1, *owner.Spec.Replicas))
	document := []byte(
		`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	if _, err := b.Client.CoreV1().Pods(b.ns).Patch(b.Context(), "direct", types.StrategicMergePatchType, document, metav1.PatchOptions{},
		"status"); err != nil {
		b.Fatal(err)
	}
	b.wait("DIS-35: the condition is False", func() error {
		if !strings.Contains(b.Kubectl(b.T, "-n", b.ns, "get", "pod", "direct",
			"--output=jsonpath={.status.conditions[?(@.type=='DisruptionTarget')].status}"), "False") {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}

// workOfReplicationControllers scales one up and down, with so many events that they are counted.
func (b *bench) workOfReplicationControllers() {
	b.Helper()
	for _, n := range []int32{16, 2, 16, 2} {
		document := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
		_, err := b.Client.CoreV1().ReplicationControllers(b.ns).Patch(b.Context(), "classic", types.MergePatchType, document,
			metav1.PatchOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.wait(fmt.Sprintf("the ReplicationController has %d pods", n), func() error {
			rc, err := b.Client.CoreV1().ReplicationControllers(b.ns).Get(b.Context(), "classic", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := rc.Status; s.ObservedGeneration < rc.Generation || s.Replicas != n || s.AvailableReplicas != n {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
}

// workOfJobs runs a Job that adopts a pod, and suspends it twice, so that its pods are deleted and the event is counted.
func (b *bench) workOfJobs() {
	b.Helper()
	b.orphanOf("sum")
	b.createJob("sum", 2, func(j *batchv1.Job) {
		labels := map[string]string{"app": "sum"}
		j.Spec.ManualSelector, j.Spec.Selector, j.Spec.Template.Labels = ptr.To(true), &metav1.LabelSelector{MatchLabels: labels}, labels
	})
	suspend := func(value string) {
		if _, err := b.Client.BatchV1().Jobs(b.ns).Patch(b.Context(), "sum", types.MergePatchType, []byte(`{"spec":{"suspend":`+value+`}}`),
			metav1.PatchOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for range 2 {
		suspend("false")
		// the adopted one may end
		b.waitJob("sum", "has its pods", func(s batchv1.JobStatus) bool { return s.Active > 0 && s.Active+s.Succeeded == 2 })
		suspend("true")
		b.waitJob("sum", "is suspended", over(batchv1.JobSuspended))
	}
	b.wait("the second event of a kind is counted", func() error {
		list, err := b.Client.CoreV1().Events(b.ns).List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=sum"})
		if err != nil {
			return err
		}
		var all []string
		for _, e := range list.Items {
			all = append(all, fmt.Sprintf("%d %s: %s", e.Count, e.Reason, e.Message))
			if e.Count > 1 {
				return nil
			}
		}
		return fmt.Errorf("none of %q", all)
	})
}

// workOfDaemonSets has pods and revisions of a DaemonSet adopted, created, changed and deleted.
func (b *bench) workOfDaemonSets() {
	b.Helper()
	u := b.daemonUser(2)
	u.CreateDaemonSet("agent", 1)
	u.WaitDaemonSet("agent", 2)
	b.patchDaemonSet("agent", `{"spec":{"revisionHistoryLimit":1}}`)
	// The second is a rollback, the third pushes one out of the history. With the others, so many pods are created that the events are
	// counted.
	for _, image := range []string{"web:2", "web:1", "web:3", "web:4", "web:5"} {
		b.patchDaemonSet("agent", setDaemonImage(image))
		u.WaitDaemonSet("agent", 2)
	}
	b.wait("the history is short", func() error {
		if n := len(b.revisionsOf()); n != 2 {
			return fmt.Errorf("%d revisions", n)
		}
		return nil
	})
	b.patchMeta("pod", b.podsOf(b.daemonSet("agent"))[0].Name, `{"metadata":{"ownerReferences":null}}`)
	b.wait("the orphan is adopted", func() error {
		if n := len(b.podsOf(b.daemonSet("agent"))); n != 2 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
}
