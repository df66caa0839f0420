package statefulset

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads/history"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var now = plantest.Epoch.Add(10 * time.Second)

// drawSnapshot makes a set, and pods, claims and revisions in any state.
func drawSnapshot(t *rapid.T) snapshot {
	set := web(rapid.Int32Range(0, 5).Draw(t, "replicas"))
	edits := map[string]edit{
		"as is": func(*appsv1.StatefulSet) {}, "parallel": parallel, "on deletion": onDelete, "partition": partition(2),
		"starts at 2": from(2),
		"waits":       minReady(60), "has claims": claims("data"), "deletes claims": policy("Delete/Delete"), "keeps no history": keeps(0),
		"updates two at once": most("2"), "recreates": recreate,
	}
	names := sortedNames(edits)
	for range rapid.IntRange(0, 4).Draw(t, "edits") {
		edits[rapid.SampledFrom(names).Draw(t, "is")](set)
	}
	image(rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "image"))(set)
	set.Status.CurrentRevision = revision(rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "current"), 1, set).Name
	objects := []plan.Object{revision("v1", 1, set), revision("v2", 2, set)}
	podEdits := map[string]podEdit{
		"as is": func(*corev1.Pod) {}, "unready": unready, "stuck": stuck, "terminating": plantest.Terminating,
		"failed":  plantest.Phase(corev1.PodFailed),
		"pending": plantest.Phase(corev1.PodPending), "an orphan": orphan, "relabelled": relabelled,
	}
	for i := range 7 {
		if rapid.Bool().Draw(t, "pod is there") {
			p := pod(set, i, rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "pod image"))
			podEdits[rapid.SampledFrom(sortedNames(podEdits)).Draw(t, "pod is")](p)
			objects = append(objects, p)
		}
		if rapid.Bool().Draw(t, "claim is there") {
			owners := rapid.SampledFrom([]string{"set", "plain set", "other", "old set", fmt.Sprint("pod web-", i),
				fmt.Sprint("old pod web-", i)}).Draw(t, "claim's owner")
			objects = append(objects, claim(fmt.Sprint("data-web-", i), ownedBy(owners)))
		}
	}
	s := see(set, objects...)
	s.MaxUnavailable, s.ReplaceStuckPods = rapid.Bool().Draw(t, "gate"), rapid.Bool().Draw(t, "flag")
	return s
}

func sortedNames[T any](m map[string]T) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// each calls f with every step, those within others included.
func each(steps []plan.Step, f func(plan.Step)) {
	for _, step := range steps {
		if e, ok := step.(plan.Each); ok {
			for _, sequence := range e.Sequences {
				each(sequence, f)
			}
			continue
		}
		f(step)
	}
}

// podsOf returns the ordinals of the pods that a plan creates and deletes, in order.
func podsOf(p plan.Plan) (created, deleted []int) {
	each(p.Steps, func(step plan.Step) {
		switch s := step.(type) {
		case plan.Create:
			if pod, ok := s.Object.(*corev1.Pod); ok {
				created = append(created, ordinalOf(pod))
			}
		case plan.Delete:
			for _, o := range s.Objects {
				if pod, ok := o.(*corev1.Pod); ok {
					deleted = append(deleted, ordinalOf(pod))
				}
			}
		}
	})
	return created, deleted
}

// A name is never given away while any pod has it, and a plan never creates and deletes the same ordinal (STS-49, STS-53).
func TestOnePodForEachIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		created, deleted := podsOf(planned(now, s))
		for _, ordinal := range created {
			if s.Named[podName(s.Set, ordinal)] != nil || slices.Contains(deleted, ordinal) || ordinal < start(s.Set) ||
				ordinal >= end(s.Set) {
				t.Fatalf("creates %v, deletes %v", created, deleted)
			}
		}
	})
}

