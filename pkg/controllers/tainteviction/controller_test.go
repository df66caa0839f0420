package tainteviction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// bench is the controller before a server in virtual time.
type bench struct {
	*testing.T
	*clienttest.Server
	brake *brake.Brake
	down  atomic.Bool // no read is answered
	reads atomic.Int32

	mu      sync.Mutex
	results []reconcile.Result // of each reconcile
}

func (b *bench) Get(ctx context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	b.reads.Add(1)
	if b.down.Load() {
		return errors.New("down")
	}
	return b.Server.Get(ctx, m, key, into)
}

// run runs the controller, for each term as the leader anew, on one node and so many pods that tolerate the taint k for 300 s.
func run(t *testing.T, pods int, terms ...func(*bench)) {
	t.Helper()
	runWith(t, Options{}, pods, terms...)
}

// runWith runs it with options.
func runWith(t *testing.T, o Options, pods int, terms ...func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Server: clienttest.NewServer()}
		b.put(node())
		for i := range pods {
			b.put(b.pod(i))
		}
		for _, test := range terms {
			entry := New(o)
			c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &corev1.Node{}},
				managertest.Cache{Example: &corev1.Pod{}})
			b.brake, c.Access.Client = c.Brake, b
			c.Access.Hooks.Reconciled = func(result reconcile.Result, _ time.Duration) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.results = append(b.results, result)
			}
			runner, err := entry.Init(c)
			if err != nil {
				t.Fatal(err)
			}
			clienttest.Run(t, runner.Run, func() { test(b) })
		}
	})
}

func (b *bench) pod(i int) *corev1.Pod {
	p := pod(tolerates("k", 300))
	p.Name, p.UID, p.CreationTimestamp, p.Status.Conditions = fmt.Sprint("web-", i), "", metav1.Now(), nil
	return p
}

func (b *bench) put(o plan.Object) {
	b.Helper()
	if _, err := b.Put(o); err != nil {
		b.Fatal(err)
	}
}

// taint puts taints on the node.
func (b *bench) taint(taints ...corev1.Taint) {
	b.Helper()
	n := &corev1.Node{}
	if err := b.Get(b.Context(), client.MappingFor[*corev1.Node](), plan.Key{Name: "n"}, n); err != nil {
		b.Fatal(err)
	}
	n.Spec.Taints = taints
	b.put(n)
	synctest.Wait()
}

func now(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: time.Now()}}
}

// left checks which pods are there.
func (b *bench) left(want ...string) {
	b.Helper()
	synctest.Wait()
	got := b.Names(client.MappingFor[*corev1.Pod]().GroupVersionKind)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.Errorf("there are %v, want %v", got, want)
	}
}

// TE-6, TE-10, TE-40: pods go when their time is over, one that comes later too, and none when the taint is gone in time.
func TestTimes(t *testing.T) {
	run(t, 2, func(b *bench) {
		b.taint(now("k"))
		time.Sleep(200 * time.Second)
		b.left("web-0", "web-1")
		b.taint()
		time.Sleep(time.Hour)
		b.left("web-0", "web-1")
		b.taint(now("k"))
		time.Sleep(100 * time.Second)
		b.put(b.pod(2))
		time.Sleep(199 * time.Second)
		b.left("web-0", "web-1", "web-2")
		time.Sleep(2 * time.Second)
		b.left("web-2")
		time.Sleep(98 * time.Second)
		b.left("web-2")
		time.Sleep(2 * time.Second)
		b.left()
	})
}

// A pod of a node that is down is looked at twice: when the taint comes, and when its time is over. The node is read live in the second
// reconcile, which evicts the pod.
func TestTwoReconcilesEvict(t *testing.T) {
	run(t, 0, func(b *bench) {
		p := b.pod(0)
		p.Spec.Tolerations = []corev1.Toleration{tolerates(corev1.TaintNodeUnreachable, 300)}
		b.put(p)
		b.taint(now(corev1.TaintNodeUnreachable))
		b.reads.Store(0)
		time.Sleep(301 * time.Second)
		b.left()
		b.mu.Lock()
		defer b.mu.Unlock()
		if want := []reconcile.Result{reconcile.Unchanged, reconcile.Wrote}; len(b.results) < 2 || !slices.Equal(b.results[:2], want) ||
			b.reads.Load() != 1 {
			t.Errorf("%v, and %d live reads", b.results, b.reads.Load())
		}
	})
}

// TE-61: a countdown survives a change of the leader.
func TestCountdownsSurviveARestart(t *testing.T) {
	var began time.Time
	run(t, 0, func(b *bench) {
		p := b.pod(0)
		p.Spec.Tolerations = []corev1.Toleration{tolerates("k", 7200)}
		b.put(p)
		began = time.Now()
		b.taint(now("k"))
		time.Sleep(time.Hour)
		b.left("web-0")
	}, func(b *bench) {
		time.Sleep(time.Until(began.Add(7199 * time.Second)))
		b.left("web-0")
		time.Sleep(2 * time.Second)
		b.left()
	})
}

