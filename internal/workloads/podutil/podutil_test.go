package podutil

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*corev1.Pod)

// pod is running, and ready since the given time before now.
func pod(since time.Duration, edits ...edit) *corev1.Pod {
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-since))},
	}}}
	for _, e := range edits {
		e(p)
	}
	return p
}

func ready(s corev1.ConditionStatus) edit {
	return func(p *corev1.Pod) { p.Status.Conditions[1].Status = s }
}

func sinceNever(p *corev1.Pod) { p.Status.Conditions[1].LastTransitionTime = metav1.Time{} }

func bare(p *corev1.Pod) { p.Status.Conditions = nil }

func phase(ph corev1.PodPhase) edit { return func(p *corev1.Pod) { p.Status.Phase = ph } }

func deleted(p *corev1.Pod) { t := metav1.NewTime(now); p.DeletionTimestamp = &t }

func TestLife(t *testing.T) {
	for _, c := range []struct {
		name                          string
		p                             *corev1.Pod
		active, terminating, finished bool
	}{
		{"RS-12 running", pod(0), true, false, false},
		{"RS-12 pending", pod(0, phase(corev1.PodPending)), true, false, false},
		{"RS-12 unknown", pod(0, phase(corev1.PodUnknown)), true, false, false},
		{"RS-12 without a phase", pod(0, phase("")), true, false, false},
		{"RS-12 succeeded", pod(0, phase(corev1.PodSucceeded)), false, false, true},
		{"RS-12 failed", pod(0, phase(corev1.PodFailed)), false, false, true},
		{"RS-45 being deleted", pod(0, deleted), false, true, false},
		{"RS-45 being deleted, but finished", pod(0, deleted, phase(corev1.PodFailed)), false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a, d, f := Active(c.p), Terminating(c.p), Finished(c.p); a != c.active || d != c.terminating || f != c.finished {
				t.Errorf("active %t, terminating %t, finished %t", a, d, f)
			}
		})
	}
}

func TestReadiness(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name             string
		p                *corev1.Pod
		minReady         int32
		ready, available bool
		in               time.Duration
	}{
		{"RS-43 ready", pod(0), 0, true, true, 0},
		{"RS-43 not ready", pod(9*s, ready(corev1.ConditionFalse)), 0, false, false, 0},
		{"RS-43 not known whether ready", pod(9*s, ready(corev1.ConditionUnknown)), 0, false, false, 0},
		{"RS-43 no condition", pod(9*s, bare), 0, false, false, 0},
		{"RS-44 ready, waits", pod(4 * s), 10, true, false, 6 * s},
		{"RS-44 waits to the nanosecond", pod(10*s - 1), 10, true, false, 1},
		{"RS-44 has waited just enough", pod(10 * s), 10, true, true, 0},
		{"RS-44 has waited longer", pod(99 * s), 10, true, true, 0},
		{"RS-44 ready in the future", pod(-5 * s), 10, true, false, 15 * s},
		{"RS-44 ready since no one knows when", pod(0, sinceNever), 10, true, false, 0},
		{"RS-44 which does not matter without minReadySeconds", pod(0, sinceNever), 0, true, true, 0},
		{"RS-44 not ready, and no time will help", pod(99*s, ready(corev1.ConditionFalse)), 10, false, false, 0},
		{"RS-44 the longest minReadySeconds", pod(0), 1<<31 - 1, true, false, (1<<31 - 1) * s},
		{"RS-44 a negative one is none", pod(0), -1, true, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, a, in := Ready(c.p), Available(c.p, c.minReady, now), AvailableIn(c.p, c.minReady, now)
			if r != c.ready || a != c.available || in != c.in {
				t.Errorf("ready %t, available %t, in %s", r, a, in)
			}
		})
	}
}

func TestCount(t *testing.T) {
	const s = time.Second
	pods := []*corev1.Pod{
		pod(20 * s), pod(4 * s), pod(7 * s), pod(9*s, ready(corev1.ConditionFalse)), pod(0, sinceNever),
		pod(9*s, deleted), pod(9*s, phase(corev1.PodFailed)), pod(9*s, phase(corev1.PodSucceeded), deleted),
	}
	want := Counts{Active: 5, Ready: 4, Available: 1, Terminating: 1, Next: 3 * s}
	if diff := cmp.Diff(want, Count(pods, 10, now)); diff != "" {
		t.Error(diff)
	}
	want = Counts{Active: 5, Ready: 4, Available: 4, Terminating: 1}
	if diff := cmp.Diff(want, Count(pods, 0, now)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Counts{}, Count(nil, 10, now)); diff != "" {
		t.Error(diff)
	}
}

