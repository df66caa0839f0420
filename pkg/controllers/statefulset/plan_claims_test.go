package statefulset

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestClaims(t *testing.T) {
	two := web(2, claims("data", "logs"))
	one := web(1, claims("data"))
	gone := func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: plantest.Epoch} }
	for _, c := range []row{
		{name: "STS-21 claims come before the pod", set: two, want: []string{"create data-web-0 | create logs-web-0", "create web-0"}},
		{name: "STS-21 only those that are missing", set: two, more: []plan.Object{claim("data-web-0")},
			want: []string{"create logs-web-0", "create web-0"}},
		{
			name: "STS-21 not while a claim is being deleted; the others are created", set: two,
			more: []plan.Object{claim("data-web-0", gone)},
			want: []string{"create logs-web-0",
				"Warning FailedCreate: Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"},
		},
		{
			name: "STS-22 a pending pod gets its claims back", set: one,
			pods: []*corev1.Pod{pod(one, 0, "v1", plantest.Phase(corev1.PodPending))},
			want: []string{"create data-web-0"},
		},
		{name: "STS-22 a running one does not", set: one, pods: []*corev1.Pod{pod(one, 0, "v1")}},
		{
			name: "STS-26 a claim that goes with an earlier pod is waited for", set: web(1, claims("data"), policy("Delete/Retain")),
			more: []plan.Object{claim("data-web-0", ownedBy("old pod web-0"))}, says: "is deleted with an earlier pod",
		},
	} {
		c.run(t)
	}
}

