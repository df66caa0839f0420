package nodelifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bench is the controller before a server in virtual time, with nodes that renew their Leases every ten seconds.
type bench struct {
	*testing.T
	*clienttest.Server
	down   outage
	mu     sync.Mutex
	dead   map[string]bool
	events *record.FakeRecorder
}

var (
	nodeKind  = client.MappingFor[*corev1.Node]()
	leaseKind = client.MappingFor[*coordinationv1.Lease]()
	podKind   = client.MappingFor[*corev1.Pod]()
)

// run runs the controller on nodes, named after their zones and numbers, for each term as the leader anew. A term begins when the
// leader has nothing left to do.
func run(t *testing.T, o Options, nodes map[string]int, terms ...func(*bench)) {
	t.Helper()
	runBy(t, clienttest.Run, o, nodes, terms...)
}

// runBy is run with another function that runs a term.
func runBy(t *testing.T, lead func(*testing.T, func(context.Context) error, func()), o Options, nodes map[string]int,
	terms ...func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Server: clienttest.NewServer(), dead: map[string]bool{}, events: record.NewFakeRecorder(1e6)}
		for zone, n := range nodes {
			for i := range n {
				b.add(zone, i)
			}
		}
		stop := make(chan struct{})
		var kubelets sync.WaitGroup
		kubelets.Go(func() { b.renewAll(stop) })
		defer kubelets.Wait()
		defer close(stop)
		for _, test := range terms {
			entry := New(o)
			c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &corev1.Node{}},
				managertest.Cache{Example: &corev1.Pod{}}, managertest.Cache{Example: &coordinationv1.Lease{}})
			c.Access.Client, c.Access.Events = during{c.Access.Client, &b.down}, b.events
			runner, err := entry.Init(c)
			if err != nil {
				t.Fatal(err)
			}
			lead(t, runner.Run, func() { test(b) })
		}
	})
}

func name(zone string, i int) string { return fmt.Sprintf("%s-%d", zone, i) }

func (b *bench) put(o plan.Object) {
	b.Helper()
	if _, err := b.Put(o); err != nil {
		b.Fatal(err)
	}
}

// add adds a node that is ready, its Lease, and two pods that are.
func (b *bench) add(zone string, i int) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(zone, i), UID: types.UID("uid-" + name(zone, i)),
		CreationTimestamp: metav1.Now(), Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(),
		LastTransitionTime: metav1.Now()}}
	b.put(n)
	b.renew(n.Name)
	for j := range 2 {
		b.pod(n.Name, j)
	}
}

// pod adds a pod that is ready.
func (b *bench) pod(node string, j int) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(node, "-", j)}, Spec: corev1.PodSpec{NodeName: node}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	b.put(p)
}

// unready counts the pods that are not ready.
func (b *bench) unready() (n int) {
	b.Helper()
	synctest.Wait()
	var pods corev1.PodList
	if err := b.List(b.Context(), podKind, "", metav1.ListOptions{}, &pods); err != nil {
		b.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Status.Conditions[0].Status != corev1.ConditionTrue {
			n++
		}
	}
	return n
}

func (b *bench) renew(name string) {
	renewed := metav1.NewMicroTime(time.Now())
	b.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
		Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}})
}

// renewAll is what living kubelets do.
func (b *bench) renewAll(stop <-chan struct{}) {
	for next := 3 * time.Second; ; next = 10 * time.Second {
		select {
		case <-stop:
			return
		case <-time.After(next):
		}
		for _, name := range b.Names(nodeKind.GroupVersionKind) {
			b.mu.Lock()
			dead := b.dead[name] || b.down.Load()
			b.mu.Unlock()
			if !dead {
				b.renew(name)
			}
		}
	}
}

// kill ends kubelets, two seconds after they have renewed their Leases; revive lets them go on, and report that they are ready.
func (b *bench) kill(names ...string) {
	time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(15 * time.Second)))
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		b.dead[name] = true
	}
}

func (b *bench) revive(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		delete(b.dead, name)
		b.renew(name)
		n := b.node(name)
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastHeartbeatTime, n.Status.Conditions[0].LastTransitionTime =
			corev1.ConditionTrue, metav1.Now(), metav1.Now()
		b.put(n)
	}
}

