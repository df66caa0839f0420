package oracle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestDiff(t *testing.T) { // L2
	end := func(edit func(*scene, Object)) []Object {
		s := newScene()
		s.version = int64(len(t.Name())) // other uids
		d, _, _ := settledScene(s)
		if edit != nil {
			edit(s, d)
		}
		return Final(&s.History)
	}
	other := newScene()
	other.n, other.version = 40, 1000 // other names, addresses, uids
	other.Wait(time.Hour)
	settledScene(other)
	if diff := Diff(end(nil), Final(&other.History), nil); len(diff) > 0 {
		t.Errorf("equal but for chance, and the difference is\n%s", strings.Join(diff, "\n"))
	}
	more := end(func(s *scene, d Object) { s.User().Create(s.aPod(s.Revisions[2].Object)) })
	if diff := Diff(end(nil), more, nil); len(diff) != 1 || !strings.HasPrefix(diff[0], "+ Pod shop/web-*-*") {
		t.Errorf("a pod more: %q", diff)
	}
	reasons := end(func(s *scene, d Object) {
		s.Manager().Edit(d, says("True", "False", "ProgressDeadlineExceeded", s.Now))
	})
	if diff := Diff(end(nil), reasons, nil); len(diff) != 2 {
		t.Errorf("other conditions: %q", diff)
	}
	renamed := end(nil)
	for _, o := range renamed {
		o.SetNamespace("elsewhere")
	}
	if diff := Diff(end(nil), renamed, nil); len(diff) == 0 {
		t.Error("other namespaces are no difference")
	}
	if diff := Diff(end(nil), renamed, func(string) string { return "*" }); len(diff) > 0 {
		t.Errorf("other namespaces, masked: %q", diff)
	}
}

// Of slices, the names and addresses are chance, but not the pods and whether they are ready.
func TestDiffOfSlices(t *testing.T) { // L2
	end := func(others int, up bool) []Object {
		s := newScene()
		s.n, s.version = others, int64(others)
		_, _, pod := settledScene(s)
		slice := aSlice(fmt.Sprint("web-", others), sliceController, pod)
		slice.GenerateName = "web-"
		slice.Endpoints[0].Conditions.Ready = &up
		s.Manager().Create(slice)
		// the original's have no generateName
		mirrored := aSlice(fmt.Sprint("hand-", others), "endpointslicemirroring-controller.k8s.io", pod)
		mirrored.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Endpoints", Name: "hand", UID: "u-hand",
			Controller: ptr.To(true)}}
		s.Manager().Create(mirrored)
		return Final(&s.History)
	}
	if diff := Diff(end(10, true), end(40, true), nil); len(diff) > 0 {
		t.Errorf("equal but for chance, and the difference is\n%s", strings.Join(diff, "\n"))
	}
	if diff := Diff(end(10, true), end(40, false), nil); len(diff) != 2 {
		t.Errorf("a pod is not ready: %q", diff)
	}
}

// Of Jobs and DaemonSets, uids, hashes and the namespace in the names of nodes are chance, but not what has become of them.
func TestDiffOfOtherWorkloads(t *testing.T) { // L2
	end := func(namespace string, succeeded int32) []Object {
		labels := func() map[string]string {
			return map[string]string{batchv1.ControllerUidLabel: namespace + "-uid", "controller-uid": namespace + "-uid", "app": "sum"}
		}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sum", UID: types.UID(namespace + "-uid"),
			Labels: labels()}}
		job.Spec.Selector, job.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels()}, labels()
		job.Status.Succeeded = succeeded
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent-" + namespace, GenerateName: "agent-",
			UID:    types.UID(namespace),
			Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: namespace}}}
		pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": namespace + "-000"}
		return []Object{job, pod}
	}
	same := func(string) string { return "*" }
	if diff := Diff(end("shop", 2), end("test-1", 2), same); len(diff) > 0 {
		t.Errorf("equal but for chance: %q", diff)
	}
	if diff := Diff(end("shop", 2), end("test-1", 3), same); len(diff) != 2 || !strings.HasPrefix(diff[0][2:], "Job */sum") {
		t.Errorf("one more has succeeded: %q", diff)
	}
}

func TestRecoveryAndTakeover(t *testing.T) { // L4, L5
	s := newScene()
	a, b := s.Manager().As("a"), s.Manager().As("b")
	lease := a.Create(aLease("one"))
	set := s.User().Create(aSet(nil, "a", 3))
	died := s.Now
	s.Wait(5 * time.Second)
	lease = s.User().Edit(lease, holds("one"))
	if _, ok := Takeover(&s.History, Options{}, died); ok {
		t.Error("a takeover by the same holder (L5)")
	}
	s.Wait(7 * time.Second)
	b.Edit(lease, holds("two"))
	if took, ok := Takeover(&s.History, Options{}, died); !ok || took < 12*time.Second || took > 13*time.Second {
		t.Errorf("the takeover took %v, %v (L5)", took, ok)
	}
	over := s.Now
	s.Wait(3 * time.Second)
	b.Create(s.aPod(set))
	s.User().Create(aNode())
	if took := Recovery(&s.History, Options{}, over); took < 3*time.Second || took > 4*time.Second {
		t.Errorf("recovery took %v (L4)", took)
	}
	b.Edit(set, observe)
	if took := Recoveries(&s.History, Options{}, over); len(took) != 2 || took[ReplicaSet] <= took[Pod] || took[Pod] < 3*time.Second {
		t.Errorf("recoveries took %v (L4)", took)
	}
	if took := Recovery(&s.History, Options{}, s.Now); took != 0 {
		t.Errorf("recovery took %v though nothing was written (L4)", took)
	}
}
