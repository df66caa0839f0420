//go:build unix

package growth

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/internal/testing/costs"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
)

// Bounds are of CPU time on the machine on which they were set: they are multiplied by costs.Slowness.
const (
	// most is the CPU time that all controllers may take together over a change of an object of a megabyte.
	most = 250 * time.Millisecond
	// mostServed is the CPU time that the requests about it may take in the API server, which takes up to 3 s to apply a status beside
	// 30,000 finalizers. A strategic merge patch of those takes it 12 s.
	mostServed = 5 * time.Second
	// little is what is not looked at any further.
	little = 40 * time.Millisecond
)

var (
	only = flag.String("shapes", "", "measure only shapes that match this expression, as in 'Pod .spec'")
	// What grows with the square of the size shows in a quarter of a megabyte, too, in a quarter of the time.
	size = flag.Int("bytes", 1<<18, "the size of objects")
)

// heap is how many bytes may be left when all objects of a kind have gone: what is measured is not exact.
const heap = 6 << 20

// costly are what may take longer, and why.
var costly = map[string]string{
	"Deployment .spec.selector": "the selector is parsed in each reconcile, and is part of a ReplicaSet that is created",
	"DaemonSet .spec.template":  "the template is part of a revision that is created",
}

// Of each kind that is cached, each list and map that is kept may grow: what an object costs grows with it, and not faster.
func TestWhatAnObjectCosts(t *testing.T) {
	var failed []failure
	inWorld(t, manager.Options{Controllers: registry(t, collector)}, func(w *world) {
		kept, err := w.manager.Projection()
		if err != nil {
			t.Fatal(err)
		}
		of := map[schema.GroupVersionKind][]apiserver.Object{}
		for _, o := range ordinary("grown") {
			kinds, _, err := scheme.Scheme.ObjectKinds(o)
			if err != nil {
				t.Fatal(err)
			}
			of[kinds[0]] = append(of[kinds[0]], o)
		}
		masks := kept.(*projection.Projection).Masks()
		for _, kind := range slices.SortedFunc(maps.Keys(masks),
			func(a, b schema.GroupVersionKind) int { return strings.Compare(a.Kind, b.Kind) }) {
			if strings.HasSuffix(kind.Kind, "List") {
				continue
			}
			if len(of[kind]) == 0 {
				t.Errorf("ordinary has no %s", kind.Kind)
			}
			for _, o := range of[kind] {
				failed = append(failed, w.growAll(kind.Kind, o, masks[kind].Mask)...)
			}
		}
	})
	for _, f := range failed[:min(3, len(failed))] {
		t.Logf("%s costs: %v", f.name, blame(t, f))
	}
}

// collector is judged by itself, as it works on objects of all kinds alike.
const collector = "garbage-collector-controller"

const (
	// megabyte is the size of an object that costs one controller no more than mostOfOne.
	megabyte  = 1 << 20
	mostOfOne = 50 * time.Millisecond
)

// missed is what the collector takes at most in the place of mostOfOne: owners of kinds that are not served are looked up each by itself.
// docs/performance.md has the figures.
var missed = map[string]time.Duration{
	".metadata.ownerReferences": 2 * time.Second, ".metadata.ownerReferences#1": 2 * time.Second,
}

// What grows in the metadata of an object costs the garbage collector little, and no more than in proportion.
func TestWhatAnObjectCostsTheGarbageCollector(t *testing.T) {
	alone := slices.DeleteFunc(registry(t), func(c manager.Controller) bool { return c.Name != collector })
	inWorld(t, manager.Options{Controllers: alone}, func(w *world) {
		o := &corev1.ConfigMap{ObjectMeta: about("grown")}
		shapes := slices.DeleteFunc(shapesOf(o), func(s shape) bool { return !strings.HasPrefix(s.path, ".metadata.") })
		for _, s := range shapes { // maps keep the room that they have once had
			w.life(o, s, megabyte)
		}
		left := w.left(func() {
			for _, s := range shapes {
				w.growOne(s.String(), o, s, megabyte, max(mostOfOne, missed[s.String()]))
			}
		})
		if left > heap {
			t.Errorf("%d KB are left", left>>10)
		}
	})
}

// failure is a shape that costs too much.
type failure struct {
	name   string
	object apiserver.Object
	shape  shape
}

// left returns by how many bytes the heap has grown when all that was done has come to an end.
func (w *world) left(do func()) int64 {
	left := costs.Heap(do)
	if left > heap { // somebody may still wait for something
		left += costs.Heap(func() {
			time.Sleep(15 * time.Minute)
			w.tidy()
		})
	}
	return left
}

