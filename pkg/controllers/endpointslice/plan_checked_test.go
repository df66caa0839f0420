package endpointslice

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// TestWithMemoryItPlansTheSame changes pods, nodes, slices and the service at random, lets writes fail, and compares each plan with
// the one of a controller that checks everything each time.
func TestWithMemoryItPlansTheSame(t *testing.T) {
	settled := 0
	check := func(t *rapid.T) {
		w := newWorld(t)
		disturb := []func(*rapid.T){w.newPod, w.removePod, w.changeService, w.changeNode, w.changeSlice}
		t.Repeat(map[string]func(*rapid.T){
			"change a pod": w.changePod,
			"reconcile":    func(t *rapid.T) { settled += w.reconcile(t) },
			"change a pod, and reconcile": func(t *rapid.T) {
				w.changePod(t)
				settled += w.reconcile(t)
			},
			"new pod": w.newPod,
			"others write, reconcile": func(t *rapid.T) {
				if rapid.IntRange(0, w.calm/3).Draw(t, "calm") == 0 {
					w.changeSlice(t)
					settled += w.reconcile(t)
				}
			},
			"disturb": func(t *rapid.T) {
				if rapid.IntRange(0, w.calm).Draw(t, "calm") == 0 {
					rapid.SampledFrom(disturb).Draw(t, "what")(t)
				}
			},
		})
	}
	for round := 0; settled < 100; round++ { // with -short, a round is 20 checks
		if round == 30 {
			t.Fatalf("only %d slices were settled: there was too little to compare", settled)
		}
		rapid.Check(t, check)
	}
}

// world is what caches show of a service, and what is remembered of it.
type world struct {
	*caches
	service *corev1.Service
	memory  *memory
	changes []reconcile.Change // since the memory was committed
	version int
	calm    int      // the more, the less happens but changes of pods
	edits   []string // of pods
}

func newWorld(t *rapid.T) *world {
	w := &world{caches: newCaches(t), service: drawService(t)}
	w.most, w.large = rapid.IntRange(1, 5).Draw(t, "max"), 0
	w.edits = slices.Sorted(maps.Keys(edits))
	if w.calm = rapid.IntRange(0, 10).Draw(t, "calm"); w.calm > 2 {
		w.edits = []string{"dual", "failed", "hostname", "moved", "named", "nowhere", "other", "terminating", "unready"}
	}
	for name, zone := range zoned {
		w.putNode(t, name, zone)
	}
	w.put(t, w.service)
	for range rapid.IntRange(0, 30).Draw(t, "pods") {
		w.newPod(t)
	}
	return w
}

// next is a version, or a uid, that nothing has had.
func (w *world) next() string {
	w.version++
	return fmt.Sprint(w.version)
}

func (w *world) putNode(t *rapid.T, name, zone string) {
	n := node(name, zone, "1")
	n.ResourceVersion = w.next()
	w.put(t, n)
}

func (w *world) pod(t *rapid.T) *corev1.Pod {
	byName := map[string]*corev1.Pod{}
	for _, p := range w.pods.In("shop") {
		byName[p.Name] = p
	}
	if len(byName) == 0 {
		return nil
	}
	return byName[rapid.SampledFrom(slices.Sorted(maps.Keys(byName))).Draw(t, "pod")]
}

// see lets the caches show a change of a pod, which is recorded if it enqueues the service.
func (w *world) see(t *rapid.T, before, after *corev1.Pod) {
	var c reconcile.Change
	if before != nil {
		c.Before = before
	}
	if after != nil {
		w.put(t, after)
		c.After = after
	} else {
		w.remove(t, before)
	}
	if len(w.enqueuedByPod(c.Before, c.After)) > 0 {
		w.changes = append(w.changes, c)
	}
}

// newPod puts a pod in, perhaps in place of another one of its name.
func (w *world) newPod(t *rapid.T) {
	p := pod(rapid.StringMatching("p[0-9]{2}").Draw(t, "name"), fmt.Sprint("10.0.0.", rapid.IntRange(1, 30).Draw(t, "ip")))
	w.edit(t, p)
	p.UID += types.UID(" " + p.ResourceVersion)
	w.see(t, w.pods.Get(p.Namespace, p.Name), p)
}

func (w *world) changePod(t *rapid.T) {
	if before := w.pod(t); before != nil {
		after := before.DeepCopy()
		w.edit(t, after)
		after.Spec.Containers = before.Spec.Containers // fixed for life
		if was, is := &before.Status.Conditions[0], &after.Status.Conditions[0]; was.Status == is.Status {
			is.LastTransitionTime = was.LastTransitionTime
		}
		w.see(t, before, after)
	}
}

