package executor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestExecutorRefuses(t *testing.T) {
	owner := newSet()
	mine, foreign := newPod("p", owner), newPod("q", nil)
	custom := &unstructured.Unstructured{}
	custom.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	for _, c := range []struct {
		name  string
		steps []plan.Step
	}{
		{"to delete what the owner does not control", []plan.Step{plan.Delete{Objects: []plan.Object{foreign}}}},
		{"to change what the owner does not control", []plan.Step{plan.Change{Old: foreign, New: labelled(foreign)}}},
		{"to create what the owner would not control", []plan.Step{plan.Create{Object: foreign}}},
		{"to apply what the owner would not control", []plan.Step{plan.Change{New: foreign, Apply: &plan.Apply{FieldManager: "me"}}}},
		{"a second write to an object in one reconcile", []plan.Step{
			plan.Delete{Objects: []plan.Object{mine, mine}},
		}},
		{"to delete a kind that cannot be mapped", []plan.Step{plan.Delete{Objects: []plan.Object{custom}, Unowned: true}}},
		{"to change a kind that cannot be mapped",
			[]plan.Step{plan.Change{New: custom, Apply: &plan.Apply{FieldManager: "me"}, Unowned: true}}},
		{"to create a kind that cannot be mapped", []plan.Step{plan.Create{Object: custom, Unowned: true}}},
		{"an object that does not say its kind", []plan.Step{plan.Create{Object: &unstructured.Unstructured{}, Unowned: true}}},
		{"nil for a step", []plan.Step{nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if did := b.apply(owner, c.steps...); did.Err == nil {
				t.Errorf("done: %+v", did)
			}
			if n := len(b.Server.Log()) - b.CountWrites("refused"); n != 0 {
				t.Errorf("wrote: %v", b.Server.Log())
			}
		})
	}
	t.Run("to say anything about a change that changes nothing", func(t *testing.T) {
		b := newBench(t)
		did := b.apply(owner, plan.Change{Old: mine, New: mine.DeepCopy()})
		if did.Err != nil || did.Wrote() || len(b.Server.Log()) != 0 {
			t.Errorf("%+v %v", did, b.Server.Log())
		}
	})
}

// What the plan's owner does not control is written when the step says so; and only that step.
func TestUnownedSteps(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	p, q := put(b, newPod("p", nil)), put(b, newPod("q", nil))
	did := b.apply(owner,
		plan.Create{Object: newPod("n", nil), Unowned: true},
		plan.Change{Old: p, New: labelled(p), Unowned: true},
		plan.Delete{Objects: []plan.Object{q}, Unowned: true})
	if did.Err != nil {
		t.Error(did.Err)
	}
	b.wantLog("create Pod n", "patch Pod p", "delete Pod q")
	did = b.apply(owner, plan.Create{Object: newPod("m", nil), Unowned: true}, plan.Delete{Objects: []plan.Object{p}})
	if did.Err == nil || len(b.Server.Log()) != 4 {
		t.Errorf("%+v: %v", did, b.Server.Log())
	}
}

// RS-21, GC-47: that a reference cannot be taken off is no failure for an owner that releases what it no longer selects. It is one for
// the garbage collector, which would let the owner go and then delete the object for want of it.
func TestRefusedReleases(t *testing.T) {
	for _, unowned := range []bool{false, true} {
		owner, b := newSet(), newBench(t)
		p := put(b, newPod("p", owner))
		orphan := p.DeepCopy()
		orphan.OwnerReferences = nil
		b.Server.BeforeWrite(func(clienttest.Write) error { return apierrors.NewInvalid(podKind.GroupKind(), "p", nil) })
		did := b.apply(owner, plan.Change{Old: p, New: orphan, Unowned: unowned})
		if failed := did.Err != nil; failed != unowned {
			t.Errorf("unowned %v: %v", unowned, did.Err)
		}
	}
}

