package chaos

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
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
	{"every patch carried out, answered by time-out", "refuse code=504 after=true resource=nodes verb=patch", true},
	{"three patches carried out, answered by time-out", "refuse each=3 code=504 after=true resource=nodes", false},
	{"every patch carried out, answered by time-out, and events late",
		"refuse code=504 after=true resource=nodes verb=patch\ndelay nodes 2s", false},
	{"carried out, not answered, and events late", "refuse each=1 code=0 after=true resource=nodes\ndelay nodes 2s", false},
	{"killed while events are late", "delay nodes 2s\ncrash writes=5 after=true back=0s\ncrash writes=40 after=true back=0s", true},
}

var rangedNodes = flag.Int("ranged", 0, "how many nodes TestRangesOfNodes has; by default 60, and with CHAOS_FULL=1 1000")

// pool is the length of the prefix of the range of IPv4 from which nodes get ranges. It has room for those of the control plane's own
// nodes.
type pool int

// poolOf is the smallest pool that has ranges left for so many nodes.
func poolOf(nodes int) pool {
	p := pool(14)
	for p.size()-3<<8-1 < nodes {
		p--
	}
	return p
}

func (p pool) size() int { return 1 << (24 - p) }

func (p pool) flag() string { return fmt.Sprintf("--cluster-cidr=10.0.0.0/%d,fd00:64::/48", p) }

// TestRangesOfNodes gives nodes ranges while the answers of all writes are lost, and while nodes are deleted and made again. No two may
// share one (S26). When the faults are over, as many nodes come as there are ranges left: none of them may be lost. The figures are logged
// however the test ends, so another manager can be the control:
//
//	MANAGER_BINARY=$(go -C hack/localcluster run . path kube-controller-manager) \
//		go test ./test/chaos -count=1 -v -timeout=30m -run '^TestRangesOfNodes$/^every_patch' -ranged=1000
//
// It runs alone: with more than a hundred nodes the node TTL controller gives another annotation to the nodes that all runs share.
func TestRangesOfNodes(t *testing.T) {
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
	if *rangedNodes > 0 {
		nodes = *rangedNodes
	}
	tally := newTally(t, fmt.Sprintf("ranges of %d nodes", nodes), len(some), "S26")
	p := poolOf(nodes)
	for _, f := range some {
		t.Run(f.name, func(t *testing.T) {
			r := newRun(t, c, tally, p.flag())
			t.Cleanup(func() { r.replayBy(environment(), fmt.Sprint("-ranged=", nodes)) })
			defer r.logRanges(p)
			r.start()
			r.disturbs()
			if f.script != "" {
				r.playAll(f.script)
			}
			r.nodes(0, nodes)
			r.wait("half of the nodes have ranges", 5*time.Minute, func() error { return r.ranged(nodes / 2) })
			for i := range nodes / 10 {
				if err := r.Client.CoreV1().Nodes().Delete(t.Context(), r.nodeName(i), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			r.nodes(0, nodes/10)
			r.wait("all nodes have ranges", 10*time.Minute, func() error { return r.ranged(nodes) })
			r.calm()
			all := nodes + r.ranges().left(p)
			r.nodes(nodes, all)
			r.wait("as many nodes as there are ranges have one", time.Minute, func() error { return r.ranged(all) })
			r.judge(r.end(), oracle.Options{})
		})
	}
}

// given are the ranges that the nodes have which a run sees.
type given struct {
	nodes, ranged int                     // those of the run itself, and how many of them have ranges
	of            map[netip.Prefix]string // the node of each range
	shared        []string                // ranges of two nodes
}

// left is how many ranges of a pool no node has. Those of Services are within the first.
func (g given) left(p pool) int {
	left := p.size() - 1
	for one := range g.of {
		if one.Addr().Is6() {
			continue
		}
		left -= 1 << (24 - one.Bits())
	}
	return left
}

// ranges are those that nodes have now.
func (r *run) ranges() given {
	r.Helper()
	list, err := r.Client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	g := given{of: map[netip.Prefix]string{}}
	for _, n := range list.Items {
		runs := n.Labels[proxy.Runs]
		if runs != r.ns && runs != proxy.ForAll {
			continue
		}
		if runs == r.ns {
			g.nodes++
		}
		if runs == r.ns && len(n.Spec.PodCIDRs) == 2 {
			g.ranged++
		}
		for _, text := range n.Spec.PodCIDRs {
			one, err := netip.ParsePrefix(text)
			if err != nil {
				r.Errorf("%s: %v", n.Name, err)
				continue
			}
			if other := g.of[one]; other != "" {
				g.shared = append(g.shared, fmt.Sprintf("%s and %s have %v", other, n.Name, one))
			}
			g.of[one] = n.Name
		}
	}
	return g
}

// logRanges logs what has become of the nodes: how many of them have ranges, how many ranges two nodes have, how many no node could
// get, and how many patches that took.
func (r *run) logRanges(p pool) {
	r.Helper()
	g := r.ranges()
	patches := 0
	r.recording.mu.Lock()
	for _, q := range r.recording.requests {
		if q.Verb == "patch" && q.Resource == "nodes" && q.Subresource == "" {
			patches++
		}
	}
	r.recording.mu.Unlock()
	r.Logf("figures: %d nodes, %d have ranges, %d ranges are shared, %d are left, %d patches of nodes, %d faults. %.1000v",
		g.nodes, g.ranged, len(g.shared), g.left(p), patches, len(r.proxy.Injections()), g.shared)
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
		err := r.Client.CoreV1().Nodes().DeleteCollection(context.Background(), metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: proxy.Runs + "=" + r.ns})
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