// TE-60: an eviction that fails is tried again, however long.
func TestEvictionsAreNotLost(t *testing.T) {
	run(t, 3, func(b *bench) {
		b.BeforeWrite(func(clienttest.Write) error { return apierrors.NewInternalError(errors.New("a webhook")) })
		b.taint(now("other"))
		time.Sleep(10 * time.Minute)
		b.left("web-0", "web-1", "web-2")
		b.BeforeWrite(nil)
		time.Sleep(2 * time.Minute)
		b.left()
		for _, w := range b.Log() {
			if !strings.HasPrefix(w, "patch Pod") && !strings.HasPrefix(w, "delete Pod") && !strings.HasPrefix(w, "refused") {
				b.Errorf("unexpected: %s", w)
			}
		}
	})
}

// TE-83: while the cache of nodes is behind, no pod goes for a taint that is gone.
func TestNodesAreReadLive(t *testing.T) {
	run(t, 1, func(b *bench) {
		b.taint(now("k"))
		time.Sleep(299 * time.Second)
		b.FreezeWatches(client.MappingFor[*corev1.Node]().GroupVersionKind)
		b.taint()
		time.Sleep(time.Minute)
		b.left("web-0")
		b.ResumeWatches(client.MappingFor[*corev1.Node]().GroupVersionKind)
		time.Sleep(time.Hour)
		b.left("web-0")
	})
}

// One read of the node does for all pods that are due together, and it is not read before.
func TestReadBudget(t *testing.T) {
	run(t, 40, func(b *bench) {
		b.taint(now("k"))
		b.reads.Store(0)
		time.Sleep(299 * time.Second)
		if n := b.reads.Load(); n != 0 {
			b.Errorf("%d reads before a pod is due", n)
		}
		time.Sleep(2 * time.Second)
		b.left()
		if n := b.reads.Load(); n != 1 {
			b.Errorf("%d reads for 40 pods", n)
		}
	})
}

// TE-90: budgets are obeyed by choice. The API server refuses an eviction that they do not allow, and it is tried again.
func TestBudgetsAreRespected(t *testing.T) {
	runWith(t, Options{RespectBudgets: true}, 2, func(b *bench) {
		b.BeforeWrite(func(clienttest.Write) error { return apierrors.NewTooManyRequests("the budget", 0) })
		b.taint(now("other"))
		time.Sleep(10 * time.Minute)
		b.left("web-0", "web-1")
		b.BeforeWrite(nil)
		time.Sleep(5 * time.Minute)
		b.left()
		for _, w := range b.Writes() {
			if w.Verb != "create" || w.Options.Subresource != "eviction" {
				b.Errorf("%+v", w)
			}
		}
	})
}

// Another one may be asked to have pods go: again and again, until they are gone or are not due any more.
func TestEvictIsAsked(t *testing.T) {
	asked := map[string]int{}
	o := Options{Evict: func(p *corev1.Pod, taint string) []plan.Step {
		if asked[p.Name]++; taint != "other:NoExecute" {
			t.Errorf("the taint %s", taint)
		}
		return nil
	}}
	runWith(t, o, 1, func(b *bench) {
		b.taint(now("other"))
		time.Sleep(time.Hour)
		b.left("web-0")
		if n := asked["web-0"]; n < 12 || n > 25 {
			b.Errorf("asked %d times in an hour", n)
		}
		before := asked["web-0"]
		b.taint()
		time.Sleep(time.Hour)
		if n := asked["web-0"] - before; n > 0 || len(b.Log()) > 0 {
			b.Errorf("asked %d times after the taint was gone; written: %v", n, b.Log())
		}
	})
}

// While a node cannot be read, its pods are held, and that is told until none of them is there any more.
func TestBrake(t *testing.T) {
	run(t, 1, func(b *bench) {
		b.taint(now("k"))
		time.Sleep(299 * time.Second)
		b.down.Store(true)
		time.Sleep(time.Minute)
		b.left("web-0")
		if all := b.brake.Holds(time.Now()); len(all) != 1 || all[0].What != "pods of the node n" || !strings.Contains(all[0].Why, "down") {
			b.Errorf("%+v", all)
		}
		b.brake.Events(time.Now()) // people are told
		pods := client.MappingFor[*corev1.Pod]()
		if err := b.Delete(b.Context(), pods, plan.Key{Namespace: "shop", Name: "web-0"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(readAgain)
		if _, ended := b.brake.Events(time.Now()); len(ended) != 1 || ended[0].Cause != brake.NothingLeft {
			b.Errorf("%+v", ended)
		}
	})
}

// When its node can be read again, its pods are held no longer, and go.
func TestPodsAreHeldUntilTheirNodeIsRead(t *testing.T) {
	run(t, 3, func(b *bench) {
		b.taint(now("k"))
		time.Sleep(299 * time.Second)
		b.down.Store(true)
		time.Sleep(time.Minute)
		b.left("web-0", "web-1", "web-2")
		b.brake.Events(time.Now()) // people are told
		b.down.Store(false)
		time.Sleep(readAgain)
		b.left()
		if _, ended := b.brake.Events(time.Now()); len(ended) != 1 || ended[0].Cause != brake.ByProof {
			b.Errorf("%+v", ended)
		}
	})
}

func TestTE1TE2Entry(t *testing.T) {
	c := New(Options{})
	if c.Name != "taint-eviction-controller" || c.Alias != "" || c.Account != "node-controller" ||
		c.EventSource != "taint-eviction-controller" || c.OffByDefault {
		t.Errorf("%+v", c)
	}
}