// With ordered pods, a plan creates or deletes one pod, and creates only above available ones (STS-46, STS-47, STS-55).
func TestOrderIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		s.MaxUnavailable = false
		if recreates(s.Set) && len(newRollout(now, s).earlier()) > 0 {
			return // TestRevisionsNeverMeet
		}
		s.Set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
		created, deleted := podsOf(planned(now, s))
		if len(created)+len(deleted) > 1 {
			t.Fatalf("creates %v, deletes %v", created, deleted)
		}
		r := newRollout(now, s)
		for _, ordinal := range append(created, deleted...) {
			for lower := start(s.Set); lower < min(ordinal, end(s.Set)); lower++ {
				if p := r.replicas[lower]; p == nil || r.waits(p) != "" {
					t.Fatalf("creates %v, deletes %v, though %d is not available", created, deleted, lower)
				}
			}
		}
	})
}

// Of the pods that serve, no more are deleted for an update than leave maxUnavailable unavailable; one that serves, but not for long enough
// yet, is never deleted for it (STS-58).
func TestMaxUnavailableIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		s.MaxUnavailable = true
		r := newRollout(now, s)
		if recreates(s.Set) {
			return
		}
		down := r.unavailableFrom(start(s.Set) + r.partition())
		_, deleted := podsOf(planned(now, s))
		took := 0
		for _, ordinal := range deleted {
			p := r.replicas[ordinal]
			switch {
			case p == nil || !ready(p):
			case r.waits(p) != "":
				t.Fatalf("deletes %v, though %d %s", deleted, ordinal, r.waits(p))
			case ordinal < start(s.Set)+r.partition():
				t.Fatalf("deletes %v, below the partition", deleted)
			default:
				took++
			}
		}
		if took > 0 && down+took > r.maxUnavailable() {
			t.Fatalf("deletes %v, and %d are not available", deleted, down)
		}
	})
}

// While a pod of an earlier revision is left, a set that recreates its pods makes none and deletes none that is up to date. It waits
// for nothing else: in the end all pods are of the update revision (STS-76).
func TestRevisionsNeverMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		recreate(s.Set)
		d, p := planSet(now, s)
		r := resume(now, s, d)
		earlier := r.earlier()
		if len(earlier) == 0 || r.adopting || s.Set.DeletionTimestamp != nil {
			return
		}
		created, deleted := podsOf(p)
		left := map[int]bool{}
		for _, p := range earlier {
			if p.DeletionTimestamp == nil {
				left[ordinalOf(p)] = true
			}
		}
		for _, ordinal := range deleted {
			if !left[ordinal] {
				t.Fatalf("deletes %v, and of earlier revisions are %v", deleted, left)
			}
		}
		if len(created) > 0 || len(deleted) != len(left) {
			t.Fatalf("creates %v, deletes %v, and of earlier revisions are %v", created, deleted, left)
		}
	})
}

// No claim is ever deleted, nor gets an owner that the policy does not name, and references of others stay (STS-23..27).
func TestClaimsAreSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		scaled, gone := deletedWith(s.Set)
		each(planned(now, s).Steps, func(step plan.Step) {
			switch step := step.(type) {
			case plan.Delete:
				for _, o := range step.Objects {
					if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
						t.Fatalf("deletes %s", o.GetName())
					}
				}
			case plan.Change:
				before, ok := step.Old.(*corev1.PersistentVolumeClaim)
				if !ok {
					return
				}
				for _, ref := range step.New.GetOwnerReferences() {
					added := !slices.ContainsFunc(before.OwnerReferences,
						func(r metav1.OwnerReference) bool { return reflect.DeepEqual(r, ref) })
					if added && !(ref.UID == s.Set.UID && gone || ref.Kind == "Pod" && scaled) {
						t.Fatalf("%s gets the owner %v", before.Name, ref)
					}
				}
				for _, ref := range before.OwnerReferences {
					kept := slices.ContainsFunc(step.New.GetOwnerReferences(),
						func(r metav1.OwnerReference) bool { return reflect.DeepEqual(r, ref) })
					if !kept && ref.UID != s.Set.UID && !strings.HasPrefix(string(ref.UID), "uid-web-") {
						t.Fatalf("%s loses the owner %v", before.Name, ref)
					}
				}
			}
		})
	})
}

