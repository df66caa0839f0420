package job

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// life is the life of a Job in which the process may die at any write, and all pods are watched from outside.
type life struct {
	*world
	t     *rapid.T
	ended map[types.UID]bool // pods that have ended while they had the finalizer
	may   map[types.UID]bool // pods that were being deleted while they had the finalizer
	seen  map[types.UID]*corev1.Pod
	told  batchv1.JobStatus // the latest status
	left  int               // writes until the process dies; negative for never
}

func beginLife(t *rapid.T) *life {
	j := sum(rapid.Int32Range(1, 5).Draw(t, "completions"), notStarted, parallel(rapid.Int32Range(1, 4).Draw(t, "parallelism")),
		limit(rapid.Int32Range(0, 6).Draw(t, "limit")))
	edits := map[string]jobEdit{
		"plain": func(*batchv1.Job) {}, "late": late, "indexed": byIndex, "limit per index": limitPerIndex(1),
		"no completions":   noCompletions,
		"indexed and late": func(j *batchv1.Job) { byIndex(j); late(j) },
		"deadline":         deadline(100),
		"gang":             gang(),
	}
	names := []string{"plain", "late", "indexed", "limit per index", "no completions", "indexed and late", "deadline", "gang"}
	edits[rapid.SampledFrom(names).Draw(t, "kind")](j)
	l := &life{world: newWorld(j), t: t, ended: map[types.UID]bool{}, may: map[types.UID]bool{}, seen: map[types.UID]*corev1.Pod{},
		left: -1}
	l.groups = rapid.Bool().Draw(t, "groups")
	l.Refuse = l.before
	return l
}

// before is asked before each write of the controller.
func (l *life) before(v plan.Verb, o plan.Object) error {
	if l.left == 0 {
		return errDied
	}
	l.left--
	l.look()
	switch o := o.(type) {
	case *corev1.Pod:
		if v == plan.Created {
			l.beforeCreation(o)
		}
		if now := plantest.One[*corev1.Pod](l.World, o.Name); v == plan.Changed && now != nil && workloads.Tracked(now) &&
			!workloads.Tracked(o) {
			l.beforeRelease(now, o)
		}
	case *batchv1.Job:
		before, after := l.told, o.Status
		if after.Succeeded+after.Failed < before.Succeeded+before.Failed {
			l.t.Fatalf("counters fall: %s", statusLine(before, after))
		}
		l.told = after
	}
	return nil
}

// beforeCreation checks that there is room for the pod.
func (l *life) beforeCreation(p *corev1.Pod) {
	j, active := l.job(), l.running()
	if len(active) >= workloads.Parallelism(j) {
		l.t.Fatalf("a pod is created although %d are active", len(active))
	}
	if l.groups {
		l.beforeGroupedCreation(p)
	}
	index, ok := indexOf(p)
	if ok != workloads.Indexed(j) || parseIndexes(j.Status.CompletedIndexes, workloads.Completions(j)).has(index) && ok {
		l.t.Fatalf("a pod is created for the index %d", index)
	}
	for _, other := range active {
		if i, _ := indexOf(other); ok && i == index {
			l.t.Fatalf("a second pod is created for the index %d", index)
		}
	}
}

// beforeGroupedCreation checks that the pod belongs to the PodGroup of the Job, and that this exists. One whose first pods were made
// without one has none: nobody asks for it, and somebody else has deleted the PodGroup.
func (l *life) beforeGroupedCreation(p *corev1.Pod) {
	g := plantest.One[*schedulingv1beta1.PodGroup](l.World, sumGroup)
	if of := p.Spec.SchedulingGroup; of != nil && (g == nil || *of.PodGroupName != g.Name) || of == nil && l.job().Spec.Scheduling != nil {
		l.t.Fatalf("a pod is created in the group %v, and there is %v", of, g)
	}
	if g != nil && g.Spec.SchedulingPolicy.Gang != nil && g.Spec.SchedulingPolicy.Gang.MinCount != gangSize(l.job()) {
		l.t.Fatalf("a pod is created for a gang of %d, and the Job is one of %d", g.Spec.SchedulingPolicy.Gang.MinCount, gangSize(l.job()))
	}
}

