package persistentvolumebinder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// emptyCaches are caches that a test fills.
func emptyCaches(t interface{ Fatal(...any) }) *caches {
	k, err := newCaches(informers.NewFactory(clientset(), 0))
	if err != nil {
		t.Fatal(err)
	}
	k.brake = brake.New(brake.Budget{})
	return k
}

// clientset is one for all caches, which nothing is asked of.
var clientset = sync.OnceValue(func() kubernetes.Interface { return fake.NewClientset() })

// show puts an object into the caches.
func (k *caches) show(o plan.Object) { must(k.indexer(o).Update(o)) }

func (k *caches) indexer(o plan.Object) cache.Indexer {
	switch o.(type) {
	case *corev1.PersistentVolumeClaim:
		return k.claims.Informer().GetIndexer()
	case *corev1.PersistentVolume:
		return k.volumes.Informer().GetIndexer()
	case *storagev1.StorageClass:
		return k.classes.Informer().GetIndexer()
	case *corev1.Pod:
		return k.pods.Informer().GetIndexer()
	case *storagev1.CSIDriver:
		return k.drivers.Informer().GetIndexer()
	}
	return k.nodes.Informer().GetIndexer()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// world is an API server with claims, volumes and classes, and two managers that see late and die.
type world struct {
	t        *rapid.T
	objects  map[string]plan.Object // by kind and key
	version  int
	managers [2]*caches
	memories [2]map[plan.Key]*volumeMemory
	writes   int // until the process dies; negative: it does not
	trouble  []string
}

func idOf(o plan.Object) string { return fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName()) }

func newWorld(t *rapid.T) *world {
	w := &world{t: t, objects: map[string]plan.Object{}, writes: -1}
	for i := range w.managers {
		w.managers[i], w.memories[i] = emptyCaches(t), map[plan.Key]*volumeMemory{}
	}
	return w
}

func (w *world) put(o plan.Object) {
	w.version++
	o = o.DeepCopyObject().(plan.Object)
	o.SetResourceVersion(strconv.Itoa(w.version))
	w.objects[idOf(o)] = o
}

func of[T plan.Object](w *world) (all []T) {
	for _, id := range slices.Sorted(maps.Keys(w.objects)) {
		if o, ok := w.objects[id].(T); ok {
			all = append(all, o)
		}
	}
	return all
}

// catchUp has a manager's cache of a kind show what there is.
func catchUp[T plan.Object](w *world, manager int) {
	var example T
	indexer := w.managers[manager].indexer(example)
	var items []any
	for _, o := range of[T](w) {
		items = append(items, o)
	}
	must(indexer.Replace(items, ""))
}

func (w *world) syncAll(manager int) {
	catchUp[*corev1.PersistentVolumeClaim](w, manager)
	catchUp[*corev1.PersistentVolume](w, manager)
	catchUp[*storagev1.StorageClass](w, manager)
}

// reader reads live.
type reader struct {
	client.Client
	w *world
}

func (r reader) Get(_ context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	into.SetNamespace(key.Namespace)
	into.SetName(key.Name)
	switch o := r.w.objects[idOf(into)].(type) {
	case *corev1.PersistentVolumeClaim:
		o.DeepCopyInto(into.(*corev1.PersistentVolumeClaim))
	case *corev1.PersistentVolume:
		o.DeepCopyInto(into.(*corev1.PersistentVolume))
	default:
		return apierrors.NewNotFound(m.GroupResource(), key.Name)
	}
	return nil
}

var errDead = errors.New("the process has died")

// apply carries out a plan as the executor does: the second change of an object goes with the version that the first has made.
func (w *world) apply(p plan.Plan) error {
	made := map[string]string{}
	for _, step := range p.Steps {
		c, ok := step.(plan.Change)
		if !ok {
			continue
		}
		if w.writes == 0 {
			return errDead
		}
		w.writes--
		now, id := w.objects[idOf(c.Old)], idOf(c.Old)
		expected := c.Old.GetResourceVersion()
		if v := made[id]; v != "" {
			expected = v
		}
		if now == nil || now.GetResourceVersion() != expected {
			return fmt.Errorf("%w: %s", plan.ErrStale, id)
		}
		w.judge(now, c.New)
		w.put(merged(now, c))
		made[id] = strconv.Itoa(w.version)
	}
	return nil
}

