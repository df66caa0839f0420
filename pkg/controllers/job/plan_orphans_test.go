package job

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/testing/termtest"
	"github.com/standalone-kcm/controller-manager/internal/workloads"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

func TestOrphans(t *testing.T) { // JOB-6
	other := func(p *corev1.Pod) { p.OwnerReferences[0].UID = "another" }
	notAJob := func(p *corev1.Pod) {
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].APIVersion = "ReplicaSet", "apps/v1"
	}
	complete := condTrue(batchv1.JobComplete, "x")
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		job  *batchv1.Job
		want bool
	}{
		{"of a Job that runs", pod("a"), sum(1), false},
		{"of a Job that is gone", pod("a"), nil, true},
		{"of a Job of that name, but another", pod("a", other), sum(1), true},
		{"of a finished Job", pod("a"), sum(1, complete), true},
		{"of a finished Job of another controller", pod("a"), sum(1, complete, managedBy("x")), false},
		{"of nobody", pod("a", orphan, relabelled), sum(1), true},
		{"of nobody, a Job will adopt it", pod("a", orphan), sum(1), false},
		{"of nobody, the Job is being deleted", pod("a", orphan), sum(1, dying), true},
		{"of something else", pod("a", notAJob), nil, false},
		{"without finalizer", pod("a", untracked), nil, false},
	} {
		p := planOrphan(now, orphanSnapshot{Pod: c.pod, Job: c.job})
		if got := lines(p.Steps); (len(got) == 1 && got[0] == "untrack a as observed") != c.want || len(got) > 1 {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// JOB-13: what the cache says of a Job that controls a pod is only believed if it is about that Job. A Job that is gone is asked for once.
func TestJobsThatTheCacheDoesNotShow(t *testing.T) {
	another := func(j *batchv1.Job) { j.UID = "another" }
	for _, c := range []struct {
		name           string
		cached, stored *batchv1.Job
		want           []string
	}{
		{"gone", nil, nil, []string{"untrack a as observed", "untrack b as observed"}},
		{"new", nil, sum(1, managedBy("example.com/queue")), nil},
		{"new, the cache shows one that had its name", sum(1, another), sum(1), nil},
		{"gone, and another one has its name", sum(1, another), sum(1, another),
			[]string{"untrack a as observed", "untrack b as observed"}},
		{"cached", sum(1), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := cachesOf(t, pod("a"), pod("b"))
			if c.cached != nil {
				put(t, k.jobs.Informer(), c.cached)
			}
			var got []string
			reads := 0
			for _, name := range []string{"a", "b"} {
				o, err := k.observeOrphan(t.Context(), reconcile.Request[struct{}]{Key: plan.Key{Namespace: "shop", Name: name}})
				if err != nil {
					t.Fatal(err)
				}
				p := planOrphan(now, o.Snapshot)
				if len(p.Proof) > 0 {
					reads++
					o = proveOrphan(o, readJob(o.Snapshot.Pod, c.stored))
					p = planOrphan(now, o.Snapshot)
				}
				if len(p.Proof) > 0 {
					t.Errorf("%s: it asks again for %v", name, p.Proof)
				}
				k.rememberGone(t.Context(), o.Snapshot, struct{}{}, plan.Outcome{}, plan.Outcome{})
				got = append(got, lines(p.Steps)...)
				if c.cached == nil && c.stored != nil && p.Requeue == 0 {
					t.Error("nobody looks again")
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			if c.want != nil && reads != 1 {
				t.Errorf("%d reads", reads)
			}
		})
	}
}

// readJob is the proof that the Job which controls a pod is like that, or is gone.
func readJob(p *corev1.Pod, job *batchv1.Job) reconcile.Proof {
	var found reconcile.Reading
	if job != nil {
		found.Objects = []plan.Object{&metav1.PartialObjectMetadata{ObjectMeta: job.ObjectMeta}}
	}
	return reconcile.Proof{Read: map[plan.Ref]reconcile.Reading{jobOf(p): found}}
}

// A Job that was not read is not known to be gone.
func TestJobsThatCannotBeRead(t *testing.T) {
	unread := reconcile.Proof{Read: map[plan.Ref]reconcile.Reading{jobOf(pod("a")): {Err: errors.New("no answer")}}}
	o := proveOrphan(orphanObservation{Exists: true, Snapshot: orphanSnapshot{Pod: pod("a")}}, unread)
	if p := planOrphan(now, o.Snapshot); len(p.Proof) != 1 || o.Snapshot.Gone {
		t.Errorf("it asks for %v: %+v", p.Proof, o.Snapshot)
	}
}

// Of Jobs that are gone, the latest are remembered.
func TestGoneJobsThatAreRemembered(t *testing.T) {
	k := cachesOf(t)
	for i := range rememberedGone + 10 {
		p := pod("a")
		p.OwnerReferences[0].UID = types.UID(fmt.Sprint(i))
		for range 2 {
			k.rememberGone(t.Context(), orphanSnapshot{Pod: p, Gone: true}, struct{}{}, plan.Outcome{}, plan.Outcome{})
		}
	}
	if gone, _ := k.gone.Get(); len(gone) != rememberedGone || gone[0] != "10" ||
		gone[len(gone)-1] != types.UID(fmt.Sprint(rememberedGone+9)) {
		t.Errorf("%d: from %v to %v", len(gone), gone[0], gone[len(gone)-1])
	}
}

// A pod that nobody controls is compared with the Jobs of its namespace only if it can be adopted, and with few of them.
func TestAdopters(t *testing.T) {
	k := cachesOf(t)
	for i := range 1000 {
		put(t, k.jobs.Informer(), sum(1, func(j *batchv1.Job) {
			j.Name = fmt.Sprint("other-", i)
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": j.Name}}
		}))
	}
	lost := pod("a", orphan)
	if allocated := testing.AllocsPerRun(1, func() { k.adopter(lost) }); k.adopter(lost) != nil || allocated > 100 {
		t.Errorf("%v, with %v allocations", k.adopter(lost), allocated)
	}
	put(t, k.jobs.Informer(), sum(1))
	if got := k.adopter(lost); got == nil || got.Name != "sum" {
		t.Errorf("%v", got)
	}
	if got := k.adopter(pod("a", orphan, terminating)); got != nil {
		t.Errorf("of a pod that is being deleted: %v", got)
	}
	if live := liveOrphan(orphanSnapshot{Pod: lost}); len(live) != 1 || live[0].Kind != jobKind {
		t.Errorf("read live: %v", live)
	}
	for _, p := range list(pod("a"), pod("a", orphan, terminating)) {
		if live := liveOrphan(orphanSnapshot{Pod: p}); len(live) != 0 {
			t.Errorf("read live: %v", live)
		}
	}
}

// cachesOf returns caches that hold the pods.
func cachesOf(t *testing.T, pods ...*corev1.Pod) *caches {
	t.Helper()
	f := informers.NewFactory(fake.NewClientset(), 0)
	jobs, err1 := informers.Objects[*batchv1.Job](f)
	stored, err2 := informers.Pods(f)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	k := newCaches(jobs, stored)
	termtest.Begin(t, k.gone)
	for _, p := range pods {
		put(t, k.pods.Informer(), p)
	}
	return k
}

func put(t *testing.T, informer cache.SharedIndexInformer, o plan.Object) {
	t.Helper()
	if err := informer.GetIndexer().Add(o); err != nil {
		t.Fatal(err)
	}
}

// An adopted pod gains the finalizer, a released one loses it (JOB-12).
func TestClaimsAndTheFinalizer(t *testing.T) {
	s := snapshotOf(sum(2), pod("a", orphan, untracked), pod("b", relabelled))
	mine, steps := claim(s)
	if len(mine) != 1 || !workloads.Tracked(mine[0]) || !metav1.IsControlledBy(mine[0], s.Job) {
		t.Errorf("adopted: %+v", mine)
	}
	for _, o := range changed(steps) {
		if o.GetName() == "a" && workloads.Tracked(o.(*corev1.Pod)) {
			t.Error("the pod of the cache has changed")
		}
	}
	if got := lines(steps); len(got) != 2 {
		t.Errorf("%v", got)
	}
}