// RS-14, DEP-8: one live look at the owner, before the first adoption.
func TestAdoption(t *testing.T) {
	for _, c := range []struct {
		name  string
		live  func(*appsv1.ReplicaSet) // what the server holds
		adopt bool
	}{
		{"owner lives", func(*appsv1.ReplicaSet) {}, true},
		{"owner was replaced by another one of its name", func(s *appsv1.ReplicaSet) { s.UID = "other" }, false},
		{"owner is being deleted", func(s *appsv1.ReplicaSet) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false},
		{"owner is gone", func(s *appsv1.ReplicaSet) { s.Name = "elsewhere" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			owner := newSet()
			onServer := owner.DeepCopy()
			c.live(onServer)
			put(b, onServer)
			reads := &countingReads{Client: b.Server}
			b.Client = reads
			var each plan.Each
			for _, name := range []string{"p", "q"} {
				pod := put(b, newPod(name, nil))
				adopted := pod.DeepCopy()
				adopted.OwnerReferences = newPod(name, owner).OwnerReferences
				each.Sequences = append(each.Sequences, []plan.Step{plan.Change{Old: pod, New: adopted, Adopt: true}})
			}
			did := b.apply(owner, each)
			if got := b.CountWrites("patch Pod") == 2 && did.Err == nil; got != c.adopt {
				t.Errorf("adopted: %v (%+v, %v), want %v", got, did, b.Server.Log(), c.adopt)
			}
			if n := reads.n.Load(); n != 1 {
				t.Errorf("%d live reads", n)
			}
		})
	}
}

type countingReads struct {
	client.Client
	n atomic.Int32
}

func (c *countingReads) Get(ctx context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	c.n.Add(1)
	return c.Client.Get(ctx, m, key, into)
}

// PGC-13, PGC-18: a status may be written and the object then deleted in one reconcile, under the version just written.
func TestDeleteAfterStatusIsUnderTheNewVersion(t *testing.T) {
	b := newBench(t)
	pod := put(b, newPod("p", nil))
	failed := pod.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	did := b.apply(nil, plan.Change{Old: pod, New: failed, Subresource: plan.Status},
		plan.Delete{Objects: []plan.Object{pod}, CheckVersion: true})
	if did.Err != nil || len(did.Results) != 2 {
		t.Errorf("%+v", did)
	}
	b.wantLog("patch Pod p", "delete Pod p")
	if len(b.tracker.DeletedAmong(1, func(int) plan.Object { return pod })) != 1 {
		t.Error("the deletion is not remembered")
	}
	if w := b.Server.Writes(); w[0].Options.Subresource != plan.Status || *w[1].DeleteOptions.Preconditions.ResourceVersion != "3" {
		t.Errorf("%+v", w)
	}
}

// A name that is taken is a failure, because the caches are stale, unless the object that has it is as good.
func TestCreateIfAbsent(t *testing.T) {
	owner := newSet()
	for _, ifAbsent := range []bool{false, true} {
		t.Run(fmt.Sprint(ifAbsent), func(t *testing.T) {
			b := newBench(t)
			put(b, newPod("other", owner))
			there := put(b, newPod("p", owner))
			new := newPod("p", owner)
			new.UID = ""
			did := b.apply(owner, plan.Create{Object: new, IfAbsent: ifAbsent, Events: podEvents})
			b.wantLog("refused create Pod p")
			if got := b.recorded(); len(got) != 0 {
				t.Errorf("events: %v", got)
			}
			if b.waiting("2") != "Pod" || b.waiting("3") != "" {
				t.Error("the key does not wait until the cache shows the object")
			}
			r := did.Results[0]
			if ifAbsent && (did.Err != nil || r.Err != nil || r.Name != "p" || r.UID != there.UID) {
				t.Errorf("%+v", did)
			}
			if !ifAbsent && (!errors.Is(did.Err, plan.ErrStale) || !apierrors.IsAlreadyExists(did.Err) || r.Name != "" || r.UID != "") {
				t.Errorf("%+v", did)
			}
		})
	}
	t.Run("and nothing has the name", func(t *testing.T) {
		b := newBench(t)
		if did := b.apply(owner, plan.Create{Object: newPod("p", owner), IfAbsent: true}); did.Err != nil {
			t.Error(did.Err)
		}
		b.wantLog("create Pod p")
	})
	t.Run("but the role does not allow to read the object", func(t *testing.T) { // SA-6, SA-11
		for _, ifAbsent := range []bool{false, true} {
			b := newBench(t)
			put(b, newPod("p", owner))
			b.Client, b.Config.MayGet = unreadable{b.Server},
				func(resource schema.GroupResource) bool { return resource.Resource != "pods" }
			w := New(b.Config).Begin(b.Context(), owner, &b.barrier)
			did := w.Apply([]plan.Step{plan.Create{Object: newPod("p", owner), IfAbsent: ifAbsent}})
			if ifAbsent && did.Err != nil || !ifAbsent && !errors.Is(did.Err, plan.ErrStale) {
				t.Errorf("%+v", did)
			}
			if w.Taken() != ifAbsent {
				t.Errorf("taken: %v", w.Taken())
			}
		}
	})
	t.Run("but the object cannot be read", func(t *testing.T) {
		b := newBench(t)
		put(b, newPod("p", owner))
		b.Client = unreadable{b.Server}
		if did := b.apply(owner, plan.Create{Object: newPod("p", owner), IfAbsent: true}); !apierrors.IsAlreadyExists(did.Err) ||
			errors.Is(did.Err, plan.ErrStale) {
			t.Errorf("%+v", did)
		}
	})
}