// What the claims of a pod need is done before the pod is deleted, and in the same sequence: otherwise they might go with it, or stay
// (STS-25).
func TestClaimsBeforeTheirPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		steps := planned(now, s).Steps
		changes := func(steps []plan.Step) map[string]bool {
			all := map[string]bool{}
			each(steps, func(step plan.Step) {
				if c, ok := step.(plan.Change); ok {
					all[c.Old.GetName()] = true
				}
			})
			return all
		}
		changed := changes(steps)
		var walk func(done, steps []plan.Step)
		walk = func(done, steps []plan.Step) {
			for i, step := range steps {
				before := slices.Concat(done, steps[:i])
				switch step := step.(type) {
				case plan.Each:
					for _, sequence := range step.Sequences {
						walk(before, sequence)
					}
				case plan.Delete:
					for _, o := range step.Objects {
						if name := "data-" + o.GetName(); changed[name] && !changes(before)[name] {
							t.Fatalf("%s does not wait for its claim: %v", o.GetName(), lines(steps))
						}
					}
				}
			}
		}
		walk(nil, steps)
	})
}

// No object is written twice, and what is written is the set's own, or adopted, or a claim.
func TestWritesEachObjectOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		seen := map[types.UID]bool{}
		write := func(o plan.Object) {
			if seen[o.GetUID()] {
				t.Fatalf("%s is written twice: %v", o.GetName(), lines(planned(now, s).Steps))
			}
			seen[o.GetUID()] = true
		}
		each(planned(now, s).Steps, func(step plan.Step) {
			switch step := step.(type) {
			case plan.Change:
				write(step.Old)
				if !step.Adopt && !step.Unowned && !metav1.IsControlledBy(step.Old, s.Set) {
					t.Fatalf("changes %s, which it does not control", step.Old.GetName())
				}
			case plan.Delete:
				for _, o := range step.Objects {
					write(o)
					if !metav1.IsControlledBy(o, s.Set) {
						t.Fatalf("deletes %s, which it does not control", o.GetName())
					}
				}
			}
		})
	})
}

func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		other := s
		other.Pods = rapid.Permutation(s.Pods).Draw(t, "pods shuffled")
		other.Revisions = rapid.Permutation(s.Revisions).Draw(t, "revisions shuffled")
		sorted := func(s snapshot) []string {
			var all []string
			each(planned(now, s).Steps, func(step plan.Step) { all = append(all, line(step)) })
			slices.Sort(all)
			return all
		}
		if diff := cmp.Diff(sorted(s), sorted(other)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before := plantest.Restored(t, s)
		p := planned(now, s)
		reported(now, s, plan.Outcome{})
		if diff := cmp.Diff(lines(p.Steps), lines(planned(now, before).Steps)); diff != "" {
			t.Fatal(diff)
		}
		if after := plantest.Restored(t, s); !reflect.DeepEqual(before, after) {
			t.Fatal(cmp.Diff(before, after))
		}
	})
}