// TestRetention: a replica and a condemned pod with a claim each.
func TestRetention(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		inside, out  []string // owners that the claims have
		want         []string // how they are changed
	}{
		{"STS-23 by default claims belong to nobody", "", nil, nil, nil},
		{"STS-24a", "Retain/Retain", nil, nil, nil},
		{"STS-24b", "Retain/Delete", nil, nil, []string{"change data-web-0 of [uid-web]", "change data-web-1 of [uid-web]"}},
		{"STS-24c", "Delete/Retain", nil, nil, []string{"change data-web-1 of [uid-web-1]"}},
		{"STS-24d", "Delete/Delete", nil, nil, []string{"change data-web-0 of [uid-web]", "change data-web-1 of [uid-web-1]"}},
		{"STS-24b nothing to do", "Retain/Delete", []string{"set"}, []string{"set"}, nil},
		{"STS-24c a pod that is wanted again", "Delete/Retain", []string{"pod web-0"}, []string{"pod web-1"},
			[]string{"change data-web-0 of []"}},
		{"STS-28 back to the default", "Retain/Retain", []string{"set"}, []string{"pod web-1"},
			[]string{"change data-web-0 of []", "change data-web-1 of []"}},
		{"STS-25 other owners stay", "Retain/Delete", []string{"plain other"}, []string{"set"},
			[]string{"change data-web-0 of [uid-other uid-web]"}},
		{"STS-26 a reference to an earlier set", "Retain/Delete", []string{"old set"}, []string{"set"}, nil},
		{"STS-26 a reference to an earlier pod", "Delete/Retain", nil, []string{"old pod web-1"}, nil},
		{"STS-27 a reference that does not control is replaced", "Retain/Delete", []string{"plain set"}, []string{"set"},
			[]string{"change data-web-0 of [uid-web]"}},
		{
			"STS-27 a claim that another owner controls", "Retain/Delete", []string{"other"}, []string{"set"},
			[]string{"Warning ConflictingController: PersistentVolumeClaim data-web-0 is controlled by another owner: the retention " +
				"policy of StatefulSet web is ignored for it"},
		},
		{
			"STS-27 own references are taken off it", "Retain/Delete", []string{"other", "plain set"}, []string{"set"},
			[]string{
				"Warning ConflictingController: PersistentVolumeClaim data-web-0 is controlled by another owner: the retention policy of " +
					"StatefulSet web is ignored for it",
				"change data-web-0 of [uid-other]",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := web(1, claims("data"))
			if c.policy != "" {
				policy(c.policy)(set)
			}
			s := see(set, revision("v1", 1, set), pod(set, 0, "v1"), pod(set, 1, "v1"),
				claim("data-web-0", ownedBy(c.inside...)), claim("data-web-1", ownedBy(c.out...)))
			var got []string
			each(planned(plantest.Epoch, s).Steps, func(step plan.Step) { got = append(got, line(step)) })
			if diff := cmp.Diff(append(c.want, "delete web-1"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefusedClaims: a claim whose owner cannot be changed holds up the deletion of its pod, and no other pod.
func TestRefusedClaims(t *testing.T) {
	deletes := []edit{claims("data"), policy("Delete/Delete")}
	two := web(2, deletes...)
	twoParallel := web(2, append(deletes, parallel)...)
	ownedClaims := func(n int) (all []plan.Object) {
		for i := range n {
			all = append(all, claim(fmt.Sprint("data-web-", i), ownedBy("set")))
		}
		return all
	}
	for _, c := range []row{
		{
			name: "STS-25 a replica's claim, and the next pod", set: two, pods: []*corev1.Pod{pod(two, 0, "v1")},
			more: []plan.Object{claim("data-web-0")},
			want: []string{"change data-web-0 of [uid-web] | create data-web-1, create web-1"},
		},
		{
			name: "STS-25 with ordered pods, the claims of pods whose turn has not come", set: two,
			pods: []*corev1.Pod{pod(two, 0, "v1"), pod(two, 1, "v1"), pod(two, 2, "v1"), pod(two, 3, "v1")},
			more: append(ownedClaims(2), claim("data-web-2"), claim("data-web-3")),
			want: []string{"change data-web-2 of [uid-web-2] | change data-web-3 of [uid-web-3], delete web-3"},
		},
		{
			name: "STS-52 with parallel pods, each on its own", set: twoParallel,
			pods: []*corev1.Pod{pod(two, 0, "v1", plantest.Phase(corev1.PodFailed)), pod(two, 2, "v1"), pod(two, 3, "v1"),
				pod(two, 4, "v1")},
			more: []plan.Object{claim("data-web-0"), claim("data-web-2"), claim("data-web-3"), claim("data-web-4", ownedBy("pod web-4"))},
			want: []string{
				"change data-web-3 of [uid-web-3], delete web-3 | change data-web-2 of [uid-web-2], delete web-2 | delete web-4 | " +
					"change data-web-0 of [uid-web], delete web-0 | create data-web-1, create web-1",
			},
		},
		{
			name: "STS-55 a pod that is updated", set: web(1, append(deletes, image("v2"))...), pods: []*corev1.Pod{pod(two, 0, "v1")},
			more: []plan.Object{claim("data-web-0"), revision("v2", 2, two)},
			want: []string{"change data-web-0 of [uid-web]", "delete web-0"},
		},
	} {
		c.run(t)
	}
}

func TestConflictIsToldOnce(t *testing.T) { // STS-74
	set := web(1, claims("data"), policy("Retain/Delete"))
	s := see(set, revision("v1", 1, set), pod(set, 0, "v1"), claim("data-web-0", ownedBy("other")))
	if p := planned(plantest.Epoch, s); len(p.Steps) != 1 {
		t.Errorf("the first time: %v", lines(p.Steps))
	}
	d, _ := planSet(plantest.Epoch, s)
	m, _ := remember(plantest.Epoch, s, d, &memory{}, plan.Outcome{}, plan.Outcome{})
	s.Reported = m.Reported
	if p := planned(plantest.Epoch, s); !p.Empty() {
		t.Errorf("again: %v", lines(p.Steps))
	}
}

// A claim of another owner is there before the pod: that is said when the pod is there, and not lost.
func TestConflictIsToldWhenThePodIsThere(t *testing.T) { // STS-27, STS-74
	foreign := claim("data-web-0", ownedBy("other"))
	set := web(1, claims("data"), policy("Retain/Delete"))
	s := see(set, revision("v1", 1, set), foreign) // its pod is missing
	d, _ := planSet(plantest.Epoch, s)
	m, _ := remember(plantest.Epoch, s, d, &memory{}, plan.Outcome{}, plan.Outcome{})
	s = see(set, revision("v1", 1, set), pod(set, 0, "v1"), foreign)
	s.Reported = m.Reported
	if p := planned(plantest.Epoch, s); len(p.Steps) != 1 {
		t.Errorf("%v", lines(p.Steps))
	}
}

func TestSTS20NewClaim(t *testing.T) {
	set := web(1, claims("data"), policy("Delete/Delete"))
	set.Spec.VolumeClaimTemplates[0].Labels = map[string]string{"app": "other", "disk": "fast"}
	set.Spec.VolumeClaimTemplates[0].Annotations = map[string]string{"note": "x"}
	set.Spec.VolumeClaimTemplates[0].Spec.VolumeName = "v"
	want := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: plantest.Namespace, Name: "data-web-7", Labels: map[string]string{"app": "web", "disk": "fast"},
			Annotations:     map[string]string{"note": "x"},
			OwnerReferences: []metav1.OwnerReference{reference("set")},
		},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"},
	}
	if diff := cmp.Diff(want, newClaim(set, &set.Spec.VolumeClaimTemplates[0], 7)); diff != "" {
		t.Errorf("STS-20, STS-24d (-want +got):\n%s", diff)
	}
}

func TestSTS13NewPod(t *testing.T) {
	set := web(1, claims("data", "logs"))
	template := &set.Spec.Template
	template.Annotations, template.Finalizers = map[string]string{"note": "x"}, []string{"example.com/f"}
	template.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "tmp"}}
	got := newPod(set, 7, template, "web-abc")
	volume := func(name string) corev1.Volume {
		source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-web-7"}
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source}}
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: plantest.Namespace, Name: "web-7", GenerateName: "web-", Annotations: template.Annotations,
			Finalizers: template.Finalizers,
			Labels: map[string]string{
				"app": "web", "statefulset.kubernetes.io/pod-name": "web-7", "apps.kubernetes.io/pod-index": "7",
				"controller-revision-hash": "web-abc",
			},
			OwnerReferences: []metav1.OwnerReference{reference("set")},
		},
		Spec: corev1.PodSpec{
			Containers: template.Spec.Containers, Hostname: "web-7", Subdomain: "web",
			Volumes: []corev1.Volume{volume("data"), volume("logs"), {Name: "tmp"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("STS-13, STS-14 (-want +got):\n%s", diff)
	}
}

func TestSplitName(t *testing.T) {
	for _, c := range []struct {
		name, set string
		ordinal   int
		ok        bool
	}{
		{"web-0", "web", 0, true},
		{"web-1-12", "web-1", 12, true},
		{"web-2147483647", "web", 2147483647, true},
		{"web-2147483648", "", 0, false}, // STS-11
		{"web-007", "", 0, false},        // STS-103
		{"web--1", "web-", 1, true},
		{"web-+1", "", 0, false},
		{"web-", "", 0, false},
		{"web", "", 0, false},
		{"-1", "", 0, false},
		{"", "", 0, false},
	} {
		set, ordinal, ok := splitName(c.name)
		if set != c.set || ordinal != c.ordinal || ok != c.ok {
			t.Errorf("%q: %q, %d, %t", c.name, set, ordinal, ok)
		}
	}
}

// TestEnqueues: whose claim it is that has gone is read from its name, in which any part may have dashes.
func TestEnqueues(t *testing.T) {
	sets := map[string]*appsv1.StatefulSet{}
	for _, name := range []string{"web", "a-web", "db-1"} {
		set := web(1, claims("data", "my-data"))
		set.Name, set.UID = name, types.UID("uid-"+name)
		sets[name] = set
	}
	o := ownersAmong(sets)
	for claimed, want := range map[string]string{
		"data-web-0": "web", "my-data-web-0": "web", "data-a-web-0": "a-web", "data-db-1-3": "db-1", "logs-web-0": "", "data-web": "",
		"data-web-00": "", "x": "",
	} {
		var got string
		for _, key := range o.enqueuesByClaim(claim(claimed), nil) {
			got += key.Name
		}
		if got != want {
			t.Errorf("STS-102 %s: got %q, want %q", claimed, got, want)
		}
		if keys := o.enqueuesByClaim(nil, claim(claimed)); keys != nil {
			t.Errorf("STS-1 a claim that is new enqueues %v", keys)
		}
	}
	other := pod(sets["web"], 0, "v1", orphan)
	if keys := o.enqueuesByPod(other, nil); len(keys) != 1 || keys[0].Name != "web" {
		t.Errorf("STS-53 a pod that had the name of a member: %v", keys)
	}
	if keys := o.enqueuesByPod(pod(sets["web"], 0, "v1"), nil); len(keys) != 1 {
		t.Errorf("STS-2 an own pod: %v", keys)
	}
}

func ownersAmong(sets map[string]*appsv1.StatefulSet) *owners {
	o := &owners{}
	o.Kind, o.Get = "StatefulSet", func(_, name string) *appsv1.StatefulSet { return sets[name] }
	o.In = func(string) []*appsv1.StatefulSet { return nil }
	return o
}

func TestEnqueuesByPod(t *testing.T) {
	set := web(1)
	o := ownersAmong(map[string]*appsv1.StatefulSet{"web": set})
	later := metav1.NewTime(plantest.Epoch.Add(time.Hour))
	for _, c := range []struct {
		name string
		edit podEdit
		want bool
	}{
		{"what no reconcile reads", func(p *corev1.Pod) {
			p.ResourceVersion, p.Annotations, p.Spec.NodeName, p.Status.PodIP = "2", map[string]string{"a": "b"}, "n", "10.0.0.1"
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, LastTransitionTime: later})
		}, false},
		{"STS-22, STS-45 the phase", plantest.Phase(corev1.PodPending), true},
		{"STS-60a no phase", func(p *corev1.Pod) { p.Status.Phase = "" }, true},
		{"STS-60b readiness", unready, true},
		{"STS-7 since when it is ready", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = later }, true},
		{"STS-100 the start", func(p *corev1.Pod) { p.Status.StartTime = &later }, true},
		{"STS-49 the deletion", plantest.Terminating, true},
		{"STS-10 the owner", orphan, true},
		{"STS-55 the revision", func(p *corev1.Pod) { p.Labels[appsv1.StatefulSetRevisionLabel] = "web-x" }, true},
		{"STS-15 the labels", relabelled, true},
		{"STS-53 another pod of the name", func(p *corev1.Pod) { p.UID = "x" }, true},
	} {
		if keys := o.enqueuesByPod(pod(set, 0, "v1"), pod(set, 0, "v1", c.edit)); (len(keys) > 0) != c.want {
			t.Errorf("%s: %v", c.name, keys)
		}
	}
}