// edit does something to a pod, or nothing but to make it ready.
func (w *world) edit(t *rapid.T, p *corev1.Pod) {
	p.Status.Conditions[0].Status = corev1.ConditionTrue
	p.Status.Conditions[0].LastTransitionTime.Time = now.Add(-time.Duration(rapid.IntRange(0, 9999).Draw(t, "seconds")) * time.Second)
	if edit, ok := edits[rapid.SampledFrom(append([]string{""}, w.edits...)).Draw(t, "edit")]; ok {
		edit(p)
	}
	p.ResourceVersion = w.next()
}

func (w *world) removePod(t *rapid.T) {
	if p := w.pod(t); p != nil {
		w.see(t, p, nil)
	}
}

func (w *world) changeService(t *rapid.T) {
	w.service = drawService(t)
	w.service.ResourceVersion = w.next()
	w.put(t, w.service)
	if rapid.Bool().Draw(t, "is recorded yet") {
		w.changes = append(w.changes, reconcile.Change{After: w.service})
	}
}

func (w *world) changeNode(t *rapid.T) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(zoned))).Draw(t, "node")
	if rapid.IntRange(0, 2).Draw(t, "gone") == 0 {
		w.remove(t, node(name, "", "1"))
		return
	}
	w.putNode(t, name, rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"))
}

// changeSlice does to a slice what others may do: it deletes it, takes endpoints out, or puts in those of another one.
func (w *world) changeSlice(t *rapid.T) {
	all := w.slices.Of("shop", "web")
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	s := rapid.SampledFrom(all).Draw(t, "slice").DeepCopy()
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		w.remove(t, s)
		return
	case 1:
		s.Endpoints = s.Endpoints[:len(s.Endpoints)/2]
	case 2:
		s.Endpoints = append(s.Endpoints, rapid.SampledFrom(all).Draw(t, "other").DeepCopy().Endpoints...)
	case 3:
		s.Labels[discoveryv1.LabelManagedBy] = "me"
	}
	s.ResourceVersion = w.next()
	w.put(t, s)
}