func (b *bench) node(name string) *corev1.Node {
	b.Helper()
	n := &corev1.Node{}
	if err := b.Get(b.Context(), nodeKind, plan.Key{Name: name}, n); err != nil {
		b.Fatal(err)
	}
	return n
}

// state is a node as text: whether it is ready, its taints, and how many of its pods are ready.
func (b *bench) state(name string) string {
	b.Helper()
	synctest.Wait()
	n := b.node(name)
	text := string(ready(n).Status)
	var taints []string
	for _, t := range n.Spec.Taints {
		taints = append(taints, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	slices.Sort(taints)
	list := &corev1.PodList{}
	if err := b.List(b.Context(), podKind, "shop", metav1.ListOptions{}, list); err != nil {
		b.Fatal(err)
	}
	pods := 0
	for _, p := range list.Items {
		if p.Spec.NodeName == name && p.Status.Conditions[0].Status == corev1.ConditionTrue {
			pods++
		}
	}
	return strings.Join(append([]string{text}, append(taints, fmt.Sprint(pods))...), " ")
}

func (b *bench) is(name, want string) {
	b.Helper()
	if got := b.state(name); got != want {
		b.Errorf("%s is %q, want %q", name, got, want)
	}
}

// evicted counts the nodes with a NoExecute taint.
func (b *bench) evicted() (n int) {
	synctest.Wait()
	for _, name := range b.Names(nodeKind.GroupVersionKind) {
		if strings.Contains(b.state(name), "NoExecute") {
			n++
		}
	}
	return n
}

const (
	lost   = "Unknown unreachable:NoExecute unreachable:NoSchedule 0"
	silent = "Unknown unreachable:NoSchedule 0"
	well   = "True 2"
)

// A node dies, and comes back.
func TestNL16NL19NL30NL31NL50ANodeDies(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 5}, func(b *bench) {
		time.Sleep(10 * time.Minute)
		if n := len(b.Writes()); n != 0 {
			t.Errorf("%d writes to nodes that are well: %v", n, b.Log())
		}
		b.kill("a-0")
		time.Sleep(47 * time.Second)
		b.is("a-0", well)
		time.Sleep(2 * time.Second)
		b.is("a-0", silent)
		time.Sleep(5 * time.Second)
		b.is("a-0", lost)
		n := b.node("a-0")
		if c := ready(n); c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." ||
			len(n.Status.Conditions) != 4 {
			t.Errorf("%+v", n.Status.Conditions)
		}
		b.revive("a-0")
		synctest.Wait()
		b.is("a-0", "True 0") // its kubelet says that the pods are ready
		b.is("a-1", well)
	})
}

// A node that is Unknown renews its Lease, and its pods are ready; but it never reports its status, and dies again. Its pods are marked
// when it has been silent for the grace period again (NL-50).
func TestNL50ANodeDiesAgainBeforeItReports(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 5}, func(b *bench) {
		b.kill("a-0")
		time.Sleep(time.Minute)
		b.is("a-0", lost)
		b.renew("a-0")
		synctest.Wait()
		b.pod("a-0", 0)
		b.pod("a-0", 1)
		time.Sleep(48 * time.Second)
		b.is("a-0", strings.TrimSuffix(lost, "0")+"2")
		time.Sleep(3 * time.Second)
		b.is("a-0", lost)
	})
}

// The watch of Leases is frozen, and nobody is declared Unknown but the node that is dead.
func TestNL17aNL82AFrozenWatchOfLeases(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 1000}, func(b *bench) {
		b.FreezeWatches(leaseKind.GroupVersionKind)
		time.Sleep(10 * time.Minute)
		if n := len(b.Writes()); n != 0 {
			t.Errorf("%d writes: %v", n, b.Log())
		}
		b.kill("a-3")
		time.Sleep(2 * time.Minute)
		b.is("a-3", lost)
		b.is("a-4", well)
	})
}

