package replicas

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// drawWorld makes a set and pods in any state: its own, orphans and those of others, matching or not, of any phase.
func drawWorld(t *rapid.T) *world {
	set := web(rapid.Int32Range(0, 6).Draw(t, "replicas"))
	set.Generation = rapid.Int64Range(1, 3).Draw(t, "generation")
	if rapid.Bool().Draw(t, "in a Deployment") {
		rolledOut(rapid.SampledFrom([]string{"2", "4", "x"}).Draw(t, "desired"))(set)
	}
	if rapid.Bool().Draw(t, "waits") {
		minReady(60)(set)
	}
	if rapid.Bool().Draw(t, "has failed") {
		set.Status.Conditions = []appsv1.ReplicaSetCondition{failing("FailedCreate", "no")}
	}
	all := rapid.SliceOfNDistinct(podGen(), 0, 10, func(p *corev1.Pod) types.UID { return p.UID }).Draw(t, "pods")
	for _, p := range all {
		alter(t, p)
	}
	return &world{set: set, pods: all}
}

// alter makes a pod one that may not be the set's, or may not count.
func alter(t *rapid.T, p *corev1.Pod) {
	edits := map[string]podEdit{
		"as is": pass, "as is too": pass, "an orphan": orphan, "another's": controlledBy("other"), "relabelled": labeled("app=x"),
		"terminating": terminatingPod, "failed": phase(corev1.PodFailed), "done": phase(corev1.PodSucceeded),
	}
	names := make([]string, 0, len(edits))
	for name := range edits {
		names = append(names, name)
	}
	slices.Sort(names)
	edits[rapid.SampledFrom(names).Draw(t, "is")](p)
	if rapid.IntRange(0, 5).Draw(t, "twice") == 0 {
		edits[rapid.SampledFrom(slices.DeleteFunc(names, func(n string) bool { return n == "another's" })).Draw(t, "also")](p)
	}
}

// ownedBySet are the active pods that the set has or adopts, by the facts RS-12, RS-20 and RS-22.
func ownedBySet(s view) (n int) {
	for _, p := range s.Pods {
		ref := metav1.GetControllerOf(p)
		matches := labels.SelectorFromSet(s.Set.Spec.Selector.MatchLabels).Matches(labels.Set(p.Labels))
		if podutil.Active(p) && matches && (ref == nil && s.Set.DeletionTimestamp == nil || ref != nil && ref.UID == s.Set.UID) {
			n++
		}
	}
	return n
}

func planned(p plan.Plan) (creates, deletes int, adopts bool) {
	for _, step := range p.Steps {
		switch s := step.(type) {
		case plan.Create:
			creates += max(1, s.Count)
		case plan.Delete:
			deletes += len(s.Objects)
		case plan.Each:
			for _, sequence := range s.Sequences {
				adopts = adopts || sequence[0].(plan.Change).Adopt
			}
		}
	}
	return creates, deletes, adopts
}

func TestNeverCreatesMoreThanMissing(t *testing.T) { // RS-25, RS-40
	rapid.Check(t, func(t *rapid.T) {
		s := drawWorld(t).snapshotOf()
		*s.Set.Spec.Replicas *= rapid.SampledFrom([]int32{1, 1, 500}).Draw(t, "times")
		creates, _, _ := planned(planPods(now, s))
		if missing := max(0, int(*s.Set.Spec.Replicas)-ownedBySet(s)); creates != min(missing, 500) {
			t.Fatalf("%d missing, creates %d", missing, creates)
		}
	})
}

func TestNeverDeletesBelowReplicas(t *testing.T) { // RS-25, RS-40
	rapid.Check(t, func(t *rapid.T) {
		s := drawWorld(t).snapshotOf()
		_, deletes, adopts := planned(planPods(now, s))
		excess := max(0, ownedBySet(s)-int(*s.Set.Spec.Replicas))
		if want := min(excess, 500); !adopts && deletes != want || adopts && deletes != 0 {
			t.Fatalf("%d too many, deletes %d, adopts: %t", excess, deletes, adopts)
		}
	})
}