// growAll grows each list and map of an object that is kept.
func (w *world) growAll(kind string, o apiserver.Object, mask *projection.Mask) (failed []failure) {
	chosen, looked, dropped := regexp.MustCompile(*only), 0, 0
	left := w.left(func() {
		for _, s := range shapesOf(o) {
			grown, _, _ := s.grow(w.T, o, *size/16)
			encoded, err := grown.(interface{ Marshal() ([]byte, error) }).Marshal()
			if err != nil {
				w.Fatal(err)
			}
			if len(mask.Apply(encoded)) < *size/256 {
				dropped++
				continue
			}
			looked++
			if name := kind + " " + s.String(); chosen.MatchString(name) && !w.growOne(name, o, s, *size, bound(name)) {
				failed = append(failed, failure{name, o, s})
			}
		}
	})
	w.Logf("%s: %d shapes, %d are not kept, %d KB are left", kind, looked, dropped, left>>10)
	if left > heap {
		w.Errorf("%s: %d KB are left, and in the API server: %v", kind, left>>10, w.stored())
	}
	return failed
}

// bound is how much a shape may cost all controllers.
func bound(name string) time.Duration {
	for prefix := range costly {
		if strings.HasPrefix(name, prefix) {
			return 3 * most
		}
	}
	return most
}

// growOne measures one shape, and reports whether it costs what it may. What takes too long is measured again, as the machine has other
// things to do.
func (w *world) growOne(name string, o apiserver.Object, s shape, bytes int, bound time.Duration) bool {
	large := w.life(o, s, bytes)
	if large.max() <= w.slow.times(little) && slices.Max(large.served[:]) <= w.slow.times(little) {
		return true
	}
	small := w.life(o, s, bytes/4)
	for range 2 {
		if large.within(small, bound, w.slow) {
			break
		}
		w.slow = slowness(costs.Slowness()) // which may have changed since
		small, large = small.better(w.life(o, s, bytes/4)), large.better(w.life(o, s, bytes))
	}
	if !large.within(small, bound, w.slow) {
		w.Errorf("%s: %d elements cost %v and the API server %v, a quarter of them %v and %v, on a machine that is %.1f times as slow",
			name, large.n, large.steps, large.served, small.steps, small.served, w.slow)
		return false
	}
	w.Logf("%s: %d elements: %v, %v, a quarter of them: %v, %v", name, large.n, large.steps, large.served, small.steps, small.served)
	return true
}

// life is what came of the life of an object: what it cost that it came, that one element changed, and that it went; and what the requests
// cost the API server that the manager made then.
type life struct {
	n      int
	steps  [3]time.Duration
	served [3]time.Duration
}

func (l life) max() time.Duration { return slices.Max(l.steps[:]) }

// slowness is how many times as long as on the machine for which bounds were set everything takes.
type slowness float64

// times is a bound on this machine.
func (s slowness) times(bound time.Duration) time.Duration {
	return time.Duration(float64(s) * float64(bound))
}

// within reports whether the costs are bounded, beside those of an object of a quarter of the size.
func (l life) within(small life, bound time.Duration, slow slowness) bool {
	for i, took := range l.steps {
		if took > slow.times(bound) || took > 8*max(small.steps[i], 0)+slow.times(little) {
			return false
		}
	}
	return slices.Max(l.served[:]) <= slow.times(mostServed)
}

// better returns the least of each.
func (l life) better(other life) life {
	for i := range l.steps {
		l.steps[i], l.served[i] = min(l.steps[i], other.steps[i]), min(l.served[i], other.served[i])
	}
	return l
}

func (w *world) life(o apiserver.Object, s shape, bytes int) (l life) {
	grown, changed, n := s.grow(w.T, o, bytes)
	resource := w.server.ResourceOfObject(o)
	w.server.Remove(resource, o.GetNamespace(), o.GetName())
	w.tidy()
	l.n = n
	for i, change := range []func(){
		func() { w.server.Put(grown) },
		func() { w.server.Put(changed) },
		func() { w.server.Remove(resource, o.GetNamespace(), o.GetName()) },
	} {
		l.steps[i], l.served[i] = w.cost(change)
	}
	w.orphaned(changed.GetUID())
	w.tidy()
	return l
}

// blame tells which controllers take how long over a shape, each alone.
func blame(t *testing.T, f failure) (guilty []string) {
	t.Helper()
	for _, c := range registry(t) {
		inWorld(t, manager.Options{Controllers: []manager.Controller{c}}, func(w *world) {
			if l := w.life(f.object, f.shape, *size); l.max() > w.slow.times(little) {
				guilty = append(guilty, fmt.Sprintf("%s %v", c.Name, l.steps))
			}
		})
	}
	return guilty
}