// What cannot be created because its namespace is gone is no failure; any other NotFound is one.
func TestCreateInANamespaceThatIsGone(t *testing.T) {
	owner := newSet()
	for kind, gone := range map[string]bool{"namespaces": true, "pods": false} {
		b := newBench(t)
		b.BeforeWrite(func(clienttest.Write) error { return apierrors.NewNotFound(corev1.Resource(kind), "shop") })
		did := b.apply(owner, plan.Create{Object: newPod("p", owner), Events: podEvents}, plan.Create{Object: newPod("q", owner)})
		if did.Stopped != gone || (did.Err == nil) != gone || gone && len(b.recorded()) > 0 {
			t.Errorf("%s: %+v", kind, did)
		}
	}
}

type unreadable struct{ client.Client }

func (unreadable) Get(context.Context, client.Mapping, plan.Key, plan.Object) error {
	return errors.New("broken connection")
}

func TestDeleteOptions(t *testing.T) {
	owner := newSet()
	for _, c := range []struct {
		name string
		step plan.Delete
		want metav1.DeleteOptions // without the uid
	}{
		{"none", plan.Delete{}, metav1.DeleteOptions{}},
		{"foreground", plan.Delete{Propagation: metav1.DeletePropagationForeground},
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}},
		{"orphan, at once", plan.Delete{Propagation: metav1.DeletePropagationOrphan, Grace: ptr.To[int64](0)},
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan), GracePeriodSeconds: ptr.To[int64](0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			p := put(b, newPod("p", owner))
			c.step.Objects = []plan.Object{p}
			if did := b.apply(owner, c.step); did.Err != nil {
				t.Fatal(did.Err)
			}
			got := b.Server.Writes()[0].DeleteOptions
			if ptr.Deref(got.PropagationPolicy, "none") != ptr.Deref(c.want.PropagationPolicy, "none") ||
				ptr.Deref(got.GracePeriodSeconds, -1) != ptr.Deref(c.want.GracePeriodSeconds, -1) ||
				*got.Preconditions.UID != p.UID || got.Preconditions.ResourceVersion != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestServerSideApply(t *testing.T) {
	owner := newSet()
	apply := &plan.Apply{FieldManager: "me", Force: true}
	b := newBench(t)
	wanted := func(name string) *corev1.Pod {
		p := labelled(newPod(name, owner))
		p.UID = ""
		return p
	}
	// Objects that nobody has observed have no uid, and are still different objects.
	did := b.apply(owner, plan.Change{New: wanted("p"), Apply: apply}, plan.Change{New: wanted("q"), Apply: apply})
	if did.Err != nil || len(did.Results) != 2 || did.Results[0].Name != "p" || did.Results[0].UID == "" {
		t.Fatalf("%+v", did)
	}
	b.wantLog("patch Pod p", "patch Pod q")
	for _, w := range b.Server.Writes() {
		if w.Options.Method != client.MethodApply || w.Options.FieldManager != "me" || !w.Options.Force {
			t.Errorf("%+v", w.Options)
		}
	}
	if did := b.apply(owner, plan.Change{New: wanted("p"), Apply: apply}, plan.Change{New: wanted("p"), Apply: apply}); did.Err == nil {
		t.Error("one object was applied twice in a reconcile")
	}
	b.Method = func(schema.GroupResource, string) client.Method { return client.MethodUpdate }
	there := &corev1.Pod{}
	m, _ := client.BuiltIn(podKind)
	if err := b.Get(t.Context(), m, plan.Key{Namespace: "ns", Name: "q"}, there); err != nil || there.Labels["a"] != "b" {
		t.Fatalf("%+v, %v", there, err)
	}
	if did := b.apply(owner, plan.Change{Old: there, New: there, Apply: apply}); did.Err != nil || did.Wrote() {
		t.Errorf("nothing to apply: %+v", did)
	}
	changed := wanted("q")
	changed.Labels["a"] = "c"
	if did := b.apply(owner, plan.Change{Old: there, New: changed, Apply: apply}); did.Err != nil || !did.Wrote() {
		t.Errorf("something to apply: %+v", did)
	}
}

// A conflict of an apply is one of field managers, which no newer version of the object heals: it is a failure, to be told and
// retried with backoff.
func TestConflictOfFieldManagers(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict}}, "conflict with other")
	b.Server.BeforeWrite(func(clienttest.Write) error { return conflict })
	failed := plan.Events{Failed: plan.Event{Type: "Warning", Reason: "FailedApply", Message: "{error}"}}
	did := b.apply(owner, plan.Change{New: labelled(newPod("p", owner)), Apply: &plan.Apply{FieldManager: "me"}, Events: failed})
	if did.Err == nil || Silent(did.Err) || len(did.Results) != 1 || did.Results[0].Err == nil {
		t.Errorf("%+v", did)
	}
}