// beforeRelease checks that a pod that has ended is counted before its finalizer goes. A change of an older version of the pod is refused
// if it must not have ended.
func (l *life) beforeRelease(now, after *corev1.Pod) {
	if !podutil.Finished(now) || now.ResourceVersion != after.ResourceVersion && !podutil.Finished(after) {
		return
	}
	j := l.job()
	lists := j.Status.UncountedTerminatedPods
	if index, ok := indexOf(now); ok && now.Status.Phase == corev1.PodSucceeded &&
		parseIndexes(j.Status.CompletedIndexes, workloads.Completions(j)).has(index) {
		return
	}
	if !slices.Contains(lists.Succeeded, now.UID) && !slices.Contains(lists.Failed, now.UID) {
		l.t.Fatalf("%s loses its finalizer before it is counted", now.Name)
	}
}

// look notes which pods have ended, and which will.
func (l *life) look() {
	for _, p := range l.pods() {
		l.seen[p.UID] = p
		switch {
		case workloads.Tracked(p) && podutil.Finished(p):
			l.ended[p.UID] = true
		case workloads.Tracked(p) && p.DeletionTimestamp != nil:
			l.may[p.UID] = true
		}
	}
}

// happen is something that happens to the Job.
func (l *life) happen() {
	t := l.t
	switch rapid.SampledFrom([]string{"run", "end", "end", "end", "delete", "size", "suspend", "wait", "kill", "orphan",
		"no group"}).Draw(t, "happens") {
	case "run":
		l.run()
	case "end":
		if pods := l.running(); len(pods) > 0 {
			p := rapid.SampledFrom(pods).Draw(t, "ends")
			l.end(p.Name, rapid.SampledFrom([]corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "as"), 1)
		}
	case "delete":
		pods := slices.DeleteFunc(l.running(), func(p *corev1.Pod) bool { return len(p.OwnerReferences) == 0 })
		if len(pods) > 0 {
			left := l.left
			l.left = -1
			l.Apply(planOf(plan.Delete{Objects: []plan.Object{rapid.SampledFrom(pods).Draw(t, "deleted")}}))
			l.left = left
		}
	case "size":
		n := rapid.Int32Range(0, 4).Draw(t, "parallelism")
		plantest.Edit(l.World, "sum", func(j *batchv1.Job) { j.Spec.Parallelism = &n })
	case "suspend":
		plantest.Edit(l.World, "sum", func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(!workloads.Suspended(j)) })
	case "wait":
		l.Sleep(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
	case "kill":
		l.kill()
	case "no group":
		for _, o := range []plan.Object{
			plantest.One[*schedulingv1beta1.Workload](l.World, sumWorkload), plantest.One[*schedulingv1beta1.PodGroup](l.World, sumGroup),
		} {
			if !reflect.ValueOf(o).IsNil() && rapid.Bool().Draw(t, "goes") {
				l.Remove(o)
			}
		}
	case "orphan": // which will be adopted again
		pods := slices.DeleteFunc(slices.Clone(l.pods()), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
		if len(pods) > 0 {
			plantest.Edit(l.World, rapid.SampledFrom(pods).Draw(t, "orphan").Name, func(p *corev1.Pod) { p.OwnerReferences = nil })
		}
	}
	l.look()
	l.reap()
}

// Whatever happens to a Job and its pods, and whenever the process dies: each pod that ends is counted exactly once, no pod loses its
// finalizer before that, there are never more active pods than parallelism, and no index runs twice at a time.
func TestEachPodIsCountedOnce(t *testing.T) { // JOB-40
	rapid.Check(t, func(t *rapid.T) {
		l := beginLife(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			l.happen()
			if rapid.Bool().Draw(t, "reconciles") {
				l.left = rapid.IntRange(-1, 8).Draw(t, "dies after")
				_, _, _ = l.pass()
				l.look()
			}
		}
		l.left = -1
		l.rest()
		counted := int(l.told.Succeeded + l.told.Failed)
		s := l.snapshot()
		for _, p := range s.toReplace { // have ended, and will be counted
			if workloads.Tracked(p) {
				counted++
			}
		}
		least, most := len(l.ended), len(l.ended)
		for uid := range l.may {
			if !l.ended[uid] {
				most++
			}
		}
		if counted < least || counted > most {
			t.Fatalf("%d pods are counted of %d to %d that have ended: %s", counted, least, most, statusLine(batchv1.JobStatus{}, l.told))
		}
	})
}

// rest lets time pass until nothing is left to write.
func (l *life) rest() {
	for range 30 {
		l.kill()
		l.look()
		l.reap()
		if diary := l.settle(); len(diary) == 0 {
			return
		}
		l.look()
	}
	l.t.Fatal("does not come to rest")
}

// drawSnapshot makes a Job and pods in any state.
func drawSnapshot(t *rapid.T) view {
	edits := []jobEdit{
		func(*batchv1.Job) {}, byIndex, limitPerIndex(1), late, noCompletions, suspend, dying, deadline(60), onFailure,
		policy(onDisruption("Ignore"), onExit("FailIndex", 3), onExit("FailJob", 4)),
		condTrue(batchv1.JobFailureTarget, "x"), condTrue(batchv1.JobSuccessCriteriaMet, "x"), condTrue(batchv1.JobSuspended, "x"),
		gang(), gang(3), annotated(workloadNameAnnotation, "train", groupTemplateAnnotation, "worker"),
	}
	j := sum(rapid.Int32Range(0, 4).Draw(t, "completions"), parallel(rapid.Int32Range(0, 4).Draw(t, "parallelism")),
		rapid.SampledFrom(edits).Draw(t, "job"), rapid.SampledFrom(edits).Draw(t, "job"))
	var lists batchv1.UncountedTerminatedPods
	var pods []*corev1.Pod
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		p := pod(nameOf(i))
		for range 3 {
			rapid.SampledFrom(podEdits).Draw(t, "is")(p)
		}
		switch rapid.IntRange(0, 5).Draw(t, "listed") {
		case 0:
			lists.Succeeded = append(lists.Succeeded, p.UID)
		case 1:
			lists.Failed = append(lists.Failed, p.UID)
		}
		pods = append(pods, p)
	}
	j.Status.UncountedTerminatedPods = &lists
	return newView(now, snapshot{Job: j, Pods: pods, Scheduling: drawScheduling(t, j)})
}

