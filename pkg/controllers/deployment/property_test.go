package deployment

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var (
	images    = rapid.SampledFrom([]string{"v1", "v2", "v3", "v4"})
	amounts   = rapid.SampledFrom([]string{"0", "1", "2", "5", "0%", "10%", "25%", "50%", "100%", "150%", "nonsense"})
	numbers   = rapid.SampledFrom([]string{"", "x", "-1", "0", "1", "2", "3", "4", "5", "6", "10", "2147483647", "99999999999999999999"})
	revisions = rapid.SampledFrom([]string{"", "x", "-1", "0", "1", "2", "3", "007", "9223372036854775807"})
	deadlines = rapid.SampledFrom([]*int32{nil, ptr.To[int32](1), ptr.To[int32](60), ptr.To[int32](600), ptr.To[int32](math.MaxInt32)})
)

// planned returns the size of each own ReplicaSet before and after a plan; a new one begins with none.
func planned(r *rollout, steps []plan.Step) (before, after map[string]int64) {
	before, after = map[string]int64{}, map[string]int64{}
	for _, s := range r.sets() {
		before[s.Name], after[s.Name] = s.size, s.size
	}
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Create:
			after[s.Object.GetName()] = int64(*s.Object.(*appsv1.ReplicaSet).Spec.Replicas)
		case plan.Change:
			if rs, ok := s.New.(*appsv1.ReplicaSet); ok {
				after[rs.Name] = int64(*rs.Spec.Replicas)
			}
		}
	}
	return before, after
}

func added(sizes map[string]int64) (sum int64) {
	for _, n := range sizes {
		sum += n
	}
	return sum
}

func TestNeverExceedsSurge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		r := sortOut(now, s)
		before, after := planned(r, rolledOut(now, s).Steps)
		if most := max(r.replicas+r.surge, added(before)); added(after) > most {
			t.Errorf("%d replicas, surge %d: %v -> %v", r.replicas, r.surge, before, after)
		}
	})
}

// TestNeverBelowAvailable: nothing that is decided here leaves fewer pods available than maxUnavailable allows, whether the
// Deployment is rolled out, paused, scaled or its strategy tightened; and where sizes are shared out, no available pod goes
// while one stays, or comes, that is not. A ReplicaSet that shrinks deletes pods that are not available first. What users
// ask for by fewer replicas, or by Recreate, is their own choice.
func TestNeverBelowAvailable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		tightenAny(t, s.Deployment)
		r := sortOut(now, s)
		if !slices.Contains([]course{rolling, paused, scaling}, r.course) {
			t.Skip("neither a rolling update, nor paused, nor scaled")
		}
		_, after := planned(r, rolledOut(now, s).Steps)
		var was, left, others int64
		for _, one := range r.sets() {
			was += one.available
			left += min(one.available, after[one.Name])
			others += max(0, after[one.Name]-one.available)
		}
		if left < min(was, r.replicas-r.unavailable) {
			t.Errorf("%s: %d replicas, %d may be unavailable: %d available -> %d", r.course, r.replicas, r.unavailable, was, left)
		}
		if inProportion := len(r.active()) > 1 && !r.saturated(); r.course != rolling && inProportion && left < was && others > 0 {
			t.Errorf("%s: %d available -> %d, while %d others stay", r.course, was, left, others)
		}
	})
}

// tightenAny lets ReplicaSets have been sized for this many replicas, but perhaps for another strategy.
func tightenAny(t *rapid.T, d *appsv1.Deployment) {
	if rapid.Bool().Draw(t, "paused in the middle") {
		d.Spec.Paused, d.DeletionTimestamp = true, nil
	}
	if d.Spec.Strategy.RollingUpdate != nil && rapid.Bool().Draw(t, "tightened") {
		moves("1", "0")(d)
	}
}

func TestSizesNonNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		_, after := planned(sortOut(now, s), rolledOut(now, s).Steps)
		for name, n := range after {
			if n < 0 {
				t.Errorf("%s has size %d", name, n)
			}
		}
	})
}

func TestWritesOncePerObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		p := rolledOut(now, s)
		assertOncePerObject(t, p.Steps)
		r := statusAfter(now, s, did(p, nil))
		if len(r.Steps) > 1 {
			t.Errorf("a report of %d steps", len(r.Steps))
		}
		assertOncePerObject(t, r.Steps)
	})
}