// merged is what the server makes of an update: of the status alone, or of all but the status.
func merged(now plan.Object, c plan.Change) plan.Object {
	after := c.New.DeepCopyObject().(plan.Object)
	switch o := after.(type) {
	case *corev1.PersistentVolumeClaim:
		if was := now.(*corev1.PersistentVolumeClaim); c.Subresource == plan.Status {
			was = was.DeepCopy()
			was.Status = o.Status
			return was
		} else {
			o.Status = was.Status
		}
	case *corev1.PersistentVolume:
		if was := now.(*corev1.PersistentVolume); c.Subresource == plan.Status {
			was = was.DeepCopy()
			was.Status = o.Status
			return was
		} else {
			o.Status = was.Status
		}
	}
	return after
}

// judge looks at a write of a manager.
func (w *world) judge(before, after plan.Object) {
	switch after := after.(type) {
	case *corev1.PersistentVolumeClaim:
		was := before.(*corev1.PersistentVolumeClaim)
		v, _ := w.objects[idOf(&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: after.Spec.VolumeName}})].(*corev1.PersistentVolume)
		if labels.Set(after.Annotations).Has(bindCompleted) && !labels.Set(was.Annotations).Has(bindCompleted) &&
			(v == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != after.UID) {
			w.trouble = append(w.trouble, fmt.Sprintf("PV-34: %s is bound to %s, which is not its own", after.Name, after.Spec.VolumeName))
		}
		if was.Status.Phase == corev1.ClaimBound && after.Status.Phase == corev1.ClaimLost && v != nil && names(v, after) {
			w.trouble = append(w.trouble, fmt.Sprintf("PV-24: %s is Lost, and has %s", after.Name, v.Name))
		}
	case *corev1.PersistentVolume:
		was := before.(*corev1.PersistentVolume)
		if ref := was.Spec.ClaimRef; ref != nil && ref.UID != "" && after.Spec.ClaimRef != nil && after.Spec.ClaimRef.UID != "" &&
			after.Spec.ClaimRef.UID != ref.UID {
			w.trouble = append(w.trouble, fmt.Sprintf("PV-22: %s is taken from %s", after.Name, ref.Name))
		}
		if after.Status.Phase != corev1.VolumeReleased || was.Status.Phase == corev1.VolumeReleased {
			return
		}
		for _, c := range of[*corev1.PersistentVolumeClaim](w) {
			if c.UID == was.Spec.ClaimRef.UID && (c.Spec.VolumeName == "" || c.Spec.VolumeName == was.Name) {
				w.trouble = append(w.trouble, fmt.Sprintf("PV-37: %s is Released, and its claim %s exists", was.Name, c.Name))
			}
		}
	}
}

// observeClaim is what a manager knows of a claim before its plan is carried out.
func (w *world) observeClaim(manager int, key plan.Key) claimObservation {
	k := w.managers[manager]
	o, err := k.observeClaim(context.Background(), reconcile.Request[claimMemory]{Key: key, Now: epoch})
	must(err)
	o, _, err = managertest.Prove(context.Background(), reader{w: w}, epoch, o, k.proveClaim, func(s claimSnapshot) plan.Plan {
		_, p := planClaim(epoch, s)
		return p
	})
	must(err)
	return o
}

// observeVolume is the same for a volume. The error is that of a live read.
func (w *world) observeVolume(manager int, key plan.Key) (volumeObservation, error) {
	request := reconcile.Request[volumeMemory]{Key: key, Now: epoch, Memory: w.memories[manager][key]}
	o, err := w.managers[manager].observeVolume(context.Background(), request)
	must(err)
	o, _, err = managertest.Prove(context.Background(), reader{w: w}, epoch, o, proveVolume, func(s volumeSnapshot) plan.Plan {
		_, p := planVolume(epoch, s)
		return p
	})
	return o, err
}

// reconcileClaim has a manager look at a claim, and says whether it has written.
func (w *world) reconcileClaim(manager int, key plan.Key) bool {
	o := w.observeClaim(manager, key)
	before := plantest.Restored(w.t, o.Snapshot)
	_, p := planClaim(epoch, o.Snapshot)
	if diff := cmp.Diff(before, plantest.Restored(w.t, o.Snapshot)); diff != "" {
		w.t.Fatalf("the plan changes what was observed: %s", diff)
	}
	if _, again := planClaim(epoch, before); said(again) != said(p) || again.Why != p.Why {
		w.t.Fatalf("%s, and after it was stored: %s", p.Why, again.Why)
	}
	return w.write(p)
}

