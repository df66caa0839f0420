package podgc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// cluster is n ready nodes, n0 and so on, with a running pod each, p0 and so on.
func cluster(n int) (objects []plan.Object) {
	for i := range n {
		objects = append(objects, node(fmt.Sprint("n", i), corev1.ConditionTrue), pod(fmt.Sprint("p", i), fmt.Sprint("on=n", i)))
	}
	return objects
}

func (c collecting) removeNodes(from, to int) {
	for i := from; i < to; i++ {
		if i%50 == 49 {
			sleep(time.Millisecond) // lets the watches keep up
		}
		c.server.remove("Node", plan.Key{Name: fmt.Sprint("n", i)})
	}
}

var defaults = config{Options: Options{TerminatedThreshold: 12500}}

// unbraked has no brake.
var unbraked = config{Share: -1}

func TestOrphanGoesAfterGracePeriodAndLiveRead(t *testing.T) {
	inBubble(t, defaults, append(cluster(3), pod("q", "on=n0 succeeded")), func(t *testing.T, c collecting) {
		sleep(9 * time.Second)
		c.removeNodes(0, 1) // at 10 s
		sleep(40 * time.Second)
		if got := c.requests("get", "patch", "delete"); got != "" { // PGC-28
			t.Errorf("before the grace period is over: %s", got)
		}
		if r, ok := c.record(orphaned); !ok || !strings.Contains(r.Why, "in their grace period: 1") {
			t.Errorf("explain: %+v", r)
		}
		sleep(2 * time.Second)
		if got, want := c.names("Pod"), "p1 p2"; got != want {
			t.Errorf("pods: %s", got)
		}
		got := c.requests("get", "list", "patch", "delete")
		if !strings.HasPrefix(got, "51s get n0, ") || strings.Count(got, "delete") != 2 || strings.Count(got, "patch") != 1 {
			t.Errorf("requests: %s", got)
		}
	})
}

func TestOrphanGetsItsConditionBeforeItIsDeleted(t *testing.T) {
	held := pod("p", "on=gone")
	held.Finalizers = []string{"example.com/hold"}
	inBubble(t, defaults, []plan.Object{held}, func(t *testing.T, c collecting) {
		sleep(45 * time.Second)
		p := c.pod("p")
		if p == nil || p.Status.Phase != corev1.PodFailed || len(p.Status.Conditions) != 1 || p.DeletionTimestamp == nil {
			t.Fatalf("%+v", p)
		}
		sleep(5 * time.Minute)
		if got := c.requests("patch", "delete"); strings.Count(got, ",") != 1 {
			t.Errorf("what finalizers hold is deleted again and again: %s", got)
		}
	})
}

// A pod that somebody's finalizer keeps on a node that is gone is no reason to list all nodes again and again.
func TestPodsThatAreHeldCostNoLists(t *testing.T) {
	held := pod("held", "on=gone")
	held.Finalizers = []string{"example.com/hold"}
	inBubble(t, defaults, append(cluster(30), held), func(t *testing.T, c collecting) {
		sleep(2 * time.Minute)
		before := strings.Count(c.requests("list"), "list")
		sleep(20 * time.Minute)
		if n := strings.Count(c.requests("list"), "list") - before; n != 0 {
			t.Errorf("%d lists", n)
		}
	})
}