func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		shuffled := s
		shuffled.ReplicaSets = rapid.Permutation(s.ReplicaSets).Draw(t, "sets in another order")
		shuffled.Pods = map[types.UID][]*corev1.Pod{}
		for _, rs := range s.ReplicaSets {
			shuffled.Pods[rs.UID] = rapid.Permutation(s.Pods[rs.UID]).Draw(t, "pods in another order")
		}
		a, b := rolledOut(now, s), rolledOut(now, shuffled)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("plans differ:\n%s", cmp.Diff(lines(a.Steps), lines(b.Steps)))
		}
		if !reflect.DeepEqual(statusAfter(now, s, did(a, nil)), statusAfter(now, shuffled, did(a, nil))) {
			t.Errorf("reports differ")
		}
	})
}

// ReplicaSets that no owner controls and that the Deployment does not select change no decision: observe leaves them out.
func TestOthersOrphansDoNotCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		for i, rs := range s.ReplicaSets {
			if rapid.IntRange(0, 2).Draw(t, fmt.Sprint("orphan", i)) == 0 {
				s.ReplicaSets[i] = rs.DeepCopy()
				s.ReplicaSets[i].OwnerReferences, s.ReplicaSets[i].Labels = nil, map[string]string{"app": "other"}
			}
		}
		less, selects := s, selected(s.Deployment.Spec.Selector, s.ReplicaSets)
		less.ReplicaSets = slices.DeleteFunc(slices.Clone(s.ReplicaSets), func(rs *appsv1.ReplicaSet) bool {
			return metav1.GetControllerOf(rs) == nil && !slices.Contains(selects, rs)
		})
		_, all := planRollout(now, s)
		_, few := planRollout(now, less)
		plantest.Same(t, all, few)
	})
}

// With what the caches keep if there is no other controller, it decides the same.
func TestIgnoresFieldsNotCached(t *testing.T) {
	projected, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		cached := s
		cached.Pods = map[types.UID][]*corev1.Pod{}
		for uid, pods := range s.Pods {
			for _, p := range pods {
				p.Spec.NodeName, p.Status.Message, p.ManagedFields = "node", "a message", []metav1.ManagedFieldsEntry{{Manager: "m"}}
				cached.Pods[uid] = append(cached.Pods[uid], projected.ProjectPod(p))
			}
		}
		a, b := rolledOut(now, s), rolledOut(now, cached)
		if diff := cmp.Diff(lines(a.Steps), lines(b.Steps)); diff != "" {
			t.Errorf("plans differ:\n%s", diff)
		}
		if diff := cmp.Diff(statusAfter(now, s, did(a, nil)), statusAfter(now, cached, did(b, nil))); diff != "" {
			t.Errorf("reports differ:\n%s", diff)
		}
	})
}

// A snapshot is data: stored and read back, it leads to the same decision.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		back := plantest.Restored(t, s)
		a, b := rolledOut(now, s), rolledOut(now, back)
		if diff := cmp.Diff(lines(a.Steps), lines(b.Steps)); diff != "" || a.Why != b.Why || a.Requeue != b.Requeue {
			t.Errorf("plans differ:\n%s", diff)
		}
		if diff := cmp.Diff(statusAfter(now, s, did(a, nil)), statusAfter(now, back, did(b, nil)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("reports differ:\n%s", diff)
		}
	})
}

// What observe has counted saves time and makes no difference.
func TestCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		sharing := s
		sharing.Counted = map[types.UID]counted{}
		for _, rs := range s.ReplicaSets {
			sharing.Counted[rs.UID] = countPods(rs, s.Pods[rs.UID], now)
		}
		a := rolledOut(now, s)
		for range 2 {
			if b := rolledOut(now, sharing); !reflect.DeepEqual(a, b) {
				t.Errorf("plans differ:\n%s", cmp.Diff(lines(a.Steps), lines(b.Steps)))
			}
			if !reflect.DeepEqual(statusAfter(now, s, did(a, nil)), statusAfter(now, sharing, did(a, nil))) {
				t.Errorf("reports differ")
			}
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		before := s
		before.Deployment = s.Deployment.DeepCopy()
		before.ReplicaSets = plantest.Copies(s.ReplicaSets)
		before.NameConflict = s.NameConflict.DeepCopy()
		before.Pods = map[types.UID][]*corev1.Pod{}
		for uid, pods := range s.Pods {
			before.Pods[uid] = plantest.Copies(pods)
		}
		statusAfter(now, s, did(rolledOut(now, s), nil))
		if diff := cmp.Diff(before, s); diff != "" {
			t.Errorf("-before +after:\n%s", diff)
		}
	})
}

func TestConvergedPlanIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDeployment(t)
		d.DeletionTimestamp, d.Annotations = nil, map[string]string{"team": "shop"}
		same := all(annotated("team", "shop"), func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = d.Spec.MinReadySeconds })
		var sets []rs
		if d.Spec.RevisionHistoryLimit == nil || *d.Spec.RevisionHistoryLimit == 10 {
			for i := range rapid.IntRange(0, 3).Draw(t, "old ones") {
				sets = append(sets, rs{image: fmt.Sprintf("o%d", i), crashed: i})
			}
		}
		image := d.Spec.Template.Spec.Containers[0].Image
		s := settled(snapshotWith(d, append(sets, rs{image: image, size: *d.Spec.Replicas, ready: int(*d.Spec.Replicas), edit: same})...),
			now)
		p := rolledOut(now.Add(time.Hour), s)
		if r := statusAfter(now.Add(time.Hour), s, plan.Outcome{}); !p.Empty() || !r.Empty() || p.Requeue+r.Requeue > 0 {
			t.Errorf("plans %v, reports %v, after %v", lines(p.Steps), lines(r.Steps), p.Requeue+r.Requeue)
		}
	})
}

// anySimulation draws a world in any state.
func anySimulation(t *rapid.T) *simulation {
	s := anySnapshot(t)
	s.Deployment.CreationTimestamp = metav1.NewTime(plantest.Epoch)
	st := newSimulation(s.Deployment)
	var objects []plan.Object
	for _, rs := range s.ReplicaSets {
		objects = append(objects, rs)
		for _, p := range s.Pods[rs.UID] {
			objects = append(objects, p)
		}
	}
	if s.NameConflict != nil {
		objects = append(objects, s.NameConflict)
	}
	st.world = plantest.NewWorld(append(objects, s.Deployment)...)
	st.world.Sleep(now.Sub(plantest.Epoch))
	st.cache = plantest.NewCache(st.world)
	return st
}

// TestNoHotLoop: where nothing else moves, there is soon nothing left to write; and where only time passes, it is
// looked at ever more rarely, until nothing is left to wait for.
func TestNoHotLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySimulation(t)
		for looks := 0; ; looks++ {
			if looks > 60 {
				t.Fatalf("still looks: %v", s.world.Log[max(0, len(s.world.Log)-8):])
			}
			s.cache.CatchUp()
			wrote, next, err := s.look()
			switch {
			case err != nil:
				t.Fatal(err)
			case wrote > 0:
				continue
			case next == 0:
				return
			case next < 10*time.Millisecond:
				t.Fatalf("looks again after %v", next)
			}
			s.world.Sleep(next)
		}
	})
}

// TestConvergesWithin: whatever users do meanwhile, however old the caches are, in the end all replicas are of the
// present template and available, the status says so, and nothing is left to plan. On the way no look fails for
// reasons of its own, and the sizes stay within the surge.
func TestConvergesWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySimulation(t)
		plantest.Edit(s.world, "web", func(d *appsv1.Deployment) { d.DeletionTimestamp = nil })
		for range rapid.IntRange(0, 30).Draw(t, "chaos") {
			s.chaos(t)
		}
		plantest.Edit(s.world, "web", func(d *appsv1.Deployment) {
			d.Spec.Paused = false
			d.Spec.Template.Labels = map[string]string{"app": "web"}
			delete(d.Annotations, rollbackAnnotation)
		})
		for rounds := 0; !s.converged(); rounds++ {
			if rounds > 80 {
				d := s.deployment()
				t.Fatalf("does not converge: sizes %s, %s, %+v, last %v", s.sizesNow(), says(&d.Status), d.Status,
					s.world.Log[max(0, len(s.world.Log)-8):])
			}
			s.fair(t)
		}
		snap, _ := s.observe()
		p := rolledOut(s.world.Now(), snap)
		if r := statusAfter(s.world.Now(), snap, plan.Outcome{}); !p.Empty() || !r.Empty() || p.Requeue+r.Requeue > 0 {
			t.Errorf("ConvergedPlanIsEmpty: plans %v, reports %v", lines(p.Steps), lines(r.Steps))
		}
	})
}

