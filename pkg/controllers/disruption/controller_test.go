package disruption

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

func keyNames(keys []plan.Key) string {
	var names []string
	for _, k := range keys {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// A row is a sentence: a pod that was like this and is like that enqueues these budgets, and itself or not.
func TestEnqueuedByPod(t *testing.T) {
	one := set("web-a", 1)
	b := newBench(t, web(), web(called("either"), selecting("app in (web,x)")), web(called("x"), selecting("app=x")),
		web(called("all"), selecting("all")), web(called("none"), selecting("none")), web(called("bad"), selecting("? bad")),
		web(called("no-y"), selecting("app notin (y),app")))
	pod := func(edits ...podEdit) *corev1.Pod { return podsOf(one, 1, edits...)[0] }
	noise := func(p *corev1.Pod) {
		p.ResourceVersion, p.Status.Phase, p.Status.Message = "2", corev1.PodFailed, "hello"
	}
	for _, c := range []struct {
		name          string
		before, after *corev1.Pod
		want          string
		itself        bool
	}{
		{"DIS-5 a new pod", nil, pod(), "all either no-y web", true},
		{"DIS-5 a pod that is gone", pod(), nil, "all either no-y web", true},
		{"DIS-6 a pod without labels", nil, pod(func(p *corev1.Pod) { p.Labels = nil }), "all", false},
		{"DIS-48 what no budget counts", pod(), pod(noise), "", false},
		{"MEND-16 readiness: all that select it", pod(), pod(unready), "all either no-y web", true},
		{"deletion", pod(), pod(terminating), "all either no-y web", true},
		{"another owner", pod(), pod(bare), "all either no-y web", true},
		{"another pod of the same name", pod(), pod(func(p *corev1.Pod) { p.UID = "x" }), "all either no-y web", true},
		{"MEND-17 DIS-46 labels: those that it leaves, too", pod(), pod(labeled("x")), "all either no-y web x", true},
		{"DIS-46 labels: out of all but one", pod(), pod(labeled("y")), "all either no-y web", true},
		{"DIS-9 a condition that may be stale", pod(labeled("y")), pod(labeled("y"), disruptedSince(0, "")), "", true},
		{"DIS-36 the deletion of such a pod", pod(labeled("y"), disruptedSince(0, "")), nil, "all", true},
		{"DIS-36 the deletion of a pod that has been such a one, or had several budgets", pod(labeled("y")), nil, "all", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after plan.Object
			if c.before != nil {
				before = c.before
			}
			if c.after != nil {
				after = c.after
			}
			if got := keyNames(b.enqueuedByPod(before, after)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := b.enqueuedPod(before, after); (len(got) == 1) != c.itself {
				t.Errorf("the pod itself: %v, want %v", got, c.itself)
			}
		})
	}
}

// DIS-52: the size of a workload enqueues the budgets that depend on it.
func TestDIS52EnqueuedByWorkload(t *testing.T) {
	b := newBench(t, web(), web(called("share"), minAvailable("50%")), web(called("integer"), minAvailable("1")),
		web(called("x"), selecting("app=x")))
	d := plantest.Deployment("web", 3)
	sized := func(n int32) *appsv1.ReplicaSet { return set("web-a", n) }
	other := plantest.Deployment("web", 3)
	other.Status.ReadyReplicas, other.ResourceVersion = 3, "9"
	rc := &corev1.ReplicationController{}
	rc.Namespace, rc.Spec.Template = "shop", &d.Spec.Template
	bigger := rc.DeepCopy()
	bigger.Spec.Replicas = new(int32(4))
	stateful := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: d.Spec.Template}}
	stateful.Namespace = "shop"
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          string
	}{
		{"a new set", nil, sized(3), "share web"},
		{"a set that is gone", sized(3), nil, "share web"},
		{"another size", sized(3), sized(4), "share web"},
		{"adopted", sized(3), set("web-a", 3, plantest.OwnedBy(d)), "share web"},
		{"a Deployment of another size", d, plantest.Deployment("web", 4), "share web"},
		{"what does not matter", d, other, ""},
		{"a ReplicationController", rc, bigger, "share web"},
		{"a StatefulSet", nil, stateful, "share web"},
		{"one without a template", nil, &corev1.ReplicationController{}, ""},
	} {
		if got := keyNames(b.enqueuedByWorkload(c.before, c.after)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDIS4ABudgetThatIsGone(t *testing.T) {
	o, err := newBench(t).observe(t.Context(), request{Key: webKey, Now: now})
	if err != nil || o.Exists {
		t.Errorf("%+v, %v", o, err)
	}
}

// DIS-49: the scale of an owner that is not in the caches is read once, and again when its pods have become more or fewer, or after a
// while.
func TestDIS49ScalesAreRemembered(t *testing.T) {
	b := newBench(t, web())
	widget := set("w", 3)
	if _, err := b.Server.Put(widget); err != nil {
		t.Fatal(err)
	}
	pods := podsOf(set("web-a", 3), 3, ownedBy("apps/v1", "ReplicaSet", "w"))
	b.put(t, pods[0], pods[1])
	r := request{Key: webKey, Now: now, Reader: b}
	look := func(wantReads int, wantAgain time.Duration) {
		t.Helper()
		o, err := b.observe(t.Context(), r)
		p := reportStatus(r.Now, o.Snapshot, plan.Outcome{})
		if err != nil || o.Snapshot.Scale.Replicas != 3 || b.reads != wantReads || p.Requeue != wantAgain {
			t.Errorf("%+v, %d reads, again after %v, want %d and %v", o.Snapshot.Scale, b.reads, p.Requeue, wantReads, wantAgain)
		}
		r.Memory = remembered(o)
	}
	look(1, 0)
	r.Now = now.Add(2 * time.Second)
	look(1, 3*time.Second)
	b.put(t, pods[2])
	look(2, 0)
	r.Now = now.Add(7 * time.Second)
	look(3, 0)

	b.put(t, podsOf(set("web-a", 1), 1, ownedBy("apps/v1", "DaemonSet", "d"), func(p *corev1.Pod) { p.Name = "d" })[0])
	failures := func(want int) {
		t.Helper()
		o, _ := b.observe(t.Context(), r)
		if o.Snapshot.Scale.Error == "" || b.reads != want {
			t.Errorf("%+v, %d reads, want %d", o.Snapshot.Scale, b.reads, want)
		}
		r.Memory = remembered(o)
	}
	failures(4)
	failures(4) // that a kind has no scale is remembered, too
	b.scaleless, b.failing = nil, apierrors.NewServiceUnavailable("down")
	r.Now = r.Now.Add(time.Minute)
	n := b.reads
	failures(n + 2)
	failures(n + 4) // but no other failure
}

// Where a namespace has many pods and budgets, it is not remembered which pods each budget selects: that might be more than fits.
func TestWhatIsRememberedOfBudgetsIsBounded(t *testing.T) {
	three := set("web-a", 3)
	b := newBench(t, web(), web(called("other")), three)
	b.put(t, objects(podsOf(three, 3))...)
	b.large = 1
	for most, want := range map[int]bool{5: false, 6: true} {
		b.most = most
		o, err := b.observe(t.Context(), request{Key: webKey, Now: now, Reader: b})
		if err != nil || o.Snapshot.Counts.Pods != 3 || (o.Memory.Selected != nil) != want {
			t.Errorf("of %d pods at most: %+v, %v", most, o.Memory.Selected, err)
		}
	}
}

// What is counted of a disrupted pod is not older than what is seen of it, although its change has not been told yet: otherwise its
// entry would go, and it would count as healthy, too.
func TestDIS24NothingIsCountedTwice(t *testing.T) {
	three := set("web-a", 3)
	b := newBench(t, web(disruptedAgo("web-a-0", time.Second)), three)
	b.large = 1
	pods := podsOf(three, 3)
	b.put(t, objects(pods)...)
	r := request{Key: webKey, Now: now, Reader: b}
	o, _ := b.observe(t.Context(), r)
	b.put(t, podsOf(three, 1, terminating)[0])
	r.Memory = remembered(o)
	o, _ = b.observe(t.Context(), r)
	if after := written(reportStatus(now, o.Snapshot, plan.Outcome{})); numbers(*after) != "0 2 2 3" || len(after.DisruptedPods) != 0 {
		t.Errorf("%+v", after)
	}
}

// DIS-25: a pod whose deletion is overdue is read live, because its cache may lag: if it is gone, it does not count as healthy again.
func TestDIS25OverduePodsAreReadLive(t *testing.T) {
	three := set("web-a", 3)
	pods := podsOf(three, 3)
	for _, c := range []struct {
		name  string
		shows *corev1.Pod // what the server has of it
		ago   time.Duration
		want  string
		kept  int
	}{
		{"it lives", pods[0], 3 * time.Minute, "1 3 2 3", 0},
		{"it is gone", nil, 3 * time.Minute, "0 2 2 3", 1},
		{"it is being deleted", podsOf(three, 1, terminating)[0], 3 * time.Minute, "0 2 2 3", 1},
		{"another one has its name", podsOf(three, 1, func(p *corev1.Pod) { p.UID = "other" })[0], 3 * time.Minute, "0 2 2 3", 1},
		{"it is not overdue", nil, time.Minute, "0 2 2 3", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, web(disruptedAgo("web-a-0", c.ago)), three)
			b.verifier = b.Server
			b.put(t, objects(pods)...)
			if c.shows != nil {
				if _, err := b.Server.Put(c.shows.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			p := reportStatus(now, b.observed(t), plan.Outcome{})
			if after := written(p); numbers(*after) != c.want || len(after.DisruptedPods) != c.kept || (p.Requeue > 0) != (c.kept > 0) {
				t.Errorf("%+v, again after %v", after, p.Requeue)
			}
		})
	}
}

// lists counts lists.
type lists struct {
	client.Reader
	n int
}

func (l *lists) List(ctx context.Context, m client.Mapping, namespace string, o metav1.ListOptions, into runtime.Object) error {
	l.n++
	return l.Reader.List(ctx, m, namespace, o, into)
}

// DIS-25: however many pods are overdue, the server is asked once for all of them, and ever more rarely while it does not show them.
func TestDIS25LiveReadsAreBounded(t *testing.T) {
	four := set("web-a", 4)
	pods := podsOf(four, 4)
	budget := web(disruptedAgo("web-a-0", 3*time.Minute), disruptedAgo("web-a-1", 3*time.Minute), disruptedAgo("web-a-2", time.Minute))
	b := newBench(t, budget, four)
	read := &lists{Reader: b.Server}
	b.verifier = read
	b.put(t, objects(pods)...)
	for _, p := range pods[1:] {
		if _, err := b.Server.Put(p.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	r := request{Key: webKey, Reader: b}
	look := func(at time.Duration, wantLists int, wantAgain time.Duration, wantDoubtful ...string) {
		t.Helper()
		r.Now = now.Add(at)
		o, err := b.observe(t.Context(), r)
		p := reportStatus(r.Now, o.Snapshot, plan.Outcome{})
		doubtful := slices.Sorted(maps.Keys(o.Snapshot.Doubtful))
		if err != nil || read.n != wantLists || p.Requeue != wantAgain || !slices.Equal(doubtful, wantDoubtful) {
			t.Errorf("after %v: %v, %d lists, again after %v; want %v, %d, %v", at, doubtful, read.n, p.Requeue, wantDoubtful, wantLists,
				wantAgain)
		}
		r.Memory = remembered(o)
	}
	look(0, 1, time.Second, "web-a-0")
	budget = budget.DeepCopy() // web-a-1 is alive, and its entry goes
	delete(budget.Status.DisruptedPods, "web-a-1")
	b.put(t, budget)
	look(500*time.Millisecond, 1, 500*time.Millisecond, "web-a-0")
	look(time.Second, 2, 2*time.Second, "web-a-0")
	look(3*time.Second, 3, 4*time.Second, "web-a-0")
	look(4*time.Second, 3, 3*time.Second, "web-a-0")
	look(time.Minute, 4, 8*time.Second, "web-a-0") // web-a-2 is overdue by now, and alive
	look(time.Minute+time.Second, 5, 7*time.Second, "web-a-0")
	delete(budget.Status.DisruptedPods, "web-a-2")
	look(time.Hour, 6, 15*time.Second, "web-a-0")
	b.put(t, podsOf(four, 1, terminating)[0])
	look(time.Hour+time.Second, 6, 0)
	if r.Memory.Doubts != nil {
		t.Errorf("remembers %+v", r.Memory.Doubts)
	}
}

// After a takeover the pods of a budget are compared with the server: the previous leader may have removed the entry of a pod that
// this process does not know to be terminating.
func TestLive(t *testing.T) {
	three := set("web-a", 3)
	b := newBench(t, web())
	b.put(t, objects(podsOf(three, 3))...)
	l := b.live(b.observed(t))
	if len(l) != 1 || l[0].Kind != b.pods.Kind() || l[0].Namespace != "shop" || l[0].Selector.String() != "app=web" ||
		len(l[0].Cached) != 3 {
		t.Errorf("%+v", l)
	}
	for _, selector := range []string{"none", "? bad"} {
		if l := b.live(snapshot{Budget: web(selecting(selector))}); l != nil {
			t.Errorf("%s: %+v", selector, l)
		}
	}
}

// A pod that is gone is known by what it was.
func TestChangesAreNamed(t *testing.T) {
	p := podsOf(set("web-a", 1), 1)[0]
	if named(reconcile.Change{Before: p}) != "web-a-0" || named(reconcile.Change{After: p}) != "web-a-0" {
		t.Error("a change of a pod has another name")
	}
}

// DIS-26g: the status of a budget is replaced, with its version as a precondition, because the API server takes evictions from it.
// Pods, of which the caches have only parts, are patched.
func TestDIS26gHowItWrites(t *testing.T) {
	for resource, want := range map[schema.GroupResource]client.Method{
		{Group: "policy", Resource: "poddisruptionbudgets"}: client.MethodUpdate,
		{Resource: "pods"}: client.MethodPatch,
	} {
		if got := client.MethodFor(Rights(), resource, plan.Status); got != want {
			t.Errorf("%s: %s, want %s", resource, got, want)
		}
	}
	three := set("web-a", 3)
	b := newBench(t, web(), three)
	b.put(t, objects(podsOf(three, 3))...)
	p := reportStatus(now, b.observed(t), plan.Outcome{})
	if c := p.Steps[0].(plan.Change); c.Old.GetResourceVersion() != "1" || c.New.GetResourceVersion() != "1" ||
		c.Subresource != plan.Status {
		t.Errorf("%+v", c)
	}
}