func TestNodeThatExistsKeepsItsPods(t *testing.T) {
	t.Run("PGC-10: the cache lacks the node, the server has it", func(t *testing.T) {
		inBubble(t, defaults, cluster(2), func(t *testing.T, c collecting) {
			c.freeze("Node")
			c.put(node("new", corev1.ConditionTrue))
			c.put(pod("fresh", "on=new"))
			sleep(5 * time.Minute)
			if got := c.names("Pod"); got != "fresh p0 p1" {
				t.Errorf("pods: %s", got)
			}
			if got := c.requests("get"); strings.Count(got, "get new") < 3 {
				t.Errorf("the grace period has not begun anew: %s", got)
			}
		})
	})
	t.Run("PGC-10: the live read fails", func(t *testing.T) {
		inBubble(t, defaults, cluster(2), func(t *testing.T, c collecting) {
			c.refuse("get")
			c.removeNodes(0, 1)
			sleep(50 * time.Second)
			if got := c.names("Pod"); got != "p0 p1" {
				t.Fatalf("pods: %s", got)
			}
			c.on(nil)
			sleep(25 * time.Second)
			if got := c.names("Pod"); got != "p0 p1" { // 40 s anew
				t.Errorf("pods: %s", got)
			}
			sleep(30 * time.Second)
			if got := c.names("Pod"); got != "p1" {
				t.Errorf("pods: %s", got)
			}
		})
	})
	t.Run("the node comes back in time", func(t *testing.T) {
		inBubble(t, defaults, cluster(2), func(t *testing.T, c collecting) {
			c.removeNodes(0, 1)
			sleep(35 * time.Second)
			c.put(node("n0", corev1.ConditionTrue))
			sleep(5 * time.Minute)
			if got := c.requests("get", "patch", "delete"); got != "" {
				t.Errorf("requests: %s", got)
			}
		})
	})
	t.Run("the node was back between two reconciles", func(t *testing.T) {
		inBubble(t, defaults, cluster(2), func(t *testing.T, c collecting) {
			c.removeNodes(0, 1)
			sleep(30 * time.Second)
			c.put(node("n0", corev1.ConditionTrue))
			sleep(100 * time.Millisecond)
			c.removeNodes(0, 1)
			sleep(39 * time.Second)
			if got := c.names("Pod"); got != "p0 p1" { // 40 s anew
				t.Errorf("pods: %s", got)
			}
			sleep(5 * time.Second)
			if got := c.names("Pod"); got != "p1" {
				t.Errorf("pods: %s", got)
			}
		})
	})
}

// A StatefulSet gives its pods the same names again. While the cache of pods lags, it shows the old one; to delete that
// by name, as the original does, kills the new one.
func TestNamesakeOfAStalePodLives(t *testing.T) {
	for _, words := range []string{"on=n0 failed", "on=n0", "on=n0 deleting"} {
		t.Run(words, func(t *testing.T) {
			inBubble(t, defaults, append(cluster(2), pod("web-0", words)), func(t *testing.T, c collecting) {
				c.freeze("Pod")
				c.server.remove("Pod", plan.Key{Namespace: "shop", Name: "web-0"})
				successor := pod("web-0", "on=n1")
				successor.UID = "uid-of-the-successor"
				version := c.put(successor).GetResourceVersion()
				c.removeNodes(0, 1)
				sleep(50 * time.Second)
				tried := c.requests("patch", "delete")
				if !strings.Contains(tried, "web-0") {
					t.Errorf("the case did not come up: %s", tried)
				}
				if p := c.pod("web-0"); p == nil || p.ResourceVersion != version {
					t.Fatalf("the successor was hit: %+v", p)
				}
				c.thaw("Pod")
				sleep(5 * time.Minute)
				if p := c.pod("web-0"); p == nil || p.ResourceVersion != version {
					t.Fatalf("the successor was hit later: %+v", p)
				}
				if failed, _ := c.count(t, "pod_gc_collector_force_delete_pod_errors_total"); failed != 0 {
					t.Error("a stale cache counts as an error")
				}
			})
		})
	}
}