// Controllers that may update and not patch do so (RB-13); each subresource has a method of its own.
func TestMethods(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	b.Method = func(r schema.GroupResource, subresource string) client.Method {
		if r.Resource == "pods" && subresource == plan.Status {
			return client.MethodUpdate
		}
		return client.MethodPatch
	}
	p, q := put(b, newPod("p", owner)), put(b, newPod("q", owner))
	ready := q.DeepCopy()
	ready.Status.Phase = corev1.PodRunning
	if did := b.apply(owner, plan.Change{Old: p, New: labelled(p)},
		plan.Change{Old: q, New: ready, Subresource: plan.Status}); did.Err != nil {
		t.Fatal(did.Err)
	}
	b.wantLog("patch Pod p", "update Pod q")
}

// What was changed may be deleted in the same reconcile, and nothing may follow a deletion.
func TestDeletionAfterAChange(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	p := put(b, newPod("p", owner))
	did := b.apply(owner, plan.Change{Old: p, New: labelled(p)}, plan.Delete{Objects: []plan.Object{p}})
	if did.Err != nil || len(did.Results) != 2 {
		t.Errorf("%+v", did)
	}
	q := put(b, newPod("q", owner))
	if did := b.apply(owner, plan.Delete{Objects: []plan.Object{q}}, plan.Change{Old: q, New: labelled(q)}); did.Err == nil {
		t.Error("changed after it was deleted")
	}
}

// A change with Version is refused if the object has changed since it was observed, although it is sent as a patch.
func TestVersionedPatch(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	p := put(b, newPod("p", owner))
	newer := p.DeepCopy()
	newer.Annotations = map[string]string{"by": "another"}
	newer = put(b, newer)
	if did := b.apply(owner, plan.Change{Old: p, New: labelled(p), CheckVersion: true}); !errors.Is(did.Err, plan.ErrStale) {
		t.Errorf("planned from an older version: %+v", did)
	}
	if did := b.apply(owner, plan.Change{Old: newer, New: labelled(newer), CheckVersion: true}); did.Err != nil {
		t.Errorf("planned from the latest version: %+v", did)
	}
}

// sameVersion is a server that answers updates with the version of before, as it does when it removes the object.
type sameVersion struct{ *clienttest.Server }

func (s sameVersion) Update(_ context.Context, _ client.Mapping, o plan.Object, _ client.WriteOptions) (*metav1.PartialObjectMetadata,
	error) {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), ResourceVersion: o.GetResourceVersion()}}, nil
}

// The removal of an object whose last finalizer was taken off is awaited, although no new version tells of it.
func TestRemovalIsAwaited(t *testing.T) {
	for _, c := range []struct {
		name    string
		leaving bool
		before  []string
		after   []string
		want    bool
	}{
		{"the last finalizer", true, []string{"a"}, nil, true},
		{"one of two", true, []string{"a", "b"}, []string{"b"}, false},
		{"of an object that is not being deleted", false, []string{"a"}, nil, false},
	} {
		b := newBench(t)
		b.Client, b.Method = sameVersion{b.Server}, func(schema.GroupResource, string) client.Method { return client.MethodUpdate }
		p := newPod("p", nil)
		if p.Finalizers = c.before; c.leaving {
			p.DeletionTimestamp = &metav1.Time{}
		}
		p = put(b, p)
		after := p.DeepCopy()
		after.Finalizers = c.after
		did := b.apply(nil, plan.Change{Old: p, New: after})
		var caches freshness.Caches
		pods := &store{cache.NewStore(cache.MetaNamespaceKeyFunc), "100"}
		if err := pods.Add(p); err != nil {
			t.Fatal(err)
		}
		caches.Add(podKind, pods)
		if awaited := !b.barrier.Check(caches).Open; did.Err != nil || awaited != c.want {
			t.Errorf("%s: %t, %+v", c.name, awaited, did)
		}
	}
}

