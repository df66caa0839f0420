package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
)

// statefulSet has a claim template, and keeps one unused revision.
func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	d := deployment(name, replicas)
	limit := int32(1)
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, ServiceName: name, Selector: d.Spec.Selector, Template: d.Spec.Template, RevisionHistoryLimit: &limit,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(
					"1Gi")}},
			},
		}},
	}}
}

func (b *bench) createStatefulSet(set *appsv1.StatefulSet) {
	b.Helper()
	if _, err := b.Client.AppsV1().StatefulSets(b.ns).Create(b.Context(), set, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// waitStatefulSet waits until the update is complete, and returns the StatefulSet.
func (b *bench) waitStatefulSet(name string) (set *appsv1.StatefulSet) {
	b.Helper()
	b.wait(fmt.Sprintf("STS-62: the StatefulSet %s is complete", name), func() (err error) {
		if set, err = b.Client.AppsV1().StatefulSets(b.ns).Get(b.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		n, s := *set.Spec.Replicas, set.Status
		if s.ObservedGeneration < set.Generation || s.Replicas != n || s.AvailableReplicas != n || s.UpdatedReplicas != n ||
			s.CurrentRevision != s.UpdateRevision {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	return set
}

func (b *bench) patchStatefulSet(name, patch string) {
	b.Helper()
	b.Kubectl(b.T, "-n", b.ns, "patch", "statefulset", name, "--type=merge", "-p", patch)
}

// names are those of the objects of some resources, sorted.
func (b *bench) names(resources, selector string) []string {
	b.Helper()
	all := strings.Fields(b.Kubectl(b.T, "-n", b.ns, "get", resources, "--selector="+selector, "--output=name"))
	slices.Sort(all)
	return all
}

// TestStatefulSets: pods and claims keep their names, kubectl reads and restores revisions, and claims go as the policy says.
func TestStatefulSets(t *testing.T) {
	b := share(t)
	b.createStatefulSet(statefulSet("db", 2))
	first := b.waitStatefulSet("db")
	data, err := history.Data(&first.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	if want := history.Name("db", history.Hash(data, 0)); first.Status.UpdateRevision != want {
		t.Errorf("STS-30, STS-31: the revision is %s, want %s", first.Status.UpdateRevision, want)
	}
	want := []string{"persistentvolumeclaim/data-db-0", "persistentvolumeclaim/data-db-1", "pod/db-0", "pod/db-1"}
	if diff := cmp.Diff(want, b.names("pods,persistentvolumeclaims", "app=db")); diff != "" {
		t.Errorf("STS-13, STS-20 (-want +got):\n%s", diff)
	}
	b.patchStatefulSet("db", `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
	b.Kubectl(t, "-n", b.ns, "rollout", "status", "statefulset/db", "--timeout=60s") // STS-65
	second := b.waitStatefulSet("db")
	if first.Status.UpdateRevision == second.Status.UpdateRevision {
		t.Error("STS-33: another template has the same revision")
	}
	shown := b.Kubectl(t, "-n", b.ns, "rollout", "history", "statefulset/db", "--revision=2")
	if !strings.Contains(shown, "version") {
		t.Errorf("STS-30: kubectl rollout history shows\n%s", shown)
	}
	b.Kubectl(t, "-n", b.ns, "rollout", "undo", "statefulset/db")
	b.wait("STS-33: the first revision is back, with another number", func() error {
		found, err := b.Client.AppsV1().ControllerRevisions(b.ns).Get(b.Context(), first.Status.UpdateRevision, metav1.GetOptions{})
		if err == nil && found.Revision != 3 {
			return fmt.Errorf("it has number %d", found.Revision)
		}
		return err
	})
	if third := b.waitStatefulSet("db"); third.Status.UpdateRevision != first.Status.UpdateRevision {
		t.Errorf("STS-33: after the rollback the revision is %s, before it was %s", third.Status.UpdateRevision,
			first.Status.UpdateRevision)
	}
	b.patchStatefulSet("db",
		`{"spec":{"replicas":1,"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete","whenDeleted":"Retain"}}}`)
	b.waitStatefulSet("db")
	b.wait("STS-24c: the claim of the pod that was scaled away is gone, the other one is not", func() error {
		if diff := cmp.Diff([]string{"persistentvolumeclaim/data-db-0"}, b.names("persistentvolumeclaims", "app=db")); diff != "" {
			return fmt.Errorf("(-want +got): %s", diff)
		}
		return nil
	})
}

// TestRecreatedStatefulSet: in an update no pod is made before the last one of the revision before is gone (STS-76).
func TestRecreatedStatefulSet(t *testing.T) {
	b := share(t)
	if b.Before(t, 37) {
		t.Skip("the API server does not know the strategy Recreate")
	}
	set := statefulSet("db", 3)
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RecreateStatefulSetStrategyType}
	b.createStatefulSet(set)
	first := b.waitStatefulSet("db")
	pods, err := b.Client.CoreV1().Pods(b.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=db"})
	if err != nil {
		t.Fatal(err)
	}
	events, err := b.Client.CoreV1().Pods(b.ns).Watch(t.Context(),
		metav1.ListOptions{LabelSelector: "app=db", ResourceVersion: pods.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	b.patchStatefulSet("db", `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
	second := b.waitStatefulSet("db")
	c := second.Status.Conditions
	if len(c) != 1 || c[0].Type != appsv1.StatefulSetProgressing || c[0].Status != corev1.ConditionFalse ||
		c[0].Reason != "RecreateCompleted" {
		t.Errorf("the conditions are %+v", c)
	}
	old, made := len(pods.Items), 0
	for made < 3 {
		e := <-events.ResultChan()
		p, ok := e.Object.(*corev1.Pod)
		switch {
		case !ok:
			t.Fatalf("%v", e)
		case e.Type == watch.Deleted && p.Labels[appsv1.StatefulSetRevisionLabel] == first.Status.UpdateRevision:
			old--
		case e.Type == watch.Added:
			if made++; old > 0 || p.Labels[appsv1.StatefulSetRevisionLabel] != second.Status.UpdateRevision {
				t.Errorf("%s was made beside %d pods of the revision before", p.Name, old)
			}
		}
	}
	want := []string{"persistentvolumeclaim/data-db-0", "persistentvolumeclaim/data-db-1", "persistentvolumeclaim/data-db-2"}
	if diff := cmp.Diff(want, b.names("persistentvolumeclaims", "app=db")); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// workOfStatefulSets has pods made, released, adopted, updated and deleted, claims made and given owners, and revisions made, raised and
// deleted.
func (b *bench) workOfStatefulSets() {
	b.Helper()
	b.createStatefulSet(statefulSet("db", 2))
	b.waitStatefulSet("db")
	b.Kubectl(b.T, "-n", b.ns, "label", "pod", "db-1", "app=other", "--overwrite")
	b.wait("the pod is released", func() error {
		if p := b.pod("db-1"); p == nil || metav1.GetControllerOf(p) != nil {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	b.Kubectl(b.T, "-n", b.ns, "label", "pod", "db-1", "app=db", "--overwrite")
	b.waitStatefulSet("db")
	for _, version := range []string{`"2"`, `null`, `"3"`, `"4"`} { // the second one raises a revision, the last one is one too many
		b.patchStatefulSet("db", `{"spec":{"template":{"metadata":{"annotations":{"version":`+version+`}}}}}`)
		b.waitStatefulSet("db")
	}
	b.wait("revisions beyond the limit are gone", func() error {
		if left := b.names("controllerrevisions", "app=db"); len(left) > 2 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
	b.patchStatefulSet("db",
		`{"spec":{"replicas":1,"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain","whenDeleted":"Delete"}}}`)
	b.waitStatefulSet("db")
}