func TestBrake(t *testing.T) {
	all := "p0 p1 p2 p3 p4 p5 p6 p7 p8 p9"
	t.Run("80 % of the nodes vanish: nothing goes until the loss is history", func(t *testing.T) {
		inBubble(t, defaults, cluster(10), func(t *testing.T, c collecting) {
			c.removeNodes(0, 8)
			sleep(9 * time.Minute)
			if got := c.names("Pod"); got != all {
				t.Errorf("pods: %s", got)
			}
			if got := c.requests("get", "list"); got != "" {
				t.Errorf("nodes are read in vain: %s", got)
			}
			if held, _ := c.brake.Events(time.Now()); len(held) != 1 || held[0].What != orphans {
				t.Errorf("the brake says: %v", held)
			}
			r, _ := c.record(orphaned)
			if !strings.Contains(r.Why, "8 of the 10 nodes known 10m0s ago have vanished") {
				t.Errorf("explain: %s", r.Why)
			}
			sleep(2 * time.Minute)
			if got := c.names("Pod"); got != "p8 p9" {
				t.Errorf("pods: %s", got)
			}
			if _, ended := c.brake.Events(time.Now()); len(ended) != 1 || ended[0].Cause != brake.ByTime {
				t.Errorf("the brake says: %v", ended)
			}
		})
	})
	t.Run("most come back: the rest goes", func(t *testing.T) {
		inBubble(t, defaults, cluster(10), func(t *testing.T, c collecting) {
			c.removeNodes(0, 8)
			sleep(2 * time.Minute)
			for _, name := range []string{"n0", "n1", "n2", "n3", "n4", "n5"} {
				c.put(node(name, corev1.ConditionTrue))
			}
			sleep(25 * time.Second)
			if got := c.names("Pod"); got != "p0 p1 p2 p3 p4 p5 p8 p9" {
				t.Errorf("pods: %s", got)
			}
		})
	})
	t.Run("the previous leader held them, and nodes have come since", func(t *testing.T) {
		inBubble(t, defaults, cluster(10), func(t *testing.T, c collecting) {
			c.brake.Inherit(time.Now(), []brake.Hold{{What: orphans, Since: time.Now().Add(-5 * time.Minute)}})
			c.removeNodes(0, 2)
			sleep(4 * time.Minute)
			if got := c.names("Pod"); got != all {
				t.Errorf("pods: %s", got)
			}
			if held, _ := c.brake.Events(time.Now()); len(held) != 1 || time.Since(held[0].Since) < 8*time.Minute {
				t.Errorf("the brake says: %v", held)
			}
			sleep(2 * time.Minute)
			if got := c.names("Pod"); got != "p2 p3 p4 p5 p6 p7 p8 p9" {
				t.Errorf("pods: %s", got)
			}
		})
	})
	t.Run("switched off by flag", func(t *testing.T) {
		inBubble(t, unbraked, cluster(10), func(t *testing.T, c collecting) {
			c.removeNodes(0, 10)
			sleep(time.Minute)
			if got := c.names("Pod") + c.requests("list"); got != "" {
				t.Errorf("pods: %s", got)
			}
		})
	})
	t.Run("small clusters are exempt", func(t *testing.T) {
		inBubble(t, defaults, cluster(4), func(t *testing.T, c collecting) {
			c.removeNodes(0, 4)
			sleep(time.Minute)
			if got := c.names("Pod") + c.requests("list"); got != "" {
				t.Errorf("pods: %s", got)
			}
		})
	})
	t.Run("a cache of nodes that lags: waits until it has caught up", func(t *testing.T) {
		inBubble(t, defaults, cluster(10), func(t *testing.T, c collecting) {
			c.removeNodes(0, 1)
			sleep(time.Second)
			c.freeze("Node")
			c.removeNodes(1, 9) // by far too many, but the cache shows only the first
			sleep(2 * time.Minute)
			if got := c.names("Pod"); got != all {
				t.Errorf("pods: %s", got)
			}
			r, _ := c.record(orphaned)
			if !strings.Contains(r.Why, "it has 8 nodes that are gone, and lacks 0") {
				t.Errorf("explain: %s", r.Why)
			}
			c.thaw("Node")
			sleep(time.Minute)
			if got := c.names("Pod"); got != all {
				t.Errorf("pods: %s", got)
			}
		})
	})
	t.Run("a role that allows no list: each node is still read live", func(t *testing.T) {
		inBubble(t, defaults, cluster(10), func(t *testing.T, c collecting) {
			c.on(func(verb, name string) error {
				if verb == "list" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: name}, "", nil)
				}
				return nil
			})
			c.removeNodes(0, 1)
			sleep(time.Minute)
			if got := c.names("Pod"); got != all[3:] || !strings.Contains(c.requests("get"), "n0") {
				t.Errorf("pods: %s", got)
			}
		})
	})
	t.Run("no list, no proof", func(t *testing.T) {
		inBubble(t, defaults, cluster(10), func(t *testing.T, c collecting) {
			c.refuse("list")
			c.removeNodes(0, 1)
			sleep(2 * time.Minute)
			if got := c.names("Pod"); got != all {
				t.Errorf("pods: %s", got)
			}
			c.on(nil)
			sleep(6 * time.Second)
			if got := c.names("Pod"); got != all[3:] {
				t.Errorf("pods: %s", got)
			}
		})
	})
}

