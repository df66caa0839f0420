package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
)

// rangeFaults are the scripts of TestRangesOfNodes. They last until all nodes have their ranges.
var rangeFaults = []struct {
	name, script string
	always       bool // in the gate, too
}{
	{"no faults", "", false},
	{"carried out, answered by time-out", "refuse each=3 code=504 after=true resource=nodes", false},
	{"carried out, answered by time-out, and events late", "refuse each=3 code=504 after=true resource=nodes\ndelay nodes 2s", true},
	{"carried out, not answered, and events late", "refuse each=1 code=0 after=true resource=nodes\ndelay nodes 2s", false},
	{"killed while events are late", "delay nodes 2s\ncrash writes=5 after=true back=0s\ncrash writes=40 after=true back=0s", true},
}

// TestRangesOfNodes gives nodes ranges while the answers of all writes are lost, and while nodes are deleted and made again. No two may
// share one (S26). With CHAOS_FULL=1 there are 1000 nodes.
func TestRangesOfNodes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	nodes, some := 1000, rangeFaults
	if !full {
		nodes, some = 60, nil
		for _, f := range rangeFaults {
			if f.always {
				some = append(some, f)
			}
		}
	}
	tally := newTally(t, fmt.Sprintf("ranges of %d nodes", nodes), len(some), "S26")
	for _, f := range some {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, c, tally)
			t.Cleanup(func() { r.replayBy(environment()) })
			r.start()
			r.disturbs()
			if f.script != "" {
				r.playAll(f.script)
			}
			r.nodes(0, nodes)
			r.wait("half of the nodes have ranges", time.Minute, func() error { return r.ranged(nodes / 2) })
			for i := range nodes / 10 {
				if err := r.Client.CoreV1().Nodes().Delete(t.Context(), r.nodeName(i), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			r.nodes(0, nodes/10)
			r.wait("all nodes have ranges", 5*time.Minute, func() error { return r.ranged(nodes) })
			r.calm()
			r.judge(r.end(), oracle.Options{})
		})
	}
}

// playAll injects the faults of several lines.
func (r *run) playAll(lines string) {
	r.Helper()
	for line := range strings.Lines(lines) {
		r.play("at 0s fault " + manager0 + " " + line)
	}
}

func (r *run) nodeName(i int) string { return fmt.Sprintf("%s-range-%04d", r.ns, i) }

// nodes creates nodes of the run that have no ranges, and on which nothing runs.
func (r *run) nodes(from, to int) {
	r.Helper()
	for i := from; i < to; i++ {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.nodeName(i), Labels: map[string]string{proxy.Runs: r.ns}}}
		n.Spec.Unschedulable = true
		if _, err := r.Client.CoreV1().Nodes().Create(r.Context(), n, metav1.CreateOptions{}); err != nil {
			r.Fatal(err)
		}
	}
	r.Cleanup(func() {
		err := r.Client.CoreV1().Nodes().DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: proxy.Runs + "=" + r.ns})
		if err != nil {
			r.Error(err)
		}
	})
}

// ranged says how many of the run's nodes have ranges, unless there are as many as wanted.
func (r *run) ranged(wanted int) error {
	list, err := r.Client.CoreV1().Nodes().List(r.Context(), metav1.ListOptions{LabelSelector: proxy.Runs + "=" + r.ns})
	if err != nil {
		return err
	}
	n := 0
	for _, node := range list.Items {
		if len(node.Spec.PodCIDRs) == 2 {
			n++
		}
	}
	if n < wanted {
		return fmt.Errorf("%d of %d nodes have ranges", n, wanted)
	}
	return nil
}