// reconcile compares the plans and carries one out, not always to its end. It returns how many slices needed no look.
func (w *world) reconcile(t *rapid.T) (settled int) {
	r := request()
	r.Memory, r.Changes = w.memory, w.changes
	o, err := w.observe(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if w.memory != nil {
		all := *w.memory
		all.Checked = nil
		r.Memory = &all
	}
	whole, err := w.observe(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	p := planSlices(now, o.Snapshot)
	if diff := cmp.Diff(planSlices(now, whole.Snapshot), p); diff != "" {
		t.Fatalf("%d of %d slices were settled, and it plans otherwise: %s", len(o.Snapshot.Settled), len(o.Snapshot.Slices), diff)
	}
	steps := flattened(p.Steps)
	carried := plan.Plan{Steps: steps, Why: p.Why}
	failed := rapid.IntRange(0, 4).Draw(t, "fails") == 0
	did := plan.Outcome{}
	if failed {
		carried.Steps = steps[:rapid.IntRange(0, len(steps)).Draw(t, "carried out")]
		did.Err = plan.ErrStale
	}
	if after, ok := remember(now, o.Snapshot, struct{}{}, o.Memory, did, plan.Outcome{}); ok {
		w.memory, w.changes = after, nil
	}
	after, _ := carryOut(o.Snapshot, carried)
	for _, s := range after {
		if !slices.Contains(o.Snapshot.Slices, s) {
			s.ResourceVersion = w.next()
			if !slices.ContainsFunc(o.Snapshot.Slices, func(before *discoveryv1.EndpointSlice) bool { return before.Name == s.Name }) {
				s.UID = types.UID(w.next())
			}
		}
	}
	w.show(t, o.Snapshot.Slices, after)
	return len(o.Snapshot.Settled)
}

// A row is a sentence: after a reconcile that has seen this, only what has changed is checked, or all.
func TestNewChecked(t *testing.T) {
	right := snapshotOf(web(publishing), nil, pods(10)...)
	right.Slices = stored(right)
	for _, c := range []struct {
		name string
		edit func(s *snapshot)
		want bool
	}{
		{"all is right", func(*snapshot) {}, true},
		{"a pod whose node does not exist: it may come, with a zone",
			func(s *snapshot) { s.Pods = append(s.Pods, pod("x", "10.9.9.9", on("gone"))) }, false},
		{"a pod in two slices", func(s *snapshot) {
			again := s.Slices[0].DeepCopy()
			again.UID = "again"
			s.Slices = append(s.Slices, again)
		}, false},
		{"few pods in no slice", func(s *snapshot) { s.Pods = pods(endpoints.MostNews + 10) }, true},
		{"many pods in no slice", func(s *snapshot) { s.Pods = pods(endpoints.MostNews + 11) }, false},
	} {
		s := right
		c.edit(&s)
		if got := newChecked(s, nil); (got != nil) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A zone that changes while a service is observed is noticed the next time.
func TestCheckedKeepsZones(t *testing.T) { // EPS-18
	before := &checked{Zones: map[string]string{"n1": "a", "n2": "a"}}
	s := snapshotOf(web(), nil)
	s.Zones = map[string]string{"n1": "b", "n3": "b", "n4": ""}
	got := newChecked(s, before).Zones
	if want := map[string]string{"n1": "a", "n2": "a", "n3": "b", "n4": ""}; !maps.Equal(got, want) || len(before.Zones) != 2 {
		t.Errorf("%v, want %v", got, want)
	}
}

// flattened are the steps one by one.
func flattened(steps []plan.Step) (all []plan.Step) {
	for _, step := range steps {
		if each, ok := step.(plan.Each); ok {
			for _, sequence := range each.Sequences {
				all = append(all, flattened(sequence)...)
			}
		} else {
			all = append(all, step)
		}
	}
	return all
}

// The slices of a large service follow its pods, though not all are looked at each time.
func TestLargeServiceFollowsItsPods(t *testing.T) {
	all := map[string]*corev1.Pod{}
	objects := []plan.Object{web(), node("n1", "a", "1")}
	for _, p := range pods(largeService + 20) {
		all[p.Name] = p
		objects = append(objects, p)
	}
	inCluster(t, func(server *clienttest.Server) {
		expect := func(what string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			var got, want []string
			for _, o := range slicesOn(t, server) {
				for i := range o.Endpoints {
					got = append(got, o.Endpoints[i].TargetRef.Name+" "+renderEndpoint(&o.Endpoints[i]))
				}
			}
			for _, o := range stored(snapshotOf(web(), nil, slices.Collect(maps.Values(all))...)) {
				for i := range o.Endpoints {
					want = append(want, o.Endpoints[i].TargetRef.Name+" "+renderEndpoint(&o.Endpoints[i]))
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		put := func(o plan.Object) {
			if _, err := server.Put(o); err != nil {
				t.Fatal(err)
			}
		}
		change := func(edits ...podEdit) {
			all["p0007"] = pod("p0007", "10.0.0.7", edits...)
			put(all["p0007"])
		}
		relabeled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} }
		expect("at the start")
		change(unready)
		expect("a pod is not ready")
		change()
		expect("it is ready again")
		change(relabeled)
		expect("it is another service's")
		change(func(p *corev1.Pod) { p.UID = "anew" })
		expect("it is another one of its name")
		delete(all, "p0008")
		key := plan.Key{Namespace: "shop", Name: "p0008"}
		if err := server.Delete(t.Context(), client.MappingFor[*corev1.Pod](), key, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("one is gone")
		for i, p := range pods(endpoints.MostNews + 10) {
			if all[p.Name] != nil && i != 7 {
				unready(p)
				all[p.Name] = p
				put(p)
			}
		}
		expect("many at once")
		put(web(headless))
		change(terminating, unready)
		expect("the service has changed, too")
	}, objects...)
}

// After a write that has failed, what was remembered before still holds, and all is compared again. Changes are kept in no case.
func TestRemember(t *testing.T) { // EPS-23
	service := web()
	k := newCaches(t, service, node("n1", "a", "1"), pod("a", "10.0.0.1"))
	k.large = 0
	r := request()
	first, err1 := k.observe(t.Context(), r)
	failed, ok1 := remember(now, first.Snapshot, struct{}{}, first.Memory, plan.Outcome{Err: plan.ErrStale}, plan.Outcome{})
	committed, ok2 := remember(now, first.Snapshot, struct{}{}, first.Memory, plan.Outcome{}, plan.Outcome{})
	if err1 != nil || !ok1 || !ok2 || failed != nil || committed.Before != nil || committed.Checked == nil {
		t.Fatalf("%v %t %t %+v %+v", err1, ok1, ok2, failed, committed)
	}
	for _, edit := range []svcEdit{func(*corev1.Service) {}, func(s *corev1.Service) { s.Spec.Selector = nil }} {
		edit(service)
		r.Memory = committed
		k.put(t, pod("b", "10.0.0.2"))
		second, err := k.observe(t.Context(), r)
		failed, ok := remember(now, second.Snapshot, struct{}{}, second.Memory, plan.Outcome{Err: plan.ErrStale}, plan.Outcome{})
		if err != nil || !ok || failed == nil || failed.Checked != nil || !cmp.Equal(failed.Times, committed.Times) {
			t.Errorf("%v %t %+v", err, ok, failed)
		}
	}
}