func (w *world) reconcileVolume(manager int, name string) bool {
	key := plan.Key{Name: name}
	o, err := w.observeVolume(manager, key)
	if err != nil {
		return false
	}
	before := plantest.Restored(w.t, o.Snapshot)
	d, p := planVolume(epoch, o.Snapshot)
	if diff := cmp.Diff(before, plantest.Restored(w.t, o.Snapshot)); diff != "" {
		w.t.Fatalf("the plan changes what was observed: %s", diff)
	}
	if _, again := planVolume(epoch, before); said(again) != said(p) || again.Why != p.Why {
		w.t.Fatalf("%s, and after it was stored: %s", p.Why, again.Why)
	}
	m, _ := rememberVolume(epoch, o.Snapshot, d, o.Memory, plan.Outcome{}, plan.Outcome{})
	w.memories[manager][key] = m
	return w.write(p)
}

func (w *world) write(p plan.Plan) bool {
	version := w.version
	if err := w.apply(p); err != nil && !errors.Is(err, errDead) && !errors.Is(err, plan.ErrStale) {
		w.t.Fatal(err)
	}
	return w.version > version
}

// do is something that a user, a driver or a manager does.
func (w *world) do() {
	t := w.t
	name := func(prefix string) string { return fmt.Sprint(prefix, rapid.IntRange(0, 1).Draw(t, "number")) }
	manager := rapid.IntRange(0, 1).Draw(t, "manager")
	switch rapid.IntRange(0, 16).Draw(t, "what") {
	case 0:
		c := claim(name("c"),
			rapid.SampledFrom([]string{"", "1Gi", "noclass", "selects=red", "rox", "volume=v0", "class=late", "class=made", "block",
				"deleting"}).Draw(t, "claim"))
		if w.objects[idOf(c)] == nil {
			c.UID = types.UID(fmt.Sprint("uid-", w.version))
			w.put(c)
		}
	case 1:
		v := volume(name("v"),
			rapid.SampledFrom([]string{"phase=Pending", "phase= 9Gi", "phase= class=", "phase= for=c0", "phase= color=red rox rwx",
				"phase= policy=Delete for=c1", "phase= block", "phase= class=late"}).Draw(t, "volume"))
		if w.objects[idOf(v)] == nil {
			v.UID = types.UID(fmt.Sprint("uid-", w.version))
			w.put(v)
		}
	case 2:
		c := claim(name("c"), "")
		delete(w.objects, idOf(c))
	case 3: // an administrator deletes or frees a volume that is not bound
		id := idOf(volume(name("v"), ""))
		if v, ok := w.objects[id].(*corev1.PersistentVolume); ok && v.Status.Phase == corev1.VolumeReleased {
			if delete(w.objects, id); rapid.Bool().Draw(t, "free") {
				v = v.DeepCopy()
				v.Spec.ClaimRef = nil
				w.put(v)
			}
		}
	case 4: // a driver makes a volume
		if c, ok := w.objects[idOf(claim(name("c"), ""))].(*corev1.PersistentVolumeClaim); ok && c.Annotations[provisioner] == "d" &&
			c.Spec.VolumeName == "" {
			v := volume("pvc-"+string(c.UID), "phase=Pending by=d policy=Delete class=made csi")
			v.Spec.AccessModes, v.Spec.VolumeMode, v.Spec.Capacity[corev1.ResourceStorage] = c.Spec.AccessModes, c.Spec.VolumeMode,
				volumes.Requested(c)
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
			if w.objects[idOf(v)] == nil {
				w.put(v)
			}
		}
	case 5:
		w.put(class("made", "d"))
		w.put(class("late", "d", "wait"))
	case 6:
		catchUp[*corev1.PersistentVolumeClaim](w, manager)
	case 7:
		catchUp[*corev1.PersistentVolume](w, manager)
		catchUp[*storagev1.StorageClass](w, manager)
	case 8, 9, 10, 11, 12:
		if w.writes = rapid.IntRange(-1, 4).Draw(t, "writes"); w.reconcileClaim(manager, plan.Key{Namespace: "shop", Name: name("c")}) {
			w.syncAll(manager) // the barrier: it sees its own writes
		}
	default:
		if rapid.Bool().Draw(t, "sees volumes") {
			catchUp[*corev1.PersistentVolume](w, manager)
		}
		if w.writes = rapid.IntRange(-1, 2).Draw(t, "writes"); w.reconcileVolume(manager, name("v")) {
			w.syncAll(manager)
		}
	}
	w.writes = -1
}

