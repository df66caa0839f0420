package daemonset

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// newCaches returns caches that keep objects as those of the manager do.
func newCaches(t failer, objects ...plan.Object) *caches {
	t.Helper()
	projected, err1 := managertest.Projection(New(Options{}))
	client, err2 := listwatch.NewClient(&rest.Config{Host: "http://api"}, projected.(*projection.Projection))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatalf("%v", err)
	}
	f := informers.NewFactory(client, 0)
	sets, err1 := informers.Objects[*appsv1.DaemonSet](f)
	revisions, err2 := informers.OwnedObjects[*appsv1.ControllerRevision](f)
	pods, err3 := informers.Pods(f)
	onNodes, err4 := informers.PodsByNode(f)
	nodes, err5 := informers.Nodes(f)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatalf("%v", err)
	}
	k := &caches{sets, revisions, pods, onNodes, nodes, newEligibilityCache(false, sets.Get), nil}
	for _, o := range objects {
		k.put(t, o)
	}
	return k
}

func (k *caches) put(t failer, o plan.Object) {
	t.Helper()
	store := map[string]cache.Store{
		"*v1.DaemonSet": k.sets.Informer().GetStore(), "*v1.ControllerRevision": k.revisions.Informer().GetStore(),
		"*v1.Pod": k.pods.Informer().GetStore(), "*v1.Node": k.nodes.Informer().GetStore(),
	}[fmt.Sprintf("%T", o)]
	if err := store.Add(o); err != nil {
		t.Fatalf("%v", err)
	}
}

func requestFor(d *appsv1.DaemonSet) reconcile.Request[memory] {
	return reconcile.Request[memory]{Key: plan.Key{Namespace: d.Namespace, Name: d.Name}, Now: now}
}

func TestObserve(t *testing.T) {
	d := agent(selects("disk", "ssd"))
	ssd := label("disk", "ssd")
	k := newCaches(t, d, worker("n1", ssd), worker("n2"), worker("n3", ssd, taint("dedicated", "NoSchedule")), worker("n4"),
		pod("a", "n1"), pod("b", "n4"), pod("c", "n5", orphan), pod("d", "n1", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }),
		revisionOf(agent(image("v1")), 1),
		revisionOf(agent(image("v3")), 2, func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil }))
	o, err := k.observe(t.Context(), requestFor(d))
	if err != nil || !o.Exists {
		t.Fatal(err)
	}
	var nodes []string
	for _, n := range o.Snapshot.Nodes {
		nodes = append(nodes, n.Name+" "+string(n.Eligibility))
	}
	slices.Sort(nodes)
	is(t, nodes, "n1 eligible", "n3 tolerated", "n4 ")
	if s := o.Snapshot; len(s.Pods) != 3 || len(s.Revisions) != 2 || s.Taken != nil || o.Memory != nil {
		t.Errorf("%d pods, %d revisions, taken %v, memory %v", len(s.Pods), len(s.Revisions), s.Taken, o.Memory)
	}
	again := requestFor(d)
	again.Failure = errors.New("refused")
	if o, _ := k.observe(t.Context(), again); !o.Snapshot.Failed {
		t.Error("not told of the failure")
	}
	stranger := revisionOf(d, 1, func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "other" })
	k.put(t, stranger)
	if o, _ := k.observe(t.Context(), requestFor(d)); o.Snapshot.Taken == nil || len(live(o.Snapshot)) != 2 {
		t.Error("DS-55: the name of the next revision is taken")
	}
	if err := k.sets.Informer().GetStore().Delete(d); err != nil {
		t.Fatal(err)
	}
	if o, err := k.observe(t.Context(), requestFor(d)); err != nil || o.Exists || len(k.eligibility.sets) != 0 {
		t.Errorf("DS-11: gone: %+v, %v", o, err)
	}
}

// DS-16: the node that a pod is meant for is known from what the cache keeps.
func TestPodsWithoutNodeAreObserved(t *testing.T) {
	d := agent()
	k := newCaches(t, d, worker("n1"), revisionOf(d, 1), pod("a", "n1", pending), pod("b", "n2", pending))
	o, err := k.observe(t.Context(), requestFor(d))
	if err != nil {
		t.Fatal(err)
	}
	is(t, planned(newView(now, o.Snapshot)), "delete b")
}

// DS-36: pods that the previous leader has made for new nodes are not deleted because the cache does not show these nodes yet.
func TestNodesThatTheCacheLacks(t *testing.T) {
	d, server := agent(), clienttest.NewServer()
	for _, n := range []string{"n1", "n2", "n3"} {
		if _, err := server.Put(worker(n)); err != nil {
			t.Fatal(err)
		}
	}
	k := newCaches(t, d, worker("n1"), revisionOf(d, 1), pod("a", "n1", pending), pod("b", "n2", pending))
	k.verifier = server
	plannedNow := func() []string {
		o, err := k.observe(t.Context(), requestFor(d))
		if err != nil {
			t.Fatal(err)
		}
		if p := planDaemonSet(now, newView(now, o.Snapshot)); p.Requeue != nodeCheck {
			t.Errorf("looked at again after %v", p.Requeue)
		}
		return planned(newView(now, o.Snapshot))
	}
	is(t, plannedNow())
	k.put(t, pod("c", "n3", pending))
	k.put(t, pod("d", "n4", pending))
	is(t, plannedNow(), "delete d")
}