// TestSnapshotsCanBeStored: read back, a snapshot leads to the same decision.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		restored := plantest.Restored(t, s)
		if diff := cmp.Diff(planned(now, s), planned(now, restored)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(reported(now, s, plan.Outcome{}), reported(now, restored, plan.Outcome{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	projected, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		cached := s
		cached.Pods = nil
		for _, p := range s.Pods {
			o, err := projected.Project(p.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			cached.Pods = append(cached.Pods, o.(*corev1.Pod))
		}
		if diff := cmp.Diff(lines(planned(now, s).Steps), lines(planned(now, cached).Steps)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(reported(now, s, plan.Outcome{}), reported(now, cached, plan.Outcome{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A change of a pod that enqueues nothing changes neither the plan nor the report (STS-2).
func TestIgnoredChangesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		if len(s.Pods) == 0 {
			t.Skip("no pods")
		}
		at := rapid.IntRange(0, len(s.Pods)-1).Draw(t, "pod")
		before, after := s.Pods[at], s.Pods[at].DeepCopy()
		var noise corev1.Pod
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(&noise)
		for range rapid.IntRange(1, 3).Draw(t, "edits") {
			rapid.SampledFrom([]func(){
				func() {
					after.Annotations, after.Finalizers, after.ResourceVersion = noise.Annotations, noise.Finalizers, "2"
				},
				func() { after.Spec = noise.Spec },
				func() {
					conditions := after.Status.Conditions
					after.Status = noise.Status
					after.Status.Conditions = conditions
				},
				func() { after.Status.Conditions = append(after.Status.Conditions, noise.Status.Conditions...) },
				func() { after.Status.Message, after.Status.PodIP = "x", "y" },
				func() { after.Labels = noise.Labels },
				func() {
					after.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
				},
				func() { after.Status.Conditions = nil },
				func() { after.DeletionTimestamp = &metav1.Time{Time: now} },
				func() { after.OwnerReferences = nil },
			}).Draw(t, "edit")()
		}
		o := ownersAmong(map[string]*appsv1.StatefulSet{"web": s.Set})
		if metav1.GetControllerOf(before) == nil || len(o.enqueuesByPod(before, after)) > 0 {
			return
		}
		changed := s
		changed.Pods = slices.Clone(s.Pods)
		changed.Pods[at] = after
		if diff := cmp.Diff(lines(planned(now, s).Steps), lines(planned(now, changed).Steps)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(reported(now, s, plan.Outcome{}), reported(now, changed, plan.Outcome{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Whatever the objects are, a look at them does not panic.
func TestAnyObjectsAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fill := plantest.Anything(rapid.Int64().Draw(t, "seed"))
		set := &appsv1.StatefulSet{}
		fill(set)
		set.Namespace, set.Name, set.UID = plantest.Namespace, "web", "uid-web"
		if rapid.Bool().Draw(t, "the selector fits") {
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			set.Spec.Template.Labels = map[string]string{"app": "web"}
			set.DeletionTimestamp = nil
		}
		var objects []plan.Object
		for i := range 3 {
			p, c, r := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &appsv1.ControllerRevision{}
			fill(p)
			fill(c)
			fill(r)
			for _, o := range []plan.Object{p, c, r} {
				o.SetNamespace(plantest.Namespace)
				o.SetName(fmt.Sprint(rapid.SampledFrom([]string{"web-", "data-web-", "x"}).Draw(t, "name"), i))
				o.SetUID(types.UID(fmt.Sprint("uid-", i)))
				o.SetLabels(map[string]string{"app": "web"})
				o.SetOwnerReferences(rapid.SampledFrom([][]metav1.OwnerReference{nil, {reference("set")},
					{reference("other"), reference("set")}}).Draw(t, "owners"))
			}
			objects = append(objects, p, c, r)
		}
		if _, err := history.Data(&set.Spec.Template); err != nil {
			t.Skip(err)
		}
		p := planned(now, see(set, objects...))
		if p.Requeue < 0 {
			t.Errorf("looks again after %v", p.Requeue)
		}
		reported(now, see(set, objects...), plan.Outcome{})
	})
}

// Whatever the world is, it comes to rest with the pods that are wanted.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := drawSnapshot(t)
		if recreates(drawn.Set) {
			t.Skip("left alone")
		}
		objects := []plan.Object{drawn.Set}
		for _, p := range drawn.Named {
			if drawn.Set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || p.Status.Phase != corev1.PodRunning ||
				ready(p) {
				objects = append(objects, p)
			}
		}
		for _, r := range drawn.Revisions {
			objects = append(objects, r)
		}
		s := newSimulation(objects...)
		for _, p := range plantest.All[*corev1.Pod](s.world) {
			if p.Status.Phase == corev1.PodPending || !ready(p) && p.Status.Phase == corev1.PodRunning {
				plantest.EditStatus(s.world, p.Name, plantest.Ready(s.world.Now()))
			}
			if !strings.HasPrefix(p.Labels["app"], "web") {
				s.world.Remove(p) // it would keep its name for ever
			}
		}
		s.world.Sleep(2 * time.Minute)
		for range 40 {
			s.world.Sleep(2 * time.Minute)
			s.kubelet()
			s.settle()
		}
		want := replicas(drawn.Set)
		if st := s.set().Status; int(st.Replicas) != want || int(st.AvailableReplicas) != want {
			t.Fatalf("%d wanted: %+v\n%s", want, st, strings.Join(s.diary, "\n"))
		}
	})
}