// chaos lets one thing happen.
func (s *simulation) chaos(t *rapid.T) {
	some := rapid.IntRange(1, 4)
	any := func(*appsv1.ReplicaSet) bool { return rapid.Bool().Draw(t, "writes its status") }
	switch rapid.IntRange(0, 13).Draw(t, "what happens") {
	case 0:
		replicas := rapid.Int32Range(0, 8).Draw(t, "replicas")
		s.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
	case 1:
		s.edit(image(images.Draw(t, "image")))
	case 2:
		s.edit(func(d *appsv1.Deployment) {
			image(images.Draw(t, "image"))(d)
			d.Spec.Template.Labels[plantest.Never] = "yes"
		})
	case 3:
		s.edit(func(d *appsv1.Deployment) { d.Spec.Paused = !d.Spec.Paused })
	case 4:
		s.edit(func(d *appsv1.Deployment) {
			if d.Spec.Strategy.RollingUpdate != nil {
				moves(amounts.Draw(t, "surge"), amounts.Draw(t, "unavailable"))(d)
			}
		})
	case 5:
		if sets := s.sets(); len(sets) > 0 {
			n := rapid.Int32Range(0, 8).Draw(t, "size")
			plantest.Edit(s.world, sets[rapid.IntRange(0, len(sets)-1).Draw(t, "which")].Name,
				func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &n })
		}
	case 6:
		s.edit(rollbackNote(revisions.Draw(t, "roll back to")))
	case 7:
		s.world.Sleep(time.Duration(rapid.IntRange(1, 700).Draw(t, "seconds")) * time.Second)
	case 8:
		plantest.Lag[*appsv1.Deployment](s.cache, some.Draw(t, "deployments seen"))
	case 9:
		plantest.Lag[*appsv1.ReplicaSet](s.cache, some.Draw(t, "sets seen"))
		plantest.Lag[*corev1.Pod](s.cache, some.Draw(t, "pods seen"))
	case 10:
		s.world.ToyReplicaSets(some.Draw(t, "pods"))
	case 11:
		s.world.ToyKubelet(some.Draw(t, "pods"))
	case 12:
		s.world.ToyStatuses(any)
	case 13:
		s.checkedLook(t)
	}
}

// checkedLook is a look that must not exceed the surge. Failures may only come from old caches.
func (s *simulation) checkedLook(t *rapid.T) {
	snap, _ := s.observe()
	r := sortOut(s.world.Now(), snap)
	before, after := planned(r, rolledOut(s.world.Now(), snap).Steps)
	if most := max(r.replicas+r.surge, added(before)); added(after) > most {
		t.Errorf("NeverExceedsSurge: %d replicas, surge %d: %v -> %v", r.replicas, r.surge, before, after)
	}
	_, _, err := s.look()
	if err != nil {
		s.cache.CatchUp() // the runtime looks again when the cache has caught up
	}
}

// fair lets everything happen once.
func (s *simulation) fair(t *rapid.T) {
	s.cache.CatchUp()
	s.checkedLook(t)
	s.world.ToyReplicaSets(1000)
	s.world.ToyKubelet(1000)
	s.world.Sleep(11 * time.Second)
	s.world.ToyStatuses(func(*appsv1.ReplicaSet) bool { return true })
}

// converged reports whether nothing is left to do.
func (s *simulation) converged() bool {
	s.cache.CatchUp()
	d := s.deployment()
	snap, _ := s.observe()
	r := sortOut(s.world.Now(), snap)
	done := r.new != nil && r.new.size == r.replicas && sizes(r.old) == 0 && complete(d, &d.Status)
	if _, timed := r.deadline(); timed {
		done = done && reasonOf(d.Status.Conditions) == finished
	}
	p := rolledOut(s.world.Now(), snap)
	return done && p.Empty() && statusAfter(s.world.Now(), snap, plan.Outcome{}).Empty()
}

// TestNeverBelowAvailableInTheWorld: with caches of any age, updates to new images never leave fewer pods available
// than the strategy allows, as long as none fails by itself. (Going back is left out: a ReplicaSet that is scaled down
// and up again, quicker than the cache of pods can tell, counts pods that are on their way out.)
func TestNeverBelowAvailableInTheWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(1, 8).Draw(t, "replicas")
		s := running(web(replicas, image("v1"), moves(amounts.Draw(t, "surge"), amounts.Draw(t, "unavailable"))))
		_, unavailable, _ := bounds(s.deployment(), int64(replicas))
		some := rapid.IntRange(1, 3)
		for step := range rapid.IntRange(10, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "what happens") {
			case 0:
				s.edit(image(fmt.Sprintf("w%d", step/10)))
			case 1, 2:
				s.checkedLook(t)
			case 3:
				plantest.Lag[*appsv1.Deployment](s.cache, some.Draw(t, "deployments seen"))
			case 4:
				plantest.Lag[*appsv1.ReplicaSet](s.cache, some.Draw(t, "sets seen"))
			case 5:
				plantest.Lag[*corev1.Pod](s.cache, some.Draw(t, "pods seen"))
			case 6:
				s.world.ToyReplicaSets(some.Draw(t, "pods"))
			case 7:
				s.world.ToyKubelet(some.Draw(t, "pods"))
			}
			if n := int64(s.available()); n < int64(replicas)-unavailable {
				t.Fatalf("%d of %d available, %d may be unavailable; sizes %v; %v", n, replicas, unavailable, s.sizes, s.world.Log)
			}
		}
	})
}

func (s *simulation) available() (n int) {
	for _, p := range plantest.All[*corev1.Pod](s.world) {
		if p.DeletionTimestamp == nil &&
			slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Status == "True" }) {
			n++
		}
	}
	return n
}
