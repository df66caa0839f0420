package nodeipam

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// drawPools draws small pools, so that they are often exhausted.
func drawPools(t *rapid.T) []pool {
	all := []pool{of("10.0.0.0/22", 24), of("fd00::/61", 64)}
	switch rapid.IntRange(0, 3).Draw(t, "families") {
	case 0:
		return all[:1]
	case 1:
		return all[1:]
	case 2:
		return []pool{all[1], all[0]}
	}
	return all
}

// draw is any snapshot.
func draw(t *rapid.T) snapshot {
	s := snapshot{Pools: drawPools(t)}
	texts := []string{"10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/23", "10.0.3.128/25", "10.0.0.0/8", "11.0.0.0/24", "fd00::/64",
		"fd00:0:0:2::/63", "fd00:0:0:7::/64", "x", "", "1.2.3.4/99"}
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		n := node(fmt.Sprint("n-", i), rapid.IntRange(0, 3).Draw(t, "came"),
			rapid.SliceOfN(rapid.SampledFrom(texts), 0, 2).Draw(t, "ranges")...)
		if rapid.IntRange(0, 4).Draw(t, "leaves") == 0 {
			n = leaving(n)
		}
		s.Nodes = append(s.Nodes, n)
	}
	for range rapid.IntRange(0, 1).Draw(t, "services") {
		s.Services = append(s.Services,
			netip.MustParsePrefix(rapid.SampledFrom([]string{"10.0.0.0/25", "10.0.2.0/23", "fd00::/62", "192.168.0.0/16"}).Draw(t,
				"service")))
	}
	return s
}

// Whatever the nodes are: what they get is theirs alone, of each family, and not of Services; what was observed is not changed.
func TestIPAM30NobodySharesARange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		observed := plantest.Copies(s.Nodes)
		d, p := planRanges(epoch, s)
		if diff := cmp.Diff(observed, s.Nodes); diff != "" {
			t.Errorf("the plan changes what was observed: %s", diff)
		}
		var allocated []netip.Prefix
		allocated = append(allocated, s.Services...)
		for _, n := range s.Nodes {
			for _, text := range n.Spec.PodCIDRs {
				if r, err := netip.ParsePrefix(text); err == nil {
					allocated = append(allocated, r)
				}
			}
		}
		given := 0
		for _, step := range p.Steps {
			each, _ := step.(plan.Each)
			for _, steps := range each.Sequences {
				given++
				after := steps[0].(plan.Change).New.(*corev1.Node)
				if len(after.Spec.PodCIDRs) != len(s.Pools) || after.DeletionTimestamp != nil {
					t.Fatalf("%s gets %v", after.Name, after.Spec.PodCIDRs)
				}
				for i, text := range after.Spec.PodCIDRs {
					r := netip.MustParsePrefix(text)
					if !s.Pools[i].Range.Overlaps(r) || r.Bits() != s.Pools[i].Bits {
						t.Fatalf("%s gets %v of %v", after.Name, r, s.Pools[i])
					}
					for _, other := range allocated {
						if other.Overlaps(r) {
							t.Fatalf("%s gets %v, and %v is taken", after.Name, r, other)
						}
					}
					allocated = append(allocated, r)
				}
			}
		}
		wanting := 0
		for _, n := range s.Nodes {
			if len(n.Spec.PodCIDRs) == 0 && n.DeletionTimestamp == nil {
				wanting++
			}
		}
		if given+d.Waiting != wanting {
			t.Errorf("%d nodes get ranges, %d wait, and %d have none", given, d.Waiting, wanting)
		}
	})
}

// world is a cluster whose manager loses answers, sees late, and dies.
type world struct {
	nodes  map[string]*corev1.Node // what there is
	cached []*corev1.Node          // what the manager sees
	memory memory
	sent   []*corev1.Node // writes that may still be carried out
	uids   int
}