// drawScheduling draws what the caches have of the Workload and the PodGroup of a Job.
func drawScheduling(t *rapid.T, j *batchv1.Job) *scheduling {
	if rapid.Bool().Draw(t, "without groups") {
		return nil
	}
	s := &scheduling{Workload: theirs()}
	if !delegated(j) {
		s.Workload, _ = newWorkload(j)
		s.Workload.UID = "workload"
	}
	s.PodGroup, _ = newPodGroup(j, s.Workload)
	s.PodGroup.UID = "group"
	for _, policy := range []*schedulingv1beta1.PodGroupSchedulingPolicy{&s.PodGroup.Spec.SchedulingPolicy,
		&s.Workload.Spec.PodGroupTemplates[0].SchedulingPolicy} {
		if policy.Gang != nil {
			policy.Gang.MinCount = rapid.Int32Range(1, 4).Draw(t, "size")
		}
	}
	switch rapid.IntRange(0, 4).Draw(t, "lacks") {
	case 0:
		s.Workload = nil
	case 1:
		s.PodGroup = nil
	case 2:
		s.Workload, s.PodGroup = nil, nil
	case 3:
		s.Workload, s.PodGroup = nil, nil
		s.WorkloadTaken, s.PodGroupTaken = rapid.Bool().Draw(t, "taken"), rapid.Bool().Draw(t, "taken")
	}
	return s
}

var podEdits = []podEdit{
	func(*corev1.Pod) {}, succeeded, failed, failedWith(3, time.Hour), failedWith(4, time.Second), ready, disrupted, untracked, terminating,
	orphan, relabelled,
	grouped(sumGroup), pending, index("0"), index("1"), index("9"), failedBefore("1"), restarted(4),
}

// Neither plan nor report changes what belongs to the caches, depends on the order of the pods, or writes an object twice.
func TestPlansArePure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before, _ := json.Marshal(s)
		planned := planPods(now, s)
		var did plan.Outcome
		for _, o := range changed(planned.Steps) {
			did.Results = append(did.Results, plan.Result{Verb: plan.Changed, Object: o})
		}
		reported := reportStatus(now, s, did)
		after, _ := json.Marshal(s)
		if string(before) != string(after) {
			t.Fatal("the snapshot has changed")
		}
		again := s.snapshot
		again.Pods = rapid.Permutation(s.Pods).Draw(t, "order")
		shuffled := newView(now, again)
		sorted := func(p plan.Plan) []string { // also within a line: pods that are deleted together have no order
			all := lines(p.Steps)
			for i := range all {
				parts := strings.Split(all[i], ", ")
				slices.Sort(parts)
				all[i] = strings.Join(parts, ", ")
			}
			slices.Sort(all)
			return all
		}
		if a, b := sorted(planned), sorted(planPods(now, shuffled)); !slices.Equal(a, b) {
			t.Fatalf("the order matters to the plan: %s", cmp.Diff(a, b))
		}
		if a, b := sorted(reported), sorted(reportStatus(now, shuffled, did)); !slices.Equal(a, b) {
			t.Fatalf("the order matters to the report: %s", cmp.Diff(a, b))
		}
		touched := map[types.UID]bool{}
		for _, o := range changed(append(planned.Steps, reported.Steps...)) {
			if touched[o.GetUID()] {
				t.Fatalf("%s is written twice", o.GetName())
			}
			touched[o.GetUID()] = true
		}
	})
}

