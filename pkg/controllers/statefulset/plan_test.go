package statefulset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// row is a world, what the set is to do in it, and what it says. The revision with the image v1 is there, with the number 1.
type row struct {
	name string
	set  *appsv1.StatefulSet
	pods []*corev1.Pod
	more []plan.Object // claims and other revisions
	edit func(*snapshot)
	want []string
	says string // a part of why
}

func (c row) run(t *testing.T) {
	t.Helper()
	t.Run(c.name, func(t *testing.T) {
		t.Helper()
		objects := append([]plan.Object{revision("v1", 1, c.set)}, c.more...)
		for _, p := range c.pods {
			objects = append(objects, p)
		}
		s := see(c.set, objects...)
		if c.edit != nil {
			c.edit(&s)
		}
		p := planned(plantest.Epoch.Add(10*time.Second), s)
		if diff := cmp.Diff(c.want, lines(p.Steps)); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		if !strings.Contains(p.Why, c.says) {
			t.Errorf("says %q, want %q", p.Why, c.says)
		}
	})
}

func TestOrdered(t *testing.T) {
	three := web(3)
	for _, c := range []row{
		{name: "STS-90 the first pod", set: three, want: []string{"create web-0"}},
		{name: "STS-46 the next one when all lower ones are available", set: three, pods: []*corev1.Pod{pod(three, 0, "v1")},
			want: []string{"create web-1"}},
		{
			name: "STS-45 d not ready: the others wait", set: three, pods: []*corev1.Pod{pod(three, 0, "v1", unready)},
			says: "pod web-0 is not running and ready, the others wait for it",
		},
		{name: "STS-45 c being deleted: nothing takes its place yet", set: three,
			pods: []*corev1.Pod{pod(three, 0, "v1", plantest.Terminating)}, says: "is being deleted"},
		{
			name: "STS-45 a a failed pod is deleted", set: three,
			pods: []*corev1.Pod{pod(three, 0, "v1", plantest.Phase(corev1.PodFailed)), pod(three, 1, "v1")}, want: []string{"delete web-0"},
		},
		{name: "STS-45 a so is one that succeeded", set: three,
			pods: []*corev1.Pod{pod(three, 0, "v1", plantest.Phase(corev1.PodSucceeded))}, want: []string{"delete web-0"}},
		{
			name: "STS-45 a but not twice", set: three,
			pods: []*corev1.Pod{pod(three, 0, "v1", plantest.Phase(corev1.PodFailed), plantest.Terminating)},
			says: "is being deleted",
		},
		{
			name: "STS-45 e ready, but not for long enough", set: web(3, minReady(30)), pods: []*corev1.Pod{pod(three, 0, "v1")},
			says: "is not ready for long enough yet",
		},
		{name: "STS-12 the first ordinal", set: web(2, from(5)), want: []string{"create web-5"}},
		{
			name: "STS-12 pods below the start are too many", set: web(1, from(1)),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1")},
			want: []string{"delete web-0"},
		},
		{
			name: "STS-47 the highest goes first", set: web(1),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1"), pod(three, 2, "v1")},
			want: []string{"delete web-2"},
		},
		{
			name: "STS-47 one at a time", set: web(1),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1"), pod(three, 2, "v1", plantest.Terminating)},
			says: "scaling down waits",
		},
		{
			name: "STS-92 nothing goes while a lower one is not ready", set: web(1),
			pods: []*corev1.Pod{pod(three, 0, "v1", unready), pod(three, 1, "v1")},
			says: "pod web-0 is not running and ready",
		},
		{
			name: "STS-47 the only unready one of those that are too many goes", set: web(1),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1"), pod(three, 2, "v1", unready)}, want: []string{"delete web-2"},
		},
		{
			name: "STS-47 an unready one waits for a lower unready one", set: web(1),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1", unready), pod(three, 2, "v1", unready)},
			says: "pod web-2, which is too many, is not running and ready, nor is web-1 available",
		},
		{
			name: "STS-47 also if none is wanted", set: web(0),
			pods: []*corev1.Pod{pod(three, 0, "v1", unready), pod(three, 1, "v1", unready), pod(three, 2, "v1", unready)},
			says: "nor is web-0 available",
		},
		{
			name: "STS-101 one that has never been ready does not wait if that is asked for", set: web(1),
			edit: func(s *snapshot) { s.ReplaceStuckPods = true },
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1", unready), pod(three, 2, "v1", stuck)},
			want: []string{"delete web-2"},
		},
		{
			name: "STS-47 a ready one does not wait", set: web(1),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1", unready), pod(three, 2, "v1")}, want: []string{"delete web-2"},
		},
		{
			name: "STS-101 one that has finished does not wait", set: web(1),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1", unready), pod(three, 2, "v1", plantest.Phase(corev1.PodFailed))},
			want: []string{"delete web-2"},
		},
		{
			name: "STS-101 nor does another one wait for it", set: web(1),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1", plantest.Phase(corev1.PodFailed)), pod(three, 2, "v1", unready)},
			want: []string{"delete web-2"},
		},
		{name: "STS-6 a set that is being deleted does nothing", set: web(3, deleted), says: "garbage collector"},
		{name: "STS-53 the name is taken by another pod", set: three, pods: []*corev1.Pod{pod(three, 0, "v1", relabelled, orphan)},
			says: "another pod has its name"},
		{name: "STS-49 a pod that cannot be adopted any more is waited for", set: three,
			pods: []*corev1.Pod{pod(three, 0, "v1", orphan, plantest.Terminating)}, says: "another pod has its name"},
	} {
		c.run(t)
	}
}