func TestEnqueuedByNode(t *testing.T) {
	named := func(name string, edits ...edit) *appsv1.DaemonSet {
		d := agent(edits...)
		d.Name, d.UID = name, "uid-agent"
		if name != "agent" {
			d.UID = "uid-other"
		}
		return d
	}
	k := newCaches(t, named("agent"), named("ssd", selects("disk", "ssd")), pod("a", "n1"))
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          []string
	}{
		{"DS-4 a new node", nil, worker("n9"), []string{"agent"}},
		{"DS-4 a new node for both", nil, worker("n9", label("disk", "ssd")), []string{"agent", "ssd"}},
		{"DS-4 a new node that suits nobody", nil, worker("n9", taint("broken", "NoExecute")), nil},
		{"DS-5 but on which there are pods", nil, worker("n1", taint("broken", "NoExecute")), []string{"agent"}},
		{"DS-4 nothing that counts", worker("n1"), worker("n1", func(n *corev1.Node) { n.Status.Phase = "x" }), nil},
		{"DS-104 a label that nobody asks for", worker("n1"), worker("n1", label("zone", "a")), nil},
		{"DS-5 a label that one asks for", worker("n1"), worker("n1", label("disk", "ssd")), []string{"ssd"}},
		{"DS-5 a label that one asked for is gone", worker("n1", label("disk", "ssd")), worker("n1"), []string{"ssd"}},
		{"DS-5 another value that does not suit", worker("n1"), worker("n1", label("disk", "hdd")), nil},
		{"DS-5 a taint", worker("n1"), worker("n1", taint("dedicated", "NoSchedule")), []string{"agent"}},
		{"DS-5 a taint that all tolerate", worker("n1"), worker("n1", taint("node.kubernetes.io/unschedulable", "NoSchedule")), nil},
		{"DS-103 a node is gone", worker("n1"), nil, []string{"agent"}},
		{"DS-103 a node is gone that suited nobody", worker("n9", taint("broken", "NoExecute")), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var names []string
			for _, key := range k.enqueuedByNode(c.before, c.after) {
				names = append(names, key.Name)
			}
			slices.Sort(names)
			is(t, names, c.want...)
		})
	}
}

func TestEnqueuedByPodsAndRevisions(t *testing.T) {
	k := newCaches(t, agent())
	o := &owners{informers.Owners[*appsv1.DaemonSet]{Kind: "DaemonSet", Get: k.sets.Get, In: k.sets.In,
		Selector: func(d *appsv1.DaemonSet) *metav1.LabelSelector { return d.Spec.Selector }}}
	p, r := pod("a", "n1"), revisionOf(agent(), 1)
	free := revisionOf(agent(), 1, func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil })
	theirs := revisionOf(agent(), 1, func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "other" })
	elsewhere := revisionOf(agent(), 1, func(r *appsv1.ControllerRevision) { r.Name, r.OwnerReferences[0].UID = "other-1", "other" })
	unnamed := revisionOf(agent(), 1, func(r *appsv1.ControllerRevision) { r.Name, r.OwnerReferences[0].UID = "agent", "other" })
	for _, c := range []struct {
		name string
		keys []plan.Key
		want int
	}{
		{"DS-2 a new pod", o.enqueuedByPod(nil, p), 1},
		{"DS-2 a pod is gone", o.enqueuedByPod(p, nil), 1},
		{"DS-2 a pod is bound", o.enqueuedByPod(pod("a", "n1", pending), p), 1},
		{"DS-2 a pod is not ready any more", o.enqueuedByPod(p, pod("a", "n1", unready)), 1},
		{"DS-2 an orphan", o.enqueuedByPod(nil, pod("a", "n1", orphan)), 1},
		{"nothing that counts", o.enqueuedByPod(p, pod("a", "n1", func(p *corev1.Pod) { p.Status.HostIP = "10.0.0.1" })), 0},
		{"DS-3 an own new revision", o.enqueuedByRevision(nil, r), 0},
		{"DS-3 an orphan", o.enqueuedByRevision(nil, free), 1},
		{"DS-3 a change", o.enqueuedByRevision(r, revisionOf(agent(), 2)), 1},
		{"DS-3 a deletion", o.enqueuedByRevision(r, nil), 1},
		{"DS-55 the end of one that had the name", o.enqueuedByRevision(theirs, nil), 1},
		{"DS-55 or that nobody owned", o.enqueuedByRevision(free, nil), 1},
		{"DS-3 of another one", o.enqueuedByRevision(elsewhere, nil), 0},
		{"DS-3 of one with a name of its own", o.enqueuedByRevision(unnamed, nil), 0},
	} {
		if len(c.keys) != c.want {
			t.Errorf("%s: %v", c.name, c.keys)
		}
	}
}

// What is remembered of DaemonSets follows those that exist, also when nobody has seen them go.
func TestJudgedNodesAreForgotten(t *testing.T) {
	k := newCaches(t)
	for i := range 1000 {
		d := agent()
		d.Name = fmt.Sprint("agent-", i)
		k.put(t, d)
		k.eligibility.of(d)
		if i%100 != 0 {
			if err := k.sets.Informer().GetStore().Delete(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(k.eligibility.sets); n > 32 {
		t.Errorf("%d are remembered of 10", n)
	}
}

// DS-90, DS-91: names by which others know the controller.
func TestNames(t *testing.T) {
	c := New(Options{})
	if c.Name != "daemonset-controller" || c.Account != "daemon-set-controller" || c.EventSource != "daemonset-controller" {
		t.Errorf("%+v", c)
	}
}