// The numbers agree with one another, the input stays as it is, and when Next has passed, and not before, one more pod is
// available.
func TestCountProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.SliceOfN(podGen(), 0, 8).Draw(t, "pods")
		minReady := rapid.SampledFrom([]int32{0, 1, 10, 60}).Draw(t, "minReadySeconds")
		before := make([]*corev1.Pod, len(pods))
		for i, p := range pods {
			before[i] = p.DeepCopy()
		}
		c := Count(pods, minReady, now)
		if diff := cmp.Diff(before, pods); diff != "" {
			t.Fatal(diff)
		}
		if c.Available > c.Ready || c.Ready > c.Active || int(c.Active+c.Terminating) > len(pods) || c.Next < 0 ||
			minReady == 0 && c.Next != 0 {
			t.Fatalf("%+v", c)
		}
		if c.Next > 0 {
			if n := Count(pods, minReady, now.Add(c.Next-1)).Available; n != c.Available {
				t.Fatalf("%d available before %s, %d now", n, c.Next, c.Available)
			}
			if n := Count(pods, minReady, now.Add(c.Next)).Available; n <= c.Available {
				t.Fatalf("%d available after %s, %d now", n, c.Next, c.Available)
			}
		} else if n := Count(pods, minReady, now.Add(24*time.Hour)).Available; n != c.Available {
			t.Fatalf("nothing is waited for, and yet %d become %d", c.Available, n)
		}
	})
}

// A change that a pod's owner is not told of changes none of its numbers, now or later.
func TestCountsAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := podGen().Draw(t, "a")
		b := a.DeepCopy()
		if rapid.Bool().Draw(t, "another") {
			b = podGen().Draw(t, "b")
		}
		b.ResourceVersion, b.Status.PodIP = "9", "10.0.0.1"
		if CountsAlike(a, b) != CountsAlike(b, a) {
			t.Fatal("it depends on the order")
		}
		if !CountsAlike(a, a.DeepCopy()) {
			t.Fatal("a pod is not like itself")
		}
		if !CountsAlike(a, b) {
			return
		}
		later := now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "later")) * time.Second)
		for _, minReady := range []int32{0, 10} {
			if diff := cmp.Diff(Count([]*corev1.Pod{a}, minReady, later), Count([]*corev1.Pod{b}, minReady, later)); diff != "" {
				t.Fatal(diff)
			}
		}
		if a.UID != b.UID || !cmp.Equal(a.Labels, b.Labels) || metav1.IsControlledBy(a, owned) != metav1.IsControlledBy(b, owned) {
			t.Fatal("it may belong to somebody else")
		}
	})
}

var owned = &metav1.ObjectMeta{Name: "owner", UID: "owner"}

func podGen() *rapid.Generator[*corev1.Pod] {
	return rapid.Custom(func(t *rapid.T) *corev1.Pod {
		p := pod(time.Duration(rapid.SampledFrom([]int{-5, 0, 1, 9, 10, 30, 100}).Draw(t, "since")) * time.Second)
		p.UID = types.UID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "uid"))
		p.Labels = map[string]string{"app": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "app")}
		if rapid.Bool().Draw(t, "owned") {
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owned, corev1.SchemeGroupVersion.WithKind("X"))}
		}
		for _, e := range rapid.SliceOfN(rapid.SampledFrom([]edit{deleted, phase(corev1.PodFailed), ready(corev1.ConditionFalse),
			sinceNever}), 0, 1).Draw(t, "edits") {
			e(p)
		}
		return p
	})
}

func TestClaims(t *testing.T) { // SM-32
	volume := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		volume("token", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		volume("a", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}),
		volume("b", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
	}}}
	if got := Claims(p); !slices.Equal(got, []string{"data", "web-b"}) {
		t.Error(got)
	}
	if got := Claims(&corev1.Pod{}); got != nil {
		t.Error(got)
	}
}