// settle has one manager reconcile all until nothing is left to do, and says how many rounds that took.
func (w *world) settle() (rounds int) {
	for wrote := true; wrote && rounds < 20; rounds++ {
		wrote = false
		for _, c := range of[*corev1.PersistentVolumeClaim](w) {
			w.syncAll(0)
			wrote = w.reconcileClaim(0, plan.KeyOf(c)) || wrote
		}
		for _, v := range of[*corev1.PersistentVolume](w) {
			w.syncAll(0)
			wrote = w.reconcileVolume(0, v.Name) || wrote
		}
	}
	return rounds
}

// Whatever users, drivers and two managers do, whose caches are late and which die between any two writes: no volume goes to two
// claims, none is Released while its claim is there, and in the end each claim has what it can have.
func TestPV80NoDoubleBindingsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(20, 120).Draw(t, "events") {
			w.do()
			w.exclusive()
		}
		if rounds := w.settle(); rounds > 8 {
			t.Errorf("ConvergesWithin: it takes %d rounds", rounds)
		}
		w.exclusive()
		w.complete()
		if len(w.trouble) > 0 {
			t.Fatal(strings.Join(w.trouble, "\n"))
		}
	})
}

// Snapshots are data: stored and read back, those of claims and of volumes lead to the same decisions.
func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(5, 60).Draw(t, "events") {
			w.do()
		}
		w.syncAll(0)
		for _, c := range of[*corev1.PersistentVolumeClaim](w) {
			o := w.observeClaim(0, plan.KeyOf(c))
			_, p := planClaim(epoch, o.Snapshot)
			_, again := planClaim(epoch, plantest.Restored(t, o.Snapshot))
			plantest.Same(t, p, again)
		}
		for _, v := range of[*corev1.PersistentVolume](w) {
			o, err := w.observeVolume(0, plan.KeyOf(v))
			must(err)
			_, p := planVolume(epoch, o.Snapshot)
			_, again := planVolume(epoch, plantest.Restored(t, o.Snapshot))
			plantest.Same(t, p, again)
		}
	})
}

// exclusive checks that no two claims that are Bound have one volume, and no two volumes one such claim.
func (w *world) exclusive() {
	has := map[string]string{}
	for _, c := range of[*corev1.PersistentVolumeClaim](w) {
		if c.Status.Phase != corev1.ClaimBound {
			continue
		}
		v, _ := w.objects[idOf(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.Spec.VolumeName}})].(*corev1.PersistentVolume)
		if v == nil || !names(v, c) {
			continue // a user has taken it away
		}
		if other := has[v.Name]; other != "" {
			w.t.Fatalf("PV-26: %s and %s have %s", other, c.Name, v.Name)
		}
		has[v.Name] = c.Name
	}
}

// complete checks what there is at the end.
func (w *world) complete() {
	for _, c := range of[*corev1.PersistentVolumeClaim](w) {
		if c.Status.Phase == corev1.ClaimBound || c.DeletionTimestamp != nil {
			continue
		}
		name, _ := classOf(c)
		of := w.managers[0].classes.Get("", name)
		for _, v := range w.managers[0].volumes.claimed.By("shop/" + c.Name) {
			if names(v, c) && fits(c, name, v) && c.Spec.VolumeName == "" {
				w.trouble = append(w.trouble, fmt.Sprintf("PV-30: %s is reserved for %s, which waits", v.Name, c.Name))
			}
		}
		for v := range w.managers[0].volumes.All() {
			if c.Spec.VolumeName == "" && !labels.Set(c.Annotations).Has(bindCompleted) && free(v) && !delayed(of) && fits(c, name, v) {
				w.trouble = append(w.trouble, fmt.Sprintf("PV-31: %s fits %s, which waits", v.Name, c.Name))
			}
		}
	}
	for _, v := range of[*corev1.PersistentVolume](w) {
		ref := v.Spec.ClaimRef
		gone := ref != nil && ref.UID != "" &&
			!slices.ContainsFunc(of[*corev1.PersistentVolumeClaim](w),
				func(c *corev1.PersistentVolumeClaim) bool { return c.UID == ref.UID })
		if over := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed; gone != over {
			w.trouble = append(w.trouble, fmt.Sprintf("PV-37: %s is %s, and that its claim is gone is %t", v.Name, v.Status.Phase, gone))
		}
	}
}

