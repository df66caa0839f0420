package daemonset

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// BenchmarkPlan is what plan and report cost for a DaemonSet on so many nodes that has nothing to write: what every event of a pod costs.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n, "-nodes"), func(b *testing.B) {
			d, pods, nodes := reported(int32(n)), []*corev1.Pod{}, []node{}
			d.Status.Conditions = nil
			for i := range n {
				nodes = append(nodes, node{fmt.Sprint("n", i), eligible})
				pods = append(pods, pod(fmt.Sprint("p", i), fmt.Sprint("n", i)))
			}
			revisions := []*appsv1.ControllerRevision{revisionOf(d, 1)}
			b.ReportAllocs()
			for b.Loop() {
				s := newSnapshot(d, pods, revisions)
				s.Nodes = nodes
				p := planDaemonSet(now, s)
				if r := reportStatus(now, s, plan.Outcome{}); !p.Empty() || !r.Empty() {
					b.Fatal(p.Why, lines(r.Steps))
				}
			}
		})
	}
}

// BenchmarkNodesRelabeled gives all of 5000 nodes a label, in a cluster with 50 DaemonSets of which one asks for the label or none does:
// to find out whom it concerns, and to observe those. "evaluated" counts decisions about a node and a template; without a memory, there
// would be 250,000.
func BenchmarkNodesRelabeled(b *testing.B) {
	const nodes, sets = 5000, 50
	for _, c := range []struct {
		name, key string
		enqueued  int
	}{{"nobody-asks", "zone", 0}, {"one-asks", "disk", nodes}} {
		b.Run(c.name, func(b *testing.B) {
			k := newCaches(b)
			var before []*corev1.Node
			for i := range nodes {
				before = append(before, worker(fmt.Sprintf("n%04d", i)))
				k.put(b, before[i])
			}
			asking := agent(selects("disk", "ssd"))
			for i := range sets {
				d := agent()
				if i == 0 {
					d = asking
				}
				d.Name = fmt.Sprint("agent-", i)
				k.put(b, d)
				k.nodesFor(d, nil)
			}
			b.ReportAllocs()
			evaluated := 0
			for b.Loop() {
				begin, enqueued := k.evaluations(), 0
				for _, n := range before {
					after := worker(n.Name, label(c.key, "ssd"))
					k.put(b, after)
					enqueued += len(k.enqueuedByNode(n, after))
				}
				if enqueued != c.enqueued {
					b.Fatalf("%d enqueued", enqueued)
				}
				if enqueued > 0 {
					k.nodesFor(asking, nil)
				}
				evaluated += k.evaluations() - begin
				for _, n := range before {
					k.put(b, n)
				}
			}
			b.ReportMetric(float64(evaluated)/float64(b.N), "evaluated")
		})
	}
}

// evaluations counts the decisions about a node and a template so far.
func (k *caches) evaluations() (n int) {
	for _, s := range k.eligibility.sets {
		n += s.misses
	}
	return n
}

// BenchmarkObserve is what it costs to observe a DaemonSet on so many nodes.
func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(n, "-nodes"), func(b *testing.B) {
			d := agent()
			k := newCaches(b, d, revisionOf(d, 1))
			for i := range n {
				k.put(b, worker(fmt.Sprint("n", i)))
				k.put(b, pod(fmt.Sprint("p", i), fmt.Sprint("n", i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				if o, err := k.observe(b.Context(), requestFor(d)); err != nil || len(o.Snapshot.Nodes) != n {
					b.Fatal(err)
				}
			}
		})
	}
}