// How many nodes of a zone get a taint in a time.
func TestNL33NL43NL44NL45Rates(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 10, "b": 3}, func(b *bench) {
		b.kill("a-0", "a-1", "a-2", "a-3", "a-4") // half of them: normal
		time.Sleep(54 * time.Second)
		for want := 1; want <= 5; want++ {
			if n := b.evicted(); n != want {
				t.Errorf("%d nodes have a NoExecute taint, want %d", n, want)
			}
			time.Sleep(11 * time.Second)
		}
	})
	run(t, Options{}, map[string]int{"a": 10, "b": 3}, func(b *bench) {
		b.kill("a-0", "a-1", "a-2", "a-3", "a-4", "a-5") // a part is down, in a small zone
		time.Sleep(time.Hour)
		if n := b.evicted(); n != 0 {
			t.Errorf("%d nodes have a NoExecute taint", n)
		}
		b.is("a-0", silent)
		b.revive("a-5")
		time.Sleep(2 * time.Minute)
		if n := b.evicted(); n != 5 {
			t.Errorf("%d nodes have a NoExecute taint, want 5", n)
		}
	})
}

// When all zones are down, no node has a NoExecute taint; when one is well again, the others have their grace period first.
func TestNL46NL47NL48EverythingIsDown(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 3, "b": 3}, func(b *bench) {
		b.kill("a-0")
		time.Sleep(2 * time.Minute)
		b.is("a-0", lost)
		b.kill("a-1", "a-2", "b-0", "b-1", "b-2")
		time.Sleep(2 * time.Minute)
		if n := b.evicted(); n != 0 {
			t.Errorf("%d nodes have a NoExecute taint", n)
		}
		b.is("b-0", silent)
		b.revive("b-0", "b-1", "b-2")
		time.Sleep(40 * time.Second)
		if n := b.evicted(); n != 0 {
			t.Errorf("%d nodes have a NoExecute taint", n)
		}
		time.Sleep(2 * time.Minute)
		if n := b.evicted(); n != 3 {
			t.Errorf("%d nodes have a NoExecute taint, want 3", n)
		}
	})
}

// A new leader marks what the one before has left, and keeps the taints.
func TestNL80NL81ANewLeader(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 5}, func(b *bench) {
		b.kill("a-0")
		time.Sleep(2 * time.Minute)
		b.is("a-0", lost)
		p := &corev1.Pod{}
		if err := b.Get(b.Context(), podKind, plan.Key{Namespace: "shop", Name: "a-0-1"}, p); err != nil {
			t.Fatal(err)
		}
		defer b.put(p) // as if it had not been marked
		p.Status.Conditions[0].Status = corev1.ConditionTrue
	}, func(b *bench) {
		b.is("a-0", lost)
		if n := b.CountWrites("patch Node"); n > 3 {
			t.Errorf("nodes were written %d times: %v", n, b.Log())
		}
	})
}

// A node that may be cut off gets no NoExecute taint, and its pods stay ready.
func TestANodeThatMayBeCutOff(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 5}, func(b *bench) {
		n := b.node("a-0")
		n.Annotations = map[string]string{cutOff: "true"}
		b.put(n)
		b.kill("a-0")
		time.Sleep(time.Hour)
		b.is("a-0", "Unknown unreachable:NoSchedule 2")
	})
}

// The Lease of a silent node is read live once, and those of the others are not.
func TestReadBudget(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 6}, func(b *bench) {
		b.kill("a-0", "a-1")
		time.Sleep(10 * time.Minute)
		b.is("a-0", lost)
		if n := b.down.reads.Load(); n != 2 {
			t.Errorf("%d reads for 2 nodes", n)
		}
	})
}

// A node's clock does not matter, nor does that of a leader before.
func TestNL13ClocksThatAreAhead(t *testing.T) {
	run(t, Options{}, map[string]int{"a": 5}, func(b *bench) {
		ahead := metav1.NewTime(time.Now().Add(time.Hour))
		other := b.node("a-1")
		other.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, TimeAdded: &ahead}}
		other.Status.Conditions[0].Status, other.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, ahead
		b.put(other)
		n := b.node("a-0")
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, ahead
		b.put(n)
		time.Sleep(6 * time.Second)
		b.is("a-0", "False not-ready:NoExecute not-ready:NoSchedule 2")
	})
}