// A process dies after each number of writes; the next one goes on, and writes no more than what is left
// (SurvivesCrashBetweenAnyTwoWrites).
func TestPV34SurvivesCrashBetweenAnyTwoWrites(t *testing.T) {
	for writes := range 5 {
		rapid.Check(t, func(t *rapid.T) {
			w := newWorld(t)
			w.put(claim("c0", ""))
			w.put(volume("v0", rapid.SampledFrom([]string{"", "for=c0", "9Gi"}).Draw(t, "volume")))
			w.syncAll(0)
			begin := w.version
			w.writes = writes
			w.reconcileClaim(0, plan.Key{Namespace: "shop", Name: "c0"})
			w.writes = -1
			w.settle()
			c := w.objects[idOf(claim("c0", ""))].(*corev1.PersistentVolumeClaim)
			if c.Status.Phase != corev1.ClaimBound || w.version-begin != 4 {
				t.Errorf("after a crash behind %d writes: %s, %d writes", writes, c.Status.Phase, w.version-begin)
			}
		})
	}
}

// IgnoresCacheOrder: in whatever order caches list objects, the same volume is chosen, and the same class is the default.
func TestPV31IgnoresCacheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*corev1.PersistentVolume
		for i := range rapid.IntRange(1, 8).Draw(t, "volumes") {
			all = append(all,
				volume(fmt.Sprint("v", i),
					rapid.SampledFrom([]string{"", "3Gi", "rox", "for=c", "of=c", "class=x", "9Gi rwx"}).Draw(t, "volume")))
		}
		c := claim("c", rapid.SampledFrom([]string{"", "3Gi", "rox"}).Draw(t, "claim"))
		first := bestMatch(c, "fast", all)
		shuffled := rapid.Permutation(all).Draw(t, "order")
		if again := bestMatch(c, "fast", shuffled); again != first {
			t.Errorf("%v and %v", first, again)
		}
		if got := found(c, "fast", index(shuffled...)); called(got) != called(found(c, "fast", index(all...))) {
			t.Errorf("the index: %s", called(got))
		}
	})
}

// What is not cached changes nothing.
func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := class("fast", "d", rapid.SliceOfN(rapid.SampledFrom([]string{"wait", "default", "beta"}), 0, 3).Draw(t, "words")...)
		filled := s.DeepCopy()
		plantest.Anything(rapid.Int64().Draw(t, "seed"))(filled)
		filled.ObjectMeta.Annotations, filled.Provisioner, filled.VolumeBindingMode = s.Annotations, s.Provisioner, s.VolumeBindingMode
		projected, err := kept.Project(filled)
		if err != nil {
			t.Fatal(err)
		}
		p := projected.(*storagev1.StorageClass)
		if isDefault(p) != isDefault(filled) || delayed(p) != delayed(filled) || driverOf(p) != driverOf(filled) {
			t.Errorf("%+v, and from the cache %+v", filled, p)
		}
	})
}

func TestDefaultClass(t *testing.T) { // PV-16
	for _, row := range []struct {
		name    string
		classes []*storagev1.StorageClass
		want    string
	}{
		{"PV-16: none", []*storagev1.StorageClass{class("a", "d")}, ""},
		{"PV-16: the newest",
			[]*storagev1.StorageClass{class("a", "d", "default", "age=1h"), class("b", "d", "default", "age=1m"),
				class("c", "d", "age=1s")}, "b"},
		{"PV-16: then by name", []*storagev1.StorageClass{class("b", "d", "default"), class("a", "d", "default")}, "a"},
		{"PV-16: by the old annotation", []*storagev1.StorageClass{class("b", "d", "beta")}, "b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			k := emptyCaches(t)
			for _, c := range row.classes {
				k.show(c)
			}
			name := ""
			if c := k.defaultClass(); c != nil {
				name = c.Name
			}
			if name != row.want {
				t.Errorf("%q", name)
			}
		})
	}
}
