package statefulset

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// observer is the controller's caches, and what it remembers of the set web.
type observer struct {
	*testing.T
	caches
	memory *memory
}

func newObserver(t *testing.T, objects ...plan.Object) *observer {
	t.Helper()
	f := informers.NewFactory(fake.NewClientset(), 0)
	o := &observer{T: t}
	var errs [4]error
	o.sets, errs[0] = informers.Objects[*appsv1.StatefulSet](f)
	o.pods, errs[1] = informers.Pods(f)
	o.claims, errs[2] = informers.Objects[*corev1.PersistentVolumeClaim](f)
	o.revisions, errs[3] = informers.OwnedObjects[*appsv1.ControllerRevision](f)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	o.put(objects...)
	return o
}

// put puts objects into the caches.
func (o *observer) put(objects ...plan.Object) {
	o.Helper()
	for _, object := range objects {
		var store cache.Indexer
		switch object.(type) {
		case *appsv1.StatefulSet:
			store = o.sets.Informer().GetIndexer()
		case *corev1.Pod:
			store = o.pods.Informer().GetIndexer()
		case *corev1.PersistentVolumeClaim:
			store = o.claims.Informer().GetIndexer()
		default:
			store = o.revisions.Informer().GetIndexer()
		}
		if err := store.Add(object); err != nil {
			o.Fatal(err)
		}
	}
}

// look observes the set and remembers that.
func (o *observer) look() snapshot {
	o.Helper()
	key := plan.Key{Namespace: plantest.Namespace, Name: "web"}
	seen, err := o.observe(o.Context(), reconcile.Request[memory]{Key: key, Now: now, Memory: o.memory})
	if err != nil || !seen.Exists {
		o.Fatalf("exists: %t, %v", seen.Exists, err)
	}
	d, _ := planSet(now, seen.Snapshot)
	o.memory, _ = remember(now, seen.Snapshot, d, seen.Memory, plan.Outcome{}, plan.Outcome{})
	return seen.Snapshot
}

// TestBlockedOrdinals: pods that cannot be created yet do not keep those above them from being created.
func TestBlockedOrdinals(t *testing.T) {
	set := web(burst+2, parallel, claims("data"), policy("Delete/Retain"))
	there := []plan.Object{set, revision("v1", 1, set), claim(fmt.Sprint("data-web-", burst))}
	for i := range burst {
		if i%2 == 0 { // another pod has the name
			there = append(there, pod(set, i, "v1", orphan, relabelled))
		} else {
			there = append(there, claim(fmt.Sprint("data-web-", i), ownedBy(fmt.Sprint("old pod web-", i))))
		}
	}
	want := []string{"create web-500", "create data-web-501, create web-501"}
	if diff := cmp.Diff(want, lines(planned(now, newObserver(t, there...).look()).Steps)); diff != "" {
		t.Errorf("STS-52, STS-53 (-want +got):\n%s", diff)
	}
}

// TestBurst: no more is looked up and created than one reconcile may create, whatever number is wanted.
func TestBurst(t *testing.T) {
	set := web(1<<31-1, parallel, claims("data"))
	s := newObserver(t, set, revision("v1", 1, set)).look()
	created, _ := podsOf(planned(now, s))
	if len(created) != burst || created[0] != 0 || created[burst-1] != burst-1 {
		t.Errorf("STS-52 creates %v", created)
	}
	parallelFailure := web(1<<31-1, parallel, partition(9), func(set *appsv1.StatefulSet) { set.Status.CurrentRevision = "web-bad" })
	bad := revision("v0", 1, parallelFailure)
	bad.Name, bad.Data.Raw = "web-bad", []byte("{")
	s = newObserver(t, parallelFailure, bad, revision("v1", 2, parallelFailure)).look()
	if created, _ := podsOf(planned(now, s)); len(created) != burst-9 {
		t.Errorf("STS-52 of a revision that cannot be read, creates %d", len(created))
	}
}

// TestNewDefaults: an API server that has been upgraded adds a default to the template. No new revision comes of it, also not when the
// set is scaled afterwards, and until the template itself is changed.
func TestNewDefaults(t *testing.T) {
	old := revision("v1", 1, web(1))
	observed := func(set *appsv1.StatefulSet) { // the status is up to date, as far as a leader has seen the set
		set.Status.ObservedGeneration, set.Status.CurrentRevision, set.Status.UpdateRevision = 1, old.Name, old.Name
	}
	upgraded := func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.SchedulerName = "default-scheduler" }
	generation := func(n int64) edit { return func(set *appsv1.StatefulSet) { set.Generation = n } }
	o := newObserver(t, old)
	for _, c := range []struct {
		name string
		set  *appsv1.StatefulSet
		want []string
	}{
		{"before the upgrade", web(1, observed), nil},
		{"after it", web(1, observed, upgraded), nil},
		{"it is scaled", web(2, observed, upgraded, generation(2)), nil},
		{"and again, before the status says so", web(3, observed, upgraded, generation(3)), nil},
		{"the template is changed", web(3, observed, upgraded, generation(4), image("v2")), []string{"create revision 2"}},
	} {
		o.put(c.set)
		r := newRollout(now, o.look())
		if diff := cmp.Diff(c.want, lines(r.steps)); diff != "" {
			t.Errorf("STS-34 %s (-want +got):\n%s", c.name, diff)
		}
		if c.want == nil && r.update.Name != old.Name {
			t.Errorf("STS-34 %s: the update revision is %s", c.name, r.update.Name)
		}
	}
}