// What is written belongs to the set, or is adopted; no object is written twice in a pass (see world.apply).
func TestTouchesOnlyItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		before := w.snapshotOf()
		w.pass(t)
		for _, p := range before.Pods {
			ref := metav1.GetControllerOf(p)
			matches := p.Labels["app"] == "web"
			mine := ref != nil && ref.UID == w.set.UID || ref == nil && matches && podutil.Active(p)
			if after := w.pods[w.find(t, p)]; !mine && !reflect.DeepEqual(p, after) {
				t.Fatalf("%s was changed:\n%s", p.Name, cmp.Diff(p, after))
			}
		}
	})
}

func TestIgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawWorld(t).snapshotOf()
		shuffled := newSnapshot(s.Set, rapid.Permutation(s.Pods).Draw(t, "shuffled"))
		a, b := lines(planPods(now, s).Steps), lines(planPods(now, shuffled).Steps)
		slices.Sort(a)
		slices.Sort(b)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(reportStatus(now, s, plan.Outcome{}), reportStatus(now, shuffled, plan.Outcome{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestLeavesInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		s := w.snapshotOf()
		related := map[string]int{"n1": 1}
		s.Related = related
		set := s.Set.Object.DeepCopyObject()
		copies := slices.Clone(s.Pods)
		for i, p := range s.Pods {
			copies[i] = p.DeepCopy()
		}
		order := slices.Clone(s.Pods)
		p := planPods(now, s)
		did := w.apply(t, p.Steps)
		reportStatus(now, s, did)
		deletionAgeRatios(now, s, did)
		if !reflect.DeepEqual(set, s.Set.Object) || !reflect.DeepEqual(copies, s.Pods) || !slices.Equal(order, s.Pods) ||
			len(related) != 1 {
			t.Fatal("the snapshot was changed")
		}
	})
}

// ConvergesWithin three passes: adoptions and releases, then creations or deletions, then nothing. When the pods have come to rest, the
// status says what is there, and that is the end of it.
func TestConvergesWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.pass(t)
		w.pass(t)
		if p, _ := w.pass(t); !p.Empty() {
			t.Fatalf("still at it: %v", lines(p.Steps))
		}
		w.bury()
		w.rouse()
		w.pass(t)
		if n := ownedBySet(w.snapshotOf()); n != int(*w.set.Spec.Replicas) {
			t.Fatalf("%d pods", n)
		}
		c := podutil.Count(w.pods, w.set.Spec.MinReadySeconds, now)
		if st := w.set.Status; st.Replicas != *w.set.Spec.Replicas || st.ReadyReplicas > c.Ready ||
			st.ObservedGeneration != w.set.Generation || len(st.Conditions) != 0 {
			t.Fatalf("status %+v", st)
		}
		if p, r := w.pass(t); !p.Empty() || !r.Empty() {
			t.Fatalf("no rest: %v, %v", lines(p.Steps), lines(r.Steps))
		}
	})
}

// A set that has what it wants and has said so is left alone, whatever else is in its namespace (RS-49).
func TestConvergedPlanIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int32Range(0, 5).Draw(t, "size")
		w := &world{set: web(size, told(size)), pods: pods(int(size))}
		for i, p := range rapid.SliceOfN(podGen(), 0, 5).Draw(t, "others") {
			uid(types.UID(fmt.Sprint("other-", i)))(p)
			rapid.SampledFrom([]podEdit{controlledBy("other"), phase(corev1.PodFailed),
				func(p *corev1.Pod) { orphan(p); labeled("app=x")(p) }}).Draw(t, "other")(p)
			w.pods = append(w.pods, p)
		}
		if p, r := w.pass(t); !p.Empty() || !r.Empty() || p.Requeue != 0 || r.Requeue != 0 {
			t.Fatalf("%v, %v", lines(p.Steps), lines(r.Steps))
		}
	})
}