// The outcome tells the version of what was written, and whether a deletion found nothing to delete.
func TestVersionsAndNeedlessDeletions(t *testing.T) {
	owner, b := newSet(), newBench(t)
	p := put(b, newPod("p", owner))
	older := p.DeepCopy()
	did := b.apply(owner, plan.Create{Object: newPod("q", owner)}, plan.Change{Old: p, New: labelled(p)})
	if did.Err != nil || did.Results[0].Version == "" || did.Results[1].Version == did.Results[0].Version {
		t.Errorf("%+v", did)
	}
	for _, c := range []struct {
		name     string
		step     plan.Delete
		needless bool
	}{
		{"it has changed", plan.Delete{Objects: []plan.Object{older}, CheckVersion: true}, true},
		{"it is there", plan.Delete{Objects: []plan.Object{older}}, false},
		{"it is gone", plan.Delete{Objects: []plan.Object{older}}, true},
	} {
		if did := b.apply(owner, c.step); did.Err != nil || did.Results[0].Needless != c.needless {
			t.Errorf("%s: %+v", c.name, did)
		}
	}
}

// A controller that works by the clock looks again soon at what others have changed meanwhile, and not only after its period.
func TestPeriodicDeletionOfWhatHasChanged(t *testing.T) {
	owner, b := newSet(), newBench(t)
	b.Config.Periodic = true
	p := put(b, newPod("p", owner))
	older := p.DeepCopy()
	p.Labels = map[string]string{"changed": "by others"}
	put(b, p)
	did := b.apply(owner, plan.Delete{Objects: []plan.Object{older}, CheckVersion: true})
	if !errors.Is(did.Err, plan.ErrStale) || did.Results[0].Needless || !b.barrier.Empty() {
		t.Errorf("%+v", did)
	}
}

// What follows a step that took long is planned anew, because the reasons for it may be gone by then.
func TestWhatFollowsALongStepIsPlannedAnew(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes time.Duration
		log   []string
		want  error
	}{
		{"a short one", 500 * time.Millisecond, []string{"create Pod p", "create Pod q"}, nil},
		{"a long one", 1500 * time.Millisecond, []string{"create Pod p"}, plan.ErrStale},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, owner := newBench(t), newSet()
				b.BeforeWrite(func(clienttest.Write) error {
					time.Sleep(c.takes)
					return nil
				})
				did := b.apply(owner, plan.Create{Object: newPod("p", owner)}, plan.Create{Object: newPod("q", owner)})
				if !errors.Is(did.Err, c.want) || len(did.Results) != len(c.log) {
					t.Errorf("%+v", did)
				}
				b.wantLog(c.log...)
			})
		})
	}
}

// What the server puts off is no event: nothing is wrong with what was to be written.
func TestWhatIsPutOffIsNoEvent(t *testing.T) {
	owner := newSet()
	b := newBench(t)
	p := put(b, newPod("p", owner))
	b.BeforeWrite(func(clienttest.Write) error { return apierrors.NewTooManyRequests("later", 7) })
	for _, step := range []plan.Step{
		plan.Create{Object: generated(owner), Events: podEvents},
		plan.Change{Old: p, New: labelled(p), Events: podEvents},
		plan.Delete{Objects: []plan.Object{p}, Events: podEvents},
	} {
		if did := b.apply(owner, step); !PutOff(did.Err) || len(did.Results) != 1 {
			t.Errorf("%T: %+v", step, did)
		}
	}
	if got := b.recorded(); len(got) != 0 {
		t.Errorf("events: %v", got)
	}
}