// changed returns the objects that steps change.
func changed(steps []plan.Step) (all []plan.Object) {
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Change:
			all = append(all, s.Old)
		case plan.Each:
			for _, sequence := range s.Sequences {
				all = append(all, changed(sequence)...)
			}
		}
	}
	return all
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		restored := newView(now, plantest.Restored(t, s.snapshot))
		if a, b := lines(planPods(now, s).Steps), lines(planPods(now, restored).Steps); !slices.Equal(a, b) {
			t.Fatal(cmp.Diff(a, b))
		}
		if a, b := lines(reportStatus(now, s, plan.Outcome{}).Steps),
			lines(reportStatus(now, restored, plan.Outcome{}).Steps); !slices.Equal(a, b) {
			t.Fatal(cmp.Diff(a, b))
		}
	})
}

var narrow = sync.OnceValues(func() (informers.Projection, error) { return managertest.Projection(New(Options{})) })

func TestIgnoresFieldsNotCached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		p, err := narrow()
		if err != nil {
			t.Fatal(err)
		}
		kept := make([]*corev1.Pod, len(s.Pods))
		for i, whole := range s.Pods {
			kept[i] = p.ProjectPod(whole)
		}
		narrow := s.snapshot
		narrow.Pods = kept
		cached := newView(now, narrow)
		if a, b := lines(planPods(now, s).Steps), lines(planPods(now, cached).Steps); !slices.Equal(a, b) {
			t.Fatal(cmp.Diff(a, b))
		}
		if a, b := lines(reportStatus(now, s, plan.Outcome{}).Steps),
			lines(reportStatus(now, cached, plan.Outcome{}).Steps); !slices.Equal(a, b) {
			t.Fatal(cmp.Diff(a, b))
		}
	})
}

// JOB-73: a policy may name a condition that every pod has.
func TestPoliciesSeeAllConditionsOfFailedPods(t *testing.T) {
	p, err := narrow()
	if err != nil {
		t.Fatal(err)
	}
	unready := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	r := batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionFailJob,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: unready.Type, Status: unready.Status},
		}}
	cached := p.ProjectPod(pod("a", failed, func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, unready) }))
	if got := matchPolicy(sum(1, policy(r)), cached).action; got != r.Action {
		t.Errorf("%q", got)
	}
	if running := p.ProjectPod(pod("b",
		func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, unready) })); len(running.Status.Conditions) > 0 {
		t.Errorf("kept of a running pod: %v", running.Status.Conditions)
	}
}

func TestIndexesReadBack(t *testing.T) { // JOB-69
	for text, want := range map[string]string{
		"1,3-5,7,8": "1,3-5,7,8", "": "", "0": "0", "0,1": "0,1", "0-1": "0,1", "0,1,2": "0-2", "5,1": "1,5", "1-3,2-4": "1-4",
		"x,2,-1,3-1,7-": "2", "98-200": "98,99", "+1,01": "",
	} {
		if got := parseIndexes(text, 100).String(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOf(rapid.IntRange(0, 40)).Draw(t, "indexes")
		other := indexes{}.with(rapid.SliceOf(rapid.IntRange(0, 40)).Draw(t, "others")...)
		set := indexes{}.with(numbers...)
		if back := parseIndexes(set.String(), 41); !reflect.DeepEqual([]interval(set), []interval(back)) && len(set)+len(back) > 0 {
			t.Fatalf("%v is read back as %v", set, back)
		}
		both := 0
		for i := range 42 {
			if set.has(i) != slices.Contains(numbers, i) {
				t.Fatalf("%v has %d: %t", set, i, set.has(i))
			}
			if set.has(i) && other.has(i) {
				both++
			}
		}
		if set.covered(other) != both {
			t.Fatalf("%v and %v: %d in both, want %d", set, other, set.covered(other), both)
		}
	})
}

// Whatever a status or an annotation says, it is read without a panic, and what was read is read again.
func FuzzIndexes(f *testing.F) {
	f.Add("1,3-5,7,8", 10)
	f.Add("-,,9999999999999-1", -1)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		set := parseIndexes(text, limit)
		if again := parseIndexes(set.String(), limit); again.String() != set.String() {
			t.Errorf("%q is read as %q and then as %q", text, set, again)
		}
		annotatedCount(text)
	})
}