// Once the caches show what a pass did, there is nothing to do twice.
func TestRepeatedPlanIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		first, _ := w.pass(t)
		_, _, adopted := planned(first)
		second, _ := w.pass(t)
		if _, deletes, _ := planned(second); !second.Empty() && (!adopted || deletes == 0 || len(second.Steps) > 1) {
			t.Fatalf("first %v, then %v", lines(first.Steps), lines(second.Steps))
		}
	})
}

// A snapshot is data: stored and read back, it leads to the same decision.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for _, p := range w.pods {
			wholeSeconds(p)
		}
		s := w.snapshotOf()
		back := newView(plantest.Restored(t, s.snapshot))
		if diff := cmp.Diff(planPods(now, s), planPods(now, back), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(reportStatus(now, s, plan.Outcome{}), reportStatus(now, back, plan.Outcome{}),
			cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// wholeSeconds makes the times of a pod such as servers send.
func wholeSeconds(p *corev1.Pod) {
	p.CreationTimestamp = p.CreationTimestamp.Rfc3339Copy()
	for i := range p.Status.Conditions {
		since := &p.Status.Conditions[i].LastTransitionTime
		*since = since.Rfc3339Copy()
	}
}

// IgnoresFieldsNotCached: what the caches leave out of pods changes no decision.
func TestIgnoresFieldsNotCached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		var slimPods []*corev1.Pod
		for _, p := range w.pods {
			fatten(t, p)
			slimPods = append(slimPods, projected(t, p).(*corev1.Pod))
		}
		full, slim := w.snapshotOf(), newSnapshot(OfReplicaSet(w.set), slimPods)
		a, b := planPods(now, full), planPods(now, slim)
		if diff := cmp.Diff(projectedPlan(t, a), projectedPlan(t, b)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(reportStatus(now, full, plan.Outcome{}), reportStatus(now, slim, plan.Outcome{})); diff != "" {
			t.Fatal(diff)
		}
		gone := func(s view) (did plan.Outcome) {
			for _, p := range s.Pods {
				did.Results = append(did.Results, plan.Result{Verb: plan.Deleted, Object: p})
			}
			return did
		}
		if diff := cmp.Diff(deletionAgeRatios(now, full, gone(full)), deletionAgeRatios(now, slim, gone(slim))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The event about pods that fail at once names the reason of the last one.
func TestReasonsOfFailedPodsAreCached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := podGen().Draw(t, "pod")
		p.Status.Reason = "OutOfcpu"
		if got := projected(t, p).(*corev1.Pod).Status.Reason; got != p.Status.Reason {
			t.Fatalf("%q is kept", got)
		}
	})
}

// ownProjection is what the caches keep if there is no other controller.
var ownProjection = sync.OnceValues(func() (informers.Projection, error) {
	f := informers.NewFactory(nil, 0)
	if _, err := informers.Pods(f, podFields()); err != nil {
		return nil, err
	}
	return f.Projection()
})

func projected(t failer, o any) any {
	p, err := ownProjection()
	if err != nil {
		t.Fatalf("project: %v", err)
	}
	slim, _ := p.Transform(o)
	return slim
}

// projectedPlan projects the pods in a plan, other than those it creates.
func projectedPlan(t failer, p plan.Plan) plan.Plan {
	var steps func([]plan.Step) []plan.Step
	steps = func(in []plan.Step) (out []plan.Step) {
		for _, step := range in {
			switch s := step.(type) {
			case plan.Change:
				s.Old, s.New = projected(t, s.Old).(plan.Object), projected(t, s.New).(plan.Object)
				step = s
			case plan.Delete:
				s.Objects = slices.Clone(s.Objects)
				for i, o := range s.Objects {
					s.Objects[i] = projected(t, o).(plan.Object)
				}
				step = s
			case plan.Each:
				var each plan.Each
				for _, sequence := range s.Sequences {
					each.Sequences = append(each.Sequences, steps(sequence))
				}
				step = each
			}
			out = append(out, step)
		}
		return out
	}
	p.Steps = steps(p.Steps)
	return p
}

// fatten gives a pod what pods have and nobody here reads.
func fatten(t *rapid.T, p *corev1.Pod) {
	text := rapid.StringN(0, 8, 8)
	wholeSeconds(p)
	p.GenerateName = text.Draw(t, "generateName")
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: text.Draw(t, "manager"), Operation: "Update"}}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations["example.com/"+text.Draw(t, "key")] = text.Draw(t, "value")
	p.Generation = rapid.Int64().Draw(t, "generation")
	p.Spec.ServiceAccountName, p.Spec.SchedulerName = text.Draw(t, "account"), text.Draw(t, "scheduler")
	p.Spec.RestartPolicy, p.Spec.Priority = corev1.RestartPolicy(text.Draw(t, "restartPolicy")), ptr.To(rapid.Int32().Draw(t, "priority"))
	p.Spec.NodeSelector = map[string]string{text.Draw(t, "node"): "x"}
	p.Spec.Volumes = []corev1.Volume{{Name: text.Draw(t, "volume")}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: text.Draw(t, "toleration")}}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Image, c.Command = text.Draw(t, "image"), []string{text.Draw(t, "command")}
		c.Env = []corev1.EnvVar{{Name: text.Draw(t, "env")}}
		c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
		c.Ports = []corev1.ContainerPort{{Name: text.Draw(t, "port"), ContainerPort: 80}}
	}
	p.Status.Message, p.Status.HostIP = text.Draw(t, "message"), text.Draw(t, "hostIP")
	p.Status.StartTime, p.Status.QOSClass = ptr.To(ago(time.Hour)), corev1.PodQOSClass(text.Draw(t, "qos"))
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		c.Image, c.Ready, c.ContainerID = text.Draw(t, "image"), rapid.Bool().Draw(t, "ready"), text.Draw(t, "id")
	}
	p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", RestartCount: rapid.Int32Range(0, 9).Draw(t, "debug")}}
}