// More than one reconcile may take on follows at once, not a cycle or a grace period later.
func TestManyOrphans(t *testing.T) {
	t.Run("many nodes", func(t *testing.T) {
		inBubble(t, unbraked, cluster(2*liveReads+1), func(t *testing.T, c collecting) {
			c.removeNodes(0, 2*liveReads+1)
			sleep(45 * time.Second)
			if got := c.names("Pod"); got != "" {
				t.Errorf("pods: %s", got)
			}
		}, slowly)
	})
	t.Run("many pods on one node", func(t *testing.T) {
		objects := cluster(1)
		for i := range 2*batch + 1 {
			objects = append(objects, pod(fmt.Sprint("q", i), "on=n0"))
		}
		inBubble(t, unbraked, objects, func(t *testing.T, c collecting) {
			c.removeNodes(0, 1)
			sleep(50 * time.Second)
			if got := c.names("Pod"); got != "" {
				t.Errorf("%d pods are left", len(strings.Fields(got)))
			}
		}, slowly)
	})
}

// Pods that finalizers hold are no work, however many there are.
func TestHeldOrphansAreLeftInPeace(t *testing.T) {
	objects := cluster(1)
	for i := range batch + 1 {
		objects = append(objects, pod(fmt.Sprint("q", i), "on=n0 forced failed"))
	}
	inBubble(t, unbraked, objects, func(t *testing.T, c collecting) {
		c.removeNodes(0, 1)
		sleep(10 * time.Minute)
		if got := c.requests("get", "patch", "delete"); strings.Count(got, ",") != 2 {
			t.Errorf("requests: %s", got)
		}
	}, slowly)
}

// slowly lets the watches keep up.
func slowly(string, string) error {
	time.Sleep(10 * time.Millisecond)
	return nil
}

func TestRulesDoNotWaitForOneAnother(t *testing.T) {
	objects := cluster(6)
	for i := range 3000 {
		objects = append(objects, pod(fmt.Sprint("old", i), "failed"))
	}
	inBubble(t, config{Options: Options{TerminatedThreshold: 10}}, objects, func(t *testing.T, c collecting) {
		sleep(19 * time.Second)
		c.removeNodes(0, 1)
		sleep(62 * time.Second)
		if c.pod("p0") != nil {
			t.Error("the orphan is still there")
		}
		if got := c.names("Pod"); !strings.Contains(got, "old") {
			t.Error("the mass clean-up was over too soon for this test")
		}
	}, func(string, string) error {
		time.Sleep(1600 * time.Millisecond) // what 32 requests at 20 a second make each other wait
		return nil
	})
}

func TestFailuresAreMetAgainInTheNextCycle(t *testing.T) {
	inBubble(t, defaults, []plan.Object{pod("a", "deleting"), pod("b", "deleting")}, func(t *testing.T, c collecting) {
		if got := c.names("Pod"); got != "" {
			t.Fatalf("pods: %s", got)
		}
		c.on(func(verb, name string) error {
			if verb == "patch" && name == "c" {
				return errors.New("no")
			}
			return nil
		})
		c.put(pod("c", "deleting"))
		c.put(pod("d", "deleting"))
		sleep(10 * time.Minute)
		if got := c.names("Pod"); got != "c" {
			t.Errorf("pods: %s", got)
		}
		got := c.requests("patch")
		// PGC-3, PGC-17
		if tries := strings.Count(got, "patch c"); tries < 30 || tries > 34 || strings.Contains(c.requests("delete"), "delete c") {
			t.Errorf("%d tries: %s", tries, got)
		}
	})
}

func TestTerminatedPodsAboveTheThreshold(t *testing.T) {
	objects := []plan.Object{pod("evicted", "evicted age=1s"), pod("running", "on=n"), node("n", corev1.ConditionTrue)}
	for i := range 50 {
		objects = append(objects, pod(fmt.Sprintf("a%02d", i), "failed"))
	}
	inBubble(t, config{Options{TerminatedThreshold: 10}, -1}, objects, func(t *testing.T, c collecting) {
		if got, want := c.names("Pod"), "a40 a41 a42 a43 a44 a45 a46 a47 a48 a49 running"; got != want {
			t.Errorf("pods: %s", got)
		}
		if deletions, _ := c.count(t, "pod_gc_collector_force_delete_pods_total"); deletions != 0 {
			t.Errorf("%v deletions were counted before the metrics were registered", deletions)
		}
		c.put(pod("b0", "failed age=1s"))
		c.put(pod("b1", "failed age=2h"))
		sleep(time.Minute)
		if deletions, _ := c.count(t, "pod_gc_collector_force_delete_pods_total", "shop", terminated); deletions != 2 { // PGC-20
			t.Errorf("%v deletions counted", deletions)
		}
		if got := c.requests("patch", "get", "list"); got != "" { // PGC-19
			t.Errorf("requests: %s", got)
		}
	})
}

