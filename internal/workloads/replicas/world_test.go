package replicas

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// failer is *testing.T or *rapid.T.
type failer interface{ Fatalf(string, ...any) }

// world is one ReplicaSet and the pods of its namespace. It does what plans say, and refuses what the runtime would.
type world struct {
	set     *appsv1.ReplicaSet
	pods    []*corev1.Pod
	made    int
	refuses error // of creations and deletions
}

func (w *world) snapshotOf() view { return newSnapshot(OfReplicaSet(w.set), slices.Clone(w.pods)) }

// pass is one pass over the key. It returns what was planned and what was reported.
func (w *world) pass(t failer) (planned, reported plan.Plan) {
	s := w.snapshotOf()
	planned = planPods(now, s)
	did := w.apply(t, planned.Steps)
	reported = reportStatus(now, s, did)
	w.apply(t, reported.Steps)
	return planned, reported
}

func (w *world) apply(t failer, steps []plan.Step) (did plan.Outcome) {
	touched := map[types.UID]bool{}
	touch := func(o plan.Object) {
		if touched[o.GetUID()] {
			t.Fatalf("%s is written twice in a pass", o.GetName())
		}
		touched[o.GetUID()] = true
	}
	for _, step := range steps {
		switch s := step.(type) {
		case plan.Each:
			for _, sequence := range s.Sequences {
				change := sequence[0].(plan.Change)
				touch(change.Old)
				w.claim(t, change)
				did.Results = append(did.Results, plan.Result{Verb: plan.Changed, Object: change.New})
			}
		case plan.Create:
			for range max(1, s.Count) {
				did.Results = append(did.Results, plan.Result{Verb: plan.Created, Object: s.Object, Err: w.create(t, s.Object)})
			}
		case plan.Delete:
			for _, o := range s.Objects {
				touch(o)
				did.Results = append(did.Results, plan.Result{Verb: plan.Deleted, Object: o, Err: w.delete(t, o)})
			}
		case plan.Change:
			if s.Old.GetUID() != w.set.UID || s.Subresource != plan.Status {
				t.Fatalf("a change of %s", s.Old.GetName())
			}
			w.set = s.New.(*appsv1.ReplicaSet).DeepCopy()
		}
		for _, r := range did.Results {
			if r.Err != nil {
				did.Err = r.Err
				return did
			}
		}
	}
	return did
}

func (w *world) claim(t failer, c plan.Change) {
	before := metav1.GetControllerOfNoCopy(c.Old)
	if c.Adopt != (before == nil) || !c.Adopt && before.UID != w.set.UID {
		t.Fatalf("a claim on %s, which is not ours", c.Old.GetName())
	}
	w.pods[w.find(t, c.Old)] = c.New.(*corev1.Pod).DeepCopy()
}

func (w *world) create(t failer, o plan.Object) error {
	if !metav1.IsControlledBy(o, w.set) {
		t.Fatalf("a created pod does not belong to the set")
	}
	if w.refuses != nil {
		return w.refuses
	}
	w.made++
	p := o.DeepCopyObject().(*corev1.Pod)
	p.Name = fmt.Sprintf("%s%05d", p.GenerateName, w.made)
	p.UID = types.UID("made-" + p.Name)
	p.CreationTimestamp = metav1.NewTime(now)
	p.Status.Phase = corev1.PodPending
	w.pods = append(w.pods, p)
	return nil
}

func (w *world) delete(t failer, o plan.Object) error {
	i := w.find(t, o)
	if !metav1.IsControlledBy(w.pods[i], w.set) {
		t.Fatalf("deleted %s, which is not ours", o.GetName())
	}
	if w.refuses != nil {
		return w.refuses
	}
	p := w.pods[i].DeepCopy()
	p.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	w.pods[i] = p
	return nil
}

func (w *world) find(t failer, o plan.Object) int {
	i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool { return p.UID == o.GetUID() })
	if i < 0 {
		t.Fatalf("a write to %s, which does not exist", o.GetName())
	}
	return i
}

// bury removes the pods that are being deleted.
func (w *world) bury() {
	w.pods = slices.DeleteFunc(w.pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// rouse makes the pods that are starting ready.
func (w *world) rouse() {
	for i, p := range w.pods {
		if p.Status.Phase == corev1.PodPending {
			w.pods[i] = p.DeepCopy()
			phase(corev1.PodRunning)(w.pods[i])
			ready(0)(w.pods[i])
		}
	}
}