// FuzzSelector: whatever the selector, a pass neither panics nor takes what the selector does not match, and one that
// selects everything takes nothing.
func FuzzSelector(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"matchLabels":{"app":"web"}}`, `{"matchLabels":{"":""}}`, `{"matchExpressions":[{"key":"app","operator":"Exists"}]}`,
		`{"matchExpressions":[{"key":"app","operator":"In","values":["web"]}]}`, `{"matchExpressions":[{"key":"app","operator":"?"}]}`,
		`{"matchExpressions":[{"key":"x","operator":"NotIn","values":["y"]}]}`, `null`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var selector *metav1.LabelSelector
		if json.Unmarshal([]byte(text), &selector) != nil {
			return
		}
		w := &world{
			set:  web(2, func(set *appsv1.ReplicaSet) { set.Spec.Selector = selector }),
			pods: list(pod("a"), pod("b", orphan), pod("c", orphan, labeled("app=x")), pod("d", controlledBy("other"))),
		}
		before := w.snapshotOf()
		w.pass(t)
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		for _, p := range before.Pods {
			after := w.pods[w.find(t, p)]
			changed := !equality.Semantic.DeepEqual(p, after)
			adopted := changed && metav1.IsControlledBy(after, w.set)
			if changed && (err != nil || selector == nil || parsed.Empty()) || adopted && !parsed.Matches(labels.Set(p.Labels)) {
				t.Fatalf("%s changed by %s:\n%s", p.Name, text, cmp.Diff(p, after))
			}
		}
		// Three more passes don't run away.
		for range 3 {
			w.pass(t)
		}
		if len(w.pods) > 6 {
			t.Fatalf("%d pods by %s", len(w.pods), text)
		}
	})
}