// An update takes all that the object has. After a patch, which says nothing of what others have written meanwhile, it is refused.
func TestUpdateOfTheStatusAfterAPatch(t *testing.T) {
	owner := newSet()
	for version, done := range map[bool]bool{true: true, false: false} {
		b := newBench(t)
		b.Method = func(_ schema.GroupResource, subresource string) client.Method {
			if subresource == plan.Status {
				return client.MethodUpdate
			}
			return client.MethodPatch
		}
		p := put(b, newPod("p", owner))
		after := labelled(p)
		after.Status.Phase = corev1.PodFailed
		did := b.apply(owner, plan.Change{Old: p, New: labelled(p), CheckVersion: version},
			plan.Change{Old: labelled(p), New: after, Subresource: plan.Status})
		if (did.Err == nil) != done {
			t.Errorf("the patch with Version %t: %v", version, did.Err)
		}
		if !p.DeepCopy().CreationTimestamp.Equal(&p.CreationTimestamp) || p.ResourceVersion == "" || p.Labels != nil {
			t.Errorf("the plan's object has changed: %+v", p)
		}
	}
}

// What the server refuses of a touch for the sake of the object is a result, and no failure. What passes is one.
func TestRefusedTouch(t *testing.T) {
	status := func(code int, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Message: message}}
	}
	for err, refused := range map[error]bool{
		status(400, "it makes no sense"): true, status(403, "by a policy"): true, status(405, "not here"): true,
		status(413, "too large"): true,
		status(422, "invalid"):   true, status(429, `admission webhook "x" denied the request`): true,
		status(500, `admission webhook "x" denied the request`): true,
		status(401, "who is it?"):                               false, status(408, "slow"): false, status(429, "later"): false,
		status(500, "x"): false, status(503, "x"): false, status(504, "x"): false, errors.New("connection refused"): false,
	} {
		b := newBench(t)
		p := put(b, newPod("p", nil))
		b.BeforeWrite(func(clienttest.Write) error { return err })
		did := b.apply(newSet(), plan.Touch(p, "migrator"), plan.Touch(put(b, newPod("q", nil)), "migrator"))
		if (did.Err == nil) != refused || did.Results[0].Refused != refused || did.Results[0].Err == nil ||
			refused != (len(did.Results) == 2) {
			t.Errorf("%v: %+v", err, did)
		}
	}
}

// An apply with CheckVersion is not carried out if the object has changed, and the key is reconciled again.
func TestApplyOfAVersion(t *testing.T) {
	b := newBench(t)
	p := put(b, newPod("p", nil))
	put(b, labelled(p))
	b.tracker = freshness.NewTracker()
	b.Tracker = b.tracker
	other := labelled(p)
	other.Labels["a"] = "c"
	apply := plan.Change{Old: p, New: other, Apply: &plan.Apply{FieldManager: "me", Force: true}, Unowned: true, CheckVersion: true}
	if did := b.apply(newSet(), apply); !errors.Is(did.Err, plan.ErrStale) {
		t.Errorf("%+v", did)
	}
	apply.CheckVersion = false
	if did := b.apply(newSet(), apply); did.Err != nil {
		t.Errorf("any version: %+v", did)
	}
}

// A touch is sent although nothing differs, with the version and the uid as preconditions. It is needless where somebody else has written.
func TestTouch(t *testing.T) {
	for _, method := range []client.Method{client.MethodPatch, client.MethodUpdate} {
		b := newBench(t)
		b.Method = func(schema.GroupResource, string) client.Method { return method }
		p, gone := put(b, newPod("p", nil)), newPod("gone", nil)
		gone.ResourceVersion = "1"
		newer := labelled(p)
		if did := b.apply(newSet(), plan.Touch(p, "migrator")); did.Err != nil || len(did.Results) != 1 || did.Results[0].Needless ||
			did.Results[0].Version == "" {
			t.Errorf("%s: %+v", method, did)
		}
		b.wantLog(string(method) + " Pod p")
		if w := b.Server.Writes()[0]; w.Options.FieldManager != "migrator" {
			t.Errorf("%s: %+v", method, w.Options)
		}
		put(b, newer)
		for _, o := range []*corev1.Pod{p, gone} {
			// Another executor, as in another process: this one knows what it has written.
			b.tracker = freshness.NewTracker()
			b.Tracker = b.tracker
			did := b.apply(newSet(), plan.Touch(o, "migrator"))
			if did.Err != nil || len(did.Results) != 1 || !did.Results[0].Needless {
				t.Errorf("%s: %s has changed or is gone: %+v", method, o.Name, did)
			}
		}
		if kind := b.waiting("1"); method == client.MethodPatch && kind != "Pod" {
			t.Errorf("waits for %q", kind)
		}
	}
}
