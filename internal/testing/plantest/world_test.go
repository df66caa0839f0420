package plantest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// pair is a world with a Deployment of 2 and its ReplicaSet.
func pair() (*World, *appsv1.Deployment, *appsv1.ReplicaSet) {
	d := Deployment("web", 2)
	w := NewWorld(d, ReplicaSet("web-1", 2, d.Spec.Template, OwnedBy(d)))
	return w, One[*appsv1.Deployment](w, "web"), One[*appsv1.ReplicaSet](w, "web-1")
}

func edited[T plan.Object](o T, edit func(T)) T {
	o = o.DeepCopyObject().(T)
	edit(o)
	return o
}

func apply(w *World, steps ...plan.Step) plan.Outcome { return w.Apply(plan.Plan{Steps: steps}) }

func TestGenerations(t *testing.T) {
	w, d, rs := pair()
	apply(w,
		plan.Change{Old: rs, New: edited(rs, func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = 3; rs.Status.Replicas = 9 })},
		plan.Change{Old: d, Subresource: plan.Status, New: edited(d, func(d *appsv1.Deployment) {
			*d.Spec.Replicas = 7
			d.Status.Replicas = 2
			d.Annotations = map[string]string{"revision": "1"}
			d.Labels = map[string]string{"no": "way"}
		})})
	rs, d = One[*appsv1.ReplicaSet](w, "web-1"), One[*appsv1.Deployment](w, "web")
	if rs.Generation != 2 || *rs.Spec.Replicas != 3 || rs.Status.Replicas != 0 {
		t.Errorf("a new spec is a new generation, and leaves the status alone: %+v", rs)
	}
	if d.Generation != 1 || *d.Spec.Replicas != 2 || d.Status.Replicas != 2 || d.Annotations["revision"] != "1" || d.Labels != nil {
		t.Errorf("a status write leaves the spec alone, and keeps annotations: %+v", d)
	}
	Edit(w, "web-1", Annotate[*appsv1.ReplicaSet]("a", "b"))
	Edit(w, "web", Annotate[*appsv1.Deployment]("a", "b"))
	if One[*appsv1.ReplicaSet](w, "web-1").Generation != 2 || One[*appsv1.Deployment](w, "web").Generation != 2 {
		t.Errorf("annotations are a new generation for Deployments only")
	}
}

func TestOutdatedWrites(t *testing.T) {
	w, d, rs := pair()
	Edit(w, "web", func(d *appsv1.Deployment) { d.Spec.Paused = true })
	Edit(w, "web-1", func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 5 })
	if did := apply(w,
		plan.Change{Old: d, New: edited(d, func(d *appsv1.Deployment) { d.Status.Replicas = 1 }),
			Subresource: plan.Status}); !apierrors.IsConflict(did.Results[0].Err) {
		t.Errorf("a whole object that is outdated is refused: %v", did.Err)
	}
	if did := apply(w, plan.Change{Old: rs, New: edited(rs, func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = 1 })}); did.Err != nil {
		t.Error(did.Err)
	}
	if rs := One[*appsv1.ReplicaSet](w, "web-1"); *rs.Spec.Replicas != 1 || rs.Spec.MinReadySeconds != 5 {
		t.Errorf("a patch keeps what others have written: %+v", rs.Spec)
	}
	if did := apply(w, plan.Change{Old: rs, New: edited(rs, func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = 1 })}); did.Err == nil {
		t.Errorf("a change that changes nothing is a mistake")
	}
	if did := apply(w, plan.Delete{Objects: []plan.Object{rs}, CheckVersion: true}); !apierrors.IsConflict(did.Results[0].Err) {
		t.Errorf("a version that is a precondition: %v", did.Err)
	}
	if did := apply(w, plan.Delete{Objects: []plan.Object{rs}}, plan.Delete{Objects: []plan.Object{rs}}); did.Err != nil ||
		len(All[*appsv1.ReplicaSet](w)) != 0 {
		t.Errorf("what is gone is gone: %v", did.Err)
	}
	if did := apply(w, plan.Change{Old: rs, New: rs}); !apierrors.IsNotFound(did.Results[0].Err) {
		t.Errorf("what is gone cannot change: %v", did.Err)
	}
}