func TestParallel(t *testing.T) {
	three := web(3, parallel)
	for _, c := range []row{
		{name: "STS-52 all at once, in growing batches", set: web(4, parallel),
			want: []string{"create web-0", "create web-1 | create web-2", "create web-3"}},
		{
			name: "STS-52 does not wait for readiness", set: three, pods: []*corev1.Pod{pod(three, 0, "v1", unready)},
			want: []string{"create web-1", "create web-2"},
		},
		{
			name: "STS-53 a pod that is being deleted keeps its name", set: three,
			pods: []*corev1.Pod{pod(three, 1, "v1", plantest.Terminating)},
			want: []string{"create web-0", "create web-2"},
		},
		{
			name: "STS-45 a an outdated pod that has finished is deleted once", set: web(1, parallel, image("v2")),
			pods: []*corev1.Pod{pod(three, 0, "v1", plantest.Phase(corev1.PodFailed))}, more: []plan.Object{revision("v2", 2, three)},
			want: []string{"delete web-0"},
		},
		{
			name: "STS-52 all that are too many go at once", set: web(1, parallel),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1", unready), pod(three, 2, "v1"),
				pod(three, 3, "v1", plantest.Terminating)},
			want: []string{"delete web-2 web-1"},
		},
		{
			name: "MEND-3 those that are too many do not wait for those that are missing", set: web(2, parallel),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 2, "v1"), pod(three, 3, "v1"), pod(three, 4, "v1")},
			want: []string{"delete web-4 web-3 web-2 | create web-1"},
		},
		{
			name: "STS-52 what was refused comes last", set: web(4, parallel), edit: func(s *snapshot) { s.Refused = []int{0} },
			want: []string{"create web-1", "create web-2 | create web-3", "create web-0"},
		},
		{
			name: "STS-52 in the order in which it was refused", set: web(4, parallel),
			edit: func(s *snapshot) { s.Refused = []int{2, 0, 7} },
			want: []string{"create web-1", "create web-3 | create web-2", "create web-0"},
		},
		{
			name: "STS-55 the update is one at a time", set: web(3, parallel, image("v2")),
			pods: []*corev1.Pod{pod(three, 0, "v1"), pod(three, 1, "v1"), pod(three, 2, "v1")},
			more: []plan.Object{revision("v2", 2, three)}, want: []string{"delete web-2"},
		},
	} {
		c.run(t)
	}
}