// carryOut is what the API server does: ranges are set once, on the node that was meant.
func (w *world) carryOut(n *corev1.Node) {
	if is := w.nodes[n.Name]; is != nil && is.UID == n.UID && len(is.Spec.PodCIDRs) == 0 {
		is.Spec.PodCIDR, is.Spec.PodCIDRs = n.Spec.PodCIDR, n.Spec.PodCIDRs
	}
}

// list has the cache show what there is.
func (w *world) list() {
	w.cached = nil
	for _, n := range w.nodes {
		w.cached = append(w.cached, n.DeepCopy())
	}
}

// Writes are carried out, refused, or carried out much later; nodes come, go and come again; the process starts anew; caches lag by
// what nobody but users has written. No two nodes ever share a range.
func TestIPAM31NobodySharesARangeWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{nodes: map[string]*corev1.Node{}}
		pools := drawPools(t)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			name := fmt.Sprint("n-", rapid.IntRange(0, 5).Draw(t, "node"))
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				if w.nodes[name] == nil {
					w.uids++
					w.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint(w.uids)),
						CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(w.uids)))}}
				}
			case 1:
				delete(w.nodes, name)
			case 2: // a write comes late
				if len(w.sent) > 0 {
					w.carryOut(w.sent[0])
					w.sent = w.sent[1:]
				}
			case 3:
				w.list()
			case 4: // a new process lists when the writes of the old one have been carried out, or are lost
				for _, n := range w.sent {
					if rapid.Bool().Draw(t, "carried out") {
						w.carryOut(n)
					}
				}
				w.sent, w.memory = nil, memory{}
				w.list()
			default:
				w.reconcile(t, pools)
			}
			w.unshared(t)
		}
	})
}

func (w *world) reconcile(t *rapid.T, pools []pool) {
	d, p := planRanges(epoch, snapshot{Pools: pools, Nodes: w.cached, Memory: w.memory})
	var did plan.Outcome
	for _, step := range p.Steps {
		each, _ := step.(plan.Each)
		for _, steps := range each.Sequences {
			n := steps[0].(plan.Change).New.(*corev1.Node)
			switch rapid.IntRange(0, 2).Draw(t, "outcome") {
			case 0:
				w.carryOut(n)
			case 1:
				w.sent = append(w.sent, n)
				did.Results = append(did.Results, plan.Result{Verb: plan.Changed, Object: n, Err: fmt.Errorf("no answer")})
			default:
				did.Results = append(did.Results, plan.Result{Verb: plan.Changed, Object: n, Err: fmt.Errorf("refused")})
			}
		}
	}
	w.memory = *remember(epoch, snapshot{}, d, did)
}

func (w *world) unshared(t *rapid.T) {
	has := map[string]string{}
	for _, n := range w.nodes {
		for _, r := range n.Spec.PodCIDRs {
			if other := has[r]; other != "" {
				t.Fatalf("%s and %s have %s", other, n.Name, r)
			}
			has[r] = n.Name
		}
	}
}

func TestIgnoresFieldsNotCached(t *testing.T) {
	kept, err := managertest.Projection(New(Options{Allocate: true, ClusterCIDR: "10.0.0.0/8"}))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		_, p := planRanges(epoch, s)
		for i, n := range s.Nodes {
			o, err := kept.Project(n)
			if err != nil {
				t.Fatal(err)
			}
			s.Nodes[i] = o.(*corev1.Node)
		}
		if _, again := planRanges(epoch, s); again.Why != p.Why || !cmp.Equal(said(again), said(p)) {
			t.Errorf("%s, and with what is cached: %s", p.Why, again.Why)
		}
	})
}

func TestSnapshotsCanBeStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		d, p := planRanges(epoch, s)
		s.Memory = *remember(epoch, s, d, plan.Outcome{})
		d, p = planRanges(epoch, s)
		_, again := planRanges(epoch, plantest.Restored(t, s))
		if again.Why != p.Why || !cmp.Equal(said(again), said(p)) || d.Wrong < 0 {
			t.Errorf("%s, and after it was stored: %s", p.Why, again.Why)
		}
	})
}