func TestCreateAndDelete(t *testing.T) {
	w, _, rs := pair()
	w.Sleep(time.Minute)
	pod := Pods(rs, 0, 1)[0]
	pod.Name, pod.GenerateName = "", "web-1-"
	did := apply(w, plan.Create{Object: pod, Count: 3, Events: plan.Events{Done: plan.Event{Reason: "R", Message: "made {name}"}}})
	pods := All[*corev1.Pod](w)
	if did.Err != nil || len(pods) != 3 || len(w.Events) != 3 || pods[0].UID == pods[1].UID || pods[0].Name == pods[1].Name ||
		!pods[0].CreationTimestamp.Time.Equal(Epoch.Add(time.Minute)) {
		t.Errorf("three of a kind: %v, %v", did, pods)
	}
	if did := apply(w, plan.Create{Object: pods[0]}); !apierrors.IsAlreadyExists(did.Results[0].Err) {
		t.Errorf("a name that is taken: %v", did.Err)
	}
	apply(w, plan.Delete{Objects: []plan.Object{pods[0]}})
	if p := All[*corev1.Pod](w)[0]; !p.DeletionTimestamp.Time.Equal(w.Now()) {
		t.Errorf("a pod lingers: %+v", p)
	}
	w.ToyKubelet(1)
	if left := All[*corev1.Pod](w); len(left) != 2 {
		t.Errorf("until the kubelet lets it go: %v", left)
	}
}

func TestFailures(t *testing.T) {
	w, d, rs := pair()
	w.Refuse = func(v plan.Verb, o plan.Object) error {
		if v == plan.Deleted {
			return errors.New("no")
		}
		return nil
	}
	paused := plan.Change{Old: d, New: edited(d, func(d *appsv1.Deployment) { d.Spec.Paused = true })}
	failing := plan.Delete{Objects: []plan.Object{rs}, Events: plan.Events{Failed: plan.Event{Reason: "R", Message: "{name}: {error}"}}}
	if did := apply(w, failing, paused); did.Err == nil || len(did.Results) != 1 || len(w.Log) != 0 {
		t.Errorf("the first failure stops the plan: %+v", did)
	}
	if did := apply(w, plan.Each{Sequences: [][]plan.Step{{failing}, {paused}}}); did.Err == nil || len(did.Results) != 2 {
		t.Errorf("sequences don't stop one another: %+v", did)
	}
	if diff := cmp.Diff([]string{"web-1: no", "web-1: no"}, w.Events); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"change Deployment web"}, w.Log); diff != "" {
		t.Error(diff)
	}
}

func TestCache(t *testing.T) {
	w, d, rs := pair()
	c := NewCache(w)
	sizes := func() [2]int32 {
		return [2]int32{*Cached[*appsv1.Deployment](c)[0].Spec.Replicas, *Cached[*appsv1.ReplicaSet](c)[0].Spec.Replicas}
	}
	for n := range int32(3) {
		Edit(w, "web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 10 + n })
		Edit(w, "web-1", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = 20 + n })
	}
	got := [][2]int32{sizes()}
	Lag[*appsv1.Deployment](c, 1)
	got = append(got, sizes())
	Lag[*appsv1.ReplicaSet](c, 2)
	got = append(got, sizes())
	c.Learn(plan.Outcome{Results: []plan.Result{{Object: rs}}})
	got = append(got, sizes())
	c.CatchUp()
	got = append(got, sizes())
	if diff := cmp.Diff([][2]int32{{2, 2}, {10, 2}, {10, 21}, {10, 22}, {12, 22}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if *d.Spec.Replicas != 2 {
		t.Errorf("what a cache has shown never changes")
	}
}

func TestToys(t *testing.T) {
	w, _, _ := pair()
	all := func(*appsv1.ReplicaSet) bool { return true }
	w.ToyReplicaSets(1)
	w.ToyReplicaSets(5)
	w.ToyKubelet(1)
	w.ToyStatuses(all)
	if s := One[*appsv1.ReplicaSet](w, "web-1").Status; s.Replicas != 2 || s.ReadyReplicas != 1 || s.ObservedGeneration != 1 {
		t.Errorf("two, of which one is ready: %+v", s)
	}
	Edit(w, "web-1", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = 1 })
	w.ToyReplicaSets(5)
	w.ToyStatuses(all)
	if s := One[*appsv1.ReplicaSet](w, "web-1").Status; s.Replicas != 1 || s.ReadyReplicas != 1 || *s.TerminatingReplicas != 1 ||
		s.ObservedGeneration != 2 {
		t.Errorf("the one that is not ready goes: %+v", s)
	}
	EditStatus(w, readyPod(w), Phase(corev1.PodFailed))
	w.ToyReplicaSets(5)
	if n := len(All[*corev1.Pod](w)); n != 3 {
		t.Errorf("one that failed is replaced: %d", n)
	}
}

// readyPod returns the name of the ready pod.
func readyPod(w *World) string {
	for _, p := range All[*corev1.Pod](w) {
		if podutil.Ready(p) {
			return p.Name
		}
	}
	return ""
}