func TestErrorsAreCounted(t *testing.T) {
	own := newCollectors()
	c := collecting{metrics: own.all()}
	c.count(t, "")
	a, b := pod("a", "deleting"), pod("b", "deleting")
	own.applied(t.Context(), snapshot{Rule: unscheduled}, struct{}{}, plan.Outcome{Results: []plan.Result{
		{Verb: plan.Changed, Object: a, Subresource: plan.Status},
		{Verb: plan.Deleted, Object: a, Err: errors.New("no")},
		{Verb: plan.Changed, Object: b, Err: errors.New("no")},
		{Verb: plan.Changed, Object: b, Err: plan.ErrStale},
	}}, plan.Outcome{})
	tried, _ := c.count(t, "pod_gc_collector_force_delete_pods_total", "shop", unscheduled)
	failed, _ := c.count(t, "pod_gc_collector_force_delete_pod_errors_total", "shop", unscheduled)
	if tried != 3 || failed != 2 {
		t.Errorf("%v tried, %v failed", tried, failed)
	}
}

func TestANewTermBeginsWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, run := build(t, newServer(cluster(2)...), defaults)
		ctx, cancel := context.WithCancel(t.Context())
		run(ctx)
		end := c.lead(t)
		sleep(time.Second)
		c.removeNodes(0, 1)
		sleep(39 * time.Second)
		end()

		end = c.lead(t)
		sleep(39 * time.Second) // the grace period begins anew, although the node was missing in the term before
		if got := c.names("Pod") + c.requests("get"); got != "p0 p1" {
			t.Errorf("pods and live reads: %s", got)
		}
		sleep(5 * time.Second)
		if got := c.names("Pod"); got != "p1" {
			t.Errorf("pods: %s", got)
		}
		end()
		cancel()
		synctest.Wait()
	})
}

// count registers the metrics if that is still to be done, and returns the sum of the counters of that name and labels,
// and the value of the gauge of that name.
func (c collecting) count(t *testing.T, metric string, labels ...string) (sum, gauge float64) {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	for _, m := range c.metrics {
		if err := registry.Register(m); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			match := true
			for i, want := range labels {
				match = match && m.GetLabel()[i].GetValue() == want
			}
			if match {
				sum += m.GetCounter().GetValue()
				gauge += m.GetGauge().GetValue()
			}
		}
	}
	return sum, gauge
}

// Force asks for proof: the taint has been taken off, and the watch of nodes is late. Pods that are being deleted run there.
func TestOutOfServiceIsReadLive(t *testing.T) {
	const taint = "node.kubernetes.io/out-of-service"
	inBubble(t, defaults, []plan.Object{node("n", corev1.ConditionFalse, taint), node("dead", corev1.ConditionFalse, taint)},
		func(t *testing.T, c collecting) {
			sleep(time.Minute)
			c.freeze("Node")
			c.put(node("n", corev1.ConditionTrue))
			c.put(pod("runs", "on=n deleting"))
			c.put(pod("gone", "on=dead deleting"))
			sleep(2 * time.Minute)
			if got := c.names("Pod"); got != "runs" {
				t.Errorf("pods: %s", got)
			}
		})
}

// If more nodes have come and gone than are told of, any may have been back: grace periods begin anew.
func TestMissedChangesOfNodes(t *testing.T) { // PGC-9
	inBubble(t, defaults, cluster(10), func(t *testing.T, c collecting) {
		c.removeNodes(0, 1)
		sleep(time.Second)
		for missed, want := range map[bool]int{false: 1, true: 0} {
			m := memory{Missing: map[string]time.Time{"n0": time.Now().Add(-time.Hour)}, Seen: map[string]span{},
				Began: time.Now().Add(-time.Hour)}
			r := reconcile.Request[memory]{Key: plan.Key{Name: orphaned}, Now: time.Now(), Memory: &m, Missed: missed}
			o, err := c.caches.observe(t.Context(), r)
			if due := o.Snapshot.NodeCounts.Due; err != nil || len(due) != want {
				t.Errorf("missed %t: due are %v (%v)", missed, due, err)
			}
		}
	})
}