// STS-52: what the server has refused is remembered until it is there or no longer wanted.
func TestSTS52Refusals(t *testing.T) {
	four := web(4, parallel, claims("data"))
	no := errors.New("no")
	created := func(o plan.Object, err error) plan.Result {
		return plan.Result{Verb: plan.Created, Object: o, Err: err}
	}
	for _, c := range []struct {
		name   string
		before []int
		did    []plan.Result
		want   []int
	}{
		{"nothing was refused", nil, []plan.Result{created(claim("data-web-0"), nil), created(pod(four, 0, "v1"), nil)}, nil},
		{"a claim", nil, []plan.Result{created(claim("data-web-0"), no)}, []int{0}},
		{"a pod, whose claim was created", nil, []plan.Result{created(claim("data-web-2"), nil), created(pod(four, 2, "v1"), no)},
			[]int{2}},
		{"once more", []int{0, 2}, []plan.Result{created(claim("data-web-0"), no)}, []int{2, 0}},
		{"no more", []int{0, 2}, []plan.Result{created(claim("data-web-0"), nil)}, []int{2}},
		{"one that is there, and one that is not wanted any more", []int{3, 9, 1}, nil, []int{1}},
		{"something else", nil, []plan.Result{created(revision("v2", 2, four), no)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := see(four, revision("v1", 1, four), pod(four, 3, "v1"))
			s.Refused = c.before
			d, _ := planSet(plantest.Epoch, s)
			got, _ := remember(plantest.Epoch, s, d, &memory{}, plan.Outcome{Results: c.did}, plan.Outcome{})
			if !slices.Equal(got.Refused, c.want) {
				t.Errorf("%v, want %v", got.Refused, c.want)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	three := web(3)
	v2 := []plan.Object{revision("v2", 2, three)}
	pods := func(images ...string) (all []*corev1.Pod) {
		for i, img := range images {
			all = append(all, pod(three, i, img))
		}
		return all
	}
	withLast := func(all []*corev1.Pod, e podEdit) []*corev1.Pod {
		e(all[len(all)-1])
		return all
	}
	for _, c := range []row{
		{name: "STS-33 a new template is a new revision", set: web(3, image("v2")), pods: pods("v1", "v1", "v1"),
			want: []string{"create revision 2", "delete web-2"}},
		{name: "STS-55 the highest goes first", set: web(3, image("v2")), more: v2, pods: pods("v1", "v1", "v1"),
			want: []string{"delete web-2"}},
		{name: "STS-55 then the next one", set: web(3, image("v2")), more: v2, pods: pods("v1", "v1", "v2"),
			want: []string{"delete web-1"}},
		{name: "STS-55 waits for the one before", set: web(3, image("v2")), more: v2, pods: withLast(pods("v1", "v1", "v2"), unready),
			says: "pod web-2 is not running and ready"},
		{name: "STS-55 waits until the old one is gone", set: web(3, image("v2")), more: v2,
			pods: withLast(pods("v1", "v1", "v1"), plantest.Terminating), says: "is being deleted"},
		{name: "STS-56 not below the partition", set: web(3, image("v2"), partition(2)), more: v2, pods: pods("v1", "v1", "v2")},
		{name: "STS-56 a partition beyond all", set: web(3, image("v2"), partition(9)), more: v2, pods: pods("v1", "v1", "v1")},
		{name: "STS-12 the partition counts from the start", set: web(2, image("v2"), from(1), partition(1)), more: v2,
			pods: pods("v1", "v1", "v1")[1:], want: []string{"delete web-2"}},
		{name: "STS-57 on deletion nothing is deleted", set: web(3, image("v2"), onDelete), more: v2, pods: pods("v1", "v1", "v1")},
		{name: "STS-48 scaling comes first", set: web(2, image("v2")), more: v2, pods: pods("v1", "v1", "v1"),
			want: []string{"delete web-2"}},
		{name: "STS-93 a missing pod comes first", set: web(3, image("v2")), more: v2, pods: append(pods("v1"), pod(three, 2, "v1")),
			want: []string{"create web-1"}},
		{
			name: "STS-33 back to the template before: no new revision", set: web(3), more: v2, pods: pods("v1", "v1", "v2"),
			want: []string{"change revision 3", "delete web-2"},
		},
		{name: "STS-100 a rollout that is stuck says so", set: web(3), more: v2, pods: withLast(pods("v1", "v1", "v2"), stuck),
			want: []string{"change revision 3"}, says: "the rollout is stuck"},
		{
			name: "STS-100 and goes on if that is asked for", set: web(3), more: v2, pods: withLast(pods("v1", "v1", "v2"), stuck),
			edit: func(s *snapshot) { s.ReplaceStuckPods = true }, want: []string{"change revision 3", "delete web-2"},
		},
		{
			name: "STS-100 not over a pod that was ready once", set: web(3), more: v2, pods: withLast(pods("v1", "v1", "v2"), unready),
			edit: func(s *snapshot) { s.ReplaceStuckPods = true }, want: []string{"change revision 3"},
		},
		{
			name: "STS-100 nor over one of the wanted revision", set: web(3), pods: withLast(pods("v1", "v1", "v1"), stuck),
			edit: func(s *snapshot) { s.ReplaceStuckPods = true }, says: "is not running and ready",
		},
	} {
		c.run(t)
	}
}

func TestMaxUnavailable(t *testing.T) {
	four := web(4, parallel)
	v2 := []plan.Object{revision("v2", 2, four)}
	all := func(edits ...podEdit) (pods []*corev1.Pod) {
		for i := range 4 {
			p := pod(four, i, "v1")
			if i < len(edits) && edits[i] != nil {
				edits[i](p)
			}
			pods = append(pods, p)
		}
		return pods
	}
	on := func(s *snapshot) { s.MaxUnavailable = true }
	for _, c := range []row{
		{name: "STS-58 several at once", set: web(4, parallel, image("v2"), most("2")), more: v2, pods: all(), edit: on,
			want: []string{"delete web-3 web-2"}},
		{name: "STS-58 a percentage is rounded down", set: web(4, parallel, image("v2"), most("74%")), more: v2, pods: all(), edit: on,
			want: []string{"delete web-3 web-2"}},
		{name: "STS-58 at least one", set: web(4, parallel, image("v2"), most("1%")), more: v2, pods: all(), edit: on,
			want: []string{"delete web-3"}},
		{name: "STS-58 one if nothing is said", set: web(4, parallel, image("v2")), more: v2, pods: all(), edit: on,
			want: []string{"delete web-3"}},
		{name: "STS-58 nonsense counts as one", set: web(4, parallel, image("v2"), most("x")), more: v2, pods: all(), edit: on,
			want: []string{"delete web-3"}},
		{name: "STS-58 unavailable pods count", set: web(4, parallel, image("v2"), most("2")), more: v2, pods: all(unready), edit: on,
			want: []string{"delete web-3 web-0"}},
		{name: "MEND-5 but not below the partition", set: web(4, parallel, image("v2"), most("1"), partition(2)), more: v2,
			pods: all(unready), edit: on, want: []string{"delete web-3"}},
		{name: "MEND-5 one at a time", set: web(4, parallel, image("v2"), most("1"), partition(2)), more: v2,
			pods: all(unready, nil, nil, plantest.Terminating), edit: on, says: "1 pods are not available"},
		{name: "MEND-6 a percentage is one of the pods above the partition", set: web(4, parallel, image("v2"), most("50%"), partition(2)),
			more: v2, pods: all(), edit: on, want: []string{"delete web-3"}},
		{name: "MEND-6 ordered pods, too", set: web(4, image("v2"), most("50%"), partition(2)), more: v2, pods: all(), edit: on,
			want: []string{"delete web-3"}},
		{name: "MEND-6 a partition beyond all", set: web(4, parallel, image("v2"), most("50%"), partition(9)), more: v2, pods: all(),
			edit: on},
		{
			name: "STS-58 outdated pods that are not ready go, however many they are", set: web(4, parallel, image("v2"), most("1")),
			more: v2,
			pods: all(nil, unready, unready, unready), edit: on, want: []string{"delete web-3 web-2 web-1"},
		},
		{
			name: "STS-58 one that is ready, but not for long enough, is waited for",
			set:  web(4, parallel, image("v2"), most("2"), minReady(30)), more: v2,
			pods: all(nil, nil, nil, unready), edit: on, want: []string{"delete web-3"},
		},
		{name: "STS-58 ordered pods, too", set: web(4, image("v2"), most("2")), more: v2, pods: all(), edit: on,
			want: []string{"delete web-3 web-2"}},
		{name: "STS-58 of which none goes while one is not available", set: web(4, image("v2"), most("2")), more: v2,
			pods: all(nil, nil, nil, unready), edit: on, says: "web-3 is not running and ready"},
		{name: "STS-58 so do those that are being deleted", set: web(4, parallel, image("v2"), most("2")), more: v2,
			pods: all(plantest.Terminating, plantest.Terminating), edit: on},
		{name: "STS-58 an outdated pod that is unavailable anyway costs nothing", set: web(4, parallel, image("v2"), most("1")), more: v2,
			pods: all(nil, nil, nil, unready), edit: on, want: []string{"delete web-3"}},
		{name: "STS-58 down to the partition", set: web(4, parallel, image("v2"), most("4"), partition(2)), more: v2, pods: all(), edit: on,
			want: []string{"delete web-3 web-2"}},
		{name: "STS-58 without the gate one at a time", set: web(4, parallel, image("v2"), most("2")), more: v2, pods: all(),
			want: []string{"delete web-3"}},
	} {
		c.run(t)
	}
}

// V38-36, V37-43: all pods of earlier revisions go at once, and nothing is made while one of them is left.
func TestRecreate(t *testing.T) {
	three := web(3)
	v2 := []plan.Object{revision("v2", 2, three)}
	pods := func(images ...string) (all []*corev1.Pod) {
		for i, img := range images {
			all = append(all, pod(three, i, img))
		}
		return all
	}
	first := func(all []*corev1.Pod, e podEdit) []*corev1.Pod {
		e(all[0])
		return all
	}
	unknown := func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.Type = "Sometime" }
	for _, c := range []row{
		{name: "STS-76 all go at once, also of ordered pods", set: web(3, recreate, image("v2")), more: v2, pods: pods("v1", "v1", "v1"),
			want: []string{"delete web-0 web-1 web-2"}},
		{name: "STS-76 after the new revision is made", set: web(3, recreate, image("v2")), pods: pods("v1"),
			want: []string{"create revision 2", "delete web-0"}},
		{name: "STS-76 so do those that are not ready, or have finished", set: web(3, recreate, image("v2")), more: v2,
			pods: first(pods("v1", "v1"), plantest.Phase(corev1.PodFailed)), want: []string{"delete web-0 web-1"}},
		{name: "STS-76 and those that are too many", set: web(1, recreate, parallel, image("v2")), more: v2, pods: pods("v1", "v1", "v1"),
			want: []string{"delete web-0 web-1 web-2"}},
		{name: "STS-76 a pod that is up to date stays", set: web(3, recreate, image("v2")), more: v2, pods: pods("v1", "v2", "v1"),
			want: []string{"delete web-0 web-2"}},
		{name: "STS-76 even if it is too many, until the others are gone", set: web(1, recreate, image("v2")), more: v2,
			pods: pods("v1", "v2"), want: []string{"delete web-0"}},
		{name: "STS-76 and then goes", set: web(1, recreate, image("v2")), more: v2, pods: pods("v2", "v2"),
			want: []string{"delete web-1"}},
		{name: "STS-76 nothing is made while one is being deleted", set: web(3, recreate, image("v2")), more: v2,
			pods: first(pods("v1"), plantest.Terminating),
			says: "1 pods of earlier revisions have to be gone before any of revision web-"},
		{name: "STS-76 not even one of another ordinal", set: web(3, recreate, parallel, image("v2")), more: v2,
			pods: first(pods("v1", "v2"), plantest.Terminating)},
		{name: "STS-76 one that another revision than the one before has made", set: web(2, recreate, image("v2")), more: v2,
			pods: pods("v2", "v3"), want: []string{"delete web-1"}},
		{name: "STS-76 then ordered pods come one after the other", set: web(3, recreate, image("v2")), more: v2,
			want: []string{"create web-0"}},
		{name: "STS-76 each when the one before is ready", set: web(3, recreate, image("v2")), more: v2, pods: first(pods("v2"), unready),
			says: "web-0 is not running and ready"},
		{name: "STS-76 and parallel ones together", set: web(2, recreate, parallel, image("v2")), more: v2,
			want: []string{"create web-0", "create web-1"}},
		{name: "STS-76 claims of pods that are too many change their owners first, and stay",
			set:  web(1, recreate, image("v2"), claims("data"), policy("Delete/Retain")),
			pods: pods("v1", "v1"), more: append(v2, claim("data-web-0"), claim("data-web-1")),
			want: []string{"change data-web-1 of [uid-web-1], delete web-1 | delete web-0"}},
		{name: "STS-76 with nothing to update it is like any other", set: web(2, recreate), pods: pods("v1", "v1"),
			says: "all 2 pods are available and up to date"},
		{name: "STS-76 a pod that is lost comes back at the update revision",
			set: web(2, recreate, image("v2"), func(set *appsv1.StatefulSet) { set.Status.CurrentReplicas = 2 }), more: v2,
			want: []string{"create web-0"}},
		{name: "STS-76 a set that is being deleted", set: web(3, recreate, image("v2"), deleted), more: v2, pods: pods("v1", "v1")},
		{name: "V38-125 a strategy that is not known replaces nothing", set: web(3, unknown, image("v2")), more: v2,
			pods: pods("v1", "v1", "v1")},
	} {
		c.run(t)
	}
	lost := planned(now,
		see(web(1, recreate, image("v2"), func(set *appsv1.StatefulSet) { set.Status.CurrentReplicas = 1 }), revision("v1", 1, three),
			revision("v2", 2, three)))
	if p := lost.Steps[0].(plan.Create).Object.(*corev1.Pod); p.Spec.Containers[0].Image != "v2" {
		t.Errorf("STS-76 a pod is made of %s", p.Spec.Containers[0].Image)
	}
}

func TestMembership(t *testing.T) {
	two := web(2)
	named := func(name string) podEdit {
		return func(p *corev1.Pod) { p.Name = name }
	}
	for _, c := range []row{
		{name: "STS-10 an orphan with the right name and labels is adopted first", set: two, pods: []*corev1.Pod{pod(two, 0, "v1", orphan)},
			want: []string{"adopt web-0"}},
		{name: "STS-10 an orphan with another name is left alone", set: two, pods: []*corev1.Pod{pod(two, 0, "v1", orphan, named("web-x"))},
			want: []string{"create web-0"}},
		{name: "STS-10 a pod that lost its labels is released", set: two, pods: []*corev1.Pod{pod(two, 0, "v1", relabelled)},
			want: []string{"change web-0"}},
		{name: "STS-10 so is one with another name", set: two, pods: []*corev1.Pod{pod(two, 0, "v1", named("db-0"))},
			want: []string{"change db-0", "create web-0"}},
		{name: "MEND-4 an orphan with leading zeros is not adopted, and its place is filled", set: web(2),
			pods: []*corev1.Pod{pod(two, 0, "v1"), pod(two, 1, "v1", orphan, named("web-01"))}, want: []string{"create web-1"}},
		{name: "MEND-4 STS-103 and one with leading zeros", set: two, pods: []*corev1.Pod{pod(two, 0, "v1", named("web-007"))},
			want: []string{"change web-007", "create web-0"}},
		{name: "STS-11 and one whose ordinal is too large", set: two, pods: []*corev1.Pod{pod(two, 0, "v1", named("web-2147483648"))},
			want: []string{"change web-2147483648", "create web-0"}},
		{
			name: "STS-15 a pod that lost the label with its name gets it back", set: web(1),
			pods: []*corev1.Pod{pod(two, 0, "v1", func(p *corev1.Pod) { delete(p.Labels, appsv1.StatefulSetPodNameLabel) })},
			want: []string{"change web-0"},
		},
		{
			name: "STS-15 a missing index alone is nothing", set: web(1),
			pods: []*corev1.Pod{pod(two, 0, "v1", func(p *corev1.Pod) { delete(p.Labels, appsv1.PodIndexLabel) })},
		},
	} {
		c.run(t)
	}
	for _, c := range []struct {
		name string
		edit edit
		want string
	}{
		{"STS-4 a selector that cannot be read", func(set *appsv1.StatefulSet) {
			set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, "left alone, selector: "},
		{"an empty selector", func(set *appsv1.StatefulSet) { set.Spec.Selector = &metav1.LabelSelector{} },
			"left alone, selector: it is empty"},
		{"a template that the selector does not match", func(set *appsv1.StatefulSet) { set.Spec.Template.Labels = nil },
			"the selector does not match"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planned(plantest.Epoch, see(web(1, c.edit)))
			if !p.Empty() || !strings.Contains(p.Why, c.want) {
				t.Errorf("%v: %s", lines(p.Steps), p.Why)
			}
		})
	}
}
