package endpoint

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// TestWithMemoryItPlansTheSame changes pods and the service at random, lets writes fail, and compares each plan with the one of a
// controller that looks at all pods each time.
func TestWithMemoryItPlansTheSame(t *testing.T) {
	passedOver := 0
	check := func(t *rapid.T) {
		w := &world{caches: newCaches(t), service: drawService(t)}
		w.large = 0
		w.put(t, w.service)
		t.Repeat(map[string]func(*rapid.T){
			"new pod":      w.newPod,
			"change a pod": w.changePod,
			"reconcile":    func(t *rapid.T) { passedOver += w.reconcile(t) },
			"change a pod, and reconcile": func(t *rapid.T) {
				w.changePod(t)
				passedOver += w.reconcile(t)
			},
			"remove a pod": w.removePod,
			"change the service": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "calm") == 0 {
					w.changeService(t)
				}
			},
		})
	}
	for round := 0; passedOver < 100; round++ { // with -short, a round is 20 checks
		if round == 30 {
			t.Fatalf("only %d pods were passed over: there was too little to compare", passedOver)
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
}

// see lets the caches show a change, which is recorded if it enqueues the service.
func (w *world) see(t *rapid.T, before, after *corev1.Pod) {
	var c reconcile.Change
	if before != nil {
		c.Before = before
	}
	if after == nil {
		if err := w.store(before).Delete(before); err != nil {
			t.Fatal(err)
		}
	} else {
		w.version++
		after.ResourceVersion = fmt.Sprint(w.version)
		w.put(t, after)
		c.After = after
	}
	if len(w.enqueuedByPod(c.Before, c.After)) > 0 {
		w.changes = append(w.changes, c)
	}
}

func (w *world) pod(t *rapid.T) *corev1.Pod {
	byName := map[string]*corev1.Pod{}
	for p := range w.pods.All() {
		byName[p.Namespace+"/"+p.Name] = p
	}
	if len(byName) == 0 {
		return nil
	}
	return byName[rapid.SampledFrom(slices.Sorted(maps.Keys(byName))).Draw(t, "pod")]
}

func (w *world) drawPod(t *rapid.T) *corev1.Pod {
	p := drawPod(t)
	p.Status.Conditions[0].LastTransitionTime.Time = now.Add(-time.Duration(rapid.IntRange(0, 9999).Draw(t, "seconds")) * time.Second)
	return p
}

// newPod puts a pod in, perhaps in place of another one of its name.
func (w *world) newPod(t *rapid.T) {
	p := w.drawPod(t)
	p.UID += types.UID(fmt.Sprint(" ", w.version))
	w.see(t, w.pods.Get(p.Namespace, p.Name), p)
}

func (w *world) changePod(t *rapid.T) {
	before := w.pod(t)
	if before == nil {
		return
	}
	after := w.drawPod(t)
	after.Namespace, after.Name, after.UID = before.Namespace, before.Name, before.UID
	after.Spec.Containers, after.Spec.InitContainers = before.Spec.Containers, before.Spec.InitContainers // fixed for life
	was, is := &before.Status.Conditions[0], &after.Status.Conditions[0]
	if was.Status == is.Status {
		is.LastTransitionTime = was.LastTransitionTime
	}
	w.see(t, before, after)
}

func (w *world) removePod(t *rapid.T) {
	if p := w.pod(t); p != nil {
		w.see(t, p, nil)
	}
}

func (w *world) changeService(t *rapid.T) {
	w.service = drawService(t)
	w.version++
	w.service.ResourceVersion = fmt.Sprint(w.version)
	w.service.Spec.Selector = rapid.SampledFrom([]map[string]string{{"app": "web"}, {}, nil}).Draw(t, "selector")
	w.put(t, w.service)
	if rapid.Bool().Draw(t, "is recorded yet") {
		w.changes = append(w.changes, reconcile.Change{After: w.service})
	}
}

// reconcile compares the plans and carries one out, if it does not fail. It returns how many pods were not looked at.
func (w *world) reconcile(t *rapid.T) (passedOver int) {
	r := request()
	r.Memory, r.Changes = w.memory, w.changes
	o, err := w.observe(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if w.memory != nil {
		r.Memory = &memory{Times: w.memory.Times}
	}
	whole, err := w.observe(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	pods, p := planEndpoints(now, o.Snapshot)
	if diff := cmp.Diff(planned(whole.Snapshot), p); diff != "" {
		t.Fatalf("%d pods were not looked at, and it plans otherwise: %s", len(o.Snapshot.Others), diff)
	}
	did := plan.Outcome{}
	if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
		did.Err = plan.ErrStale
	} else if e := carriedOut(o.Snapshot, p); e != nil {
		w.put(t, e)
	}
	if after, ok := w.remember(now, o.Snapshot, pods, o.Memory, did, plan.Outcome{}); ok {
		w.memory, w.changes = after, nil
	}
	return len(o.Snapshot.Others)
}

// The Endpoints of a large service follow its pods, though not all are looked at each time.
func TestLargeServiceFollowsItsPods(t *testing.T) {
	all := map[string]*corev1.Pod{}
	objects := []plan.Object{web()}
	for _, p := range pods(largeService + 20) {
		all[p.Name] = p
		objects = append(objects, p)
	}
	inCluster(t, func(c *cluster) {
		expect := func(what string) {
			t.Helper()
			clienttest.Settle()
			want := stored(snapshotOf(web(), nil, slices.Collect(maps.Values(all))...))
			if diff := cmp.Diff(render(want.Subsets), render(c.endpoints().Subsets)); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		change := func(name string, edits ...podEdit) {
			all[name] = pod(name, "10.0.0.7", edits...)
			c.put(all[name])
		}
		expect("at the start")
		change("p0007", unready)
		expect("a pod is not ready")
		change("p0007")
		expect("it is ready again")
		change("p0007", labeled("app=other"))
		expect("it is another service's")
		change("p0007", func(p *corev1.Pod) { p.UID = "anew" })
		expect("it is another one of its name")
		delete(all, "p0008")
		if err := c.Delete(t.Context(), client.MappingFor[*corev1.Pod](), plan.Key{Namespace: "shop", Name: "p0008"},
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("one is gone")
		for i, p := range pods(endpoints.MostNews + 10) {
			if all[p.Name] != nil && i != 7 {
				unready(p)
				all[p.Name] = p
				c.put(p)
			}
		}
		expect("many at once")
		c.put(web(func(s *corev1.Service) { s.Labels = map[string]string{"x": "y"} }))
		change("p0007", unready)
		expect("the service has changed, too")
	}, objects...)
}

// After a write that has failed, the times of before still hold, and all pods are looked at. Changes are kept in no case.
func TestRemember(t *testing.T) { // EP-31
	before, now1 := &endpoints.Times{Created: 1}, &endpoints.Times{Created: 2}
	k, s, pods := newCaches(t), snapshotOf(web(), nil), make(found, largeService)
	for _, c := range []struct {
		name string
		seen *memory
		did  error
		pods found
		want *memory
	}{
		{"left alone", nil, nil, nil, nil},
		{"carried out", &memory{Times: now1, Untold: before}, nil, pods, &memory{Times: now1, Service: "web 1", Found: pods}},
		{"carried out, with few pods", &memory{Times: now1, Untold: before}, nil, pods[1:], &memory{Times: now1}},
		{"failed", &memory{Times: now1, Untold: before}, plan.ErrStale, pods, &memory{Times: before}},
		{"failed the first time", &memory{Times: now1}, plan.ErrStale, pods, nil},
	} {
		got, ok := k.remember(now, s, c.pods, c.seen, plan.Outcome{Err: c.did}, plan.Outcome{})
		if diff := cmp.Diff(c.want, got); diff != "" || !ok {
			t.Errorf("%s: %t %s", c.name, ok, diff)
		}
	}
}
