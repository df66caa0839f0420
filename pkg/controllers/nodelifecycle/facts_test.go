package nodelifecycle

import (
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// facts compare what the controller writes, and what there is at each look, with facts of the contract. They know the defaults of the
// flags, and nothing of the controller.
type facts struct {
	*bench
	mu      sync.Mutex
	unknown map[string]bool      // nodes that were Unknown after the last write to them
	evicted map[string]bool      // nodes that had a NoExecute taint after it
	last    map[string]time.Time // when a node of a zone last got such a taint
	allDown time.Time            // when a look last found no node that is ready
	heard   time.Time            // when the leader has begun, or the API server was back: silence counts from then on at the earliest
	marks   int                  // nodes that became Unknown
	turns   int                  // nodes that got a NoExecute taint
	pods    int                  // pods that were marked
}

// The defaults of the flags (NL-5, NL-7 to NL-10), and how often kubelets renew their Leases (NL-19).
const (
	grace          = 50 * time.Second
	renewals       = 10 * time.Second
	primaryPause   = 10 * time.Second
	secondaryPause = 100 * time.Second
	unhealthy      = 0.55
	large          = 50
)

func newFacts(b *bench) *facts {
	f := &facts{bench: b, unknown: map[string]bool{}, evicted: map[string]bool{}, last: map[string]time.Time{}}
	b.AfterWrite(func(w clienttest.Write) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch w.Kind {
		case nodeKind.Kind:
			f.wroteNode(w.Key.Name)
		case podKind.Kind:
			f.wrotePod(w.Key)
		}
		return nil
	})
	return f
}

// hears says that the leader begins now, or that the API server is back.
func (f *facts) hears() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = time.Now()
}

// wroteNode judges a node that was written.
func (f *facts) wroteNode(name string) {
	n := f.node(name)
	unknown, evicted := ready(n).Status == corev1.ConditionUnknown, isEvicted(n)
	if unknown && !f.unknown[name] {
		f.marks++
		f.becameUnknown(n)
	}
	if evicted && !f.evicted[name] {
		f.turns++
		f.gotTaint(n)
	}
	f.unknown[name], f.evicted[name] = unknown, evicted
}

func isEvicted(n *corev1.Node) bool {
	return has(n.Spec.Taints, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
}

// becameUnknown: NL-19, NL-14.
func (f *facts) becameUnknown(n *corev1.Node) {
	if silent := time.Since(f.renewed(n.Name)); silent < grace {
		f.Errorf("NL-19: %s is Unknown %v after the last renewal", n.Name, silent)
	}
	if late := f.silence(n.Name); late > grace+renewals {
		f.Errorf("NL-19: %s is Unknown only after a silence of %v", n.Name, late)
	}
}

// renewed is when a node has last renewed its Lease.
func (f *facts) renewed(name string) time.Time {
	lease := &coordinationv1.Lease{}
	if err := f.Get(f.Context(), leaseKind, plan.Key{Namespace: corev1.NamespaceNodeLease, Name: name}, lease); err != nil {
		f.Error(err)
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

// silence is for how long the leader could have noticed that a node renews no Lease.
func (f *facts) silence(name string) time.Duration {
	since := f.renewed(name)
	if since.Before(f.heard) {
		since = f.heard
	}
	return time.Since(since)
}

// gotTaint: NL-33, NL-42 to NL-46, NL-48. The times of taints are full seconds.
func (f *facts) gotTaint(n *corev1.Node) {
	zone := n.Labels[corev1.LabelTopologyZone]
	nodes, pods := f.all()
	z, pause := tallies(nodes, pods)[zone], primaryPause
	total := z.ready + z.unknown
	if z.ready > 0 && z.unknown >= 3 && float64(z.unknown) >= unhealthy*float64(total) && total > large {
		pause = secondaryPause
	}
	if last := f.last[zone]; !last.IsZero() && time.Since(last) < pause-time.Second {
		f.Errorf("NL-33: %s gets a NoExecute taint %v after the last one of its zone, where they come every %v", n.Name, time.Since(last),
			pause)
	}
	f.last[zone] = time.Now()
	if time.Since(f.allDown) < grace-glance {
		f.Errorf("NL-48: %s gets a NoExecute taint %v after all zones were down", n.Name, time.Since(f.allDown))
	}
}

// wrotePod: NL-50, NL-52.
func (f *facts) wrotePod(key plan.Key) {
	f.pods++
	p := &corev1.Pod{}
	if err := f.Get(f.Context(), podKind, key, p); err != nil {
		f.Error(err)
		return
	}
	if n := f.node(p.Spec.NodeName); ready(n).Status != corev1.ConditionUnknown {
		f.Errorf("NL-50: the pod %s is written while its node is not Unknown", p.Name)
	}
}

// look judges what there is.
func (f *facts) look(nodes []corev1.Node, pods []corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	alive, evicted := 0, 0
	for i := range nodes {
		n := &nodes[i]
		f.lookAtNode(n)
		if ready(n).Status == corev1.ConditionTrue {
			alive++
		}
		if isEvicted(n) {
			evicted++
		}
	}
	if alive == 0 {
		if f.allDown = time.Now(); evicted > 0 {
			f.Errorf("NL-46: all zones are down, and %d nodes have NoExecute taints", evicted)
		}
	}
	at := map[string]*corev1.NodeCondition{}
	for i := range nodes {
		at[nodes[i].Name] = ready(&nodes[i])
	}
	for _, p := range pods {
		r := at[p.Spec.NodeName]
		if late := time.Since(r.LastTransitionTime.Time); r.Status == corev1.ConditionUnknown && late >= 2*time.Second &&
			p.Status.Conditions[0].Status == corev1.ConditionTrue {
			f.Errorf("NL-50: the pod %s is ready %v after its node became Unknown", p.Name, late)
		}
	}
}

// lookAtNode: NL-13, NL-19, NL-20, NL-31.
func (f *facts) lookAtNode(n *corev1.Node) {
	unknown := ready(n).Status == corev1.ConditionUnknown
	f.bench.mu.Lock()
	dead := f.dead[n.Name]
	f.bench.mu.Unlock()
	switch silence := f.silence(n.Name); {
	case f.down.Load():
	case unknown && !dead:
		f.Errorf("NL-13: %s is Unknown, and lives", n.Name)
	case dead && !unknown && silence > grace+renewals:
		f.Errorf("NL-19: %s is not Unknown after a silence of %v", n.Name, silence)
	}
	if has(n.Spec.Taints, corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule) != unknown {
		f.Errorf("NL-20: %s is %s, and has the taints %v", n.Name, ready(n).Status, n.Spec.Taints)
	}
	if !unknown && isEvicted(n) {
		f.Errorf("NL-31: %s is ready, and has the taints %v", n.Name, n.Spec.Taints)
	}
	f.unknown[n.Name], f.evicted[n.Name] = unknown, isEvicted(n)
}

// judged fails the test if there was nothing to judge.
func (f *facts) judged(t *testing.T) {
	if f.marks == 0 || f.turns == 0 || f.pods == 0 {
		t.Errorf("%d nodes became Unknown, %d got a NoExecute taint, %d pods were marked", f.marks, f.turns, f.pods)
	}
	t.Logf("%d nodes became Unknown, %d got a NoExecute taint, %d pods were marked", f.marks, f.turns, f.pods)
}
