package ttl

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bench is a cluster in memory in which the controller works.
type bench struct {
	*testing.T
	*clienttest.Server
	mapping client.Mapping
	between func() // is done after the present term as the leader
}

// run runs the controller on a server with so many nodes, as prepare leaves them, one test after the other. Each is a term as the leader.
func run(t *testing.T, nodes int, prepare func(*bench), terms ...func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		mapping := client.MappingFor[*corev1.Node]()
		b := &bench{T: t, Server: clienttest.NewServer(), mapping: mapping}
		b.add(0, nodes)
		if prepare != nil {
			prepare(b)
		}
		entry := New(Options{})
		c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &corev1.Node{}})
		runner, err := entry.Init(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range terms {
			clienttest.Run(t, runner.Run, func() { test(b) })
			if b.between != nil {
				b.between()
			}
		}
	})
}

func name(i int) string { return fmt.Sprintf("node-%04d", i) }

func (b *bench) add(from, to int) {
	for i := from; i < to; i++ {
		if _, err := b.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(i), UID: types.UID(name(i))}}); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) remove(from, to int) {
	for i := from; i < to; i++ {
		if err := b.Delete(b.Context(), b.mapping, plan.Key{Name: name(i)}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// annotate is what a user does.
func (b *bench) annotate(i int, value string) {
	patch := client.Patch{Type: types.MergePatchType, Data: fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)}
	if _, err := b.Patch(b.Context(), b.mapping, plan.Key{Name: name(i)}, patch, client.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
}

// all checks that each node has the value.
func (b *bench) all(want string) {
	b.Helper()
	list := &corev1.NodeList{}
	if err := b.List(b.Context(), b.mapping, "", metav1.ListOptions{}, list); err != nil {
		b.Fatal(err)
	}
	for _, n := range list.Items {
		if got, ok := n.Annotations[key]; !ok || got != want {
			b.Errorf("%s of %d nodes has %q, not %q", n.Name, len(list.Items), got, want)
			return
		}
	}
}

// wrote checks how often the nodes were written since the last call.
func (b *bench) wrote(before, want int) (after int) {
	b.Helper()
	after = b.CountWrites("patch Node")
	if got := after - before; got != want {
		b.Errorf("%d writes, not %d", got, want)
	}
	return after
}

func TestNodesComeAndGo(t *testing.T) {
	run(t, 99, nil, func(b *bench) {
		b.all("0") // TTL-1, TTL-3
		n := b.wrote(0, 99)
		b.add(99, 100)
		clienttest.Settle()
		b.all("0") // TTL-8
		b.add(100, 101)
		clienttest.Settle()
		b.all("15")           // TTL-4, TTL-16: no node waits for an update of its own
		n = b.wrote(n, 1+101) // the 100th got a zero first
		b.remove(90, 101)     // TTL-9
		clienttest.Settle()
		b.all("15")
		n = b.wrote(n, 0)
		b.remove(89, 90) // TTL-8
		clienttest.Settle()
		b.all("0")
		b.wrote(n, 89)
	})
}

// A class that changes is written to a few nodes at a time (TTL-16).
func TestChangesAreSpread(t *testing.T) {
	run(t, 500, nil, func(b *bench) {
		n := b.wrote(0, 500)
		b.add(500, 501)
		time.Sleep(time.Second)
		if now := b.CountWrites("patch Node"); now < n+50 || now > n+150 {
			b.Errorf("%d nodes have followed after a second", now-n)
		}
		b.remove(449, 501)
		clienttest.Settle()
		b.all("15") // some had 30 already
		if now := b.CountWrites("patch Node"); now > n+350 {
			b.Errorf("%d writes, although the class soon was as before", now-n)
		}
	})
}

// The nodes are counted before the first write, and nothing is written after a takeover where the class can stay (TTL-14, TTL-15).
func TestTakeover(t *testing.T) {
	run(t, 520, func(b *bench) {
		for i := range 500 {
			b.annotate(i, "30")
		}
	}, func(b *bench) {
		n := b.wrote(500, 20)
		b.all("30")
		b.remove(460, 520)
		clienttest.Settle()
		b.all("30")
		b.wrote(n, 0)
	}, func(b *bench) {
		b.all("30") // with 460 nodes that nobody knows, it would be 15
		b.wrote(520, 0)
		b.remove(449, 460)
		clienttest.Settle()
		b.all("15")
	})
}

// Nodes that come and go while the process does not lead are counted when it does (TTL-14).
func TestNodesBetweenTerms(t *testing.T) {
	run(t, 101, nil, func(b *bench) {
		b.all("15")
		b.between = func() { b.remove(50, 101) }
	}, func(b *bench) {
		b.all("0")
		b.add(50, 101)
		clienttest.Settle()
		b.all("15")
	})
}

// What users write is undone at once (TTL-12), and nothing else is done about it.
func TestEditsAreUndone(t *testing.T) {
	run(t, 3, nil, func(b *bench) {
		n := b.wrote(0, 3)
		b.annotate(1, "7")
		time.Sleep(time.Second)
		synctest.Wait()
		b.all("0")
		b.wrote(n, 2)
		b.annotate(1, "00") // TTL-10
		time.Sleep(time.Second)
		b.wrote(n, 3)
	})
}

func TestErrorsAreRetried(t *testing.T) { // TTL-11
	run(t, 1, func(b *bench) {
		b.BeforeWrite(clienttest.RefuseFirst(20,
			apierrors.NewConflict(corev1.Resource("nodes"), "node-0000", errors.New("x")), apierrors.NewInternalError(errors.New("x"))))
	}, func(b *bench) {
		time.Sleep(time.Hour)
		b.all("0")
	})
}

func TestEntry(t *testing.T) { // TTL-2
	c := New(Options{})
	if c.Name != "ttl-controller" || c.Alias != "ttl" || c.Account != "ttl-controller" || c.OffByDefault {
		t.Errorf("%+v", c)
	}
}
